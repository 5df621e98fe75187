"""run.sh from the outside; a stand-in for `python3` makes a set-up instant and prints what would be started."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = ("run.sh", "setup.cfg", "pyproject.toml", "constraints.txt")
PYTHON_STAND_IN = """#!/usr/bin/env bash
case "$1 ${2-}" in
-V*) echo Python 3.12.0 ;;
"-m venv") mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
"-m pip") [ -z "${PIP_FAILS-}" ] ;;
-c*) ;;
*) echo "started OMP=$OMP_NUM_THREADS OPENBLAS=${OPENBLAS_NUM_THREADS-} $*" ;;
esac
"""


class RunShTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddp ppo ")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        self.project = self.folder / "the project"
        (self.project / "configs").mkdir(parents=True)
        for name in FILES:
            shutil.copy(ROOT / name, self.project)
        self.add_program("python3", PYTHON_STAND_IN)
        self.add_program("nvidia-smi", "#!/bin/sh\n")

    def add_program(self, name, text):
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run_sh(self, *words, script=None, **environ):
        inherited = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
        inherited.pop("CUDA_VISIBLE_DEVICES", None)
        inherited.pop("PYTHON", None)
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            ["bash", script or self.project / "run.sh", *words],
            cwd=self.folder,
            env={**inherited, "PATH": path, **environ},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def started(self, *words, **environ):
        """What run.sh started, as one line."""
        done = self.run_sh(*words, **environ)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_help_lists_every_command_and_sets_nothing_up(self):
        done = self.run_sh("--help")
        names = "check train plan bench evaluate play export report compare replay settings metrics disco-weights test"
        for command in names.split():
            self.assertIn(f" {command} ", done.stdout.replace("\n", " "))
        self.assertFalse((self.project / ".venv").exists())

    def test_an_unknown_config_is_one_line_and_exit_2(self):
        done = self.run_sh("configs/none.yaml")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"\Arun\.sh: configs/none\.yaml is neither a file nor a command.*\n\Z")

    def test_an_environment_or_the_name_of_a_configuration_is_trained(self):
        (self.project / "configs/ant.yaml").touch()
        for word in ("CartPole-v1", "ALE/Pong-v5", "my_module:MyEnv", "ant"):
            with self.subTest(word):
                self.assertTrue(self.started(word, "seed=3").endswith(f"{self.project / 'train.py'} {word} seed=3"))

    def test_a_word_that_is_nothing_is_one_line_and_exit_2(self):
        for word in ("evalute", "CartPole", "half_cheeta", "CartPole-v1.yaml"):
            with self.subTest(word):
                done = self.run_sh(word)
                self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))
                self.assertIn(f"{word} is neither a file nor a command", done.stderr)

    def test_set_up_runs_once_and_again_when_the_requirements_change(self):
        self.assertIn("setting up", self.run_sh().stderr)
        self.assertEqual(self.run_sh().stderr, "")
        with (self.project / "constraints.txt").open("a") as file:
            file.write("other==1\n")
        self.assertIn("setting up", self.run_sh().stderr)

    def installed(self, name, url=""):
        """Puts a package into .venv, as pip would have written it down."""
        info = self.project / ".venv" / "lib" / "python3.12" / "site-packages" / f"{name}.dist-info"
        info.mkdir(parents=True)
        if url:
            (info / "direct_url.json").write_text(url)
        return info

    def test_changed_requirements_leave_packages_of_the_user_where_they_are(self):  # N-21
        self.run_sh()
        own = self.installed("myrobot-0.1")
        (self.project / "constraints.txt").write_text("other==1\n")
        self.assertIn("again, where it lies", self.run_sh().stderr)
        self.assertTrue(own.exists())

    def test_a_folder_that_was_moved_keeps_them_and_its_programs_start(self):
        self.run_sh()
        self.installed("myrobot-0.1")
        program = self.project / ".venv" / "bin" / "tool"
        program.write_text(f"#!{self.project}/.venv/bin/python\nprint()\n")
        (program.parent / "activate").write_text(f"VIRTUAL_ENV={self.project}/.venv/bin/..\n")
        python = self.project / ".venv" / "bin" / "python"
        # the stand-in passes the program that mends scripts on to a real Python
        python.write_text(PYTHON_STAND_IN.replace("-c*) ;;", f'-c*pathlib*) exec {sys.executable} "$@" ;;\n-c*) ;;'))
        self.project = self.project.rename(self.folder / "moved")
        self.assertIn("again, where it lies", self.run_sh().stderr)
        self.assertTrue([*self.project.glob(".venv/lib/*/*/myrobot-0.1.dist-info")])
        tool = self.project / ".venv" / "bin" / "tool"
        (tool.parent / "python").unlink()
        (tool.parent / "python").symlink_to(sys.executable)
        tool.chmod(0o755)
        tool.write_text(tool.read_text().replace("print()", "print('it starts')"))
        self.assertEqual(subprocess.run([tool], capture_output=True, text=True).stdout, "it starts\n")
        self.assertEqual((tool.parent / "activate").read_text(), f"VIRTUAL_ENV={self.project}/.venv/bin/..\n")

    def test_what_a_new_venv_lacks_is_named_with_the_line_that_brings_it_back(self):  # N-21
        self.run_sh()
        self.installed("myrobot-0.1")
        self.installed("arm-2", '{"url": "file:///home/me/my%20arm", "dir_info": {"editable": true}}')
        (self.project / ".venv" / "bin" / "python").unlink()
        stand_in = PYTHON_STAND_IN.replace('mkdir -p "$4/bin"', 'rm -rf "$4" && mkdir -p "$4/bin"')
        self.add_program("python3", stand_in)
        done = self.run_sh()
        self.assertIn("packages of yours are missing in it", done.stderr)
        self.assertIn(".venv/bin/python -m pip install -e /home/me/my\\ arm myrobot==0.1\n", done.stderr)

    def test_a_run_that_is_going_on_keeps_its_files(self):  # N-21
        self.run_sh()
        stamp = self.project / ".venv" / "set-up-complete"
        before = stamp.read_text()
        python = self.project / ".venv" / "bin" / "python"
        python.write_text(PYTHON_STAND_IN.replace("-c*) ;;", "*train.py*waiting*) read -r line ;;\n-c*) ;;", 1))
        run = subprocess.Popen([python, self.project / "train.py", "waiting"], stdin=subprocess.PIPE)
        self.addCleanup(run.communicate)
        (self.project / "constraints.txt").write_text("other==1\n")
        done = self.run_sh("plan")
        self.assertIn("but a run uses", done.stderr)
        self.assertIn("-m ddp_ppo plan", done.stdout)
        self.assertEqual(stamp.read_text(), before)
        run.communicate()
        self.assertIn("again, where it lies", self.run_sh().stderr)

    def test_a_set_up_that_failed_is_done_again(self):
        self.assertEqual(self.run_sh(PIP_FAILS="1").returncode, 2)
        self.assertIn("setting up", self.run_sh().stderr)

    def test_without_a_config_the_default_one_trains_with_the_overrides(self):
        train, config = self.project / "train.py", self.project / "configs/half_cheetah.yaml"
        self.assertEqual(self.started(), f"started OMP= OPENBLAS= {train} {config}")
        self.assertTrue(self.started("seed=3", "num_gpus=2").endswith(f"{train} {config} seed=3 num_gpus=2"))

    def test_paths_are_relative_to_the_current_folder_also_through_a_link(self):
        (self.folder / "my own.yaml").touch()
        (self.folder / "link").symlink_to(self.project / "run.sh")
        done = self.run_sh("my own.yaml", "seed=3", script=self.folder / "link")
        self.assertTrue(done.stdout.endswith(f"{self.project / 'train.py'} my own.yaml seed=3\n"), done.stdout)

    def test_commands_go_to_the_package(self):
        self.assertTrue(self.started("plan", "a.yaml").endswith(" -m ddp_ppo plan a.yaml"))

    def test_the_long_checks_are_a_word_of_test(self):
        self.assertTrue(self.started("test", "long").endswith(" -m tests.long"))
        self.assertTrue(self.started("test", "long", "nan", "kill:STOP").endswith(" -m tests.long nan kill:STOP"))

    def test_several_visible_gpus_start_one_learner_each(self):
        self.add_program("nvidia-smi", '#!/bin/sh\nfor i in 0 1 2 3; do echo "GPU $i: X (UUID: GPU-1$i)"; done\n')
        for visible, expected in ((None, 4), ("0,1", 2), ("GPU-10,GPU-11,-1,3", 2), ("0", 1), ("", 1), ("-1", 1)):
            with self.subTest(CUDA_VISIBLE_DEVICES=visible):
                line = self.started(**({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}))
                self.assertEqual(f" -m ddp_ppo train --nproc {expected} " in line, expected > 1, line)

    def test_a_thread_count_of_the_user_stands(self):
        self.assertIn("OMP=4 OPENBLAS=2 ", self.started(OMP_NUM_THREADS="4", OPENBLAS_NUM_THREADS="2"))

    def test_shell_scripts_parse(self):
        for path in (ROOT / "run.sh", ROOT / ".ci" / "run"):
            self.assertEqual(subprocess.run(["bash", "-n", path]).returncode, 0)


if __name__ == "__main__":
    unittest.main()
