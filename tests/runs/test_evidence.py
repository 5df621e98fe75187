"""What is kept of a rollout with a value that is not finite drives its environments to the same place again."""

import unittest

import gymnasium
import numpy as np
import torch

from ddp_ppo.envs.build import make_batch_env
from ddp_ppo.runs.evidence import NUM_KEPT, replay_evidence, save_evidence
from ddp_ppo.runs.files import CheckpointError, save_plain
from tests.support.files import OwnFolderTestCase
from tests.support.fixtures import Count, column


class Cracked(Count):
    """`Count` that observes NaN in the step that is its `length`, and two actions up to 1."""

    def __init__(self, length=7) -> None:
        super().__init__()
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
        self.breaks_at = length

    def step(self, action):
        obs, reward, *more = super().step(action)
        return column(np.nan if self.t == self.breaks_at else obs[0]), reward, *more


gymnasium.register("Cracked-v0", entry_point=f"{__name__}:Cracked")


class EvidenceTest(OwnFolderTestCase):
    def saved(self, *, num_before=3, num_steps=6, has_state=True, **env_kwargs):
        """Evidence of two environments that had taken some steps before the rollout."""
        arguments = {"env_id": f"{__name__}:Cracked-v0", "env_kwargs": env_kwargs}
        env = make_batch_env(num_envs=2, **arguments)
        self.addCleanup(env.close)
        env.reset([1, 2])
        for _ in range(num_before):
            env.step(np.zeros((2, 2), np.float32))
        state = env.save() if has_state else None
        slices = {
            "act": np.full((num_steps, 2, 2), 3.0, np.float32),  # beyond the bounds, as the policy drew it
            "reward": np.arange(2.0 * num_steps).reshape(num_steps, 2),
        }
        where = {"stage": "observation", "env": 1, "step": num_steps - 2, "column": 0, "value": "nan", "name": ""}
        path = self.folder / "evidence.pt"
        save_evidence(path, env=env.spec, env_arguments=arguments, state={"env": state}, slices=slices, where=where)
        return path

    def test_it_ends_in_the_same_value_in_the_same_step(self):
        lines = replay_evidence(self.saved()).splitlines()  # the 7th step is the 4th of the rollout
        self.assertEqual(lines[0], "recorded: observation of environment 1 is nan in step 4")
        self.assertEqual(lines[1], "replayed: step 4: reward 1.0, observation not finite in columns [0]")

    def test_what_does_not_come_again_is_said(self):
        line = replay_evidence(self.saved(length=1000)).splitlines()[1]
        self.assertEqual(line, "replayed: 4 steps, every observation and reward is finite")

    def test_actions_end_with_the_bad_step_and_are_what_the_environment_got(self):
        content = torch.load(self.saved(), weights_only=True)
        self.assertEqual(content["actions"].shape, (4, 2, 2))
        self.assertTrue((content["actions"] == 1.0).all())

    def test_the_last_rows_of_the_environment_are_in_plain_sight(self):
        content = torch.load(self.saved(num_steps=100), weights_only=True)
        rows = content["last_reward"]
        self.assertEqual(len(rows), NUM_KEPT + 1)
        self.assertEqual(rows[-1].item(), 98 * 2.0 + 1.0)  # of environment 1 in the row behind the bad step

    def test_an_environment_without_a_state_leaves_its_arrays_alone(self):
        with self.assertRaisesRegex(CheckpointError, r"cannot be set to a saved state; the file's last_\* arrays"):
            replay_evidence(self.saved(has_state=False))

    def test_another_file_is_refused(self):
        save_plain(self.folder / "other.pt", {"evidence": 2})
        with self.assertRaisesRegex(CheckpointError, "other.pt: not a file of evidence"):
            replay_evidence(self.folder / "other.pt")


if __name__ == "__main__":
    unittest.main()
