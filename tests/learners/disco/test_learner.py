"""The learner: five updates against the reference, alone and as two, and what it trains on, keeps and goes on from."""

import dataclasses
import itertools
import math
import tempfile
import unittest
from pathlib import Path

import numpy as np
import torch

from ddp_ppo.learners.disco import rule
from ddp_ppo.learners.disco.agent import AgentSpec, run, run_online
from ddp_ppo.learners.disco.batch import BothHeads
from ddp_ppo.learners.disco.learner import MEASURED, DiscoLearner
from ddp_ppo.learners.disco.values import mean_and_std
from ddp_ppo.runs.files import load_plain, save_plain
from ddp_ppo.sampling.finite import NonFiniteError
from ddp_ppo.sampling.rollout import Normalization
from tests.support.disco_golden import (
    SMALL_AGENT,
    STATS,
    disco_config,
    golden,
    golden_batch,
    haiku_parameters,
    needs_data,
    of_max,
    published_meta,
    random_agent,
    random_batch,
    random_meta,
    random_rollout,
    small_agent,
)
from tests.support.ranks import run_two_in

torch.set_num_threads(1)

CONFIG = disco_config(learning_rate=1e-3, disco={"batch_size": 4, "replay_capacity": 6})
SPEC = AgentSpec(4, 2, **SMALL_AGENT)


def make_learner(config=CONFIG, *, seed=0, **options):
    """A learner with random weights and a small agent."""
    return DiscoLearner(config, random_agent(SPEC, seed), meta=random_meta(), **options)


def rollouts(count, num_envs=2, num_steps=5):
    """Consecutive rollouts."""
    fields = DiscoLearner.rollout_fields(SPEC.acting_network)
    return [random_rollout(fields, num_steps, num_envs, seed=seed) for seed in range(count)]


def train(learner, sequence, first_round=0):
    """Metrics of each round."""
    return [
        learner.train_step(rollout, round_index=i, done=i / 100)[1] for i, rollout in enumerate(sequence, first_round)
    ]


class GoldenTest(unittest.TestCase):
    """Comparisons of five updates with golden/update5_*.npz."""

    def assert_logs(self, metrics, arrays, index):
        found = dict(zip(MEASURED, metrics.tolist(), strict=True))
        for name, log, limit in (
            ("loss", "total_loss", 3e-5),
            ("pi_loss", "pi_loss", 3e-5),
            ("aux_loss", "aux_kl_loss", 3e-5),
            ("q_loss", "q_loss", 3e-5),
            ("entropy", "entropy", 3e-5),
            ("grad_norm", "global_gradient_norm", 1e-4),
            ("value", "agent_q_mean", 3e-4),
            ("td_error", "td", 3e-4),
        ):
            self.assertAlmostEqual(found[name], float(arrays[f"log/{log}"][index]), delta=limit, msg=log)

    def assert_state(self, common, arrays, step):
        for name in ("hidden", "cell"):
            torch.testing.assert_close(common[f"rnn_{name}"], arrays[f"state/{name}"][step], atol=3e-5, rtol=0)
        for i, kind in enumerate(("adv_ema", "td_ema")):
            for stat in STATS:
                torch.testing.assert_close(common[stat][i], arrays[f"state/{kind}/{stat}"][step], atol=1e-4, rtol=1e-4)

    def assert_parameters(self, found, expected, limit):
        difference = (found - expected).abs()
        self.assertLess(float(difference.max()), limit)
        self.assertLess(float(difference.quantile(0.999)), 2e-6)


def other_logs(learner, batch):
    """What the reference logs beyond MEASURED, of the update that comes next."""
    with torch.no_grad():
        heads, taken = run_online(learner.agent, batch.obs, batch.act)
        targets, values, after = rule.make_targets(
            published_meta(),
            learner.state,
            heads=BothHeads(heads, run(learner.target, batch.obs)),
            batch=batch,
            config=learner.config,
            average=lambda tensor: None,
        )

    def entropy(logits):
        return float(torch.distributions.Categorical(logits=logits).entropy().mean())

    return {
        "y_entropy": entropy(heads.y[:-1]),
        "z_entropy": entropy(taken.z),
        "pi_hat_entropy": entropy(targets.pi),
        "aux_policy_entropy": entropy(taken.aux_pi),
        "aux_target_entropy": entropy(heads.logits[1:]),
        "pi_hat": float(targets.pi.mean()),
        "y_hat": float(targets.y.mean()),
        "z_hat": float(targets.z.mean()),
        "q_target": float(values.q_target.mean()),
        "normalized_td": float((values.q_td / mean_and_std(after.moments)[1][1]).mean()),
        "logits": float(heads.logits[:-1].mean()),
        "y": float(heads.y[:-1].mean()),
        "z": float(taken.z.mean()),
    }


@needs_data
class FiveUpdatesTest(GoldenTest):  # C32
    def test_reference(self):
        for num_actions in (2, 3):
            with self.subTest(num_actions=num_actions):
                self.run_five(golden(f"update5_A{num_actions}"), num_actions)

    def run_five(self, arrays, num_actions):
        averaged = []
        learner = DiscoLearner(
            disco_config(learning_rate=float(arrays["lr"])),
            small_agent(arrays, num_actions),
            meta=published_meta(),
            average=lambda tensor: averaged.append(tensor.clone()),
        )
        spec = learner.agent.spec
        for i in range(5):
            batch = golden_batch(arrays, i)
            for name, found in other_logs(learner, batch).items():
                self.assertAlmostEqual(found, float(arrays[f"log/{name}"][i]), delta=3e-4, msg=name)
            before = learner.agent.flat.clone()
            self.assert_logs(learner.update(batch), arrays, i)
            self.assert_state(learner.common().tensors, arrays, i)
            update_norm = float((learner.agent.flat - before).norm())
            self.assertAlmostEqual(update_norm, float(arrays["log/global_update_norm"][i]), delta=1e-5)
            if i == 0:
                gradient = haiku_parameters(arrays, "grad_0", spec)
                self.assertLess(of_max(averaged[2], gradient), 1e-3)
                self.assert_parameters(learner.agent.flat, haiku_parameters(arrays, "params_1", spec), 5e-5)
        self.assert_parameters(learner.agent.flat, haiku_parameters(arrays, "params_5", spec), 5e-5)
        self.assert_parameters(learner.target.flat, haiku_parameters(arrays, "target_params_5", spec), 2e-5)


@needs_data
class TwoWorkersTest(GoldenTest):  # C32
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="ddp_ppo_test_") as name:
            run_two_in(Path(name), "disco_ranks")
            cls.workers = [torch.load(Path(name, f"{rank}.pt"), weights_only=True) for rank in range(2)]

    def test_reference(self):
        arrays = golden("update5_A2_ddp2")
        spec = AgentSpec(4, 2, **SMALL_AGENT)
        for rank, steps in enumerate(self.workers):
            logs = {key: array[:, rank] for key, array in arrays.items() if key.startswith("log/")}
            for i, step in enumerate(steps):
                with self.subTest(rank=rank, step=i):
                    self.assert_logs(step["metrics"], arrays | logs, i)
                    self.assert_state(step["common"], arrays, i)
            common = steps[-1]["common"]
            self.assert_parameters(common["agent"], haiku_parameters(arrays, "params_5", spec), 5e-5)
            self.assert_parameters(common["target"], haiku_parameters(arrays, "target_params_5", spec), 2e-5)

    def test_what_is_common_has_the_same_bits(self):
        for one, other in zip(*self.workers, strict=True):
            self.assertEqual(one["common"].keys(), other["common"].keys())
            for name, tensor in one["common"].items():
                self.assertTrue(torch.equal(tensor, other["common"][name]), name)

    def test_workers_saw_different_data(self):
        losses = [float(steps[0]["metrics"][0]) for steps in self.workers]
        self.assertGreater(abs(losses[0] - losses[1]), 1e-3)


def numbered(*numbers):
    """One trajectory for each number, which is its reward throughout."""
    batch = random_batch(5, len(numbers), 2)
    return batch._replace(reward=torch.tensor(numbers).float().expand(5, -1).contiguous())


class SamplingTest(unittest.TestCase):
    """Which trajectories of the replay a round trains on."""

    def draws(self, rank=0, num_rounds=30):
        """The rewards that mark the trajectories, of each round's batch."""
        learner = make_learner(rank=rank)
        learner.replay.add(numbered(1, 2, 3, 4, 5, 6))
        batches = [learner._batches(numbered(0), i) for i in range(num_rounds)]
        return [tuple(batch.reward[0].tolist()) for (batch,) in batches]

    def test_every_trajectory_is_drawn_sooner_or_later(self):
        self.assertEqual(set(itertools.chain(*self.draws())), {1.0, 2.0, 3.0, 4.0, 5.0, 6.0})

    def test_rounds_and_ranks_draw_anew_and_the_same_again(self):
        draws = self.draws()
        self.assertEqual([len(draw) for draw in draws], [CONFIG.disco.batch_size] * 30)
        self.assertGreater(len({*draws}), 20)
        self.assertNotEqual(draws, self.draws(rank=1))
        self.assertEqual(draws, self.draws())


class TrajectoriesTest(unittest.TestCase):
    """What the replay holds of rollouts."""

    def setUp(self):
        self.learner = make_learner(dataclasses.replace(CONFIG, disco_batch_size=1000, disco_replay_capacity=1000))

    def held(self):
        return self.learner.replay.sample(torch.arange(len(self.learner.replay)))

    def test_step_after_an_end_is_not_trained_on_over_rollouts_too(self):
        first, second = rollouts(2, num_envs=3, num_steps=4)
        for rollout in (first, second):
            rollout["terminated"][:] = rollout["truncated"][:] = False
        first["terminated"][1, 0] = first["truncated"][3, 1] = True
        train(self.learner, [first, second])
        mask = self.held().mask
        self.assertEqual((~mask).nonzero().tolist(), [[0, 4], [2, 0]])  # columns 3 .. 5 are the second rollout

    def test_truncation_is_an_end(self):
        (rollout,) = rollouts(1)
        train(self.learner, [rollout])
        expected = rollout["terminated"] | rollout["truncated"]
        self.assertTrue(expected.any())
        np.testing.assert_array_equal(self.held().ended.numpy(), expected)

    def test_rollout_is_held_as_it_is_and_rewards_are_scaled(self):
        (rollout,) = rollouts(1)
        rollout.fill(Normalization(reward_scale=0.5))
        self.learner.train_step(rollout)
        held = self.held()
        for name in ("obs", "act", "logits"):
            np.testing.assert_array_equal(getattr(held, name).numpy(), rollout[name])
        np.testing.assert_allclose(held.reward.numpy(), rollout["reward"] * 0.5)

    def test_other_number_of_environments_starts_anew(self):
        for rollout in [*rollouts(1, num_envs=2), *rollouts(1, num_envs=3)]:
            rollout["terminated"][-1] = True
            train(self.learner, [rollout])
        self.assertTrue(bool(self.held().mask[0].all()))


class TrainStepTest(unittest.TestCase):
    def test_training_starts_once_the_replay_holds_a_batch(self):
        learner = make_learner()
        start = learner.agent.flat.clone()
        first, second, third = train(learner, rollouts(3))
        self.assertEqual([m["train/gradient_steps"] for m in (first, second, third)], [0.0, 1.0, 1.0])
        self.assertTrue(math.isnan(first["train/loss"]))
        self.assertEqual(first.keys(), second.keys())
        self.assertTrue(all(math.isfinite(value) for value in second.values()))
        self.assertEqual([m["train/replay_size"] for m in (first, second, third)], [2.0, 4.0, 6.0])
        self.assertEqual(second["buffer_size"], 10.0)
        self.assertFalse(torch.equal(learner.agent.flat, start))

    def test_rollout_is_used_up(self):
        learner = make_learner()
        (rollout,) = rollouts(1)
        train(learner, [rollout])
        with self.assertRaisesRegex(ValueError, "trained on already"):
            train(learner, [rollout])

    def test_without_replay_each_rollout_is_the_batch(self):
        learner, other = (make_learner(dataclasses.replace(CONFIG, disco_replay_capacity=0)) for _ in range(2))
        (rollout,) = rollouts(1)
        batch = learner._trajectories(rollout)
        _, metrics = other.train_step(rollout)
        self.assertEqual(metrics["train/loss"], float(learner.update(batch)[0]))
        self.assertTrue(torch.equal(learner.agent.flat, other.agent.flat))

    def test_several_updates_a_round(self):
        learner = make_learner(dataclasses.replace(CONFIG, disco_updates_per_round=3))
        self.assertEqual(train(learner, rollouts(2))[1]["train/gradient_steps"], 3.0)
        self.assertEqual(float(learner.optimizer.step), 3.0)

    def test_ranks_sample_differently(self):
        parameters = []
        for rank in (0, 0, 1):
            learner = make_learner(rank=rank)
            train(learner, rollouts(3))
            parameters.append(learner.agent.flat)
        self.assertTrue(torch.equal(parameters[0], parameters[1]))
        self.assertFalse(torch.equal(parameters[0], parameters[2]))

    def test_linear_schedule_ends_at_zero(self):
        learner = make_learner(dataclasses.replace(CONFIG, learning_rate_schedule="linear"))
        rates = [m["train/learning_rate"] for m in train(learner, rollouts(2), first_round=98)]
        np.testing.assert_allclose(rates, [2e-5, 1e-5])

    def test_target_follows_a_tenth_of_the_way_behind_the_parameters(self):
        learner = make_learner()
        batch = random_batch(5, 4, 2)
        learner.update(batch)
        birth, after_one = learner.target.flat.clone(), learner.agent.flat.clone()
        learner.update(batch)
        torch.testing.assert_close(learner.target.flat, 0.9 * birth + 0.1 * after_one)

    def test_parameters_stay_where_a_gradient_is_not_finite(self):
        learner = make_learner()
        before = {name: tensor.clone() for name, tensor in learner.common().tensors.items()}
        batch = random_batch(5, 4, 2)
        with self.assertRaisesRegex(NonFiniteError, "no step was taken"):
            learner.update(batch._replace(obs=batch.obs * math.nan))
        for name, tensor in learner.common().tensors.items():
            self.assertTrue(torch.equal(tensor, before[name]), name)

    def test_normaliser_is_applied_to_what_is_replayed(self):
        state = {"mean": np.full(4, 2.0), "var": np.full(4, 9.0), "count": 10.0}
        learner, other = make_learner(), make_learner()
        learner.normalize_with(state)
        batch = random_batch(5, 4, 2)
        loss = learner.update(batch._replace(obs=batch.obs * 3.0 + 2.0))[0]
        self.assertAlmostEqual(float(loss), float(other.update(batch)[0]), 4)

    def test_what_actors_act_with(self):
        learner = make_learner()
        self.assertEqual(learner.acting_parameters().shape, (SPEC.acting_network.num_parameters,))


class ResumeTest(unittest.TestCase):
    def test_continued_run_equals_the_unbroken_one(self):  # C18
        unbroken, first = make_learner(), make_learner()
        sequence = rollouts(8)
        train(unbroken, sequence)
        again = rollouts(8)
        train(first, again[:5])
        second = make_learner(seed=1)
        train(second, rollouts(1, num_steps=5))  # what it had before is gone
        second.load_state_dict(self.saved(first))
        train(second, again[5:], first_round=5)
        self.assertEqual(float(unbroken.optimizer.step), 7.0)
        self.assert_equal(unbroken.state_dict(), second.state_dict())

    def test_checkpoint_from_before_the_first_update(self):
        unbroken, first, second = make_learner(), make_learner(), make_learner(seed=1)
        train(unbroken, rollouts(3))
        second.load_state_dict(self.saved(first))
        train(second, rollouts(3))
        self.assert_equal(unbroken.state_dict(), second.state_dict())

    def saved(self, learner):
        """Its state as it comes back from a checkpoint: NumPy arrays and plain values."""
        with tempfile.TemporaryDirectory(prefix="ddp_ppo_test_") as folder:
            save_plain(Path(folder) / "state.pt", learner.state_dict())
            return load_plain(Path(folder) / "state.pt")

    def assert_equal(self, one, other, name=""):
        if isinstance(one, dict):
            self.assertEqual(one.keys(), other.keys())
            for key in one:
                self.assert_equal(one[key], other[key], f"{name}/{key}")
        elif isinstance(one, torch.Tensor):
            self.assertTrue(torch.equal(one, other), name)
        else:
            self.assertEqual(one, other, name)

    def test_state_does_not_change_with_the_learner(self):
        learner = make_learner()
        state = learner.state_dict()
        before = state["agent"].clone()
        train(learner, rollouts(3))
        self.assertTrue(torch.equal(state["agent"], before))
        self.assertEqual(state["replay"], {})

    def test_other_agent_is_refused(self):
        other = DiscoLearner(CONFIG, random_agent(AgentSpec(5, 2, **SMALL_AGENT)), meta=random_meta())
        with self.assertRaisesRegex(ValueError, r"the checkpoint has \d+ parameters, this agent \d+"):
            other.load_state_dict(make_learner().state_dict())


if __name__ == "__main__":
    unittest.main()
