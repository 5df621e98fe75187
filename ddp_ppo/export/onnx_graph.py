"""The graph of a policy in ONNX: raw observations in, actions out; normaliser, actor, clip or choice inside.

It is put together node by node; no exporter translates the torch module. Operators: https://onnx.ai/onnx/operators.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp_ppo.actions.action import Node
from ddp_ppo.envs.columns import Interface
from ddp_ppo.policies.network import CONV_PADDING, CONV_SIZE, CONV_STRIDE, NetworkSpec
from ddp_ppo.runs.model import Model

_OPSET, _IR_VERSION = 17, 8  # of 2022, so that older runtimes read it; nothing newer is needed
_ACTIVATIONS = {"tanh": "Tanh", "relu": "Relu", "elu": "Elu"}


def onnx_graph(model: Model, constants: dict[str, NDArray[Any]], interface: Interface, note: str) -> bytes:
    """The file's content: input obs [N, D], outputs action ([N, A], or choices [N]) and output (means or logits).

    Args:
        constants: mean, inv_std, clip, weights [inputs, outputs] and biases by name, and the actions' bounds or start.
        note: stands in the file as its description.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    constants = constants | {"lowest": -constants["clip"]} | _kernels(model.network, constants)
    size, head = model.network.action_size, model.env.action.head
    dtype = helper.np_dtype_to_tensor_dtype(np.dtype(head.act_dtype))
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, [output], **options) for kind, inputs, output, options in _nodes(model)],
        "policy",
        [helper.make_tensor_value_info("obs", TensorProto.FLOAT, ["N", model.network.obs_size])],
        [
            helper.make_tensor_value_info("action", dtype, ["N", *head.act_shape]),
            helper.make_tensor_value_info("output", TensorProto.FLOAT, ["N", size]),
        ],
        [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in constants.items()],
    )
    proto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION, producer_name="ddp_ppo"
    )
    proto.doc_string = note
    names = {"obs_columns": interface.obs, "action_columns": interface.action}
    texts = {key: json.dumps([column.name for column in columns]) for key, columns in names.items()}
    helper.set_model_props(proto, {"env_id": model.env.env_id, **texts})
    onnx.checker.check_model(proto, full_check=True)
    content: bytes = proto.SerializeToString()
    return content


def _kernels(network: NetworkSpec, constants: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """What the graph of convolutions takes: kernels [outputs, channels, 3, 3] and the shape of images."""
    if network.is_mlp:
        return {}
    kernels = {
        f"weight{index}": constants[f"weight{index}"].T.reshape(-1, channels, CONV_SIZE, CONV_SIZE)
        for index, (channels, _, _) in enumerate(network.conv_shapes[:-1])
    }
    return {**kernels, "image": np.array([-1, *network.image], np.int64)}


def _nodes(model: Model) -> list[Node]:
    """The graph in the order of computation."""
    network = model.network
    first = len(network.conv_channels)
    last = first + len(network.hidden_sizes)
    nodes: list[Node] = [
        ("Sub", ["obs", "mean"], "centred", {}),
        ("Mul", ["centred", "inv_std"], "scaled", {}),
        ("Clip", ["scaled", "lowest", "clip"], "hidden0" if network.is_mlp else "seen", {}),
        *_image_nodes(network),
    ]
    for index in range(first, last):
        nodes.append(("Gemm", [f"hidden{index}", f"weight{index}", f"bias{index}"], f"sum{index}", {}))
        nodes.append((_ACTIVATIONS[network.activation], [f"sum{index}"], f"hidden{index + 1}", {}))
    nodes.append(("Gemm", [f"hidden{last}", f"weight{last}", f"bias{last}"], "output", {}))
    return [*nodes, *model.env.action.onnx_nodes()]


def _image_nodes(network: NetworkSpec) -> list[Node]:
    """From normalised observations to what the first dense layer reads; nothing for an MLP."""
    if network.is_mlp:
        return []
    order = [0, 1, 2, 3] if network.is_channels_first else [0, 3, 1, 2]
    nodes: list[Node] = [
        ("Reshape", ["seen", "image"], "picture", {}),
        ("Transpose", ["picture"], "image0", {"perm": order}),
    ]
    last = len(network.conv_channels)
    for index in range(last):
        inputs = [f"image{index}", f"weight{index}", f"bias{index}"]
        nodes.append(("Conv", inputs, f"sum{index}", {"strides": [CONV_STRIDE] * 2, "pads": [CONV_PADDING] * 4}))
        nodes.append((_ACTIVATIONS[network.activation], [f"sum{index}"], f"image{index + 1}", {}))
    return [*nodes, ("Flatten", [f"image{last}"], f"hidden{last}", {})]
