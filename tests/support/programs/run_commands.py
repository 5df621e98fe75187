"""Runs commands of ddp-ppo in one process, a JSON list of lists of words; an exit status other than 0 ends it."""

import glob
import json
import sys

from ddp_ppo.__main__ import main

if __name__ == "__main__":
    for words in json.loads(sys.argv[1]):
        print("$", *words, flush=True)
        found = [match for word in words for match in (sorted(glob.glob(word)) or [word])]
        if status := main(found):
            sys.exit(f"status {status}: {' '.join(found)}")
