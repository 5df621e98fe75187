"""Is killed when half of the file that it was told to write atomically is written."""

import os
import signal
import sys
from pathlib import Path

from ddp_ppo.runs.files import write_atomically


def write(file):
    """Writes a part and dies."""
    file.write(b"half of ")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)


write_atomically(Path(sys.argv[1]), write)
