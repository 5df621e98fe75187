"""events.jsonl, written by several ranks at once."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from ddp_ppo.runs.events import EventLog
from tests.support.process import PROGRAMS, ROOT


class EventLogTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.path = Path(temporary.name) / "events.jsonl"

    def events(self):
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def test_an_event_is_on_disk_at_once_with_rank_and_round(self):
        log = EventLog(self.path, 3)
        self.addCleanup(log.close)
        log.write("non_finite", 5, what="ö\n")
        (event,) = self.events()
        self.assertRegex(event.pop("time"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}$")
        self.assertEqual(event, {"rank": 3, "round": 5, "event": "non_finite", "what": "ö\n"})

    def test_a_later_run_goes_on_in_the_same_file(self):
        for number in range(2):
            log = EventLog(self.path, 0)
            log.write("test", number)
            log.close()
        self.assertEqual([event["round"] for event in self.events()], [0, 1])

    def test_lines_of_ranks_that_write_at_once_do_not_mix(self):
        words = (sys.executable, PROGRAMS / "event_writer.py", self.path)
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": {"PYTHONPATH": str(ROOT)}}
        writers = [subprocess.Popen([*words, str(rank)], **options) for rank in range(3)]
        for writer in writers:
            self.addCleanup(writer.kill)
            self.assertEqual(writer.stdout.readline(), "ready\n")
        for writer in writers:
            writer.stdin.write("go\n")
            writer.stdin.flush()
        for writer in writers:
            writer.communicate(timeout=60)
        events = self.events()
        self.assertEqual(len(events), 900)
        for event in events:
            self.assertEqual(event["what"], str(event["rank"]) * 3000)


if __name__ == "__main__":
    unittest.main()
