"""Where the tests find the Unitree Go1: in the wheel of mjlab, whose files DDP_PPO_MJLAB names, or nowhere."""

import os
import zipfile
from pathlib import Path

_INSIDE = "mjlab/asset_zoo/robots/unitree_go1/xmls"
WHERE = "DDP_PPO_MJLAB"
OWN_ROBOT = ["env_kwargs={}"]  # words after go1.yaml that take the project's robot, which nobody has to download
MISSING = f"no Unitree Go1: pip download --no-deps mjlab, and name the wheel in {WHERE}"


def go1_path(folder: Path) -> Path | None:
    """The robot's MJCF, unpacked into a folder; None if there is no wheel."""
    wheel = Path(os.environ.get(WHERE, ""))
    if not wheel.is_file():
        return None
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(_INSIDE)])
    return folder / _INSIDE / "go1.xml"
