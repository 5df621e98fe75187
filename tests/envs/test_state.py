"""Saved states of Gymnasium's environments: they go on to the last bit, and what would not come back is refused."""

import collections
import enum
import random
import tempfile
import unittest
from pathlib import Path

import numpy as np

from ddp_ppo.envs.build import EnvError, make_batch_env
from ddp_ppo.envs.state import require_plain
from ddp_ppo.runs.files import load_plain, save_plain
from tests.support.script_env import discrete


class StateTest(unittest.TestCase):
    def assert_continues_exactly(self, env_id, *, num_envs=3, num_steps=220, warm_up=37, **arguments):
        original = make_batch_env(env_id, num_envs, backend="gymnasium", **arguments)
        restored = make_batch_env(env_id, num_envs, backend="gymnasium", **arguments)
        rng = np.random.default_rng(5)
        spec = original.spec

        def action():
            if spec.action_kind == "discrete":
                return rng.integers(0, spec.action_size, num_envs)
            return rng.uniform(spec.action_low, spec.action_high, (num_envs, spec.action_size)).astype(np.float32)

        original.reset(range(num_envs))
        for _ in range(warm_up):
            original.step(action())
        state = original.save()
        np.testing.assert_array_equal(restored.restore(state), original._result.obs)
        num_ends = 0
        for _ in range(num_steps):
            same = action()
            one, other = original.step(same), restored.step(same)
            for field in ("obs", "reward", "terminated", "truncated"):
                np.testing.assert_array_equal(getattr(one, field), getattr(other, field), field)
            ended = one.terminated | one.truncated
            np.testing.assert_array_equal(one.final_obs[ended], other.final_obs[ended])
            num_ends += ended.sum()
        self.assertGreater(num_ends, num_envs, "the comparison has to go through several resets")

    def test_classic_control_continues_exactly(self):
        for env_id in ("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0"):
            with self.subTest(env_id):
                self.assert_continues_exactly(env_id, max_episode_steps=60)

    def test_gymnasiums_mujoco_environments_continue_exactly(self):
        for env_id in ("Hopper-v5", "Ant-v5", "Humanoid-v5", "Pusher-v5", "Reacher-v5", "Ant-v4", "HumanoidStandup-v5"):
            with self.subTest(env_id):
                self.assert_continues_exactly(env_id, num_envs=1, max_episode_steps=60)

    def test_an_environment_may_offer_its_state_itself(self):
        self.assert_continues_exactly("envs/Checkpointed-v0")

    def test_a_saved_state_does_not_change_with_the_environment(self):
        env = make_batch_env("Acrobot-v1", 1)
        env.reset([0])
        state = env.save()
        before = state["envs"][0]["env"]["state"].copy()
        for _ in range(2):
            env.restore(state)
            env.step(discrete(2))
        np.testing.assert_array_equal(state["envs"][0]["env"]["state"], before)

    def test_unknown_environments_and_wrappers_cannot_be_saved(self):
        for env_id in ("envs/Script-v0", "envs/WrappedCartPole-v0", "FrozenLake-v1"):
            env = make_batch_env(env_id, 1)
            env.reset([0])
            self.assertIsNone(env.save(), env_id)

    def test_only_plain_values_are_saved(self):
        env = make_batch_env("envs/Checkpointed-v0", 1, env_kwargs={"extra": [1, {"who": {2, 3}}]})
        env.reset([0])
        with self.assertRaisesRegex(EnvError, r"CheckpointedEnv.get_state\(\)\['extra'\]\[1\]\['who'\] is a set"):
            env.save()

    def test_what_a_checkpoint_would_not_give_back_as_it_was_is_not_saved(self):
        class Phase(enum.IntEnum):
            WALK = 1

        Pair = collections.namedtuple("Pair", "a b")
        dtypes = ("object", "U3", "S3", "longdouble", "clongdouble", "datetime64[D]", ">f8", "i4,f8")
        odd = [Phase.WALK, Pair(1, 2), collections.OrderedDict(), {Phase.WALK: 1}, {np.str_("a"): 1}, np.float32(0.1)]
        odd += [2**2100, np.ma.zeros(2), b"", 1j, *(np.zeros(2, dtype) for dtype in dtypes)]
        for value in odd:
            with self.subTest(repr(value)), self.assertRaisesRegex(EnvError, "here.*can be saved"):
                require_plain({"a": [value]}, "here")

    def test_what_is_saved_comes_back_as_it_was(self):
        arrays = {dtype: np.ones(2, dtype) for dtype in "?bBhHiIlLqefdFD"}
        state = {"random": random.getstate(), (1, 2): -(2**2000 - 1), "text": "\udcff", "none": None, "arrays": arrays}
        require_plain(state | {"numpy": [np.float64(1), np.int64(1), np.bool_(1)]}, "here")
        with tempfile.TemporaryDirectory() as folder:
            save_plain(Path(folder) / "a.pt", state)
            found = load_plain(Path(folder) / "a.pt")
        for dtype, array in found.pop("arrays").items():
            self.assertEqual((array.dtype, array.tolist()), (np.dtype(dtype), np.ones(2, dtype).tolist()))
        del state["arrays"]
        self.assertEqual(found, state)


if __name__ == "__main__":
    unittest.main()
