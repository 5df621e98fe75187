"""Trains in threads and in the main one, and says what each call has left behind: `in_a_thread.py CONFIG.yaml`."""

import os
import signal
import sys
import threading

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM)


def main() -> None:
    """Prints a line for each call: its rounds, and which part of the process is not as it was."""
    import numpy as np
    import torch

    from ddp_ppo.config.load import load_config
    from ddp_ppo.runs.console import Console
    from ddp_ppo.training.trainer import train

    def state() -> dict[str, object]:
        """All that a caller may rely on to stay."""
        return {
            "handlers": [signal.getsignal(number) for number in SIGNALS],
            "wakeup": _wakeup(),
            "threads of torch": torch.get_num_threads(),
            "random numbers of torch": torch.random.get_rng_state().tolist(),
            "random numbers of NumPy": str(np.random.get_state()),
            "errors of NumPy": np.geterr(),
            "threads": threading.active_count(),
            "descriptors": sorted(os.listdir("/proc/self/fd")),
        }

    def trial() -> None:
        result = train(load_config(sys.argv[1]), console=Console.silent(), on_round=lambda row: row["round"] < 2)
        rounds.append(len(result.metrics["round"]))

    torch.set_num_threads(3)
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    rounds: list[int] = []
    trial()  # what Python itself starts once and keeps, such as its resource tracker, is there from now on
    for where in ("thread", "main", "thread", "main"):
        before, is_main = state(), where == "main"
        if is_main:
            trial()
        else:
            thread = threading.Thread(target=trial)
            thread.start()
            thread.join()
        after = state()
        changed = [name for name in before if before[name] != after[name]]
        print(f"{where}: {rounds[-1]} rounds, changed: {changed}", flush=True)


def _wakeup() -> int:
    """The descriptor that Python writes signals to."""
    found = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(found)
    return found


if __name__ == "__main__":
    main()
