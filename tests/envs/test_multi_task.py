"""Several tasks as one batch: whose turn an environment is, what each task reports, and what is refused."""

import unittest
from contextlib import closing
from dataclasses import replace

import gymnasium
import numpy as np

from ddp_ppo.config.settings import Config
from ddp_ppo.envs.build import EnvError, describe_env, make_batch_env
from ddp_ppo.envs.inspection import names_of
from ddp_ppo.envs.multi_task import mixed_spec
from ddp_ppo.protocols import Rows
from ddp_ppo.runs.model import load_model, with_tasks
from ddp_ppo.training.plan import prepare
from tests.support.fixtures import Count
from tests.support.mujoco_tasks import BACKENDS
from tests.support.process import TINY, FolderTestCase, Program, read_csv, succeeded, without_times
from tests.support.results import differences, last_checkpoint

# `Count` counts its steps and gives 1 for each: the first ends an episode after 7 of them, the second after 5.
PAIR = LONG, SHORT = "tests.support.fixtures:Count-v0", "tests.support.fixtures:Limited-v0"


class Fails(Count):
    """`Count` that fails in its first step after a reset with seed 13."""

    def reset(self, *, seed=None, options=None):
        self.given = seed
        return super().reset(seed=seed)

    def step(self, action):
        if self.given == 13:
            raise ValueError("bad luck")
        return super().step(action)


gymnasium.register("mixed/Fails-v0", Fails)


def pair(num_envs, **arguments):
    """Environments of both tasks."""
    return closing(make_batch_env(PAIR, num_envs, env_kwargs={"length": 7}, **arguments))


def rows(num_steps, num_envs):
    """Where so many steps go."""
    return Rows(
        obs=np.zeros((num_steps + 1, num_envs, 1), np.float32),
        act=np.zeros((num_steps, num_envs), np.int64),
        reward=np.zeros((num_steps, num_envs)),
        terminated=np.zeros((num_steps, num_envs), np.bool_),
        truncated=np.zeros((num_steps, num_envs), np.bool_),
        final_obs=np.zeros((num_steps, num_envs, 1), np.float32),
        progress=np.zeros(1, np.int64),
    )


def still(step, obs, act):
    return act


class BatchTest(unittest.TestCase):
    def steps_to_the_first_end(self, num_envs, first_index):
        with pair(num_envs, first_index=first_index) as env:
            env.reset(range(num_envs))
            steps = np.zeros(num_envs, np.int64)
            for step in range(1, 8):
                result = env.step(np.zeros(num_envs, np.int64))
                ended = result.terminated | result.truncated
                steps[ended & (steps == 0)] = step
        return steps.tolist()

    def test_tasks_take_turns_over_the_environments_of_a_learner(self):
        for first_index, num_envs, expected in (
            (0, 5, [7, 5, 7, 5, 7]),
            (5, 3, [5, 7, 5]),
            (0, 1, [7]),
            (3, 1, [5]),
        ):
            with self.subTest(first_index=first_index, num_envs=num_envs):
                self.assertEqual(self.steps_to_the_first_end(num_envs, first_index), expected)

    def test_each_environment_does_what_it_does_alone(self):
        with closing(make_batch_env(["CartPole-v1", "CartPole-v0"], 3)) as env:
            obs = [env.reset([5, 6, 7]).copy()]
            obs += [env.step(np.array([1, 0, 1])).obs.copy() for _ in range(5)]
        for index, (env_id, action) in enumerate((("CartPole-v1", 1), ("CartPole-v0", 0), ("CartPole-v1", 1))):
            with self.subTest(index), closing(make_batch_env(env_id, 1)) as one:
                alone = [one.reset([5 + index]).copy()]
                alone += [one.step(np.array([action])).obs.copy() for _ in range(5)]
                np.testing.assert_array_equal([each[index] for each in obs], [each[0] for each in alone])

    def test_ends_and_final_observations_are_each_environment_s_own(self):
        with pair(2) as env:
            env.reset([1, 2])
            results = [[array.copy() for array in env.step(np.zeros(2, np.int64))] for _ in range(7)]
        obs, reward, terminated, truncated, final_obs = map(np.array, zip(*results, strict=True))
        self.assertEqual(obs[:, :, 0].T.tolist(), [[1, 2, 3, 4, 5, 6, 0], [1, 2, 3, 4, 0, 1, 2]])
        self.assertEqual(reward.tolist(), [[1, 1]] * 7)
        self.assertEqual(np.argwhere(terminated).tolist(), [[6, 0]])
        self.assertEqual(np.argwhere(truncated).tolist(), [[4, 1]])
        self.assertEqual(final_obs[[6, 4], [0, 1], 0].tolist(), [7, 5])

    def test_a_failure_names_the_number_among_the_learner_s_environments(self):
        with closing(make_batch_env([LONG, "mixed/Fails-v0"], 4, first_index=4)) as env:
            env.reset([1, 2, 3, 13])  # the second task has numbers 5 and 7
            with self.assertRaisesRegex(EnvError, "^environment 7 failed in step 1 .*: ValueError: bad luck"):
                env.step(np.zeros(4, np.int64))

    def test_arguments_go_to_every_task(self):
        with self.assertRaisesRegex(EnvError, "^CartPole-v1: cannot build the environment: .*length"):
            make_batch_env([LONG, "CartPole-v1"], 2, env_kwargs={"length": 7})

    def test_a_value_is_named_by_the_environment_that_it_came_from(self):
        arguments = {"env_id": ["HalfCheetah-v5", "Walker2d-v5"], "env_kwargs": {}, "backend": BACKENDS[-1]}
        with closing(make_batch_env(num_envs=4, **arguments)) as env:
            self.assertEqual([env.locate(i)[0].spec.env_id for i in range(4)], ["HalfCheetah-v5", "Walker2d-v5"] * 2)
            self.assertEqual([env.locate(i)[1] for i in range(4)], [0, 0, 1, 1])
            self.assertEqual(names_of(env, 2, 1), ("qpos[2] (rooty.angle)",) * 2)


class ReportTest(unittest.TestCase):
    def test_each_task_reports_the_mean_return_of_its_finished_episodes_over_rollouts(self):
        with pair(3) as env:  # environments 0 and 2 end after 7 steps, environment 1 after 5
            filled = rows(4, 3)
            filled.obs[0] = env.reset([1, 2, 3])
            found = []
            for _ in range(3):
                terms = env.run_steps(still, filled)
                found.append([terms[f"episode_return/{name}"] for name in (LONG, SHORT)])
                filled.obs[0] = filled.obs[-1]
        np.testing.assert_array_equal(found, [[np.nan, np.nan], [7, 5], [np.nan, 5]])

    def test_terms_of_one_task_are_nothing_in_the_others(self):
        with closing(make_batch_env(["HalfCheetah-v5", "Walker2d-v5"], 3)) as env:
            env.reset([1, 2, 3])
            env.step(np.zeros((3, 6), np.float32))
            terms = env.reward_terms()
            self.assertIn("reward_forward", terms)
            self.assertEqual({values.shape for values in terms.values()}, {(3,)})


class SaveTest(unittest.TestCase):
    def test_a_saved_state_goes_on_with_the_episodes_and_their_returns(self):
        with pair(2) as env, pair(2) as other:
            filled, again = rows(4, 2), rows(4, 2)
            filled.obs[0] = env.reset([1, 2])
            env.run_steps(still, filled)
            other.reset([3, 4])
            again.obs[0] = other.restore(env.save())
            filled.obs[0] = filled.obs[-1]
            self.assertEqual(other.run_steps(still, again), env.run_steps(still, filled))
            for name, array in again._asdict().items():
                np.testing.assert_array_equal(array, getattr(filled, name), name)

    def test_what_cannot_be_saved_in_part_is_not_saved(self):
        with closing(make_batch_env([LONG, "tests.support.fixtures:Forgetful-v0"], 2)) as env:
            env.reset([1, 2])
            self.assertIsNone(env.save())

    def test_the_state_of_other_environments_is_refused(self):
        with pair(2) as env, closing(make_batch_env(LONG, 2)) as one:
            one.reset([1, 2])
            with self.assertRaisesRegex(EnvError, "the saved state is not of 2 tasks"):
                env.restore(one.save())


class DescriptionTest(unittest.TestCase):
    def test_it_has_the_common_spaces_and_the_longest_time_limit(self):
        spec = describe_env(["CartPole-v0", "CartPole-v1"])
        self.assertEqual((spec.env_id, spec.obs_size, spec.max_episode_steps), ("CartPole-v0, CartPole-v1", 4, 500))
        self.assertIsNone(describe_env(PAIR).max_episode_steps)
        self.assertEqual(describe_env(["HalfCheetah-v5", "Walker2d-v5"]).backend, BACKENDS[-1])

    def test_every_actor_s_description_is_that_of_the_learner(self):
        with pair(1, first_index=3) as env:
            self.assertEqual(env.spec, describe_env(PAIR, env_kwargs={"length": 7}))

    def test_other_spaces_are_refused_with_what_differs(self):
        words = "CartPole-v1 and Acrobot-v1 have obs_size 4 and 6, action_size 2 and 3$"
        with self.assertRaisesRegex(EnvError, words):
            describe_env(["CartPole-v1", "Acrobot-v1"])

    def test_choices_that_begin_with_another_number_are_other_spaces(self):
        one = describe_env("CartPole-v1")
        with self.assertRaisesRegex(EnvError, "action_start 0 and 1$"):
            mixed_spec([one, replace(one, action_start=1)])

    def test_actions_of_all_tasks_can_be_made_discrete(self):
        spec = describe_env(["HalfCheetah-v5", "Walker2d-v5"], discretize_actions=2)
        self.assertEqual((spec.action_kind, spec.action_size), ("discrete", 2**6))


class RunTest(FolderTestCase):
    """A run on two tasks, one that was killed and goes on, and what is made of its model."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.path = cls.config("tiny", TINY)
        cls.words = ("env_ids=[CartPole-v1, CartPole-v0]", "max_episode_steps=30", "eval_episodes=3")
        cls.words += ("learning_rate_schedule=constant",)  # that does not know how long a run will be
        cls.train(cls.path, "run_name=whole", *cls.words)
        cls.train(cls.path, "run_name=parts", *cls.words, "total_env_steps=320")
        cls.train(cls.path, "run_name=parts", "resume=auto", *cls.words)
        cls.whole, cls.parts = (cls.work / "output" / f"tiny-{name}" for name in ("whole", "parts"))

    def test_a_resumed_run_equals_the_unbroken_one(self):
        self.assertEqual(differences(last_checkpoint(self.whole), last_checkpoint(self.parts)), [])

    def test_metrics_show_the_return_of_each_task(self):
        rows = without_times(read_csv(self.whole / "metrics.csv"))
        for name in ("CartPole-v1", "CartPole-v0"):
            values = [float(row[f"reward/episode_return/{name}"] or "nan") for row in rows]
            self.assertTrue(np.isfinite(values).any(), name)
            self.assertLessEqual(np.nanmax(values), 30.0)

    def test_its_model_is_evaluated_on_all_of_them_and_on_each(self):
        program = Program("-m", "ddp_ppo", "evaluate", self.whole, folder=self.work)
        self.addCleanup(program.__exit__)
        out = succeeded(program).out
        self.assertIn("the same to the last bit", out)
        for name in ("CartPole-v1", "CartPole-v0"):
            self.assertRegex(out, rf"tiny-whole/model_best {name} +deterministic +\d")

    def test_it_is_played_in_each_of_them(self):
        out = self.folder / "play"
        program = Program("-m", "ddp_ppo", "play", self.whole, "--steps", 3, "--out", out, folder=self.work)
        self.addCleanup(program.__exit__)
        succeeded(program)
        for name in ("CartPole-v1", "CartPole-v0"):
            with np.load(out / name / "episode_1.npz") as episode:
                self.assertEqual(str(episode["env_id"]), name)

    def test_the_model_for_each_task_is_the_same_policy_in_its_own_environment(self):
        model, *tasks = with_tasks(load_model(self.whole))
        self.assertEqual([task.env.env_id for task in tasks], ["CartPole-v1", "CartPole-v0"])
        for task in tasks:
            self.assertIs(task.parameters, model.parameters)
            self.assertEqual(task.env_arguments["env_id"], task.env.env_id)
            self.assertNotIn("eval_return", task.info)

    def test_too_few_environments_are_refused_before_anything_starts(self):
        with self.assertRaisesRegex(ValueError, "env_ids: 2 tasks need as many environments of each learner, it has 1"):
            Config(env_ids=PAIR, num_actors=1, envs_per_actor=1)
        prepare(Config(env_ids=PAIR, num_actors=2, envs_per_actor=1, device="cpu"), environ={})


if __name__ == "__main__":
    unittest.main()
