"""Names of observation and action columns where an environment lets one know them."""

import unittest

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from ddp_ppo.envs.build import EnvError, make_batch_env
from ddp_ppo.envs.columns import Column, Interface, action_columns, describe_interface, obs_columns
from ddp_ppo.protocols import EnvSpec
from tests.support.fixtures import Count


class Named(Count):
    """Says itself what it observes and does."""

    metadata = {  # noqa: RUF012 - as Gymnasium has it
        "render_modes": [],
        "obs_columns": [("range", "m", "lidar", "sensor frame")],
        "action_columns": [("stay",), ("go",)],
    }
    dt, frame_skip = 0.5, 4


class Misnamed(Count):
    """Names a column too many."""

    metadata = {"render_modes": [], "obs_columns": [("range", "m"), ("other",)]}  # noqa: RUF012


class Malformed(Count):
    """A column with too many texts."""

    metadata = {"render_modes": [], "obs_columns": [("a", "b", "c", "d", "e")]}  # noqa: RUF012


class OwnBatch:
    """A vectorised class of a user's own, with one name that it knows."""

    metadata = {"action_columns": [("thrust", "N")]}  # noqa: RUF012
    spec = EnvSpec("own", 2, "box", 1, (-1.0,), (1.0,))

    def __init__(self, num_envs):
        self.num_envs = num_envs

    def reset(self, seeds):
        return np.zeros((self.num_envs, 2), np.float32)

    def reward_terms(self):
        return {}

    step = save = restore = close = lambda *_: None


class Turned(gymnasium.ObservationWrapper):
    """A wrapper that changes what is observed."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float64)

    def observation(self, observation):
        return observation[::-2].copy()


for _class in (Named, Misnamed, Malformed):
    gymnasium.register(f"{_class.__name__}-v0", entry_point=f"{__name__}:{_class.__name__}")
gymnasium.register(
    "TurnedCartPole-v0", entry_point=lambda: Turned(gymnasium.make("CartPole-v1", disable_env_checker=True))
)


def named(name):
    return describe_interface({"env_id": f"{__name__}:{name}-v0"})


class ColumnsTest(unittest.TestCase):
    def test_an_environment_s_own_names_are_taken(self):
        expected = Interface(
            obs=(Column("range", "m", "lidar", "sensor frame"),),
            action=(Column("stay"), Column("go")),
            dt_seconds=0.5,
            frame_skip=4,
        )
        self.assertEqual(named("Named"), expected)

    def test_a_class_of_one_s_own_is_asked_too_and_what_it_does_not_say_is_numbered(self):
        interface = describe_interface({"env_id": f"{__name__}:OwnBatch"})
        expected = Interface((Column("obs[0]"), Column("obs[1]")), (Column("thrust", "N"),))
        self.assertEqual(interface, expected)

    def test_nothing_known_is_numbered(self):
        arguments = {"env_id": "tests.support.fixtures:Count-v0", "env_kwargs": {"length": 3}}
        self.assertEqual(obs_columns(arguments), [Column("obs[0]")])
        self.assertEqual(action_columns(arguments), [Column("choice 0"), Column("choice 1")])
        self.assertEqual(action_columns({"env_id": "tests.support.fixtures:Echo-v0"}), [Column("action[0]")])

    def test_choices_are_numbered_as_the_environment_counts_them(self):
        interface = describe_interface({"env_id": "tests.support.drawing:Dial-v0"})
        self.assertEqual(interface.action, tuple(Column(f"choice {value}") for value in (1, 2, 3)))

    def test_mistakes_in_the_metadata_are_one_line(self):
        for name, text in (
            ("Misnamed", "has 2 columns, the environment has 1"),
            ("Malformed", "metadata of Malformed"),
        ):
            with self.subTest(name), self.assertRaisesRegex(EnvError, text) as caught:
                named(name)
            self.assertNotIn("\n", str(caught.exception))

    def test_every_classic_task_has_a_column_for_each_number(self):
        sizes = {"CartPole-v1": (4, 2), "Acrobot-v1": (6, 3), "MountainCar-v0": (2, 3), "Pendulum-v1": (3, 1)}
        for env_id, (num_obs, num_actions) in {**sizes, "MountainCarContinuous-v0": (2, 1)}.items():
            with self.subTest(env_id):
                interface = describe_interface({"env_id": env_id})
                self.assertEqual((len(interface.obs), len(interface.action)), (num_obs, num_actions))
                self.assertFalse([column for column in interface.obs if "[" in column.name])

    def test_cart_pole_is_named_as_in_its_documentation(self):
        interface = describe_interface({"env_id": "CartPole-v1"})
        expected = [("cart position", "m"), ("cart velocity", "m/s"), ("pole angle", "rad")]
        self.assertEqual([column[:2] for column in interface.obs], [*expected, ("pole angular velocity", "rad/s")])
        self.assertEqual([column.name for column in interface.action], ["push left", "push right"])
        self.assertEqual((interface.dt_seconds, interface.frame_skip), (0.02, None))

    def test_the_angles_of_acrobot_and_pendulum_are_cosine_first(self):
        for env_id, pairs in (("Acrobot-v1", ((0, 1), (2, 3))), ("Pendulum-v1", ((0, 1),))):
            env = make_batch_env(env_id, 1)
            obs = env.reset([3])[0]
            names = [column.name for column in obs_columns({"env_id": env_id})]
            angles = env._envs[0].unwrapped.state
            for pair, angle in zip(pairs, angles, strict=False):
                np.testing.assert_allclose(obs[list(pair)], [np.cos(angle), np.sin(angle)], atol=1e-6)
                self.assertEqual([names[index].rsplit(" ", 1)[1] for index in pair], ["cos", "sin"])

    def test_choices_of_a_grid_are_named_after_the_actuators_and_know_their_box_action(self):
        interface = describe_interface({"env_id": "Reacher-v5", "discretize_actions": 2})
        expected = ["joint0 -1, joint1 -1", "joint0 -1, joint1 1", "joint0 1, joint1 -1", "joint0 1, joint1 1"]
        self.assertEqual([column.name for column in interface.action], expected)
        self.assertEqual(interface.action[0].unit, describe_interface({"env_id": "Reacher-v5"}).action[0].unit)
        self.assertEqual(interface.choices, ((-1, -1), (-1, 1), (1, -1), (1, 1)))

    def test_of_several_tasks_the_first_is_described(self):
        both, first = (
            describe_interface({"env_id": env_id}) for env_id in (["CartPole-v1", "CartPole-v0"], "CartPole-v1")
        )
        self.assertEqual(both, first)

    def test_what_a_wrapper_may_have_changed_is_not_named(self):
        interface = describe_interface({"env_id": f"{__name__}:TurnedCartPole-v0"})
        self.assertEqual([column.name for column in interface.obs], ["obs[0]", "obs[1]"])
        self.assertEqual(interface.dt_seconds, 0.02)


class DiscreteTest(unittest.TestCase):
    def test_each_column_of_a_discrete_observation_says_its_value(self):  # H-h
        arguments = {"observation_space": Discrete(3, start=-1)}
        found = describe_interface({"env_id": "tests.support.script_env:envs/Script-v0", "env_kwargs": arguments})
        self.assertEqual([column.name for column in found.obs], ["is -1", "is 0", "is 1"])
        self.assertEqual(found.obs_values, (-1, 0, 1))
        self.assertEqual(describe_interface({"env_id": "CartPole-v1"}).obs_values, ())


class OtherMeaningsTest(unittest.TestCase):
    def test_attributes_that_hold_no_numbers_or_columns_say_nothing(self):  # N-09
        found = describe_interface({"env_id": "tests.support.brought:brought/Asked-v0"})
        self.assertEqual((found.dt_seconds, found.frame_skip), (None, None))
        self.assertEqual(found.obs, (Column("place"), Column("velocity", "m/s")))
        self.assertEqual(found.action, (Column("action[0]"),))


if __name__ == "__main__":
    unittest.main()
