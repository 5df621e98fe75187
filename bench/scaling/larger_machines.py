"""What the cost model says of machines with 8 GPUs and 128 cores, alone and sixteen together.

What cannot be measured on two cores is assumed here and nowhere else; each assumption is an option of
`bench/scaling.py`. Sixteen machines are joined by the slower network everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from cost_model import Costs, Messages, Network, Setup, limits, predict, steps_per_second

NUM_CORES, NUM_GPUS, NUM_MACHINES = 128, 8, 16
_CPU_LEARNER_CORES = 4
_BYTES_OF_A_SAMPLE = 4 * (17 + 6 + 4)  # of HalfCheetah: obs, act; logp, value, adv, ret

ABOUT = {
    "gpu_step_us": "a gradient step on a GPU, bound by its kernel launches, us",
    "gpu_sample_ns": "a sample of a gradient step on a GPU, ns",
    "copy_gb_s": "copying to a GPU, GB/s",
    "gpu_hop_us": "NCCL: a hop between GPUs of a machine, us",
    "gpu_link_gb_s": "NCCL: bandwidth between GPUs of a machine, GB/s",
    "machine_hop_us": "a hop between machines, us",
    "machine_link_gb_s": "bandwidth between machines, GB/s",
}


@dataclass(frozen=True)
class Assumed:
    """The values of ABOUT."""

    gpu_step_us: float = 1200.0
    gpu_sample_ns: float = 20.0
    copy_gb_s: float = 10.0
    gpu_hop_us: float = 15.0
    gpu_link_gb_s: float = 100.0
    machine_hop_us: float = 30.0
    machine_link_gb_s: float = 12.5

    @property
    def costs(self) -> Costs:
        """Those of a learner on a GPU."""
        return {
            "gradient_step_gpu": 1e-6 * self.gpu_step_us,
            "gradient_sample_gpu": 1e-9 * self.gpu_sample_ns,
            "transfer_gpu": 0.0,
            "transfer_sample_gpu": 1e-9 * _BYTES_OF_A_SAMPLE / self.copy_gb_s,
        }

    def networks(self, gloo: Network) -> dict[str, tuple[Network, Network]]:
        """Device -> what joins learners inside a machine, and across machines."""
        hop, byte = 1e-6 * self.machine_hop_us, 1e-9 / self.machine_link_gb_s
        nccl = Network(1e-6 * self.gpu_hop_us, 1e-9 / self.gpu_link_gb_s, is_ring=False)
        far_gloo = Network(gloo.hop + hop, max(gloo.byte, byte), is_ring=True)
        return {"gpu": (nccl, Network(hop, byte, is_ring=False)), "cpu": (gloo, far_gloo)}


def shapes() -> dict[str, Setup]:
    """Name -> one learner with its share of a machine; `configs/multi_gpu.yaml` has the first one's mini-batches."""
    small = Setup(
        num_learners=1,
        num_actors=NUM_CORES // NUM_GPUS,
        envs_per_actor=8,
        rollout_length=128,
        minibatch_size=256,
        num_cores=NUM_CORES // NUM_GPUS,
        device="gpu",
    )
    cores = _CPU_LEARNER_CORES
    return {
        "8 GPUs, mini-batches of 256": small,
        "8 GPUs, mini-batches of 4096": replace(small, envs_per_actor=32, minibatch_size=4096),
        "no GPU, 32 learners of 4 cores": replace(small, num_actors=cores, num_cores=cores, device="cpu"),
    }


def predicted(costs: Costs, gloo: Network, messages: Messages, assumed: Assumed) -> dict[str, Any]:
    """Rounds of each shape on one learner, one machine and sixteen; what limits them; and the curve in between."""
    costs = costs | assumed.costs
    found: dict[str, Any] = {"larger": [], "limits": [], "curves": []}
    for shape, alone in shapes().items():
        on_one = int(NUM_CORES // alone.num_cores)
        near, far = assumed.networks(gloo)[alone.device]
        most = NUM_MACHINES * on_one
        places = {1: "one learner", on_one: "one machine", most: f"{NUM_MACHINES} machines"}
        for number in sorted({2**i for i in range(most.bit_length())} | set(places)):
            setup, network = replace(alone, num_learners=number), near if number <= on_one else far
            stages = predict(setup, costs, network, messages)
            speed = steps_per_second(setup, stages)
            found["curves"].append({"shape": shape, "num_learners": number, "steps_per_second": speed})
            if number not in places:
                continue
            where = {"shape": shape, "place": places[number]}
            found["larger"].append({**where, "setup": asdict(setup), "stages": stages, "steps_per_second": speed})
            if number > 1:
                breaking = [asdict(limit) for limit in limits(setup, costs, network, messages)]
                found["limits"].append({**where, "sampling": stages["sample"], "limits": breaking})
    return found


def described(assumed: Assumed) -> Mapping[str, float]:
    """What is assumed, in words, and its value."""
    return {ABOUT[name]: value for name, value in asdict(assumed).items()}
