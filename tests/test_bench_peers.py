"""bench/peers.py: its command line, its arithmetic and its last line; no peer is installed or run."""

import contextlib
import importlib.util
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
SPEC = importlib.util.spec_from_file_location("bench_peers", ROOT / "bench" / "peers.py")
peers = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(peers)  # puts bench/peers on the path, where the modules below are

import environments  # noqa: E402
import peer_report  # noqa: E402
import workload  # noqa: E402


def a_run(speed, first=-300.0, last=200.0):
    """What a peer script reports."""
    result = {"steps_per_second": speed, "seconds": 1.0, "first_return": first, "return": last}
    return result | {"num_envs": 1, "versions": {"torch": "1"}}


class ArgumentsTest(unittest.TestCase):
    def refused(self, *words):
        """What is said about words that are not accepted."""
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit) as caught:
            peers.parse(words)
        self.assertEqual(caught.exception.code, 2)
        return said.getvalue()

    def test_without_arguments_every_peer_runs_three_times(self):
        options = peers.parse([])
        self.assertEqual((options.peers, options.shape, options.repeats), (list(environments.PEERS), "small", 3))

    def test_names_are_taken_in_order_and_once(self):
        options = peers.parse(["--peers", "skrl, sb3,skrl", "--steps", "1e5", "--out", "docs/speed.md"])
        self.assertEqual((options.peers, options.steps, options.out), (["skrl", "sb3"], 100_000, Path("docs/speed")))

    def test_what_cannot_be_run_is_refused(self):
        self.assertIn("other: choose from sb3, cleanrl", self.refused("--peers", "sb3,other"))
        self.assertIn("at least 1", self.refused("--repeats", "0"))
        self.assertIn("no such program", self.refused("--python", "/nowhere/python"))

    def test_a_shape_leaves_the_number_of_environments_to_the_peer_or_gives_it(self):
        small, same = (workload.parse(2, ["--shape", shape, "--steps", "10000"]) for shape in ("small", "small16"))
        self.assertEqual((small.num_envs, small.rollout_length, small.num_rounds), (2, 1024, 5))
        self.assertEqual((same.num_envs, same.rollout_length, same.num_minibatches), (16, 128, 32))

    def test_all_trainers_do_the_same_work(self):
        for name, shape in workload.SHAPES.items():
            num_actors, envs_per_actor, rollout_length = shape.own
            work, own = workload.parse(1, ["--shape", name]), peers.own_settings(shape, None)
            self.assertEqual(num_actors * envs_per_actor * rollout_length, work.samples)
            self.assertEqual(own["total_env_steps"], work.steps)
            self.assertEqual(work.samples % work.minibatch_size, 0)

    def test_every_peer_has_a_script(self):
        for name in environments.PEERS:
            self.assertTrue((ROOT / "bench" / "peers" / f"{name}_ppo.py").exists(), name)

    def test_constraints_are_all_or_the_named_ones(self):
        text = "numpy==2\ntorch==3\ntorchvision==4\n"
        self.assertEqual(environments.constraints(environments.Peer(()), text), text)
        self.assertEqual(environments.constraints(environments.Peer((), pinned=("torch",)), text), "torch==3\n")


class ArithmeticTest(unittest.TestCase):
    def test_ratios_are_those_of_neighbouring_runs(self):
        pairs = [(a_run(20.0), a_run(2.0)), (a_run(30.0), a_run(2.0)), (a_run(12.0), a_run(3.0))]
        self.assertEqual(peer_report.ratios(pairs), {"min": 4.0, "median": 10.0, "max": 15.0})

    def test_learned_means_that_the_return_rose_in_every_run(self):
        self.assertTrue(peer_report.learned([a_run(1, -300, 200), a_run(1, -300, -200)])["has_learned"])
        self.assertFalse(peer_report.learned([a_run(1, -300, 200), a_run(1, -300, -250)])["has_learned"])
        self.assertIsNone(peer_report.learned([a_run(1, None, None)])["has_learned"])

    def test_first_and_last_return_are_means_of_ten_episodes(self):
        found = workload.learning([*range(10), 100.0, *range(20, 30)])
        self.assertEqual(found, {"first_return": 4.5, "return": 24.5})
        self.assertIsNone(workload.learning([1.0] * 19)["return"])

    def test_our_speed_leaves_out_the_first_two_rounds_and_the_last(self):
        rows = [
            {"env_steps": f"{100 * (i + 1)}", "time/elapsed_seconds": seconds} | episodes
            for i, (seconds, episodes) in enumerate(
                (seconds, {"rollout/episodes": "10", "rollout/episode_return_mean": mean})
                for seconds, mean in (("5.0", "-1.0"), ("6.0", ""), ("6.5", "7.5"), ("7.0", "2.0"), ("99.0", ""))
            )
        ]
        expected = {"steps_per_second": 200.0, "seconds": 1.0, "first_return": -1.0, "return": 2.0}
        self.assertEqual(peers.own_result(rows), expected)


class RunTest(unittest.TestCase):
    def test_the_result_of_a_run_is_its_last_line(self):
        output = environments.run([sys.executable, "-c", "print('noise'); print('{\"a\": 1}')"])
        self.assertEqual(environments.last_json(output), {"a": 1})
        for text in ("", '{"a": 1}\nnoise', "[1]"):
            with self.assertRaises(environments.RunError):
                environments.last_json(text)

    def test_a_failed_run_says_its_last_line(self):
        with self.assertRaisesRegex(environments.RunError, "exit 1: ValueError: too small"):
            environments.run([sys.executable, "-c", "raise ValueError('too small')"])

    def test_the_last_line_is_one_json_object_with_the_ratios_and_failures_do_not_stop_the_rest(self):
        def run_peer(name, options, *, seed):
            if name == "skrl":
                raise environments.RunError("no such module")
            return a_run(10.0 * seed)

        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.multiple(peers, VENVS=Path(folder), install=mock.DEFAULT, run_peer=run_peer),
            mock.patch.object(peers, "run_own", lambda options, *, seed: a_run(100.0)),
            contextlib.redirect_stdout(io.StringIO()) as output,
            contextlib.redirect_stderr(io.StringIO()),
        ):
            status = peers.main(["--peers", "skrl,sb3", "--repeats", "2", "--python", sys.executable])
        result = json.loads(output.getvalue().splitlines()[-1])
        self.assertEqual(status, 0)
        self.assertEqual(result["ratios"], {"sb3": {"min": 5.0, "median": 7.5, "max": 10.0}})
        self.assertEqual(result["failures"], {"skrl": "failed: no such module"})
        self.assertEqual((result["shape"], result["repeats"]), ("small", 2))
        self.assertIn("ours", result["versions"])


if __name__ == "__main__":
    unittest.main()
