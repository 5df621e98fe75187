"""How several learners are started on one machine, also where its name stands for nothing."""

import shlex
import subprocess
import sys
import unittest
from pathlib import Path

from ddp_ppo.config.settings import Config
from ddp_ppo.distributed.launch import launch_command, launch_line, launched_environ
from ddp_ppo.distributed.topology import resolve_training_topology
from tests.support.process import ROOT, TINY, FolderTestCase, Program, succeeded

ALONE = 'hostname nowhere-to-be-found; ip link set lo up; exec "$@"'
NAMELESS = ["unshare", "--map-root-user", "--net", "--uts", "sh", "-c", ALONE, "sh"]


def can_be_nameless():
    """Whether a process may have a network and a host name to itself here."""
    try:
        return subprocess.run([*NAMELESS, "true"], capture_output=True, timeout=10).returncode == 0
    except OSError:
        return False


class LaunchTest(unittest.TestCase):
    def test_the_line_says_torchrun_and_can_be_pasted(self):
        words = shlex.split(launch_line(4, ["my task.yaml", "env_kwargs={a: [1, 2]}"]))
        self.assertEqual(Path(words[0]).name, "torchrun")
        last = [str(ROOT / "train.py"), "my task.yaml", "env_kwargs={a: [1, 2]}"]
        self.assertEqual(words[1:], ["--standalone", "--nproc_per_node=4", *last])
        done = subprocess.run([words[0], "--help"], capture_output=True, text=True, timeout=60)
        self.assertIn("--nproc", done.stdout)

    def test_a_program_is_named_for_what_it_is(self):
        self.assertTrue(launch_line(2, []).endswith("--nproc_per_node=2 YOUR_PROGRAM.py"))

    def test_the_command_is_of_this_python(self):
        command = launch_command(3, ["smoke", "seed=2"])
        self.assertEqual(command[:3], [sys.executable, "-m", "torch.distributed.run"])
        self.assertEqual(command[-3:], [str(ROOT / "train.py"), "smoke", "seed=2"])

    def test_a_plan_sees_what_the_first_learner_would(self):
        environ = launched_environ({"A": "b"}, 4)
        settings = Config(num_gpus=4, num_envs=8)
        topology = resolve_training_topology(settings, environ=environ, num_cuda_devices=4, has_mps=False)
        self.assertEqual((topology.num_learners, topology.rank, topology.notes), (4, 0, ()))
        self.assertEqual(environ["A"], "b")
        self.assertEqual(launched_environ({"A": "b"}, 1), {"A": "b"})
        under_torchrun = {"RANK": "1", "WORLD_SIZE": "2"}
        self.assertEqual(launched_environ(under_torchrun, 4), under_torchrun)


class NamelessTest(FolderTestCase):
    @unittest.skipUnless(can_be_nameless(), "a process cannot have a network to itself here")
    def test_learners_meet_where_the_host_s_name_does_not_resolve(self):
        config = self.config("tiny", TINY.replace("640", "128"))
        words = ["train", "--nproc", "2", config, "device=cpu", "num_gpus=2", "eval_interval=0", "eval_episodes=1"]
        script = [*NAMELESS, sys.executable, "-m", "ddp_ppo", *words]
        program = Program("-c", f"import os; os.execvp({script[0]!r}, {[*map(str, script)]!r})", folder=self.work)
        self.addCleanup(program.__exit__)
        self.assertIn("done: 2 rounds", succeeded(program).out)


if __name__ == "__main__":
    unittest.main()
