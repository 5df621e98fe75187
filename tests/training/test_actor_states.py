"""What each actor of a resumed run starts from, by the states of a checkpoint; whole runs: test_number_of_actors."""

import unittest
from types import SimpleNamespace

import numpy as np

from ddp_ppo.training.actor_states import states_for

BACKEND = "gymnasium"


def actor(first, number, **changes):
    """The state of an actor with environments of which each says its number in all that it saves."""
    numbers = np.arange(first, first + number)
    env = {"envs": [{"number": int(n)} for n in numbers], "elapsed": numbers, "num_steps": 40, "obs": numbers[:, None]}
    rows = {name: numbers * 1.0 for name in ("episode_return", "episode_length", "discounted_return")}
    rows |= {"policy_state": np.repeat(numbers[:, None], 2, axis=1)}
    return {"env": env, "generators": {"of": first}, "num_rounds": 5, **rows, **changes}


def content(*ranks, backend=BACKEND):
    """A checkpoint whose learners have these actors."""
    return {"round": 5, "ranks": [{"actors": list(actors)} for actors in ranks], "env": {"backend": backend}}


def job(*sizes, rank=0, num_learners=1, tasks=("A",)):
    """A learner whose actors have so many environments."""
    ends = np.cumsum(sizes)
    topology = SimpleNamespace(
        envs_of_actors=sizes,
        num_envs=sum(sizes),
        slices=[slice(end - size, end) for end, size in zip(ends.tolist(), sizes, strict=True)],
        rank=rank,
        num_learners=num_learners,
    )
    return SimpleNamespace(topology=topology, config=SimpleNamespace(tasks=tasks), env=SimpleNamespace(backend=BACKEND))


class StatesForTest(unittest.TestCase):
    def assert_numbers(self, state, numbers):
        """All that a state holds of single environments is of these."""
        self.assertEqual([env["number"] for env in state["env"]["envs"]], numbers)
        for name in ("episode_return", "episode_length", "discounted_return"):
            self.assertEqual(state[name].tolist(), numbers)
        self.assertEqual(state["policy_state"][:, 1].tolist(), numbers)
        self.assertEqual(state["env"]["obs"][:, 0].tolist(), numbers)
        self.assertEqual((state["env"]["num_steps"], state["num_rounds"]), (40, 5))

    def assert_new_episodes(self, states, note, words):
        self.assertIn(words, note)
        self.assertIn("episodes start again", note)
        self.assertEqual([(state["env"], state["num_rounds"]) for state in states], [(None, 5)] * len(states))

    def test_the_same_actors_get_what_they_have_saved(self):
        saved = [actor(0, 2), actor(2, 2)]
        self.assertEqual(states_for(content(saved), job(2, 2)), (saved, ""))

    def test_other_actors_share_the_same_environments(self):
        states, note = states_for(content([actor(0, 3), actor(3, 3)]), job(2, 2, 2))
        for state, numbers in zip(states, ([0, 1], [2, 3], [4, 5]), strict=True):
            self.assert_numbers(state, numbers)
            self.assertIsNone(state["generators"])
        self.assertIn("global random generators", note)

    def test_other_learners_share_the_same_environments(self):
        two = content([actor(0, 4)], [actor(4, 4)])
        (first, second), _ = states_for(two, job(3, 5))
        self.assert_numbers(first, [0, 1, 2])
        self.assert_numbers(second, [3, 4, 5, 6, 7])
        one = content([actor(0, 4), actor(4, 4)])
        states, note = states_for(one, job(4, rank=1, num_learners=2))
        self.assert_numbers(states[0], [4, 5, 6, 7])
        self.assertEqual((states[0]["generators"], note), ({"of": 4}, ""))

    def test_a_checkpoint_of_an_earlier_version_says_less(self):
        saved = actor(0, 2)
        for name in ("generators", "num_rounds", "policy_state"):
            del saved[name]
        (state,), note = states_for(content([saved]), job(2))
        self.assertEqual((state["generators"], state["num_rounds"], note), (None, 5, ""))
        (first, _), _ = states_for(content([saved]), job(1, 1))
        self.assertEqual(first["episode_return"].tolist(), [0.0])

    def test_new_episodes_start_where_environments_cannot_be_saved_and_generators_go_on(self):
        saved = [actor(0, 2, env=None), actor(2, 2, env=None)]
        states, note = states_for(content(saved), job(2, 2))
        self.assert_new_episodes(states, note, "cannot be saved")
        self.assertEqual([state["generators"] for state in states], [{"of": 0}, {"of": 2}])
        states, note = states_for(content(saved), job(4))
        self.assert_new_episodes(states, note, "cannot be saved")
        self.assertEqual([state["generators"] for state in states], [None])

    def test_new_episodes_start_where_a_state_in_one_piece_would_have_to_be_shared_out(self):
        saved = [actor(0, 4, env={"position": np.zeros(4)})]
        self.assertEqual(states_for(content(saved), job(4)), (saved, ""))
        self.assert_new_episodes(*states_for(content(saved), job(2, 2)), "one piece")

    def test_new_episodes_start_with_other_environments_or_another_backend(self):
        self.assert_new_episodes(*states_for(content([actor(0, 4)]), job(2, 3)), "other environments")
        self.assert_new_episodes(*states_for(content([actor(0, 4)], backend="mujoco"), job(4)), "another backend")

    def test_new_episodes_start_where_another_learner_would_play_another_task(self):
        two = content([actor(0, 3)], [actor(3, 3)])
        self.assert_new_episodes(*states_for(two, job(6, tasks=("A", "B"))), "other environments")


if __name__ == "__main__":
    unittest.main()
