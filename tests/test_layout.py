"""The architecture as a rule: folders import downwards only, and each third-party package has one folder.

Everything is read from the source with `ast`; nothing is imported.
"""

import ast
import configparser
import graphlib
import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "ddp_ppo"
TESTS = ROOT / "tests"
ARCHITECTURE = ROOT / "docs" / "architecture.md"

# Lowest first; a folder (or a module of the top level) imports from itself and from what stands before it.
FOLDERS = [
    *(
        "__init__",
        "errors",
        "imports",
        "text",
        "machine",
        "maths",
        "actions",
        "observations",
        "protocols",
        "config",
        "processes",
    ),
    *("envs", "policies", "distributed", "tasks", "sampling", "runs", "learners"),
    *("export", "report", "training", "trainer", "evaluation", "check", "api", "cli", "__main__"),
]
LEARNER_FOLDERS = ("learners.ppo", "learners.disco")  # strangers to each other; the registry alone knows them
# Modules that load torch; everything below `sampling` and in it is otherwise loaded by actors, which must not.
TORCH = {
    "policies.torch_policy",
    "policies.convolution",
    "distributed.group",
    "learners.ppo.updates.torch_update",
}
TORCH_FREE_FOLDERS = set(FOLDERS[: FOLDERS.index("sampling") + 1]) | {"cli", "__main__"}
# What travels to actors by reference, with the module that it stands in.
ACTOR_MODULES = {"learners.ppo.annotate", "learners.disco.annotate", "learners.ppo.updates.critic_worker"}
THIRD_PARTY_FOLDERS = {
    "torch.distributed": {"distributed"},
    "gymnasium": {"envs", "tasks"},
    "mujoco": {"envs", "evaluation", "tasks"},
    "mujoco_menagerie": {"tasks"},
    "yaml": {"config"},
    "tensorboard": {"runs"},
    "torch.utils.tensorboard": {"runs"},
    "onnx": {"export"},
    "onnxruntime": {"export"},
    "onnxscript": {"export"},
    "imageio_ffmpeg": {"evaluation"},
    "PIL": {"evaluation"},
    "matplotlib": {"report"},
}
ALWAYS_TYPED = {"torch", "numpy", "gymnasium", "yaml", "PIL"}  # installed with the project, and mypy reads their types
NOT_ON_IMPORT = {"TYPE_CHECKING", "typing.TYPE_CHECKING", "__name__ == '__main__'"}
MAX_LINES = 300
LONGER_FILES = {
    "ddp_ppo/cli/commands.py",
    "ddp_ppo/learners/ppo/learner.py",
    "ddp_ppo/sampling/actor.py",
}
# Modules without tests, though they do something; this may only become shorter.
UNTESTED = {
    "learners.disco.kind",
    "learners.ppo.kind",
}


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
    for node in nodes_of(ast.parse(path.read_text()), top_level):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "torch.distributed":
            names.add("torch.distributed")
    return names


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name below `ddp_ppo`; a folder's `__init__` by the folder's name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)] = path
    return found


def only_declares(path: Path) -> bool:
    """Whether nothing in a module runs: data classes, protocols and types alone."""
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    return all(len(node.body) == 1 and ast.get_docstring(node) for node in functions)


def is_part_of(name: str, package: str) -> bool:
    """Whether a dotted name is the package or lies in it."""
    return f"{name}.".startswith(f"{package}.")


class LayoutTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.modules = modules()
        cls.all = {name: imports_of(path) for name, path in cls.modules.items() if name != "__init__"}  # which is lazy
        cls.top = {name: imports_of(path, top_level=True) for name, path in cls.modules.items()}

    def own(self, names):
        """Modules of the package among imported names; what is no module is an attribute of one."""
        found = set()
        for name in names:
            if is_part_of(name, "ddp_ppo"):
                parts = name.split(".")[1:]
                while parts and ".".join(parts) not in self.modules:
                    parts.pop()
                found.add(".".join(parts) or "__init__")
        return found

    def test_every_folder_has_its_place_and_says_what_lives_there(self):
        self.assertEqual({name.split(".")[0] for name in self.modules} - set(FOLDERS), set(), "add it to FOLDERS")
        for path in PACKAGE.rglob("*/__init__.py"):
            doc = ast.get_docstring(ast.parse(path.read_text())) or ""
            with self.subTest(path.parent.name):
                self.assertGreaterEqual(len(doc.splitlines()), 2, "what lives here, and where to begin")

    def test_each_folder_names_the_folders_that_it_imports(self):
        folders = {name.split(".")[0] for name in self.modules if (PACKAGE / name.split(".")[0]).is_dir()}
        rows = dict(re.findall(r"^\| `(\w+)` \|.*\| ([\w, ]*)\|$", ARCHITECTURE.read_text(), re.M))
        for folder in folders - {"cli"}:  # which imports everything
            modules = [name for name in self.all if is_part_of(name, folder)]
            targets = {one.split(".")[0] for name in modules for one in self.own(self.all[name])} & folders - {folder}
            expected = [one for one in FOLDERS if one in targets]
            doc = " ".join(ast.get_docstring(ast.parse((PACKAGE / folder / "__init__.py").read_text())).split())
            named = re.search(r"Imports ([\w, ]+?)(?:; torch-free)?\.", doc)[1]
            with self.subTest(folder):
                self.assertEqual([] if "nothing" in named else re.split(r", | and ", named), expected)
                self.assertEqual(rows[folder].strip().split(", ") if rows[folder].strip() else [], expected)

    def test_imports_go_downwards_only(self):
        height = {folder: number for number, folder in enumerate(FOLDERS)}
        for name, imported in self.all.items():
            for target in self.own(imported):
                with self.subTest(f"{name} imports {target}"):
                    self.assertGreaterEqual(height[name.split(".")[0]], height[target.split(".")[0]])

    def test_modules_do_not_import_each_other_in_a_circle(self):
        graph = {name: self.own(names) - {name} for name, names in self.all.items()}
        graphlib.TopologicalSorter(graph).prepare()

    def test_learners_are_strangers_and_only_the_registry_knows_them(self):
        for name, imported in self.all.items():
            for folder in LEARNER_FOLDERS:
                if not is_part_of(name, folder) and name not in ("learners.registry", "cli.commands"):
                    with self.subTest(f"{name} imports {folder}"):
                        self.assertEqual({one for one in self.own(imported) if is_part_of(one, folder)}, set())

    def test_one_third_party_package_is_imported_in_one_folder(self):
        for name, imported in self.all.items():
            for package, folders in THIRD_PARTY_FOLDERS.items():
                if name.split(".")[0] not in folders:
                    with self.subTest(f"{name} imports {package}"):
                        self.assertEqual({target for target in imported if is_part_of(target, package)}, set())

    def test_mypy_passes_without_the_optional_packages(self):
        setup = configparser.ConfigParser()
        setup.read(ROOT / "setup.cfg")
        imported = {name.split(".")[0] for names in self.all.values() for name in names}
        for package in imported - set(sys.stdlib_module_names) - ALWAYS_TYPED - {"ddp_ppo", "__future__"}:
            with self.subTest(package):
                self.assertIn(f"mypy-{package}.*", setup, "say in setup.cfg that mypy may miss it")

    def test_an_editable_install_is_a_path_that_type_checkers_and_scripts_next_to_the_clone_find(self):
        setup = configparser.ConfigParser()
        setup.read(ROOT / "setup.cfg")
        self.assertEqual(setup["editable_wheel"]["mode"], "compat")

    def test_what_an_actor_loads_does_not_load_torch_even_indirectly(self):
        loaded_by_actors = {name for name in self.modules if name.split(".")[0] in TORCH_FREE_FOLDERS} - TORCH
        for name in sorted(loaded_by_actors | ACTOR_MODULES):
            with self.subTest(name):
                reached, waiting = set(), [name, "__init__"]
                while waiting:
                    current = waiting.pop()
                    if current not in reached:
                        reached.add(current)
                        waiting += self.own(self.top[current])
                loaders = {one for one in reached if any(is_part_of(t, "torch") for t in self.top[one])}
                self.assertEqual(loaders, set())

    def test_entry_scripts_import_only_the_standard_library_at_top_level(self):
        for path in (
            ROOT / "train.py",
            PACKAGE / "__main__.py",
            PACKAGE / "cli" / "commands.py",
            PACKAGE / "cli" / "parser.py",
        ):
            with self.subTest(path.name):
                names = {one for one in imports_of(path, top_level=True) if not is_part_of(one, "ddp_ppo")}
                self.assertLessEqual({one.split(".")[0] for one in names}, set(sys.stdlib_module_names))

    def test_every_module_that_does_something_has_its_test_module_in_the_same_folder(self):
        without = set()
        for name, path in self.modules.items():
            target = TESTS / path.relative_to(PACKAGE).parent / f"test_{path.name}"
            if not (path.name in ("__init__.py", "__main__.py") or only_declares(path) or target.is_file()):
                without.add(name)
        self.assertEqual(without, UNTESTED)

    def test_no_test_module_imports_another_one(self):
        for path in TESTS.rglob("*.py"):
            helpers = {name for name in imports_of(path) if re.match(r"tests(\.\w+)*\.test_", name)}
            with self.subTest(path.relative_to(TESTS)):
                self.assertEqual(helpers, set(), "what tests share is in tests/support")

    def test_no_module_is_too_long_to_read_at_once(self):
        long = {str(path.relative_to(ROOT)) for path in self.modules.values() if self.length(path) > MAX_LINES}
        self.assertEqual(long, LONGER_FILES)

    def length(self, path):
        return len(path.read_text().splitlines())


if __name__ == "__main__":
    unittest.main()
