"""Real actor processes: what they answer, and what is said of one that fails, dies or hangs."""

import contextlib
import dataclasses
import json
import multiprocessing
import os
import signal
import tempfile
import threading
import time
import unittest
from pathlib import Path

import numpy as np

from ddp_ppo.config.settings import Config
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.sampling.actor_pool import ActorError, ActorPool
from ddp_ppo.sampling.episodes import EVAL_BLOCK
from tests.support.process import FIXTURE, FolderTestCase, actor_jobs

TIMEOUT_SECONDS = 30.0


class PoolTestCase(unittest.TestCase):
    def pool(
        self,
        name,
        *,
        num_actors=2,
        num_envs=2,
        length=8,
        env_kwargs=None,
        pool_settings=None,
        learner_threads=None,
        **changes,
    ):
        """The block's arrays and a pool of ready actors in an environment of tests/support/fixtures.py."""
        config = Config(
            env_id=name if "-" in name else f"tests.support.fixtures:{name}-v0",
            env_kwargs=env_kwargs or {},
            num_actors=num_actors,
            envs_per_actor=num_envs,
            rollout_length=length,
            hidden_sizes=(8,),
            learner_threads=learner_threads,
        )
        block, jobs = actor_jobs(config)
        self.addCleanup(block.close)
        settings = {"timeout_seconds": TIMEOUT_SECONDS, **(pool_settings or {})}
        pool = ActorPool([dataclasses.replace(job, **changes) for job in jobs], **settings)
        self.addCleanup(pool.close)
        pool.wait_ready()
        return block.arrays, pool

    def tearDown(self):
        self.doCleanups()
        self.assertEqual(multiprocessing.active_children(), [])

    def failure(self, pool):
        """The message of the error that a rollout raises."""
        with self.assertRaises(ActorError) as caught:
            pool.sample(0)
        return str(caught.exception)


class AnswersTest(PoolTestCase):
    def test_a_rollout_fills_the_block_and_statistics_come_in_the_order_of_the_actors(self):
        arrays, pool = self.pool("Count", num_actors=3, env_kwargs={"length": 3})
        for episodes in (4, 6):
            stats = pool.sample(0)
            self.assertEqual([s.actor_id for s in stats], [0, 1, 2])
            self.assertEqual([s.episodes for s in stats], [episodes] * 3)
            np.testing.assert_array_equal(arrays["reward"], np.ones((8, 6)))
        self.assertEqual([len(state["episode_return"]) for state in pool.states], [2, 2, 2])

    def test_actors_act_with_the_parameters_that_were_published_last(self):
        arrays, pool = self.pool("Echo", num_actors=2)
        network = NetworkSpec(1, "gaussian", 1, (8,), "tanh")
        arrays["parameters"][network.log_std_slice] = -20.0  # held at its smallest value: a deviation of e^-5
        for bias in (0.5, -0.25):
            network.trunk("actor")[-1].view(arrays["parameters"])[-1] = bias
            pool.sample(0)
            np.testing.assert_allclose(arrays["act"], bias, atol=0.05)

    def test_evaluations_come_in_the_order_of_the_seeds(self):
        _, pool = self.pool("SeedLength", num_actors=2)
        seeds = [5, 1, 9, 2, 3, 7, 2, 4, 30, 1, 8, 6, 2]
        self.assertGreater(len(seeds), 2 * EVAL_BLOCK)  # more blocks than actors
        episodes = pool.evaluate(seeds)
        self.assertEqual([(e.seed, e.length, e.episode_return) for e in episodes], [(s, s, s) for s in seeds])
        self.assertEqual([e.length for e in pool.evaluate([6])], [6])

    def test_restored_actors_go_on_from_the_saved_states(self):
        _, pool = self.pool("Count", num_actors=2, env_kwargs={"length": 20})
        for _ in range(2):
            pool.sample(0)
        saved = pool.states
        arrays, other = self.pool("Count", num_actors=2, env_kwargs={"length": 20})
        other.restore(saved)
        self.assertEqual([s.episode_returns for s in other.sample(0)], [[20.0, 20.0]] * 2)
        self.assertEqual(arrays["obs"][0].tolist(), [[16.0]] * 4)

    def test_closing_ends_every_actor_and_can_be_repeated(self):
        _, pool = self.pool("Count")
        started = time.monotonic()
        pool.close()
        pool.close()
        self.assertLess(time.monotonic() - started, 4.0)
        self.assertEqual(multiprocessing.active_children(), [])


class FailuresTest(PoolTestCase):
    def test_an_exception_brings_its_traceback_and_the_environment_s_index(self):  # O-39
        options = {"how": "raise", "at": 40, "number": 2}
        _, pool = self.pool("Misbehaving", num_actors=1, num_envs=4, length=64, env_kwargs=options)
        headline, *trace = self.failure(pool).splitlines()
        self.assertRegex(headline, r"actor 0 of rank 0 .*while sampling round 1: .*environment 2.*step 40.*boom-17")
        self.assertIn("Traceback (most recent call last):", trace)
        self.assertIn("ValueError: boom-17", trace)
        self.assertTrue(any("fixtures.py" in line for line in trace))

    def test_an_index_is_that_among_all_environments_of_the_learner(self):
        options = {"how": "raise", "at": 5, "number": 1}
        _, pool = self.pool("Misbehaving", num_actors=2, num_envs=3, env_kwargs=options)
        (first, second) = pool._members
        pool._members = [second]
        headline = self.failure(pool).splitlines()[0]
        pool._members = [first, second]
        self.assertRegex(headline, r"actor 1 of rank 0 ")
        self.assertIn("environment 4", headline)

    def test_an_actor_that_was_killed_is_named_with_the_signal_and_the_step(self):
        arrays, pool = self.pool("Misbehaving", num_actors=1, env_kwargs={"how": "hang", "at": 5})
        (victim,) = multiprocessing.active_children()

        def kill_in_step_4():
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while arrays["progress"][0] != 4 and time.monotonic() < deadline:
                time.sleep(0.01)
            os.kill(victim.pid, signal.SIGKILL)

        killer = threading.Thread(target=kill_in_step_4)
        killer.start()
        message = self.failure(pool)
        killer.join()
        self.assertRegex(message, r"^actor 0 of rank 0 \(.*step 4\) was killed by SIGKILL while sampling round 1")

    def test_an_actor_that_was_killed_in_an_idle_moment_is_named_too(self):
        _, pool = self.pool("Count")
        for child in multiprocessing.active_children():
            child.terminate()  # an actor leaves this signal to its learner
        pool.sample(0)
        kill_actor(0)
        self.assertRegex(self.failure(pool), r"^actor 0 of rank 0 .*was killed by SIGKILL")

    def test_an_actor_that_exits_is_named_with_its_status(self):
        _, pool = self.pool("Misbehaving", num_actors=1, env_kwargs={"how": "exit", "at": 3})
        self.assertRegex(self.failure(pool), r"^actor 0 of rank 0 .*exited with 7 while sampling")

    def test_whatever_an_environment_raises_is_an_error_of_its_own(self):
        for how, words in (("sys_exit", "SystemExit"), ("lost_peer", "ConnectionResetError: simulator gone")):
            with self.subTest(how):
                settings = {"max_restarts": 1, "on_restart": self.fail}
                _, pool = self.pool(
                    "Misbehaving", num_actors=1, env_kwargs={"how": how, "at": 3}, pool_settings=settings
                )
                self.assertRegex(self.failure(pool).splitlines()[0], f"environment 0 failed in step 3 .*: {words}")

    def test_an_actor_that_ends_is_noticed_although_a_child_of_its_environment_goes_on(self):
        _, pool = self.pool("Misbehaving", num_actors=1, env_kwargs={"how": "exit_with_child", "at": 3})
        started = time.monotonic()
        self.assertRegex(self.failure(pool), r"^actor 0 of rank 0 .*exited with 7 while sampling")
        self.assertLess(time.monotonic() - started, TIMEOUT_SECONDS / 2)

    def test_a_child_that_an_environment_lets_go_on_does_not_answer(self):
        _, pool = self.pool("Misbehaving", num_actors=1, env_kwargs={"how": "fork", "at": 3, "length": 4})
        self.assertEqual([pool.sample(i)[0].episodes for i in range(3)], [4, 4, 4])
        self.assertEqual(len(pool.evaluate([1])), 1)

    def test_what_an_environment_has_started_ends_with_its_actor(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        options = {"how": "start", "at": 3, "folder": folder}
        _, pool = self.pool("Misbehaving", num_actors=1, env_kwargs=options)
        pool.sample(0)
        sleeper = Path(folder, "sleeper").read_text()
        self.assertTrue(lives(sleeper))
        pool.close()
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while lives(sleeper) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(lives(sleeper))

    def test_an_actor_that_is_stopped_is_called_so(self):
        _, pool = self.pool("Misbehaving", num_actors=1, env_kwargs={"how": "stop", "at": 3})
        pool._timeout = 0.5
        self.assertRegex(self.failure(pool), "actor_timeout_seconds=0.5 .the process is stopped")

    def test_an_actor_that_hangs_is_given_up_at_the_limit(self):  # O-40
        settings = {"timeout_seconds": 3.0}
        _, pool = self.pool("Misbehaving", num_actors=1, length=64, env_kwargs={"how": "hang"}, pool_settings=settings)
        started = time.monotonic()
        message = self.failure(pool)
        self.assertRegex(message, r"actor 0 of rank 0 \(environments 0\.\.1, step 39\).*actor_timeout_seconds=3")
        pool.close()
        self.assertEqual(multiprocessing.active_children(), [])
        self.assertLess(time.monotonic() - started, 3.0 + 10.0)

    def test_an_evaluation_that_hangs_is_given_up_at_the_same_limit(self):
        settings = {"timeout_seconds": 3.0}
        # Environments 0 and 1 are trained in, 2 to 6 evaluated in.
        options = {"how": "hang", "at": 3, "number": 2}
        _, pool = self.pool("Misbehaving", num_actors=1, env_kwargs=options, pool_settings=settings)
        pool.sample(0)
        with self.assertRaises(ActorError) as caught:
            pool.evaluate([1])
        self.assertRegex(str(caught.exception), r"actor 0 of rank 0 .*step 3\).*while evaluating.*_timeout_seconds=3")

    def test_an_evaluation_whose_steps_keep_coming_may_take_longer_than_the_limit(self):
        name, options = "tests.long.environments:Slow-v0", {"seconds": 0.06, "length": 12, "always": True}
        _, pool = self.pool(name, num_actors=1, num_envs=1, env_kwargs=options)
        pool._timeout = 0.9  # 5 environments x 12 steps take 3.6 s
        started = time.monotonic()
        self.assertEqual([episode.length for episode in pool.evaluate([1])], [12])
        self.assertGreater(time.monotonic() - started, 3.0)

    def test_an_assistant_that_hangs_is_named_as_such(self):
        told = []
        settings = {"max_restarts": 1, "on_restart": told.append}
        _, pool = self.pool("Count", pool_settings=settings, learner_threads=2)
        pool.begin_assist()  # it waits for an epoch that never begins
        self.assertFalse(pool.is_assistant_lost(TIMEOUT_SECONDS - 1.0))
        self.assertTrue(pool.is_assistant_lost(TIMEOUT_SECONDS + 1.0))
        pool.replace_assistant()
        (message,) = told
        self.assertRegex(message, "actor 0 of rank 0 .*while assisting the learner within actor_timeout_seconds=30")
        self.assertNotIn("SIGKILL", message)

    def test_an_environment_that_fails_to_start_in_an_actor_is_shown(self):
        with self.assertRaisesRegex(ActorError, r"while starting: .*no licence-4711"):
            self.unbuildable()

    def unbuildable(self):
        self.pool(
            "Count",
            num_actors=1,
            env_arguments={"env_id": "tests.support.fixtures:Unbuildable-v0", "env_kwargs": {}, "backend": "auto"},
        )


class RestartTest(PoolTestCase):
    def test_a_lost_actor_is_replaced_and_goes_on_as_if_nothing_had_happened(self):
        def rollouts(victim):
            told = []
            settings = {"max_restarts": 1, "on_restart": told.append}
            arrays, pool = self.pool("CartPole-v1", pool_settings=settings)
            stats = [pool.sample(0)]
            if victim is not None:
                kill_actor(victim)
            stats.append(pool.sample(1))
            pool.close()
            episodes = [[actor.episode_returns for actor in one_round] for one_round in stats]
            return {name: arrays[name].copy() for name in ("obs", "act", "reward", "adv")}, episodes, told

        undisturbed, episodes, told = rollouts(None)
        self.assertEqual(told, [])
        arrays, found, told = rollouts(1)
        self.assertEqual(found, episodes)
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, undisturbed[name], err_msg=name)
        (message,) = told
        self.assertRegex(message, "actor 1 of rank 0 .*was killed by SIGKILL")

    def test_no_more_actors_are_replaced_than_allowed(self):
        _, pool = self.pool("Count", num_actors=1, pool_settings={"max_restarts": 1})
        pool.sample(0)
        kill_actor(0)
        pool.sample(1)
        kill_actor(0)
        self.assertRegex(self.failure(pool), "actor 0 of rank 0 .*was killed by SIGKILL")

    def test_an_exception_of_an_environment_ends_the_run_at_once(self):
        settings = {"max_restarts": 3, "on_restart": self.fail}
        _, pool = self.pool("Misbehaving", env_kwargs={"how": "raise", "at": 3}, pool_settings=settings)
        self.assertIn("boom-17", self.failure(pool))


def lives(pid):
    """Whether there is such a process, zombies left out."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def kill_actor(actor_id):
    """Kills the process of this actor and waits for its end."""
    (victim,) = (child for child in multiprocessing.active_children() if child.name == f"actor 0.{actor_id}")
    victim.kill()
    victim.join(10.0)


class ProcessTest(PoolTestCase):
    def witnesses(self, **changes):
        """What each actor of a pool saw of its process."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        _, pool = self.pool("Witness", length=12, env_kwargs={"folder": folder.name}, **changes)
        pool.sample(0)
        pool.evaluate([1, 2, 3, 4, 5])
        reports = [json.loads(path.read_text()) for path in Path(folder.name).glob("*.json")]
        self.assertGreaterEqual(len(reports), 4)
        return reports

    def test_actors_of_an_mlp_policy_never_import_torch(self):
        self.assertEqual({report["has_torch"] for report in self.witnesses()}, {False})

    def test_actors_of_a_torch_policy_do(self):
        self.assertEqual({report["has_torch"] for report in self.witnesses(policy_backend="torch")}, {True})

    def test_actors_observe_different_things_and_the_same_ones_again(self):  # O-43
        def first_observations():
            arrays, pool = self.pool("Dice", num_actors=8, num_envs=1, length=2)
            pool.sample(0)
            return arrays["obs"][0].copy()

        first = first_observations()
        for column, source in enumerate(("own generator", "global generator")):
            with self.subTest(source):
                self.assertEqual(len(np.unique(first[:, column])), 8)
        np.testing.assert_array_equal(first_observations(), first)


class OrphansTest(FolderTestCase):
    def test_actors_die_with_a_learner_that_was_killed(self):
        config = self.config("hang", FIXTURE.replace("Count-v0", "Misbehaving-v0"))
        calls = self.folder / "calls"
        calls.mkdir()
        program = self.start(config, f"env_kwargs={{how: hang, at: 5, folder: {calls}}}")
        # Both actors hang in their first environment: the learner waits for them, nobody ends by himself.
        program.wait_until(lambda: [p.read_text() for p in calls.iterdir()].count("rsssss") == 2, "hanging actors")
        self.assertGreaterEqual(len(program.alive()), 3)
        program.process.kill()
        ended = program.end(grace_seconds=5.0)
        self.assertEqual((ended.code, ended.left), (-signal.SIGKILL, []))


if __name__ == "__main__":
    unittest.main()
