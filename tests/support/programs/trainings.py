"""Trains from a program: twice as planned, once with a console that fails, once with files that fail."""

import io
import os

from ddp_ppo.config.settings import Config
from ddp_ppo.runs.console import Console
from ddp_ppo.training.trainer import train


class Odd(io.StringIO):
    """A stream that cannot take the line of the third round."""

    def write(self, text):
        if "round 3/" in text:
            raise RuntimeError("odd")
        return super().write(text)


class Blocking(io.StringIO):
    """Puts a folder where the best model would be written, from the line of the first round to that of the second."""

    def write(self, text):
        path = f"output/config-blocked/.model_best.pt.{os.getpid()}.tmp"
        if "round 1/" in text:
            os.mkdir(path)
        if "round 2/" in text:
            os.rmdir(path)
        return super().write(text)


def train_twice():
    """One configuration after another, with nothing said."""
    sizes = {"total_env_steps": 64, "rollout_length": 16, "envs_per_actor": 2, "minibatch_size": 64}
    for seed in (1, 2):
        config = Config(env_id="CartPole-v1", seed=seed, eval_episodes=2, **sizes)
        result = train(config, console=Console.silent())
        print(result.rounds, result.env_steps, result.folder, result.best_return)


def train_oddly():
    """An error that nobody has foreseen."""
    sizes = {"total_env_steps": 1024, "rollout_length": 8, "eval_interval": 0}
    try:
        train(Config(env_id="CartPole-v1", run_name="odd", **sizes), console=Console(Odd()))
    except RuntimeError as error:
        print(error)


def train_blocked():
    """The best model cannot be written in the second round, and the first evaluation meets a NaN."""
    kwargs = {"how": "nan_reward", "at": 3, "number": 2, "length": 5}  # the first one that is evaluated
    sizes = {"total_env_steps": 128, "rollout_length": 8, "envs_per_actor": 2, "minibatch_size": 32, "eval_interval": 1}
    env_id = "tests.support.fixtures:Misbehaving-v0"
    stream = Blocking()
    train(Config(env_id=env_id, env_kwargs=kwargs, run_name="blocked", **sizes), console=Console(stream))
    print(stream.getvalue(), end="")


if __name__ == "__main__":
    train_twice()
    train_oddly()
    train_blocked()
