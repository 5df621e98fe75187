"""The weights file: found, downloaded from a local server, and refused where it is not the published one."""

import contextlib
import hashlib
import http.server
import io
import json
import socket
import tempfile
import threading
import unittest
import unittest.mock
import zipfile
from pathlib import Path

import numpy as np

from ddp_ppo.__main__ import main
from ddp_ppo.config.settings import ConfigError
from ddp_ppo.learners.disco.weights import (
    ENVIRON_NAME,
    FILE_NAME,
    SHA256,
    SHAPES,
    cache_path,
    download_weights,
    find_weights,
    load_weights,
)
from tests.support.disco_golden import DATA, WEIGHTS, needs_data

CONTENT = b"what the server has" * 1000
CONTENT_SHA256 = hashlib.sha256(CONTENT).hexdigest()


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddp_ppo_test_")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class FindTest(FolderTest):
    def file(self, *parts):
        path = self.folder.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path

    def test_named_file_comes_first_then_the_environment_then_the_cache(self):
        named, given = self.file("named.npz"), self.file("given.npz")
        cached = self.file("cache", "ddp_ppo", FILE_NAME)
        environ = {"XDG_CACHE_HOME": str(self.folder / "cache"), ENVIRON_NAME: str(given)}
        self.assertEqual(find_weights(str(named), environ), named)
        self.assertEqual(find_weights(None, environ), given)
        del environ[ENVIRON_NAME]
        self.assertEqual(find_weights(None, environ), cached)
        self.assertEqual(cache_path({}), Path.home() / ".cache" / "ddp_ppo" / FILE_NAME)

    def test_named_file_that_is_missing_is_not_replaced_by_another(self):
        environ = {ENVIRON_NAME: str(self.file("given.npz"))}
        with self.assertRaisesRegex(ConfigError, "missing.npz: no such file"):
            find_weights("missing.npz", environ)

    def test_without_weights_it_says_how_to_get_them(self):
        with self.assertRaises(ConfigError) as caught:
            find_weights(None, {"XDG_CACHE_HOME": str(self.folder)})
        for word in ("disco-weights", ENVIRON_NAME, "https://", str(self.folder)):
            self.assertIn(word, str(caught.exception))


class ShapesTest(unittest.TestCase):
    def test_numbers_as_published(self):
        self.assertEqual(len(SHAPES), 42)
        self.assertEqual(sum(int(np.prod(shape)) for shape in SHAPES.values()), 754_778)

    @needs_data
    def test_names_and_shapes_are_those_of_the_manifest(self):  # C31
        manifest = json.loads((DATA / "golden" / "weights_manifest.json").read_text())
        self.assertEqual(manifest.pop("_file_sha256"), SHA256)
        self.assertEqual({name: tuple(entry["shape"]) for name, entry in manifest.items()}, SHAPES)


class LoadTest(FolderTest):
    @needs_data
    def test_all_arrays_arrive(self):  # C31
        arrays = load_weights(WEIGHTS)
        self.assertEqual({name: array.shape for name, array in arrays.items()}, SHAPES)
        manifest = json.loads((DATA / "golden" / "weights_manifest.json").read_text())
        for name, array in arrays.items():
            self.assertEqual(array.dtype, np.float32)
            self.assertAlmostEqual(float(array.sum(dtype=np.float64)), manifest[name]["sum"], 6)
            self.assertAlmostEqual(float(np.abs(array).sum(dtype=np.float64)), manifest[name]["abs_sum"], 6)

    def refusal(self, content):
        path = self.folder / "wrong.npz"
        path.write_bytes(content)
        with self.assertRaises(ConfigError) as caught:
            load_weights(path)
        self.assertIn(str(path), str(caught.exception))
        return str(caught.exception)

    def npz(self, **changes):
        """An npz file of zeros with some arrays changed; None takes one away."""
        arrays = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()} | changes
        memory = io.BytesIO()
        np.savez(memory, **{name: array for name, array in arrays.items() if array is not None})
        return memory.getvalue()

    def test_every_difference_is_named(self):
        text = self.refusal(
            self.npz(
                **{
                    "lstm/linear/w": None,
                    "lstm/linear_4/w": np.zeros((128, 1), np.float32),
                    "lstm/linear_1/b": np.zeros(1),
                    "lstm/linear_9/b": np.zeros(3, np.float32),
                }
            )
        )
        self.assertIn("lstm/linear/w (128, 256) is missing", text)
        self.assertIn("lstm/linear_4/w is float32 (128, 1), not float32 (16, 1)", text)
        self.assertIn("lstm/linear_1/b is float64 (1,), not float32 (1,)", text)
        self.assertIn("lstm/linear_9/b (3,) is unknown", text)

    def test_other_numbers_are_refused_by_their_sha256(self):
        content = self.npz()
        text = self.refusal(content)
        self.assertIn(hashlib.sha256(content).hexdigest(), text)
        self.assertIn(SHA256, text)

    def test_what_is_no_npz_file_is_refused(self):
        for content in (b"", b"<html>not found</html>", self.npz()[:5000]):
            with self.subTest(content=content[:20]):
                text = self.refusal(content)
                self.assertIn(f"not an npz file of arrays: {len(content):,} bytes with sha256", text)
                self.assertIn("`ddp-ppo disco-weights` downloads it", text)
                self.assertNotIn("pickle", text)
        memory = io.BytesIO()
        np.save(memory, np.zeros(3))
        self.assertIn("not an npz file of arrays", self.refusal(memory.getvalue()))

    def test_a_zip_of_other_files_is_refused(self):
        memory = io.BytesIO()
        with zipfile.ZipFile(memory, "w") as file:
            file.writestr("readme.txt", "hello")
        self.assertIn("readme.txt is not an array", self.refusal(memory.getvalue()))

    def test_nothing_is_unpickled(self):
        text = self.refusal(self.npz(**{"lstm/linear/w": np.array([{"a": 1}], object)}))
        self.assertIn("not an npz file of arrays", text)

    def test_missing_file_is_named(self):
        with self.assertRaisesRegex(ConfigError, "nothing.npz: cannot be read"):
            load_weights(self.folder / "nothing.npz")


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT at /right, half of it at /half, a chunk that ends early at /chunk, other bytes at /wrong."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.close_connection = True
        if self.path == "/chunk":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"ff\r\nhalf a chunk")
            return
        if self.path == "/garbage":
            self.wfile.write(b"no status line\r\n\r\n")
            return
        body = {"/right": CONTENT, "/half": CONTENT[: len(CONTENT) // 2], "/wrong": b"other"}.get(self.path)
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(CONTENT if self.path == "/half" else body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *args):
        """Is quiet."""


class DownloadTest(FolderTest):
    @classmethod
    def setUpClass(cls):
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        cls.thread = threading.Thread(target=cls.server.serve_forever)
        cls.thread.start()
        cls.address = f"http://127.0.0.1:{cls.server.server_port}"

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.thread.join(timeout=30)
        cls.server.server_close()

    def setUp(self):
        super().setUp()
        self.target = self.folder / "cache" / "ddp_ppo" / FILE_NAME

    def download(self, url):
        download_weights(self.target, url=url, sha256=CONTENT_SHA256, timeout_seconds=30)

    def test_file_arrives(self):
        self.download(f"{self.address}/right")
        self.assertEqual(self.target.read_bytes(), CONTENT)
        self.assertEqual([*self.target.parent.iterdir()], [self.target])

    def test_what_was_there_is_replaced(self):
        self.target.parent.mkdir(parents=True)
        self.target.write_bytes(b"damaged")
        self.download(f"{self.address}/right")
        self.assertEqual(self.target.read_bytes(), CONTENT)

    def test_wrong_or_half_file_is_refused_and_not_kept(self):
        early, foreign = r"could not be downloaded \(IncompleteRead", "could not be downloaded"
        for path, words in {"wrong": CONTENT_SHA256, "half": early, "chunk": early, "garbage": foreign}.items():
            with self.subTest(path), self.assertRaisesRegex(ConfigError, words):
                self.download(f"{self.address}/{path}")
            self.assertFalse(self.target.exists())

    def test_missing_file_and_missing_server_are_named(self):
        with self.assertRaisesRegex(ConfigError, "/nothing: could not be downloaded.*404"):
            self.download(f"{self.address}/nothing")
        closed = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        closed.server_close()
        with self.assertRaisesRegex(ConfigError, "could not be downloaded"):
            self.download(f"http://127.0.0.1:{closed.server_port}/right")

    def test_command_without_a_connection_ends_with_one_line(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            proxy = f"http://127.0.0.1:{server.getsockname()[1]}"  # where nobody listens from now on
        out, err = io.StringIO(), io.StringIO()
        with (
            unittest.mock.patch.dict("os.environ", {"https_proxy": proxy}),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = main(["disco-weights", "--out", str(self.folder / "w.npz")])
        self.assertEqual((code, out.getvalue(), list(self.folder.iterdir())), (2, "", []))
        self.assertRegex(err.getvalue(), r"\Addp-ppo: https://.*: could not be downloaded .*\n\Z")

    def test_target_that_cannot_be_written_is_named(self):
        self.target = self.folder / "file" / FILE_NAME
        self.target.parent.touch()
        with self.assertRaisesRegex(ConfigError, "cannot be written"):
            self.download(f"{self.address}/right")


if __name__ == "__main__":
    unittest.main()
