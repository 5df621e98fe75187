"""A learner with one child: each line that it reads names a function of `siblings`, whose answer it prints."""

import json
import subprocess
import sys

from ddp_ppo.processes import siblings

actor = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
print("ready", flush=True)
for line in sys.stdin:
    print(json.dumps(getattr(siblings, line.strip())()), flush=True)
