"""The import rules of the package, read from the source with `ast`; nothing is imported."""

import ast
import configparser
import graphlib
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Highest first: a module imports from its own row or from rows below it.
LAYERS = [
    set(row.split())
    for row in (
        "__main__ commands check check_episodes check_interface check_model check_motion check_random check_repeat "
        "check_training check_trial evaluate play play_page export compare sb3_run bench",
        "trainer",
        "sync recorder",
        "sampler diagnosis standing",
        "plan evidence scale_up advice",
        "learners",
        "models parity onnx_graph trajectory warm_start learner_kind",
        "ppo ppo_torch ppo_cuda ppo_numpy disco actor actor_pool distributed checkpoint metrics run_folder",
        "policy numpy_policy convolution ppo_workers ppo_epoch",
        "finite env_insight ppo_gradient networks drawing rendering rollout annotate episodes",
        "envs env_columns catch gymnasium_env mujoco_env mujoco_columns mujoco_tasks mujoco_v4 mujoco_v5 mujoco_parts "
        "mujoco_physics mujoco_clock mixed_env discrete_actions",
        "anomalies events processes siblings stopping env_spaces env_state env_errors step_loop",
        "report comparison run_charts page charts run_files tensorboard_pages versions",
        "gae moments distributions scores seeding text config yaml_text topology protocols run_policy __init__",
    )
]
DISCO_LAYERS = [  # the same inside the subpackage
    set(row.split())
    for row in (
        "learner",
        "rule replay",
        "meta_network agent optimizer",
        "values lstm weights",
        "batch settings __init__",
    )
]
LEARNERS = {"ppo", "ppo_torch", "ppo_cuda", "ppo_numpy", "disco", "learners"}
TORCH_FREE = set().union(*LAYERS[9:]) | {
    "numpy_policy",
    "ppo_workers",
    "ppo_epoch",
    "actor",
    "actor_pool",
    "__main__",
    "commands",
}  # at module level, so in an actor's process
THIRD_PARTY_OWNERS = {
    "torch.distributed": {"distributed"},
    "gymnasium": {"envs", "catch", "gymnasium_env", "mujoco_tasks", "env_spaces", "env_state", "sb3_run"},
    "yaml": {"config", "yaml_text"},
    "tensorboard": {"metrics", "tensorboard_pages"},
    "torch.utils.tensorboard": {"metrics"},
    "onnx": {"onnx_graph"},
    "onnxruntime": {"export"},
    "onnxscript": {"export"},
    "stable_baselines3": {"sb3_run"},
    "imageio_ffmpeg": {"drawing"},
    "PIL": {"drawing"},
    "matplotlib": {"compare"},
}
ALWAYS_TYPED = {"torch", "numpy", "gymnasium", "yaml", "PIL"}  # installed with the project, and mypy reads their types
NOT_ON_IMPORT = {"TYPE_CHECKING", "typing.TYPE_CHECKING", "__name__ == '__main__'"}


def nodes_of(tree: ast.AST, top_level: bool):
    """All nodes below `tree`; only those that run on import where `top_level` is set."""
    for node in ast.iter_child_nodes(tree):
        if top_level and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if top_level and isinstance(node, ast.If) and ast.unparse(node.test) in NOT_ON_IMPORT:
            continue
        yield node
        yield from nodes_of(node, top_level)


def imports_of(path: Path, *, top_level: bool = False) -> set[str]:
    """Dotted names that a file imports, and `from a import b` as a.b; torch.distributed also where it is only used."""
    names = set()
    package = path.relative_to(ROOT).parts[:-1]
    for node in nodes_of(ast.parse(path.read_text()), top_level):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*start, *((node.module,) if node.module else ())))
            names |= {f"{base}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "torch.distributed":
            names.add("torch.distributed")
    return names


def modules() -> dict[str, list[Path]]:
    """Files by module name; a subpackage is one module."""
    found: dict[str, list[Path]] = {}
    for path in sorted((ROOT / "ddp_ppo").rglob("*.py")):
        found.setdefault(path.relative_to(ROOT / "ddp_ppo").with_suffix("").parts[0], []).append(path)
    return found


def is_part_of(name: str, package: str) -> bool:
    """Whether a dotted name is the package or lies in it."""
    return f"{name}.".startswith(f"{package}.")


class LayoutTest(unittest.TestCase):
    def setUp(self):
        self.files = modules()
        self.all = {name: set().union(*map(imports_of, paths)) for name, paths in self.files.items()}
        self.top = {
            name: set().union(*(imports_of(path, top_level=True) for path in paths))
            for name, paths in self.files.items()
        }

    def own(self, names):
        """Modules of the package among imported names; what is no module is an attribute of `__init__`."""
        own = {name.split(".")[1] if "." in name else "__init__" for name in names if is_part_of(name, "ddp_ppo")}
        return {name if name in self.files else "__init__" for name in own}

    def test_every_module_has_a_layer(self):
        unknown = set(self.files) - set().union(*LAYERS)
        self.assertEqual(unknown, set(), "add it to a layer of LAYERS in tests/test_layout.py")

    def test_imports_go_downwards_only(self):
        layer = {name: number for number, names in enumerate(LAYERS) for name in names}
        for name, imported in self.all.items():
            for target in self.own(imported):
                with self.subTest(f"{name} imports {target}"):
                    self.assertLessEqual(layer.get(name, 0), layer.get(target, len(LAYERS)))

    def test_imports_inside_disco_go_downwards_only(self):
        layer = {name: number for number, names in enumerate(DISCO_LAYERS) for name in names}
        paths = {path.stem: path for path in self.files["disco"]}
        self.assertEqual(set(paths) - set(layer), set(), "add it to a layer of DISCO_LAYERS in tests/test_layout.py")
        for name, path in paths.items():
            for target in {each.split(".")[2] for each in imports_of(path) if is_part_of(each, "ddp_ppo.disco")}:
                with self.subTest(f"{name} imports {target}"):
                    self.assertLessEqual(layer[name], layer.get(target, layer[name]))

    def test_modules_do_not_import_each_other_in_a_circle(self):
        graphlib.TopologicalSorter({name: self.own(names) - {name} for name, names in self.all.items()}).prepare()

    def test_an_actor_never_imports_a_learner(self):
        for name in {"actor"} & set(self.files):
            self.assertEqual(self.own(self.all[name]) & LEARNERS, set())

    def test_one_third_party_package_is_imported_by_one_module(self):
        for name, imported in self.all.items():
            for package, owners in THIRD_PARTY_OWNERS.items():
                if name not in owners:
                    with self.subTest(f"{name} imports {package}"):
                        self.assertEqual({target for target in imported if is_part_of(target, package)}, set())

    def test_mypy_passes_without_the_optional_packages(self):
        setup = configparser.ConfigParser()
        setup.read(ROOT / "setup.cfg")
        imported = {name.split(".")[0] for names in self.all.values() for name in names}
        for package in imported - set(sys.stdlib_module_names) - ALWAYS_TYPED - {"ddp_ppo", "__future__"}:
            with self.subTest(package):
                self.assertIn(f"mypy-{package}.*", setup, "say in setup.cfg that mypy may miss it")

    def test_torch_free_modules_do_not_load_torch_even_indirectly(self):
        for name in sorted(TORCH_FREE & set(self.files)):
            with self.subTest(name):
                reached, waiting = set(), [name, "__init__"]
                while waiting:
                    current = waiting.pop()
                    if current not in reached:
                        reached.add(current)
                        waiting += self.own(self.top.get(current, set()))
                loaders = {one for one in reached if any(is_part_of(t, "torch") for t in self.top.get(one, ()))}
                self.assertEqual(loaders, set())

    def test_entry_scripts_import_only_the_standard_library_at_top_level(self):
        for name in ("train.py", "ddp_ppo/__main__.py", "ddp_ppo/commands.py", "ddp_ppo/__init__.py"):
            with self.subTest(name):
                names = {n for n in imports_of(ROOT / name, top_level=True) if not is_part_of(n, "ddp_ppo.commands")}
                self.assertLessEqual({n.split(".")[0] for n in names}, set(sys.stdlib_module_names))


if __name__ == "__main__":
    unittest.main()
