"""A module that changes the state of its process when it is imported, if SPOILING says so, and registers a task."""

import os
import signal
import warnings

import numpy as np

from tests.support import fixtures  # noqa: F401 - it registers Echo-v0

if os.environ.get("SPOILING"):
    import torch

    np.seterr(all="raise")
    warnings.simplefilter("error")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
