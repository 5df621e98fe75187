"""bench/scaling.py: the cost model, the document it fills, and the parts that it measures; no run is long."""

import json
import math
import sys
import unittest
from dataclasses import replace
from pathlib import Path

from tests.support.mujoco_tasks import needs_batch
from tests.support.process import FolderTestCase, Program

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "bench" / "scaling.py"
FOLDERS = [str(ROOT / "bench"), str(ROOT / "bench" / "peers"), str(ROOT / "bench" / "scaling")]
sys.path[:0] = FOLDERS

import cost_model  # noqa: E402
import larger_machines  # noqa: E402
import scaling_report  # noqa: E402
import scaling_runs  # noqa: E402
from cost_model import Messages, Network, Setup  # noqa: E402

# 2 actors x 8 environments x 128 steps = 2048 samples, in 10 x 32 gradient steps of 64.
SMALL = Setup(
    num_learners=1, num_actors=2, envs_per_actor=8, rollout_length=128, minibatch_size=64, num_cores=2, num_epochs=10
)
GLOO = Network(hop=2e-4, byte=1e-9, is_ring=True)
MESSAGES = Messages(vector=120_000, row=500)
COSTS = {
    "actor_step": 1e-5,
    "env_step": 2e-5,
    "answer": 1e-4,
    "answer_pair": 1e-6,
    "actor_spread": 0.05,
    "annotate": 5e-4,
    "annotate_sample": 3e-7,
    "transfer_one_core": 3e-4,
    "transfer_sample_one_core": 5e-8,
    "transfer_two_cores": 4e-4,
    "transfer_sample_two_cores": 4e-8,
    "gradient_step_one_core": 7e-5,
    "gradient_sample_one_core": 1.4e-6,
    "gradient_step_two_cores": 6e-5,
    "gradient_sample_two_cores": 1e-6,
    "sync": 6e-4,
    "merge_actor": 4e-6,
    "merge_learner": 1e-5,
    "publish_byte": 5e-11,
    "checksum_byte": 3e-10,
    "learner_spread": 0.09,
    "write": 4e-4,
}
KNOWN = ("answer", "answer_pair", "merge_actor", "merge_learner", "publish_byte", "checksum_byte")


def setup_of(key):
    """A run on two cores."""
    learners, actors, envs, steps, minibatch = key
    return replace(
        SMALL,
        num_learners=learners,
        num_actors=actors,
        envs_per_actor=envs,
        rollout_length=steps,
        minibatch_size=minibatch,
        num_cores=2 / learners,
    )


def measured(setup):
    """The stages of a run that costs exactly what the model says."""
    stages = cost_model.predict(setup, COSTS, GLOO, MESSAGES)
    found = {name: sum(stages[part] for part in parts) for name, parts in scaling_report.MEASURED_STAGES.items()}
    return {**found, "idle": stages["idle"], "round": sum(stages.values())}


def an_earlier_result():
    """What a measurement leaves, of a machine with two cores that costs exactly what the model says."""
    keys = (*scaling_runs.FITTED, *scaling_runs.CHECKS)
    runs = [scaling_runs.summary(key, [[measured(setup_of(key))]]) for key in keys]
    sizes = (4_000, 4_000_000)
    actors, learners = (1, 4, 16), (1, 8, 128)
    found = {
        "actor_step": [
            {"envs_per_actor": k, "loop": 1e-5 + k * 2e-5, "physics": k * 2e-5, "inference": 8e-6} for k in (1, 8)
        ],
        "learner_side": [
            {
                "num_actors": number,
                "handshake": 1e-4 * number + 1e-6 * number**2,
                "merge": 1e-4 + 4e-6 * number,
                "actor_bytes": 40_000_000,
                "answer_bytes": 8_500,
                "num_metrics": 12,
            }
            for number in actors
        ],
        "rows_of_learners": [{"num_learners": number, "seconds": 1e-5 * number + 1e-5} for number in learners],
        "publishing": [{"num_bytes": n, "publish": 1e-6 + 5e-11 * n, "checksum": 1e-6 + 3e-10 * n} for n in sizes],
        "collectives": [{"num_bytes": n, "all_reduce": 4e-4 + 1e-9 * n, "broadcast": 1e-4} for n in sizes],
        "network": {"obs_size": 17, "num_parameters": 10_000},
    }
    about = {"cpu": "a processor", "cores": 2, "python": "3.11", "load": 0.0, "versions": {"torch": "2"}}
    return {"machine": about, "rounds": 80, "repeats": 1, "probes": found, "runs": runs}


class CostModelTest(unittest.TestCase):
    def test_counts_are_those_worked_out_by_hand(self):
        found = cost_model.counts(replace(SMALL, num_actors=4))  # 4 actors on 2 cores: every step takes twice as long
        self.assertEqual(found["sample"], {"actor_step": 256, "env_step": 2048, "answer": 4, "answer_pair": 16})
        self.assertEqual(found["train"], {"gradient_step_two_cores": 640, "gradient_sample_two_cores": 40960})
        self.assertEqual(found["sync"], {"sync": 1, "merge_actor": 4, "merge_learner": 1})

    def test_a_last_smaller_minibatch_is_a_gradient_step_too(self):
        found = cost_model.counts(replace(SMALL, minibatch_size=2000))["train"]
        self.assertEqual(found["gradient_step_two_cores"], 20)

    def test_what_trains_decides_the_cost_of_a_gradient_step(self):
        for change, name in (
            ({"num_cores": 1}, "one_core"),
            ({"num_cores": 16}, "two_cores"),
            ({"device": "gpu"}, "gpu"),
        ):
            self.assertIn(f"gradient_step_{name}", cost_model.counts(replace(SMALL, **change))["train"])

    def test_all_reduce_goes_around_a_ring_or_through_a_tree(self):
        ring, tree = (Network(hop=1.0, byte=0.01, is_ring=is_ring) for is_ring in (True, False))
        self.assertAlmostEqual(ring.all_reduce(4, 1000), 2 * 3 + 2 * 3 / 4 * 10)
        self.assertAlmostEqual(tree.all_reduce(16, 1000), 2 * 4 + 2 * 15 / 16 * 10)
        self.assertEqual(ring.all_reduce(1, 1000), 0.0)

    def test_the_largest_of_several_deviates_is_known(self):
        # Two and three in closed form, the others from Harter's table of 1961.
        exact = {2: 1 / math.sqrt(math.pi), 3: 1.5 / math.sqrt(math.pi), 10: 1.53875, 100: 2.50759}
        for number, value in exact.items():
            self.assertAlmostEqual(cost_model.expected_max(number) / value, 1.0, delta=0.05)
        self.assertEqual(cost_model.expected_max(1), 0.0)

    def test_one_actor_and_one_learner_wait_for_nobody(self):
        stages = cost_model.predict(replace(SMALL, num_actors=1), COSTS, GLOO, MESSAGES)
        self.assertEqual((stages["idle"], stages["wait"], stages["all_reduce"]), (0.0, 0.0, 0.0))
        self.assertAlmostEqual(stages["sample"], 128 * (1e-5 + 8 * 2e-5) + 1e-4 + 1e-6)

    def test_a_fit_finds_the_costs_behind_exact_seconds(self):
        rows = [{"a": 1.0, "b": number} for number in (1.0, 2.0, 5.0)]
        found = cost_model.fit(rows, [2.5, 3.0, 4.5])
        self.assertAlmostEqual(found["a"], 2.0)
        self.assertAlmostEqual(found["b"], 0.5)

    def test_no_cost_is_negative(self):
        # Without b the relative errors a/2 - 1 and a - 1 are smallest, in squares, at a = 1.2.
        found = cost_model.fit([{"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 2.0}], [2.0, 1.0])
        self.assertAlmostEqual(found["a"], 1.2)
        self.assertEqual(found["b"], 0.0)

    def test_costs_are_found_again_in_the_runs_that_they_explain(self):
        runs = [(setup_of(key), measured(setup_of(key))) for key in scaling_runs.FITTED]
        found = cost_model.fitted(runs, {name: COSTS[name] for name in KNOWN}, GLOO, MESSAGES)
        self.assertEqual(set(found), set(COSTS))
        for name, cost in COSTS.items():
            self.assertAlmostEqual(found[name] / cost, 1.0, places=5, msg=name)

    def test_a_limit_is_the_first_count_that_costs_as_much_as_sampling(self):
        self.assertEqual(cost_model.first_count(lambda number: number * number, 50.0), 8)
        self.assertEqual(cost_model.first_count(lambda number: 3.0, 2.0), 1)
        self.assertIsNone(cost_model.first_count(lambda number: 1.0, 2.0))

    def test_what_already_takes_longest_breaks_first_and_then_what_is_nearest(self):
        setup = replace(SMALL, num_learners=512, num_cores=2)
        found = cost_model.limits(setup, COSTS, GLOO, MESSAGES)
        sampling = 128 * (1e-5 + 8 * 2e-5) + 2e-4 + 4e-6
        above = [limit.seconds for limit in found if limit.seconds >= sampling]
        below = [limit.headroom for limit in found if limit.seconds < sampling]
        self.assertEqual(above, sorted(above, reverse=True))
        self.assertEqual(below, sorted(below))
        averaging = next(limit for limit in found if limit.name == "averaging parameters")
        # 2 (W - 1) hops of 0.2 ms and 2 (W - 1) / W of 0.12 ms: 21.964 ms are reached between 55 and 56 learners.
        self.assertEqual((averaging.here, averaging.at), (512, 56))
        self.assertAlmostEqual(averaging.seconds, 2 * 511 * 2e-4 + 2 * 511 / 512 * 1.2e-4)


class LargerMachinesTest(unittest.TestCase):
    def test_every_shape_fills_a_machine(self):
        for name, setup in larger_machines.shapes().items():
            with self.subTest(name):
                self.assertEqual(setup.num_actors, setup.num_cores)
                self.assertEqual(larger_machines.NUM_CORES % setup.num_cores, 0)

    def test_every_assumption_is_described(self):
        self.assertEqual(list(larger_machines.ABOUT), list(vars(larger_machines.Assumed())))

    def test_efficiency_falls_with_the_number_of_learners(self):
        found = larger_machines.predicted(COSTS, GLOO, MESSAGES, larger_machines.Assumed())
        for name in larger_machines.shapes():
            curve = [one for one in found["curves"] if one["shape"] == name]
            each = [one["steps_per_second"] / one["num_learners"] for one in curve]
            self.assertEqual(each, sorted(each, reverse=True))


class ReportTest(unittest.TestCase):
    def test_only_what_lies_between_the_marks_is_replaced(self):
        text = "before\n<!-- a -->\nold\n<!-- /a -->\nafter\n<!-- b -->\n<!-- /b -->\n"
        filled = scaling_report.fill(text, {"a": r"new \1", "b": "| x |"})
        expected = "before\n<!-- a -->\n\nnew \\1\n\n<!-- /a -->\nafter\n<!-- b -->\n\n| x |\n\n<!-- /b -->\n"
        self.assertEqual(filled, expected)
        self.assertEqual(scaling_report.fill(filled, {"a": r"new \1", "b": "| x |"}), expected)

    def test_a_mark_that_is_missing_or_twice_there_is_an_error(self):
        for text in ("", "<!-- a -->\n<!-- /a -->\n" * 2):
            with self.assertRaisesRegex(ValueError, "section a is there"):
                scaling_report.fill(text, {"a": "new"})

    def test_the_verdict_names_what_breaks_first_and_next(self):
        found = [
            {"name": "one", "grows_with": "actors", "here": 16, "seconds": 0.2, "at": 4},
            {"name": "two", "grows_with": "learners", "here": 8, "seconds": 0.01, "at": 80},
        ]
        self.assertEqual(
            scaling_report.verdict(found, 0.1),
            "first one, 200.0 ms per round against 100.0 ms of sampling (equal at 4 of 16 actors); then two, "
            "10.0 ms per round against 100.0 ms of sampling (equal at 80 learners, 10.0 times as many).",
        )


class RunsTest(unittest.TestCase):
    def test_rounds_leave_out_the_warm_up_and_the_last_and_say_what_passes_between_them(self):
        names = ("sample", "annotate", "transfer", "train", "sync", "record", "idle")
        rows = [
            {f"time/{name}_seconds": "1.0" for name in names}
            | {"time/round_seconds": "6.0", "time/elapsed_seconds": str(6.5 * (i + 1))}
            for i in range(scaling_runs.WARM_UP_ROUNDS + 3)
        ]
        found = scaling_runs.rounds_of(rows)
        expected = dict.fromkeys(("sample", "annotate", "transfer", "train", "sync", "idle"), 1.0)
        self.assertEqual(found, [expected | {"write": 1.5, "round": 6.5}] * 2)

    def test_a_disturbed_round_does_not_count(self):
        found = scaling_runs.summary((2, 2, 8, 128, 64), [[{"round": 0.1}, {"round": 0.1}], [{"round": 9.0}]])
        self.assertAlmostEqual(found["steps_per_second"], 40960.0)
        self.assertEqual(len(found["repeats"]), 2)

    def test_every_series_grows_and_was_run(self):
        for _, keys, times in scaling_runs.SERIES:
            self.assertLessEqual(set(keys), set(scaling_runs.FITTED))
            self.assertEqual((len(keys), times[0], list(times)), (len(times), 1, sorted(times)))


class ProgramTest(FolderTestCase):
    def run_python(self, *words):
        """Runs it to its end; its last line as JSON, and how it ended."""
        with Program(*words, folder=self.work) as program:
            ended = program.end(120.0)
        self.assertEqual(ended.left, [])
        return ended

    def run_code(self, expression, module):
        """The value of an expression that measures something, in a process of its own."""
        code = f"import json, sys; sys.path[:0] = {FOLDERS}; from {module} import *; print(json.dumps({expression}))"
        ended = self.run_python("-c", code)
        self.assertEqual(ended.code, 0, ended.err)
        return json.loads(ended.out.splitlines()[-1])

    def test_a_run_is_measured_round_by_round(self):
        found = self.run_code("rounds_of(train((1, 1, 2, 16, 16), 10))", "scaling_runs")
        self.assertEqual(len(found), 10 - scaling_runs.WARM_UP_ROUNDS - 1)
        for one in found:
            self.assertGreater(one["sample"], 0.0)
            parts = sum(one[name] for name in scaling_report.MEASURED_STAGES)
            self.assertAlmostEqual(parts, one["round"], delta=1e-6 + 0.02 * one["round"])

    def test_the_learner_s_side_of_two_actors_is_measured(self):
        found = self.run_code("learner_side(2)", "probes")
        self.assertEqual(found["num_actors"], 2)
        self.assertTrue(all(value > 0 for value in found.values()), found)

    @needs_batch
    def test_an_actor_s_step_is_measured_with_its_parts(self):
        found = self.run_code("actor_step(16)", "probes")
        self.assertGreater(found["physics"], found["inference"])
        self.assertGreater(found["loop"], found["inference"])

    def test_collectives_are_measured_between_two_processes(self):
        words = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
        ended = self.run_python(*words, ROOT / "bench" / "scaling" / "probes.py")
        self.assertEqual(ended.code, 0, ended.err)
        found = json.loads(ended.out.splitlines()[-1])["collectives"]
        self.assertEqual([one["num_bytes"] for one in found], [4 * 10**exponent for exponent in range(3, 8)])
        self.assertTrue(all(one["all_reduce"] > 0 and one["broadcast"] > 0 for one in found))

    def test_the_document_is_filled_from_an_earlier_measurement(self):
        earlier, document = self.folder / "earlier.txt", self.folder / "scaling.md"
        earlier.write_text("noise\n" + json.dumps(an_earlier_result()))
        document.write_text((ROOT / "docs" / "scaling.md").read_text())
        ended = self.run_python(SCRIPT, "--reuse", earlier, "--out", document, "--gpu-step-us", 500)
        self.assertEqual(ended.code, 0, ended.err)
        result = json.loads(ended.out.splitlines()[-1])
        for name in ("actor_step", "gradient_step_two_cores", "learner_spread"):
            self.assertAlmostEqual(result["costs"][name] / COSTS[name], 1.0, places=2)
        for run in result["runs"]:
            self.assertAlmostEqual(run["predicted_steps_per_second"] / run["steps_per_second"], 1.0, places=2)
        self.assertEqual(result["assumed"][larger_machines.ABOUT["gpu_step_us"]], 500.0)
        text = document.read_text()
        self.assertNotIn("Not measured yet", text)
        self.assertNotIn("nan", text.lower().split())

    def test_a_file_that_holds_no_measurement_is_said_so(self):
        wrong = self.folder / "wrong.txt"
        for content, said in (("nothing", "no JSON object"), ('{"runs": []}', "holds no machine")):
            wrong.write_text(content)
            ended = self.run_python(SCRIPT, "--reuse", wrong)
            self.assertEqual(ended.code, 1)
            self.assertIn(said, ended.err)
            self.assertNotIn("Traceback", ended.err)


if __name__ == "__main__":
    unittest.main()
