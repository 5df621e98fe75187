"""A learner from outside the package: what is wrong with it is one line that names it."""

import inspect
import unittest
from dataclasses import replace

from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.learners.guarded import guarded
from ddp_ppo.policies.network import NetworkSpec
from ddp_ppo.protocols import EnvSpec
from ddp_ppo.training.plan import prepare
from tests.learners.toy import KIND

ENV = EnvSpec("A", 3, "discrete", 2)
NETWORK = NetworkSpec.for_env(ENV, (4,), "tanh")


def broken(*arguments, **named):
    """A part of a learner that fails."""
    raise RuntimeError("it broke")


LINE = inspect.getsourcelines(broken)[1] + 2
BROKEN = replace(KIND, require=broken)


class GuardedTest(unittest.TestCase):
    def test_what_fails_before_anything_is_started_is_named_with_its_line(self):
        for part, arguments, named in (
            ("require", (ENV, Config()), {"device": "cpu"}),
            ("network", (Config(), ENV), {}),
            ("rollout_fields", (NETWORK,), {}),
            ("num_parameters", (Config(), NETWORK), {}),
        ):
            words = rf"\Alearner: my:KIND: {part}: RuntimeError: it broke \(in broken, \S+test_guarded.py:{LINE}\)\Z"
            with self.subTest(part), self.assertRaisesRegex(ConfigError, words):
                getattr(guarded(replace(KIND, **{part: broken}), "my:KIND"), part)(*arguments, **named)

    def test_its_own_errors_for_users_stay_what_they_are(self):
        def refuse(env, config, *, device):
            raise ConfigError("learner: not on this task")

        with self.assertRaisesRegex(ConfigError, r"\Alearner: not on this task\Z"):
            guarded(replace(KIND, require=refuse), "my:KIND").require(ENV, Config(), device="cpu")

    def test_actors_must_be_able_to_import_annotate(self):
        with self.assertRaisesRegex(ConfigError, "learner: my:KIND: annotate must be a function of a module"):
            guarded(replace(KIND, annotate=lambda policy, slices, discounting: None), "my:KIND")

    def test_a_rollout_has_what_actors_write(self):
        kind = guarded(replace(KIND, rollout_fields=lambda network: KIND.rollout_fields(network)[1:]), "my:KIND")
        with self.assertRaisesRegex(ConfigError, "learner: my:KIND: rollout_fields lacks obs, which actors write"):
            kind.rollout_fields(NETWORK)
        self.assertEqual(guarded(KIND, "my:KIND").rollout_fields(NETWORK), KIND.rollout_fields(NETWORK))

    def test_what_make_returns_is_a_learner(self):
        with self.assertRaisesRegex(ConfigError, "my:KIND: make returned None, which lacks network, learning_rate, .*"):
            guarded(replace(KIND, make=lambda job, workplace: None), "my:KIND").make(None, None)

    def test_a_run_with_one_that_fails_does_not_begin(self):
        config = Config(env_id="CartPole-v1", learner="tests.learners.test_guarded:BROKEN")
        with self.assertRaisesRegex(ConfigError, "learner: tests.learners.test_guarded:BROKEN: require: RuntimeError"):
            prepare(config, environ={})


if __name__ == "__main__":
    unittest.main()
