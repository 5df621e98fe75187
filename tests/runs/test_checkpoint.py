"""Files that outlive a run: whole or not there, safe to load, and bit for bit what was saved."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import torch

from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.runs.checkpoint import (
    CheckpointError,
    copy_atomically,
    find_checkpoint,
    load_model,
    save_checkpoint,
    save_model,
    write_atomically,
)
from tests.support.fixtures import random_parameters, whole_checkpoint

ROOT = Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 60
ENV = EnvSpec("A-v0", 3, "box", 2, (-1.0, -2.0), (1.0, float("inf")), 0, 200, "gymnasium")
NETWORK = NetworkSpec.for_env(ENV, (4,), "tanh")
WHOLE = whole_checkpoint(NETWORK, ENV)

KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
from ddp_ppo.runs.checkpoint import write_atomically

def write(file):
    file.write(b"half of ")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)

write_atomically(Path(sys.argv[1]), write)
"""


class Payload:
    """Pickles to a call that creates a file."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return open, (str(self.marker), "w")


class FolderTestCase(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def names(self, folder=None):
        return sorted(path.name for path in (folder or self.folder).iterdir())


class WriteTest(FolderTestCase):
    def test_file_appears_whole_and_alone(self):
        write_atomically(self.folder / "a", lambda file: file.write(b"text"))
        self.assertEqual((self.folder / "a").read_bytes(), b"text")
        self.assertEqual(self.names(), ["a"])

    def test_failure_while_writing_leaves_the_old_file_and_nothing_else(self):
        (self.folder / "a").write_bytes(b"old")

        def write(file):
            file.write(b"half of ")
            raise OSError("disk full")

        with self.assertRaisesRegex(OSError, "disk full"):
            write_atomically(self.folder / "a", write)
        self.assertEqual((self.folder / "a").read_bytes(), b"old")
        self.assertEqual(self.names(), ["a"])

    def test_kill_while_writing_leaves_the_old_file(self):  # O-57
        (self.folder / "a").write_bytes(b"old")
        command = [sys.executable, "-c", KILLED_WHILE_WRITING, str(self.folder / "a")]
        killed = subprocess.run(command, cwd=ROOT, timeout=LIMIT_SECONDS)
        self.assertEqual(killed.returncode, -signal.SIGKILL)
        self.assertEqual((self.folder / "a").read_bytes(), b"old")
        self.assertEqual(list(self.folder.glob("*.pt")), [])

    def test_copy_replaces_its_target(self):
        (self.folder / "a").write_bytes(b"new")
        (self.folder / "b").write_bytes(b"old and longer")
        copy_atomically(self.folder / "a", self.folder / "b")
        self.assertEqual((self.folder / "b").read_bytes(), b"new")
        self.assertEqual(self.names(), ["a", "b"])


class CheckpointTest(FolderTestCase):
    def save(self, *rounds, keep=10):
        for round_index in rounds:
            save_checkpoint(self.folder / "checkpoints", round_index, {"value": round_index, **WHOLE}, keep)

    def damage(self, round_index, content=None):
        path = self.folder / "checkpoints" / f"checkpoint_{round_index:07d}.pt"
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2] if content is None else content)
        return path

    def test_everything_comes_back_bit_for_bit(self):  # C18
        generator = np.random.default_rng(0)
        generator.standard_normal(3)
        state = {
            "float32": np.array([0.1, -0.0, 3e-45, np.inf], np.float32),
            "float64": generator.standard_normal((2, 3)),
            "flags": np.array([True, False]),
            "integers": np.array([2**62, -1]),
            "scalars": [np.float64(0.1), np.float32(0.1), np.int64(7), np.bool_(True)],
            "generator": generator.bit_generator.state,  # integers of 128 bits
            "nested": {"deep": [{"empty": {}, "none": None, "text": "ö\0", "big": -(2**200)}, [1, 2.5, True, []]]},
            "tuples": {(1, "a"): ((), (1, [2.5, (None,)]))},
            "python": random.getstate(),
            "nan": float("nan"),
        }
        path = save_checkpoint(self.folder / "checkpoints", 3, state | WHOLE, 1)
        found, content, skipped = find_checkpoint(self.folder)
        self.assertEqual((found, skipped, content["round"]), (path, [], 3))
        for name in ("float32", "float64", "flags", "integers"):
            self.assertEqual(content[name].dtype, state[name].dtype)
            self.assertEqual(content[name].tobytes(), state[name].tobytes())
        self.assertEqual(content["scalars"], [0.1, float(np.float32(0.1)), 7, True])
        self.assertEqual([type(value) for value in content["scalars"]], [float, float, int, bool])
        for name in ("nested", "tuples", "python"):
            self.assertEqual(content[name], state[name])
        self.assertTrue(np.isnan(content["nan"]))
        expected = generator.standard_normal(5)
        restored = np.random.default_rng(1)
        restored.bit_generator.state = content["generator"]
        np.testing.assert_array_equal(restored.standard_normal(5), expected)

    def test_arrays_of_odd_layout_come_back_too(self):
        base = np.arange(24.0).reshape(4, 6)
        read_only = np.arange(3.0)
        read_only.setflags(write=False)
        state = {
            "strided": base[::2, ::3],
            "reversed": base[::-1],
            "fortran": np.asfortranarray(base),
            "fixed": read_only,
        }
        save_checkpoint(self.folder, 1, state | WHOLE, 1)
        content = find_checkpoint(self.folder)[1]
        for name, array in state.items():
            np.testing.assert_array_equal(content[name], array)
            self.assertTrue(content[name].flags.writeable)

    def test_only_the_latest_are_kept(self):
        self.save(1, 2, 3, 4, 5, keep=2)
        self.assertEqual(self.names(self.folder / "checkpoints"), ["checkpoint_0000004.pt", "checkpoint_0000005.pt"])

    def test_going_on_from_an_older_one_drops_what_the_run_has_not_reached_again(self):
        self.save(8, 9, 10)
        self.save(6, keep=3)
        found, content, _ = find_checkpoint(self.folder)
        self.assertEqual((found.name, content["value"]), ("checkpoint_0000006.pt", 6))

    def test_rounds_are_ordered_as_numbers(self):
        self.save(9_999_999, 10_000_000)
        self.assertEqual(find_checkpoint(self.folder)[1]["round"], 10_000_000)

    def test_newest_is_found_in_run_folder_checkpoints_folder_or_as_the_file_itself(self):
        self.save(1, 2)
        for place in (self.folder, self.folder / "checkpoints"):
            self.assertEqual(find_checkpoint(place)[1]["value"], 2)
        self.assertEqual(find_checkpoint(self.folder / "checkpoints" / "checkpoint_0000001.pt")[1]["value"], 1)

    def test_truncated_newest_is_skipped_and_named(self):  # O-57
        self.save(1, 2, 3)
        damaged = [self.damage(3), self.damage(2, b"")]
        found, content, skipped = find_checkpoint(self.folder)
        self.assertEqual((found.name, content["value"]), ("checkpoint_0000001.pt", 1))
        self.assertEqual(len(skipped), 2)
        for line, path in zip(skipped, damaged, strict=True):
            self.assertIn(str(path), line)
            self.assertEqual(len(line.splitlines()), 1)

    def test_damaged_ones_alone_are_all_named(self):
        self.save(1, 2)
        damaged = [self.damage(1), self.damage(2, b"no pickle")]
        with self.assertRaises(CheckpointError) as caught:
            find_checkpoint(self.folder)
        for path in damaged:
            self.assertIn(str(path), str(caught.exception))

    def test_file_that_was_asked_for_by_name_is_not_replaced_by_another(self):
        self.save(1, 2)
        with self.assertRaisesRegex(CheckpointError, "checkpoint_0000002"):
            find_checkpoint(self.damage(2))

    def test_folder_without_checkpoints_is_an_error(self):
        with self.assertRaisesRegex(CheckpointError, "no checkpoint"):
            find_checkpoint(self.folder)

    def test_other_files_are_no_checkpoints(self):
        self.save(1)
        others = ("checkpoint_0000009.pt.bak", "xcheckpoint_0000009.pt", "model.pt", ".checkpoint_0000009.pt.1.tmp")
        for name in others:
            (self.folder / "checkpoints" / name).write_bytes(b"")
        found, _, skipped = find_checkpoint(self.folder)
        self.assertEqual((found.name, skipped), ("checkpoint_0000001.pt", []))

    def test_file_of_another_kind_is_refused(self):
        for content in ({"round": 1}, {"format": 2, "round": 1}, [1, 2], torch.zeros(3)):
            torch.save(content, self.folder / "checkpoint_1.pt")
            with self.assertRaisesRegex(CheckpointError, "format"):
                find_checkpoint(self.folder)

    def test_one_flipped_bit_is_noticed(self):
        self.save(1, 2)
        path = self.folder / "checkpoints" / "checkpoint_0000002.pt"
        data = bytearray(path.read_bytes())
        data[data.index(WHOLE["ranks"][0]["learner"]["parameters"].tobytes()) + 3] ^= 0x40
        path.write_bytes(data)
        found, _, (skipped,) = find_checkpoint(self.folder)
        self.assertEqual(found.name, "checkpoint_0000001.pt")
        self.assertRegex(skipped, "checkpoint_0000002.pt: not a readable checkpoint .*checksum")

    def test_what_is_readable_but_not_whole_is_skipped_and_named(self):
        def learner(content):
            return content["ranks"][0]["learner"]

        spoil = {
            "lacks ranks": lambda content: content.pop("ranks"),
            "lacks network": lambda content: content.pop("network"),
            "lacks env_steps": lambda content: content.pop("env_steps"),
            "zzz": lambda content: content["network"].update(zzz=1),
            "no count": lambda content: content.update(round="six"),
            "ranks is empty": lambda content: content["ranks"].clear(),
            "rank lacks actors, learner": lambda content: content["ranks"][0].clear(),
            "learner lacks parameters": lambda content: learner(content).pop("parameters"),
            "actor lacks env": lambda content: content["ranks"][0]["actors"][0].pop("env"),
            "mean of obs_rms_state has shape": lambda content: content["obs_rms_state"].update(mean=torch.zeros(7)),
            "parameters of a learner has shape": lambda content: learner(content).update(parameters=torch.zeros(7)),
            "var of return_rms_state is not": lambda content: content["return_rms_state"]["var"].fill_(torch.nan),
            "count of obs_rms_state is not": lambda content: content["obs_rms_state"].update(count=torch.inf),
            "parameters of a learner is not": lambda content: learner(content)["parameters"][3].fill_(torch.inf),
        }
        self.save(1, 2)
        path = self.folder / "checkpoints" / "checkpoint_0000002.pt"
        for words, change in spoil.items():
            with self.subTest(words):
                self.save(2)
                content = torch.load(path, weights_only=True)
                change(content)
                torch.save(content, path)
                found, _, (skipped,) = find_checkpoint(self.folder)
                self.assertEqual(found.name, "checkpoint_0000001.pt")
                self.assertRegex(skipped, f"{path}: not a whole checkpoint .*{words}")

    def test_code_in_a_pickle_is_refused_and_not_run(self):  # O-58
        marker, path = self.folder / "marker", self.folder / "checkpoint_0000001.pt"
        torch.save({"format": 1, "round": 1, "payload": Payload(marker)}, path)
        for load in (find_checkpoint, load_model):
            with self.assertRaises(CheckpointError) as caught:
                load(path)
            self.assertIn(str(path), str(caught.exception))
            self.assertFalse(marker.exists())
        torch.load(path, weights_only=False)["payload"].close()
        self.assertTrue(marker.exists())  # it would have run

    def test_kill_between_write_and_rename_is_not_a_checkpoint(self):  # O-57
        self.save(1)
        path = self.folder / "checkpoints" / "checkpoint_0000002.pt"
        subprocess.run([sys.executable, "-c", KILLED_WHILE_WRITING, str(path)], cwd=ROOT, timeout=LIMIT_SECONDS)
        self.assertEqual(find_checkpoint(self.folder)[1]["round"], 1)

    def test_left_over_temporary_files_are_removed_with_the_next_checkpoint(self):  # O-57
        self.save(1)
        (self.folder / "checkpoints" / ".checkpoint_0000002.pt.12345.tmp").write_bytes(b"half of ")
        self.save(2)
        self.assertEqual(self.names(self.folder / "checkpoints"), ["checkpoint_0000001.pt", "checkpoint_0000002.pt"])


class ModelTest(FolderTestCase):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "model.pt"
        self.parameters = random_parameters(NETWORK)
        self.state = {"mean": np.array([0.1, 2.0, -3.0]), "var": np.array([1.0, 0.0, 1e-12]), "count": 7.0}

    def save(self, state):
        save_model(self.path, NETWORK, ENV, self.parameters, state, {"config": "smoke", "eval_return": 1.5})

    def test_file_loads_with_torch_s_safe_loader_into_plain_layers(self):  # C17, O-58
        self.save(self.state)
        content = torch.load(self.path, weights_only=True)
        self.assertLessEqual({"actor", "obs_rms_state", "spec"}, content.keys())
        actor = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
        log_std = content["log_std"]
        actor.load_state_dict(content["actor"])
        np.testing.assert_array_equal(log_std, self.parameters[NETWORK.log_std_slice])
        block = NETWORK.trunk("actor")[0].view(self.parameters)
        np.testing.assert_array_equal(actor[0].weight.detach(), block[:-1].T)
        np.testing.assert_array_equal(actor[0].bias.detach(), block[-1])
        np.testing.assert_array_equal(content["obs_rms_state"]["mean"], self.state["mean"])

    def test_spec_holds_plain_values_only(self):  # C17
        self.save(None)
        plain = [torch.load(self.path, weights_only=True)["spec"]]
        for value in plain:
            if isinstance(value, dict):
                plain += [*value.keys(), *value.values()]
            elif isinstance(value, (list, tuple)):
                plain += value
            else:
                self.assertIn(type(value), (str, int, float, bool, type(None)))
        self.assertGreater(len(plain), 10)

    def test_model_comes_back_bit_for_bit(self):
        self.save(self.state)
        network, env, parameters, state, spec = load_model(self.path)
        self.assertEqual(network, NETWORK)
        self.assertEqual({**vars(env), "action_low": ENV.action_low, "action_high": ENV.action_high}, vars(ENV))
        self.assertEqual((list(env.action_low), list(env.action_high)), ([-1.0, -2.0], [1.0, float("inf")]))
        self.assertEqual(parameters.tobytes(), self.parameters.tobytes())
        for name, value in self.state.items():
            np.testing.assert_array_equal(state[name], value)
        self.assertEqual((state["mean"].dtype, spec["config"], spec["eval_return"]), (np.float64, "smoke", 1.5))

    def test_loaded_environment_equals_the_one_that_was_saved(self):
        self.save(None)
        self.assertEqual(load_model(self.path)[1], ENV)

    def test_model_without_normaliser_has_none(self):
        self.save(None)
        self.assertIsNone(load_model(self.path)[3])

    def test_damaged_or_other_files_are_refused_and_named(self):
        self.save(self.state)
        data = self.path.read_bytes()
        checkpoint = save_checkpoint(self.folder, 1, {"value": 1}, 1)
        content = torch.load(self.path, weights_only=True)
        del content["spec"]["env"]
        torch.save(content, self.folder / "b.pt")
        (self.folder / "c.pt").write_bytes(data[: len(data) // 2])
        flipped = bytearray(data)
        flipped[data.index(self.parameters[NETWORK.log_std_slice].tobytes())] ^= 1
        (self.folder / "d.pt").write_bytes(flipped)
        for path in (checkpoint, *(self.folder / f"{name}.pt" for name in ("b", "c", "d", "absent"))):
            with self.assertRaises(CheckpointError) as caught:
                load_model(path)
            self.assertIn(str(path), str(caught.exception))

    def test_file_takes_no_more_room_than_its_numbers(self):
        self.save(self.state)
        self.assertLess(os.path.getsize(self.path), 20_000)


if __name__ == "__main__":
    unittest.main()
