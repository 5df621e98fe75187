"""Calls `train` again and again, in one of two ways, and says what ends that: `interrupted.py loop|slow NAME`."""

import sys
import time

import ddp_ppo


def speak(row):
    """Says which round is done; "slow" takes long then."""
    print(f"round {row['round']:.0f}", flush=True)
    if row["round"] == 2 and sys.argv[1] == "slow":
        time.sleep(60)


if __name__ == "__main__":
    settings = {"num_actors": 1, "envs_per_actor": 2, "rollout_length": 16, "eval_interval": 0, "eval_episodes": 1}
    try:
        for _ in range(3):
            print("run begins", flush=True)
            ddp_ppo.train("CartPole-v1", on_round=speak, run_name=sys.argv[2], **settings)
    except KeyboardInterrupt as error:
        print("KeyboardInterrupt:", error, flush=True)
    print("the program goes on", flush=True)
