"""Checkpoints: complete or not there, the newest complete one is found, and what one lacks is named."""

import subprocess
import sys
import unittest

import torch

from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.runs.checkpoint import checkpoints_after, find_checkpoint, network_of, save_checkpoint
from ddp_ppo.runs.files import CheckpointError
from tests.support.files import OwnFolderTestCase, Payload
from tests.support.fixtures import whole_checkpoint
from tests.support.process import LIMIT_SECONDS, PROGRAMS, ROOT

ENV = EnvSpec("A-v0", 3, "box", 2, (-1.0, -2.0), (1.0, float("inf")), 0, 200, "gymnasium")
NETWORK = NetworkSpec.for_env(ENV, (4,), "tanh")
WHOLE = whole_checkpoint(NETWORK, ENV)


class CheckpointTest(OwnFolderTestCase):
    def save(self, *rounds, keep=10):
        for round_index in rounds:
            save_checkpoint(self.folder / "checkpoints", round_index, {"value": round_index, **WHOLE}, keep)

    def damage(self, round_index, content=None):
        path = self.folder / "checkpoints" / f"checkpoint_{round_index:07d}.pt"
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2] if content is None else content)
        return path

    def test_only_the_latest_are_kept(self):
        self.save(1, 2, 3, 4, 5, keep=2)
        self.assertEqual(self.names(self.folder / "checkpoints"), ["checkpoint_0000004.pt", "checkpoint_0000005.pt"])

    def test_later_ones_are_found_and_never_removed(self):
        self.save(4, 5, 8, 9)
        self.save(6, keep=2)
        folder = self.folder / "checkpoints"
        self.assertEqual(self.names(folder), [f"checkpoint_000000{number}.pt" for number in (5, 6, 8, 9)])
        self.assertEqual([path.stem[-1] for path in checkpoints_after(folder, 6)], ["9", "8"])

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
            "is not a count": lambda content: content.update(round="six"),
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
        with self.assertRaisesRegex(CheckpointError, str(path)):
            find_checkpoint(path)
        self.assertFalse(marker.exists())
        torch.load(path, weights_only=False)["payload"].close()
        self.assertTrue(marker.exists())  # it would have run

    def test_kill_between_write_and_rename_is_not_a_checkpoint(self):  # O-57
        self.save(1)
        path = self.folder / "checkpoints" / "checkpoint_0000002.pt"
        command = [sys.executable, PROGRAMS / "killed_while_writing.py", path]
        subprocess.run(command, env={"PYTHONPATH": str(ROOT)}, timeout=LIMIT_SECONDS)
        self.assertEqual(find_checkpoint(self.folder)[1]["round"], 1)

    def test_left_over_temporary_files_are_removed_with_the_next_checkpoint(self):  # O-57
        self.save(1)
        (self.folder / "checkpoints" / ".checkpoint_0000002.pt.12345.tmp").write_bytes(b"half of ")
        self.save(2)
        self.assertEqual(self.names(self.folder / "checkpoints"), ["checkpoint_0000001.pt", "checkpoint_0000002.pt"])


class NetworkTest(unittest.TestCase):
    def test_images_of_earlier_versions_keep_their_layout(self):  # N-08
        fields = {"obs_size": 980, "head": "categorical", "action_size": 2, "hidden_sizes": [6], "activation": "relu"}
        fields |= {"conv_channels": [4], "obs_scale": 1.0}
        for image, layout in {(7, 7, 20): "channels_first", (20, 7, 7): "channels_last"}.items():
            network = network_of({"network": fields | {"image": [*image]}})  # they took the smaller end for channels
            self.assertEqual(network.image_layout, layout)
        kept = network_of({"network": fields | {"image": [7, 7, 20], "image_layout": "channels_last"}})
        self.assertEqual(kept.image_layout, "channels_last")


if __name__ == "__main__":
    unittest.main()
