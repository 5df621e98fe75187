"""scripts/: the Slurm scripts with stand-ins for Slurm's programs, which start and signal real trainings; Optuna."""

import csv
import importlib.util
import json
import os
import runpy
import shlex
import signal
import subprocess
import sys
import unittest

from tests.support.process import LIMIT_SECONDS, ROOT, TINY, FolderTestCase, Program, free_port

SLURM = ROOT / "scripts" / "slurm"
# What the scripts ask of Slurm, in the folder `log`: srun runs the command once for each node, scancel signals these.
STAND_INS = {
    "srun": """#!/usr/bin/env bash
while [ "${1#--}" != "$1" ]; do shift; done
for node in $(seq "$SLURM_NNODES"); do
    "$@" >>"log/node_$node" 2>&1 &
    echo $! >>log/pids
done
trap '' TERM
status=0
for pid in $(jobs -p); do wait "$pid" || status=$?; done
exit "$status"
""",
    "scancel": '#!/usr/bin/env bash\necho "$@" >>log/scancel\nkill -TERM $(cat log/pids)\n',
    "scontrol": '#!/usr/bin/env bash\n[ "$1" = show ] && echo localhost || echo "$@" >>log/scontrol\n',
}


class ShellTest(unittest.TestCase):
    def test_scripts_parse_and_ask_for_a_requeue_before_the_time_is_over(self):
        for path in SLURM.glob("*.sh"):
            self.assertEqual(subprocess.run(["bash", "-n", path]).returncode, 0, path)
        for name in ("single_node.sh", "several_nodes.sh"):
            text = (SLURM / name).read_text()
            for line in ("--requeue", "--signal=B:USR1@120", "--open-mode=append", "--ntasks-per-node=1"):
                self.assertIn(f"#SBATCH {line}\n", text)


class SlurmTest(FolderTestCase):
    """Each test is a job of its own; the second start of a job has the same number."""

    def setUp(self):
        self.job = self.folder / self._testMethodName
        for folder in ("bin", "log", ".venv/bin", "scripts"):
            (self.job / folder).mkdir(parents=True)
        python = {".venv/bin/python": f'#!/usr/bin/env bash\nexec {shlex.quote(sys.executable)} "$@"\n'}
        for name, text in {**python, **{f"bin/{name}": text for name, text in STAND_INS.items()}}.items():
            (self.job / name).write_text(text)
            (self.job / name).chmod(0o755)
        (self.job / "scripts/slurm").symlink_to(SLURM)
        (self.job / "train.py").symlink_to(ROOT / "train.py")
        (self.job / "tiny.yaml").write_text(TINY)

    def start(self, script, *words, nodes=1):
        """The job script, as Slurm's copy of it would run."""
        environ = {
            "PATH": f"{self.job / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "SLURM_SUBMIT_DIR": str(self.job),
            "SLURM_JOB_ID": "4711",
            "SLURM_NNODES": str(nodes),
            "SLURM_JOB_NODELIST": "localhost",
            "SLURM_CPUS_PER_TASK": "2",
            "MASTER_PORT": str(free_port()),
            "SHELL_SCRIPT": str(SLURM / script),
        }
        run = "import os, sys; os.execvp('bash', ['bash', os.environ.pop('SHELL_SCRIPT'), *sys.argv[1:]])"
        program = Program("-c", run, "tiny.yaml", "device=cpu", *words, folder=self.job, environ=environ)
        self.addCleanup(program.__exit__)
        return program

    def checkpoints(self):
        return sorted(path.name for path in self.job.glob("output/tiny-job-4711/checkpoints/*.pt"))

    def rounds(self):
        with (self.job / "output/tiny-job-4711/metrics.csv").open() as file:
            return [int(row["round"]) for row in csv.DictReader(file)]

    def log(self, name):
        path = self.job / "log" / name
        return path.read_text() if path.exists() else ""

    def cut_and_go_on(self, script, nodes):
        """A job whose time is over in mid-training, and its second start."""
        first = self.start(script, "total_env_steps=64_000_000", nodes=nodes)
        first.wait_until(self.checkpoints, "checkpoint")
        os.kill(first.process.pid, signal.SIGUSR1)
        ended = first.end(LIMIT_SECONDS)
        self.assertEqual((ended.code, ended.left), (0, []), ended.err + self.log("node_1"))
        self.assertEqual(self.log("scontrol"), "requeue 4711\n")
        last = int(self.checkpoints()[-1].removeprefix("checkpoint_").removesuffix(".pt"))
        (self.job / "log/pids").unlink()
        second = self.start(script, f"total_env_steps={(last + 5) * 32 * nodes}", nodes=nodes).end(LIMIT_SECONDS)
        self.assertEqual((second.code, second.left), (0, []), second.err + self.log("node_1"))
        self.assertRegex(self.log("node_1") + self.log("node_2"), rf"resuming from .* after round {last}\n")
        self.assertEqual(self.rounds(), [*range(1, last + 6)])
        self.assertEqual(self.log("scontrol"), "requeue 4711\n")

    def test_a_job_whose_time_is_over_leaves_a_checkpoint_and_goes_on_when_it_is_requeued(self):
        self.cut_and_go_on("single_node.sh", nodes=1)

    def test_several_nodes_train_together_and_go_on_likewise(self):
        self.cut_and_go_on("several_nodes.sh", nodes=2)

    def test_a_job_that_fails_is_not_requeued(self):
        ended = self.start("single_node.sh", "gamma=2").end(LIMIT_SECONDS)
        self.assertNotEqual(ended.code, 0)
        self.assertIn("gamma: got 2", self.log("node_1"))
        self.assertEqual(self.log("scontrol"), "")

    def test_a_person_s_stop_leaves_a_checkpoint_and_requeues_nothing(self):
        program = self.start("single_node.sh", "total_env_steps=64_000_000")
        program.wait_until(self.checkpoints, "checkpoint")
        os.kill(program.process.pid, signal.SIGTERM)
        self.assertNotEqual(program.end(LIMIT_SECONDS).code, 0)
        self.assertEqual(self.log("scontrol"), "")
        self.assertEqual(self.rounds()[-1], int(self.checkpoints()[-1][11:18]))


class TryVersionsTest(unittest.TestCase):
    def setUp(self):
        self.requirements = runpy.run_path(str(ROOT / "scripts" / "try_versions.py"))["requirements"]

    def test_the_lowest_releases_are_the_bounds_of_the_package(self):
        lowest = ["torch==2.4", "mujoco==3.3", "gymnasium[mujoco]==1.1", "numpy==1.26"]
        self.assertEqual(self.requirements("lowest", [])[:4], lowest)

    def test_the_newest_ones_have_no_other_limit_and_a_pin_replaces_a_bound(self):
        for pin in ("torch==2.13.0", "/tmp/torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl", "gymnasium[mujoco]==1.2"):
            with self.subTest(pin):
                found = self.requirements("newest", [pin])
                self.assertEqual(found[-1], pin)
                self.assertEqual(len(found), len(self.requirements("newest", [])))
        self.assertIn("numpy>=1.26", self.requirements("newest", []))


@unittest.skipUnless(importlib.util.find_spec("optuna"), "optuna is not installed")
class TuneTest(FolderTestCase):
    def tune(self, *words):
        config = self.config("task", TINY)
        program = Program(ROOT / "scripts" / "tune.py", config, *words, "--seeds", "1", folder=self.work)
        self.addCleanup(program.__exit__)
        return program.end(LIMIT_SECONDS)

    def test_trials_are_runs_of_one_study_that_goes_on_and_the_best_settings_can_be_trained(self):
        first = self.tune("--trials", "1")
        self.assertRegex(first.out, r"^1 trials, 1 finished: the best is 0, return \d+\.\d\n")
        second = self.tune("--trials", "1", "gamma=0.9")
        self.assertRegex(second.out, r"^2 trials, 2 finished: the best is [01], return \d+\.\d\n")
        runs = sorted(path.parent.name for path in self.work.glob("output/tune/*/metrics.csv"))
        self.assertEqual(runs, ["task-trial-0-seed-1", "task-trial-1-seed-1"])
        words = second.out.splitlines()[-1].split()[4:]
        program = self.start(*words, "total_env_steps=64", "run_name=best")
        self.assertEqual(program.end(LIMIT_SECONDS).code, 0)

    def test_a_poor_trial_is_given_up_and_leaves_no_process(self):
        script = (
            "import argparse, json, optuna, pathlib, runpy\n"
            "if __name__ == '__main__':\n"
            f"    tune = runpy.run_path({str(ROOT / 'scripts' / 'tune.py')!r}, run_name='tune')\n"
            "    class Never(optuna.pruners.BasePruner):\n"
            "        def prune(self, study, trial):\n"
            "            return True\n"
            "    study = optuna.create_study(pruner=Never(), direction='maximize')\n"
            f"    options = argparse.Namespace(config={str(self.config('poor', TINY))!r}, overrides=[], seeds=1,"
            " out=pathlib.Path('pruned'))\n"
            "    study.optimize(lambda trial: tune['objective'](trial, options), n_trials=1)\n"
            "    print(json.dumps([study.trials[0].state.name, study.trials[0].intermediate_values]))\n"
        )
        (self.work / "pruning.py").write_text(script)
        program = Program(self.work / "pruning.py", folder=self.work)
        self.addCleanup(program.__exit__)
        ended = program.end(LIMIT_SECONDS)
        self.assertEqual((ended.code, ended.left), (0, []), ended.err)
        state, values = json.loads(ended.out.splitlines()[-1])
        self.assertEqual((state, list(values)), ("PRUNED", ["320"]))  # the first evaluation: 5 rounds of 64 steps


if __name__ == "__main__":
    unittest.main()
