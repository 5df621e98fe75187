"""README.md and docs/: every command runs with small numbers or is named here with a reason; links and names exist.

What a document does in turn is done in one folder, in its order. The files that it shows are written there first, for
`./run.sh` stands what it would start, trainings are cut to one round.
"""

from __future__ import annotations

import ast
import importlib.util
import itertools
import json
import os
import re
import shlex
import shutil
import unittest
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from ddp_ppo.config.load import load_config
from ddp_ppo.config.sections import FLAT_NAMES, OWN
from ddp_ppo.config.settings import describe_settings
from ddp_ppo.runs.anomaly_rules import RULES as ANOMALY_RULES
from tests.support.disco_golden import WEIGHTS
from tests.support.process import PROGRAMS, ROOT, FolderTestCase, Program, free_port

DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LIMIT_SECONDS = 250.0
ENVIRON = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}

SHELL_PROGRAMS = r"\./run\.sh|\.venv/bin/\w+|bare/bin/\w+|python3?|torchrun|ddp-ppo|pip|sbatch"
SHOWN = re.compile(rf"^ {{4,}}((?:{SHELL_PROGRAMS})(?: .*)?)$", re.MULTILINE)
INLINE = re.compile(rf"`((?:{SHELL_PROGRAMS}) [^`\n]+)`")
FILE = re.compile(r"    # ([\w.]+\.(?:py|yaml))")
_NAMES = "check step train plan bench evaluate play export report compare replay settings metrics disco-weights"
COMMANDS = {*_NAMES.split()}

# What no test runs, and why. Their settings, if they name a configuration, are given to `plan` all the same.
NOT_RUN = {
    r"\./run\.sh test": "the tests themselves",
    r"(\S*/)?pip install": "changes the environment; run.sh's own set-up is in test_run_sh",
    r"python3 -m venv bare": "is made for NumPy alone; test_run_policy forbids every other package instead",
    r".*tensorboard --logdir": "a server that runs until it is stopped: test_tensorboard",
    r"torchrun --standalone --nproc_per_node=8": "eight GPUs",
    r"\./run\.sh train .*--nproc 8": "eight GPUs",
    r"\./run\.sh configs/multi_gpu": "eight GPUs",
    r"\./run\.sh configs/go1": "downloads the robot",
    r"sbatch": "a Slurm cluster; test_scripts runs the scripts with stand-ins for its programs",
    r"\./run\.sh disco-weights": "downloads; test_disco_weights does so from a server of its own",
    r"python bench/": "measures for minutes: test_bench_peers, test_bench_scaling",
    r"python -m unittest discover": "the tests themselves",
    r"python scripts/try_versions": "builds an environment and runs the tests in it; test_scripts",
}
NEEDS = {
    " export ": "onnxruntime",
    "/run_policy.py": "onnxruntime",  # written by an export
    "--against sb3": "stable_baselines3",
    "scripts/tune.py": "optuna",
    "LunarLander": "Box2D",
}
# Written before a document's commands: what a reader would have.
GIVEN = {
    "my_module.py": "import gymnasium\nfrom tests.support.fixtures import Echo\n\n"
    'gymnasium.register("MyEnv-v0", Echo, max_episode_steps=20)\n',
    "my_task.yaml": f"inherits: {ROOT}/configs/base.yaml\n",
}
# README's commands are no story: the runs that they name are copies of a small one.
COPIES = {"README.md": ("half_cheetah-a", "a", "b", "a-1", "b-1"), "troubleshooting.md": ("half_cheetah-first",)}
MAKE_RUN = [["train", "configs/half_cheetah.yaml", "run_name=a"], ["play", "output/half_cheetah-a", "--steps", "5"]]
RULES = {rule.name for rule in ANOMALY_RULES} | {"overlap_at_reset", "outside_space"}
METRICS = set(re.findall(r"`([a-z]+/[a-z_]+)`", (ROOT / "docs" / "metrics.md").read_text()))
NO_SETTINGS = {"render_mode", "non_finite", "weights_only"}
NO_SETTINGS |= {"toy", "toy.momentum"}  # of an example
NO_SETTINGS |= {"episodes", "num_envs", "verbose", "deterministic"}  # arguments of the Python API
FOREIGN = r"\[Errno .*|all_reduce"  # the system's words
TINY = ("total_env_steps=1", "max_episode_steps=50", "eval_episodes=2")
QUICK = (*TINY, "num_actors=1", "envs_per_actor=2", "rollout_length=32")


class Command(NamedTuple):
    """One command of a document, without the comment behind it."""

    text: str
    document: str

    def reason(self) -> str:
        """Why it is not run; empty where it is."""
        found = [reason for pattern, reason in NOT_RUN.items() if re.match(pattern, self.text)]
        found += [f"{name} is not installed" for part, name in NEEDS.items() if part in self.text and not has(name)]
        found += ["no weights of DiscoRL"] if "disco" in self.text + self.document and not WEIGHTS.is_file() else []
        return found[0] if found else ""

    def for_main(self) -> list[str] | None:
        """The words for `ddp_ppo.__main__.main`; None for what another program runs."""
        program, *words = shlex.split(self.text)
        if program == "python" and words[0] == "train.py":
            return ["train", *words[1:]]
        if program == "./run.sh" and (not words or words[0] not in COMMANDS):
            has_config = bool(words) and words[0].endswith(".yaml")
            return ["train", *([] if has_config else ["configs/half_cheetah.yaml"]), *words]
        return words if program in ("./run.sh", "ddp-ppo") else None

    def for_python(self) -> list[list[str]]:
        """The words of the Python processes that another program would start, all at once."""
        program, *words = shlex.split(self.text)
        if program != "torchrun":
            few = {"scripts/tune.py": ["--trials", "1", "--seeds", "1", *QUICK], "sweep.py": [*QUICK]}
            return [[*words, *few.get(words[0], [])]]
        port = f"--rdzv_endpoint=localhost:{free_port()}"
        words = [port if word.startswith("--rdzv_endpoint") else word for word in words]
        return [["-m", "torch.distributed.run", *words, *TINY]] * (2 if "--nnodes=2" in words else 1)


def has(package: str) -> bool:
    """Whether a package is installed."""
    return importlib.util.find_spec(package) is not None


def shortened(words: list[str]) -> list[str]:
    """The same command of ddp-ppo with little to do."""
    few = {"--seconds": "0.1", "--steps": "5"}
    words = [few.get(before, word) for before, word in zip(["", *words], words, strict=False)]
    words += ["--steps", "5"] if words[0] == "play" and "--steps" not in words else []
    extra = QUICK if words[0] in ("train", "check", "bench") else ()
    extra = TINY if "single.yaml" in words else extra  # of one instance only
    if any(re.search("points:Points|cart:Cart|quadruped|go1|look.yaml", word) for word in words):
        extra = tuple(word for word in extra if not word.startswith("max_episode_steps"))
    end = next((index for index, word in enumerate(words) if word.startswith("--")), len(words))
    return [*words[:end], *extra, *words[end:]]


def commands(document: Path) -> list[Command]:
    """All of a document, each once; in its text those that are whole: two arguments or more, nothing left out."""
    text = document.read_text()
    shown = [match[1].split("  #")[0].strip() for match in SHOWN.finditer(text)]
    inline = [match[1] for match in INLINE.finditer(text) if match[1].count(" ") > 1 and "..." not in match[1]]
    return [Command(one, document.name) for one in dict.fromkeys([*shown, *inline])]


def path(name: str) -> Path:
    """Where a document is."""
    return next(document for document in DOCS if document.name == name)


def files(document: Path) -> dict[str, str]:
    """The files that a document shows: indented, from a comment with the name up to the next one, a command or text."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in document.read_text().splitlines():
        if match := FILE.fullmatch(line):
            lines = found.setdefault(match[1], [])
        elif SHOWN.match(line) or (line and not line.startswith("    ")):
            lines = []
        lines.append(line[4:])
    return {name: "\n".join(text) + "\n" for name, text in found.items()}


class CommandsTest(FolderTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.made = cls.place("made", {})
        cls.ddp_ppo(cls.made, MAKE_RUN)

    @classmethod
    def place(cls, name, shown):
        """A folder that looks like the project's, as far as commands see it, with the files that a document shows."""
        folder = cls.folder / name
        folder.mkdir()
        for part in ("configs", "scripts", "train.py", "constraints.txt"):
            (folder / part).symlink_to(ROOT / part)
        for file, text in (GIVEN | shown).items():
            (folder / file).write_text(text)
        return folder

    @classmethod
    def python(cls, folder, *several):
        """Runs Python processes beside each other to their ends, which must be successes."""
        paths = os.pathsep.join([str(ROOT), str(folder)])
        environ = {**ENVIRON, "PYTHONPATH": paths, "DDP_PPO_DISCO_WEIGHTS": str(WEIGHTS)}
        with ExitStack() as stack:
            started = [stack.enter_context(Program(*words, folder=folder, environ=environ)) for words in several]
            for program in started:
                ended = program.end(LIMIT_SECONDS)
                if ended.code:
                    raise AssertionError(
                        f"{folder.name}: exit code {ended.code}\n{ended.out[-2000:]}\n{ended.err[-2000:]}"
                    )

    @classmethod
    def ddp_ppo(cls, folder, runs):
        """Runs commands of ddp-ppo one after the other."""
        cls.python(folder, [PROGRAMS / "run_commands.py", json.dumps([shortened(words) for words in runs])])

    def run_document(self, name, wanted):
        """Runs a document's commands in their order."""
        folder = self.place(name, files(path(name)))
        for copy in COPIES.get(name, ()):
            shutil.copytree(self.made / "output" / "half_cheetah-a", folder / "output" / copy)
        for is_ours, group in itertools.groupby(wanted, lambda command: command.for_main() is not None):
            if is_ours:
                self.ddp_ppo(folder, [command.for_main() for command in group])
                continue
            for command in group:
                self.python(folder, *command.for_python())

    def test_every_command_is_run_or_named_with_a_reason(self):
        seen, wanted = set(), {}
        for document in DOCS:
            new = [one for one in commands(document) if not one.reason() and one.text not in seen]
            seen |= {one.text for one in new}
            wanted[document.name] = new
        self.assertGreater(len(seen), 40)
        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(self.run_document, name, new) for name, new in wanted.items() if new]
            for job in jobs:
                job.result()

    def test_the_metrics_of_a_run_are_those_that_are_described(self):
        (run,) = (self.made / "output").glob("*/metrics.csv")
        written = {re.sub("^reward/.*", "reward/<name>", name) for name in run.read_text().split("\n")[0].split(",")}
        page = path("metrics.md").read_text().partition("## With `learner: disco`")[0]
        described = set(re.findall(r"^\| `([\w/<>]+)`", page, re.MULTILINE))
        self.assertEqual(
            written, described - {"reward/episode_return/<name>", "resource/gpu_memory_mib"}
        )  # several tasks; a GPU

    def test_what_is_not_run_has_settings_that_can_be_used(self):
        for command in itertools.chain.from_iterable(map(commands, DOCS)):
            words = shlex.split(command.text)
            config = next((index for index, word in enumerate(words) if word.startswith("configs/")), None)
            if command.reason() and config is not None:
                with self.subTest(command.text):
                    overrides = [word for word in words[config + 1 :] if "=" in word and not word.startswith("--")]
                    load_config(ROOT / words[config], overrides)

    def test_a_reason_is_given_for_commands_that_exist(self):
        texts = [command.text for command in itertools.chain.from_iterable(map(commands, DOCS))]
        unused = [pattern for pattern in NOT_RUN if not any(re.match(pattern, text) for text in texts)]
        self.assertEqual(unused, [])


class NamesTest(unittest.TestCase):
    """What the documents speak of exists."""

    def test_links_lead_to_files_and_headings(self):
        for document in DOCS:
            for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
                if re.match(r"\w+:", target):
                    continue
                with self.subTest(f"{document.name}: {target}"):
                    file, _, heading = target.partition("#")
                    place = document.parent / file if file else document
                    self.assertTrue(place.exists())
                    self.assertTrue(not heading or heading in headings(place))

    def test_every_document_is_linked_from_readme_or_the_tutorial(self):
        linked = "".join((ROOT / name).read_text() for name in ("README.md", "docs/tutorial.md"))
        unlinked = [one.name for one in DOCS[1:] if not re.search(rf"\((docs/)?{re.escape(one.name)}\)", linked)]
        self.assertEqual(unlinked, [])

    def test_settings_that_are_given_a_value_exist(self):
        known = {setting.name for setting in describe_settings()} | {*FLAT_NAMES, *OWN, "inherits"}
        for document in DOCS:
            quoted = re.findall(r"`([^`\n]+)`", document.read_text())
            given = re.findall(r"(?<![\w.-])([a-z][a-z_.]+)=[\w.'\"<{\[-]", "\n".join(quoted))
            given += [match[1] for text in quoted if (match := re.fullmatch(r"([a-z_.]+): \S+", text))]
            self.assertEqual({*given} - known - NO_SETTINGS, set(), document.name)

    def test_names_in_troubleshooting_are_metrics_events_settings_or_commands(self):
        text = (ROOT / "docs" / "troubleshooting.md").read_text()
        known = (
            {setting.name for setting in describe_settings()} | {*FLAT_NAMES} | METRICS | RULES | COMMANDS | NO_SETTINGS
        )
        words = set(re.findall(r"`((?:[a-z]+/)?[a-z_]+)`", text))
        self.assertEqual(words - known, set())
        self.assertLessEqual(RULES, words, "every rule of anomalies.py has its line")

    def test_messages_in_troubleshooting_are_the_programs_own(self):
        text = (ROOT / "docs" / "troubleshooting.md").read_text()
        section = text.partition("## It does not start, or ends")[2]
        sources = [strings(path) for path in sorted((ROOT / "ddp_ppo").rglob("*.py"))]
        for message in re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE):
            with self.subTest(message):
                words = set(re.findall(r"[a-z_]{4,}", re.sub(FOREIGN, "", message)))
                self.assertTrue(any(words <= source for source in sources), words)


def headings(document: Path) -> set[str]:
    """The anchors of a document's headings."""
    found = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in found}


def strings(path: Path) -> set[str]:
    """The words in a module's strings."""
    constants = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
    return set(re.findall(r"[a-z_]{4,}", " ".join(one for one in constants if isinstance(one, str))))


if __name__ == "__main__":
    unittest.main()
