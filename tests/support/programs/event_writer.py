"""Says that it is there, waits for a line, and writes 300 events of 3 kB as the rank that it is told."""

import sys
from pathlib import Path

from ddp_ppo.runs.events import EventLog

log = EventLog(Path(sys.argv[1]), int(sys.argv[2]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(300):
    log.write("test", number, what=sys.argv[2] * 3000)
log.close()
