"""Files: complete or not there, bit for bit what was saved, and nothing that they hold is run."""

import random
import signal
import subprocess
import sys
import unittest

import numpy as np
import torch

from ddp_ppo.runs.files import CheckpointError, copy_atomically, load_plain, save_plain, write_atomically
from tests.support.files import OwnFolderTestCase, Payload
from tests.support.process import LIMIT_SECONDS, PROGRAMS, ROOT


class WriteTest(OwnFolderTestCase):
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
        command = [sys.executable, PROGRAMS / "killed_while_writing.py", self.folder / "a"]
        killed = subprocess.run(command, env={"PYTHONPATH": str(ROOT)}, timeout=LIMIT_SECONDS)
        self.assertEqual(killed.returncode, -signal.SIGKILL)
        self.assertEqual((self.folder / "a").read_bytes(), b"old")
        self.assertEqual(len(self.names()), 2)  # the half lies next to it, under a name that nobody looks for

    def test_copy_replaces_its_target(self):
        (self.folder / "a").write_bytes(b"new")
        (self.folder / "b").write_bytes(b"old and longer")
        copy_atomically(self.folder / "a", self.folder / "b")
        self.assertEqual((self.folder / "b").read_bytes(), b"new")
        self.assertEqual(self.names(), ["a", "b"])


class PlainTest(OwnFolderTestCase):
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
        save_plain(self.folder / "a.pt", state)
        content = load_plain(self.folder / "a.pt")
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
        save_plain(self.folder / "a.pt", state)
        content = load_plain(self.folder / "a.pt")
        for name, array in state.items():
            np.testing.assert_array_equal(content[name], array)
            self.assertTrue(content[name].flags.writeable)

    def test_what_cannot_be_read_is_named_in_one_line(self):
        save_plain(self.folder / "whole.pt", {"a": np.arange(1000.0)})
        data = (self.folder / "whole.pt").read_bytes()
        flipped = bytearray(data)
        flipped[data.index(np.array(999.0).tobytes())] ^= 1
        contents = {"cut.pt": data[:500], "flipped.pt": bytes(flipped), "text.pt": b"no file of ours"}
        for name, content in contents.items():
            (self.folder / name).write_bytes(content)
        torch.save({"payload": Payload(self.folder / "marker")}, self.folder / "code.pt")
        for name in (*contents, "code.pt", "absent.pt"):
            with self.subTest(name), self.assertRaises(CheckpointError) as caught:
                load_plain(self.folder / name, "recipe")
            self.assertRegex(str(caught.exception), rf"\A{self.folder / name}: not a readable recipe \([^\n]+\)\Z")
        self.assertNotIn("marker", self.names())


if __name__ == "__main__":
    unittest.main()
