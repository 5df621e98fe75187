"""A peer of `compare --against`: leaves each run as it is, as a run of the learner "peer"."""

import json
import shutil
import sys
from pathlib import Path

*folders, _, result = sys.argv[1:]
left = []
for folder in map(Path, folders):
    if not folder.is_dir():
        sys.exit(2)
    target = folder.with_name(f"{folder.name}-peer")
    shutil.copytree(folder, target, dirs_exist_ok=True)
    settings = target / "config.yaml"
    settings.write_text(settings.read_text().replace('learner: "ppo"', 'learner: "peer"'))
    left.append(str(target))
Path(result).write_text(json.dumps(left))
