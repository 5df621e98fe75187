"""Reading, checking and writing settings. Nothing here starts a process."""

import dataclasses
import importlib
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import yaml

from ddp_ppo.config.settings import (
    Config,
    ConfigError,
    describe_settings,
    dump_effective,
    env_ids,
    load_config,
    save_effective,
    settings_reference,
    warnings,
)

ROOT = Path(__file__).resolve().parents[2]

WRONG_TYPES = {
    "int": ("2.5", "true", "yes", '"1"', "[1]", "{a: 1}", "word"),
    "float": ("true", "no", '"1"', "[1]", "{a: 1}", "word", ".nan", ".inf"),
    "bool": ("0", "on", '"true"', "[true]", "null"),
    "str": ("1", "true", "[a]", "{a: 1}", '""', '" "', '"a\\nb"', '"\\0"'),
    "dict": ("1", "word", "[a]", "null", "{1: 2}", "{a: 1, a: 2}", "{a: yes}", "{a: .nan}", "{a b: 1}"),
    "list": ("64", "word", "[0]", "[-1]", "[2.5]", "[true]", '["64"]', "[[64]]", "null", "{a: 1}"),
}

ODD_VALUES = {
    "env_kwargs": {
        "r": (0.2, float("inf")),
        "t": "x: 'y' \"z\" # \u2028\x07\x85é😀\\ \n" + "long " * 40,
        "n": None,
    },
    "hidden_sizes": (),
    "learning_rate": 1e-30,
    "adam_eps": 12345678901234567.0,
    "seed": 10**18,
    "output_dir": "~/out put: #1 'a' \"b\" é😀\\",
    "run_name": "null",
    "metrics_path": "true",
    "resume": "auto",
    "max_grad_norm": None,
}


class ConfigCase(unittest.TestCase):
    """Gives each test a folder of its own and checks that loading leaves nothing behind in it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, text, name="task.yaml"):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def load(self, text, *overrides):
        return load_config(self.write(text), overrides)

    def refused(self, text, *overrides):
        """The lines of the error that loading this file must raise."""
        path = self.write(text)
        before = sorted(self.folder.rglob("*"))
        with self.assertRaises(ConfigError) as caught:
            load_config(path, overrides)
        self.assertEqual(sorted(self.folder.rglob("*")), before, "loading created something on disk")
        return str(caught.exception).splitlines()

    def assert_refused(self, text, *parts):
        """Exactly one error, which holds all of `parts`."""
        lines = self.refused(text)
        self.assertEqual(len(lines), 1, lines)
        for part in parts:
            self.assertIn(part, lines[0])


class ScalarTest(ConfigCase):
    def test_exponents_are_numbers(self):
        config = self.load("learning_rate: 1e-4\ntotal_env_steps: 1e6\nnum_epochs: 1.2e1\n")
        self.assertEqual((config.learning_rate, config.total_env_steps, config.num_epochs), (0.0001, 1_000_000, 12))
        self.assertIs(type(config.total_env_steps), int)

    def test_usual_spellings_of_numbers_are_read(self):
        config = self.load("gamma: .9\nseed: 1_000\nvalue_coef: 1\nadam_eps: 1.E-8\ninit_log_std: -1\n")
        self.assertEqual((config.gamma, config.seed, config.adam_eps, config.init_log_std), (0.9, 1000, 1e-8, -1.0))
        self.assertIs(type(config.value_coef), float)

    def test_whole_numbers_refuse_fractions_octals_times_booleans_and_quotes(self):
        for text in ("1.5e0", "3.0", "010", "1:30", "yes", "true", '"3"', "0x10", "1e400", ".nan", "2020-01-01", "[3]"):
            with self.subTest(text):
                self.assert_refused(f"seed: {text}\n", "task.yaml:1: seed: got ", text, "a whole number >= 0")

    def test_whole_numbers_of_absurd_size_are_refused_quickly(self):
        for text in ("9" * 5000, "1e999999999", "1e20"):
            with self.subTest(text[:20]):
                self.assert_refused(f"seed: {text}\n", "seed: got")
        with self.assertRaisesRegex(ConfigError, "learning_rate"):
            Config(learning_rate=10**400)

    def test_numbers_refuse_nan_inf_times_and_leading_zeros(self):
        for text in (".nan", ".inf", "-.Inf", "1:30", "00.5", "2020-01-01", "on", "'0.1'", "nan", "1e999"):
            with self.subTest(text):
                self.assert_refused(f"learning_rate: {text}\n", "task.yaml:1: learning_rate: got ", "a number > 0")

    def test_only_true_and_false_are_booleans(self):
        self.assertIs(self.load("normalize_obs: false\n").normalize_obs, False)
        for text, hint in (
            ("off", "write false"),
            ("yes", "write true"),
            ("1", ""),
            ('"true"', "quotes"),
            ("null", ""),
        ):
            with self.subTest(text):
                self.assert_refused(f"normalize_obs: {text}\n", "normalize_obs", f"got {text}", "true or false", hint)

    def test_text_that_looks_like_a_number_or_boolean_must_be_quoted(self):
        for text in ("12", "1e3", "010", "true", "1.5"):
            with self.subTest(text):
                self.assert_refused(f"run_name: {text}\n", "run_name", f'quote it if it is meant as text: "{text}"')
                self.assertEqual(self.load(f'run_name: "{text}"\n').run_name, text)
        self.assertEqual(self.load("run_name: 2024-05-01\n").run_name, "2024-05-01")

    def test_null_is_read_only_where_it_is_allowed(self):
        config = self.load("max_grad_norm: null\nrun_name: ~\ntarget_kl:\n")
        self.assertEqual((config.max_grad_norm, config.run_name, config.target_kl), (None, None, None))
        self.assert_refused("gamma:\n", "gamma: got nothing", ">= 0 and <= 1")
        self.assert_refused("output_dir: null\n", "output_dir: got null", "a path")

    def test_bounds_that_are_allowed_are_accepted(self):
        config = self.load("gamma: 1\ngae_lambda: 0\nclip_range: 1\nseed: 0\neval_interval: 0\n")
        self.assertEqual((config.gamma, config.gae_lambda), (1.0, 0.0))
        self.assertEqual(self.load("gamma: 0\ngae_lambda: 1\nhidden_sizes: []\n").hidden_sizes, ())

    def test_hand_written_tags_are_refused(self):
        for text in ("!!int 3", "!!python/object/apply:os.getcwd []", "!x 3"):
            with self.subTest(text):
                self.assert_refused(f"seed: {text}\n", "seed", "tag")

    def test_names_with_a_small_set_of_values_suggest_the_nearest(self):
        self.assert_refused("learning_rate_schedule: linaer\n", "did you mean linear?", "constant, linear, adaptive")


class EverySettingTest(ConfigCase):
    @staticmethod
    def out_of_range(setting):
        if setting.choices:
            return ["nonsense"]
        if setting.kind not in ("int", "float"):
            return []
        below = [f"{setting.low - 1}"] if setting.low > -1e17 else []
        at = [f"{setting.above}"] if setting.above > -1e17 else []
        return [*below, *at, f"{setting.high + 1}" if setting.high < 1e17 else "1e19"]

    def test_every_setting_refuses_wrong_types_and_values_out_of_range_by_name(self):
        for setting in describe_settings():
            for text in (*WRONG_TYPES[setting.kind], *self.out_of_range(setting)):
                with self.subTest(f"{setting.name}: {text}"):
                    self.assert_refused(
                        f"\n{setting.name}: {text}\n", f"task.yaml:2: {setting.name}: got ", "; allowed: "
                    )

    def test_values_outside_the_documented_ranges_are_refused(self):
        wrong = (
            "gamma 1.2, gamma -0.1, gae_lambda 1.01, clip_range 0, clip_range 1.1, learning_rate -1, learning_rate 0"
        )
        wrong += ", num_gpus 0, envs_per_actor -4, rollout_length 0, seed -1, init_log_std 2.1, init_log_std -5.1"
        wrong += ", entropy_coef -1e-9, value_clip_range 0, target_kl 0, max_grad_norm 0, eval_interval -1"
        wrong += ", param_sync_interval 0, total_env_steps 0, max_actor_restarts -1, actor_timeout_seconds 0"
        for key, text in (pair.split() for pair in wrong.split(", ")):
            with self.subTest(f"{key}: {text}"):
                self.assert_refused(f"{key}: {text}\n", f"task.yaml:1: {key}: got {text}; allowed: ")

    def test_every_setting_refuses_them_on_the_command_line_too(self):
        for setting in describe_settings():
            texts = () if setting.kind == "str" else WRONG_TYPES[setting.kind]
            for text in (*texts, *self.out_of_range(setting), ""):
                with self.subTest(f"{setting.name}={text}"):
                    lines = self.refused("", f"{setting.name}={text}") if text or setting.type == setting.kind else None
                    if lines:
                        self.assertEqual(len(lines), 1)
                        self.assertIn(f"command line: {setting.name}: got ", lines[0])

    def test_every_setting_refuses_a_foreign_object_in_code(self):
        for setting in describe_settings():
            for value in (object(), float("nan"), b"x", {1}):
                with (
                    self.subTest(f"{setting.name}={value}"),
                    self.assertRaisesRegex(ConfigError, f"code: {setting.name}: got .*; allowed: "),
                ):
                    Config(**{setting.name: value})

    def test_all_of_them_at_once_are_reported_at_once(self):
        wrong = {setting.name: WRONG_TYPES[setting.kind][-1] for setting in describe_settings()}
        lines = self.refused("".join(f"{key}: {text}\n" for key, text in wrong.items()))
        self.assertEqual([line.split(": ")[1] for line in lines], list(wrong))

    def test_every_setting_is_described(self):
        for setting in describe_settings():
            with self.subTest(setting.name):
                self.assertGreater(len(setting.doc), 20)
                self.assertTrue(setting.allowed)
                self.assertEqual(setting.check(setting.default), setting.default)

    def test_the_fixed_field_names_exist(self):
        fixed = "num_actors num_gpus actors_per_gpu param_sync_interval rollout_length gamma gae_lambda metrics_path"
        self.assertLessEqual(set(fixed.split()), {setting.name for setting in describe_settings()})

    def test_the_origin_and_name_of_a_config_are_no_settings(self):
        for key in ("name", "origins"):
            self.assert_refused(f"{key}: x\n", f"{key}: unknown setting")


class FileTest(ConfigCase):
    def test_an_empty_file_means_all_defaults(self):
        for text in ("", "\n", "# nothing\n", "---\n", "{}\n"):
            with self.subTest(text):
                self.assertEqual(self.load(text), Config())
        self.assertEqual(set(self.load("").origins.values()), {"default"})

    def test_the_name_is_the_stem_of_the_file(self):
        self.assertEqual(load_config(self.write("", "half_cheetah.yaml")).name, "half_cheetah")
        self.assertEqual(Config().name, "config")

    def test_a_byte_order_mark_and_windows_line_ends_are_fine(self):
        self.assertEqual(self.load(b"\xef\xbb\xbfseed: 3\r\ngamma: 0.5\r\n"), Config(seed=3, gamma=0.5))

    def test_what_is_no_yaml_mapping_in_utf8_is_refused_with_its_place(self):
        self.assert_refused(b"seed: 3\nenv_id: \xff\n", "task.yaml", "UTF-8")
        self.assert_refused("seed: 3\n".encode("utf-16"), "task.yaml", "UTF-8")
        self.assert_refused("- seed\n", "task.yaml:1", "key: value")
        self.assert_refused("\nseed\n", "task.yaml:2", "key: value")
        self.assert_refused("seed: 3\nhidden_sizes: [64\ngamma: 1\n", "task.yaml:3", "not valid YAML")
        self.assert_refused("seed: 3\n\tgamma: 1\n", "task.yaml:2", "not valid YAML")
        self.assert_refused("seed: 3\x00\n", "task.yaml", "not valid YAML")
        self.assert_refused("seed: 3\n---\nseed: 4\n", "task.yaml", "not valid YAML")
        self.assert_refused("[a]: 3\n", "task.yaml:1", "a key must be plain text")

    def test_endless_nesting_is_refused(self):
        self.assert_refused("env_kwargs: &a {x: *a}\n", "task.yaml", "contains itself")
        self.assert_refused("env_kwargs: &a {<<: *a}\n", "task.yaml", "contains itself")
        self.assert_refused("env_kwargs: " + "[" * 5000 + "\n", "task.yaml", "nested too deeply")

    def test_a_missing_file_and_a_folder_are_refused_by_name(self):
        for path in (self.folder / "none.yaml", self.folder):
            with self.assertRaises(ConfigError) as caught:
                load_config(path)
            self.assertTrue(str(caught.exception).startswith(f"{path}: cannot be read"))

    def test_an_unknown_key_names_the_nearest_one(self):
        self.assert_refused("\n\nentropy_coeff: 0.01\n", "task.yaml:3: entropy_coeff", "did you mean entropy_coef?")
        self.assert_refused("inherit: base.yaml\n", "task.yaml:1: inherit", "did you mean inherits?")
        self.assert_refused("zzz: 1\n", "task.yaml:1: zzz: unknown setting")

    def test_a_duplicate_key_names_both_lines(self):
        self.assert_refused("gamma: .9\nseed: 1\ngamma: .99\n", "task.yaml:3: gamma", "lines 1 and 3")
        self.assert_refused("env_kwargs:\n  a: 1\n  b: 2\n  a: 3\n", "task.yaml:1: env_kwargs", "a:", "lines 2 and 4")
        self.assert_refused("env_kwargs: {a: {b: 1, b: 1}}\n", "task.yaml:1: env_kwargs", "b: given twice")

    def test_merge_keys_and_anchors_work(self):
        config = self.load("common: &common\n  gamma: .9\n  seed: 5\n<<: *common\nseed: 6\n")
        self.assertEqual((config.gamma, config.seed), (0.9, 6))
        self.assertTrue(config.origins["gamma"].endswith("task.yaml:2"))
        self.assertEqual(self.load("<<: [{gamma: .9}, {gamma: .8, seed: 7}]\n"), Config(gamma=0.9, seed=7))
        self.assertEqual(self.load("env_kwargs: {p: &p [1], q: *p}\n").env_kwargs, {"p": [1], "q": [1]})
        self.assertEqual(self.load("env_kwargs: {p: {<<: {x: 1, y: 2}, y: 3}}\n").env_kwargs, {"p": {"x": 1, "y": 3}})
        self.assert_refused("a: &a {gamma: .9, gamma: .8}\n<<: *a\n", "gamma: given twice")
        self.assert_refused("<<: 3\n", "task.yaml:1: <<")
        self.assert_refused("a: &a {gamma: .9}\n", "task.yaml:1: a: unknown setting")

    def test_environment_arguments_are_plain_data_of_every_kind(self):
        text = "env_kwargs: {i: 3, f: 1e-3, b: true, n: null, s: word, q: '3', l: [1, .inf], m: {x y: -.inf}}\n"
        expected = {"i": 3, "f": 0.001, "b": True, "n": None, "s": "word", "q": "3"}
        expected |= {"l": [1, float("inf")], "m": {"x y": float("-inf")}}
        self.assertEqual(self.load(text).env_kwargs, expected)

    def test_a_person_s_mistakes_in_environment_arguments_are_refused(self):
        self.assert_refused("env_kwargs: {terminate: no}\n", "env_kwargs", "write false")
        self.assert_refused("env_kwargs: {frame_skip: 010}\n", "env_kwargs", "leading zero")
        self.assert_refused("env_kwargs: {frame_skip:4}\n", "env_kwargs", "colon")
        self.assert_refused("env_kwargs: {max_episode_steps: 4}\n", "task.yaml:1: env_kwargs", "max_episode_steps")

    def test_all_errors_come_at_once(self):
        lines = self.refused("gamma: 2\nentropy_coeff: 1\nresume: a\ninit_from: b\nseed: x\n", "seed=-1", "oops", "x=1")
        keys = ("gamma", "entropy_coeff", "seed", "seed", "oops", "x", "init_from")
        self.assertEqual(len(lines), len(keys))
        for line, key in zip(lines, keys, strict=True):
            self.assertIn(f": {key}: ", line)

    def test_no_torch_is_loaded(self):
        code = "import sys, ddp_ppo.config.settings, ddp_ppo.distributed.topology; "
        code += "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
        subprocess.run([sys.executable, "-B", "-c", code], check=True, timeout=60, cwd=ROOT)


class InheritsTest(ConfigCase):
    def test_values_come_from_the_nearest_file_of_a_chain(self):
        self.write("gamma: .5\nseed: 1\nnum_epochs: 3\n", "deep/root.yaml")
        self.write("inherits: root.yaml\nseed: 2\n", "deep/middle.yaml")
        config = self.load("seed: 3\ninherits: deep/middle.yaml\n", "num_epochs=4")
        self.assertEqual((config.gamma, config.seed, config.num_epochs), (0.5, 3, 4))
        self.assertEqual(config.origins["gamma"], f"{self.folder}/deep/root.yaml:1")
        self.assertEqual(config.origins["seed"], f"{self.folder}/task.yaml:1")
        self.assertEqual(config.origins["num_epochs"], "command line")
        self.assertEqual(config.origins["clip_range"], "default")

    def test_an_inherited_mapping_is_replaced_as_a_whole(self):
        self.write("env_kwargs: {a: 1, b: 2}\n", "base.yaml")
        self.assertEqual(self.load("inherits: base.yaml\nenv_kwargs: {a: 3}\n").env_kwargs, {"a": 3})

    def test_a_circle_is_refused_naming_the_chain(self):
        self.write("inherits: ./task.yaml\n", "b.yaml")
        self.assert_refused("\ninherits: b.yaml\n", "b.yaml:1: inherits", "task.yaml -> ", "b.yaml -> ")
        self.assert_refused("inherits: task.yaml\n", "task.yaml:1: inherits", "circle")

    def test_what_cannot_be_inherited_is_refused_at_its_line(self):
        self.assert_refused("\ninherits: none.yaml\n", "task.yaml:2: inherits", "none.yaml")
        for text in ("[a.yaml]", "", '"\\0"'):
            self.assert_refused(f"inherits: {text}\n", "task.yaml:1: inherits: got", "path of one file")
        self.assertIn("unknown setting", self.refused("", "inherits=base.yaml")[0])

    def test_errors_of_all_files_name_their_own_file(self):
        self.write("gamma: 2\n", "base.yaml")
        lines = self.refused("inherits: base.yaml\ngamma: .9\nseed: -1\n")
        self.assertIn("base.yaml:1: gamma: got 2", lines[0])
        self.assertIn("task.yaml:3: seed: got -1", lines[1])


class OverrideTest(ConfigCase):
    def test_words_are_typed_by_their_setting(self):
        words = ("hidden_sizes=[32, 32]", "env_kwargs={frame_skip: 4}", "learning_rate=1e-3", "normalize_obs=false")
        config = self.load("seed: 3\n", *words, "target_kl=null", "run_name=null")
        expected = Config(seed=3, hidden_sizes=(32, 32), env_kwargs={"frame_skip": 4}, learning_rate=1e-3)
        self.assertEqual(config, dataclasses.replace(expected, normalize_obs=False))

    def test_text_is_taken_as_it_stands(self):
        for text in ("12", "true", "a=b", "010", "yes", "a # b", "[x", "~"):
            self.assertEqual(self.load("", f"run_name={text}").run_name, text)
        self.assertEqual(self.load("", "device=cpu").device, "cpu")
        self.assertEqual(self.load("", "output_dir=null").output_dir, "null")

    def test_the_last_word_of_a_key_wins(self):
        self.assertEqual(self.load("seed: 1\n", "seed=2", "seed=3").seed, 3)

    def test_words_that_are_no_assignments_are_refused(self):
        self.assertIn("command line: seed: expected key=value", self.refused("", "seed"))
        self.assertIn("did you mean gamma?", self.refused("", "gama=1")[0])
        self.assertIn("not valid YAML", self.refused("", "hidden_sizes=[")[0])


class RulesTest(ConfigCase):
    def test_actors_must_be_shared_equally_and_the_nearest_totals_are_named(self):
        self.assert_refused("num_gpus: 4\nnum_actors: 10\n", "num_actors: 10", "num_gpus: 4", "8 or 12")
        self.assert_refused("num_gpus: 4\n", "task.yaml:1", "num_actors: 2", "num_gpus: 4", "nearest: 4")

    def test_actors_per_gpu_must_agree_with_the_totals(self):
        self.assertEqual(self.load("num_gpus: 2\nnum_actors: 6\nactors_per_gpu: 3\n").actors_per_learner, 3)
        text = "num_gpus: 2\nnum_actors: 5\nactors_per_gpu: 3\n"
        self.assert_refused(text, "task.yaml:2: num_actors: 5", "num_gpus * actors_per_gpu", "set it to 6")
        self.assert_refused("actors_per_gpu: 3\n", "num_actors: 2", "set it to 3")

    def test_one_actor_on_one_gpu_is_one_actor(self):
        self.assertEqual(self.load("num_gpus: 1\nnum_actors: 1\n").actors_per_learner, 1)

    def test_a_round_of_one_sample_is_refused_naming_the_keys(self):
        text = "num_actors: 1\nenvs_per_actor: 1\nrollout_length: 1\n"
        self.assert_refused(text, "rollout_length", "num_actors", "envs_per_actor")
        self.assert_refused(text.replace("num_actors: 1", "num_actors: 2\nnum_gpus: 2"), "rollout_length")
        self.assertEqual(self.load(text.replace("num_actors: 1", "num_actors: 2")).samples_per_round, 2)

    def test_the_adaptive_schedule_needs_a_target(self):
        self.assert_refused("learning_rate_schedule: adaptive\n", "task.yaml:1: target_kl", "adaptive")
        self.load("learning_rate_schedule: adaptive\ntarget_kl: 0.01\n")

    def test_a_run_cannot_go_on_and_start_from_a_model(self):
        self.assert_refused("resume: output/a\ninit_from: b.pt\n", "task.yaml:2: init_from", "resume: output/a")
        self.load("resume: auto\ninit_from: b.pt\n")

    def test_a_run_name_is_a_plain_folder_name(self):
        for text in ("a/b", "..", ".hidden", "/a", "a\\\\b", "", " a", "a "):
            self.assert_refused(f'run_name: "{text}"\n', "run_name", "plain folder name")
        self.assertEqual(self.load("run_name: lr 3e-4 (β=1)\n").run_name, "lr 3e-4 (β=1)")

    def test_a_backend_is_a_known_name_or_a_class(self):
        self.assertEqual(self.load("env_backend: my.envs:Fast\n").env_backend, "my.envs:Fast")
        for text in ("mujuco", "my.envs", "a:b:c", ":B"):
            self.assert_refused(f"env_backend: '{text}'\n", "env_backend", "module:Class")

    def test_several_tasks_are_different_ids_with_commas_between_them(self):
        self.assertEqual(env_ids(self.load("env_id: A-v0, b:B-v1,C\n").env_id), ["A-v0", "b:B-v1", "C"])
        for text in ("A,", ",A", "A,,B", "A, A", "A,B,C,D,E,F"):
            self.assert_refused(f"env_id: '{text}'\n", "task.yaml:1: env_id", "different ids")

    def test_each_learner_has_an_environment_of_every_task(self):
        text = "env_id: A, B, C\nnum_actors: 2\nenvs_per_actor: 2\n"
        self.load(text)
        self.assert_refused(text + "num_gpus: 2\n", "3 tasks need as many environments of each learner, it has 2")

    def test_convolutions_are_torch_s_and_have_a_layer_behind_them(self):
        text = "conv_channels: [8]\n"
        self.load(text)
        for key in ("policy_backend", "update_backend"):
            self.assert_refused(f"{text}{key}: numpy\n", f"task.yaml:2: {key}: numpy has no convolutions")
        self.assert_refused(f"{text}hidden_sizes: []\n", "hidden_sizes: conv_channels needs at least one layer")

    USELESS = (
        ("param_sync_interval: 4", "sync_mode: gradients", "sync_mode=gradients"),
        ("recompute_advantages: true", "num_epochs: 1", "num_epochs=1"),
        ("activation: relu", "hidden_sizes: []", "hidden_sizes=[]"),
    )

    def test_a_setting_without_effect_is_refused_where_a_person_set_it(self):
        for line, other, word in self.USELESS:
            with self.subTest(line):
                key = line.split(":")[0]
                self.assert_refused(
                    f"{line}\n{other}\n", f"task.yaml:1: {key}", "has no effect with", other.split(":")[0]
                )
                self.assertIn(f"task.yaml:1: {key}", self.refused(f"{line}\n", word)[0])
                self.load(f"{line}\n")
                with self.assertRaisesRegex(ConfigError, key):
                    self.load(f"{other}\n", line.replace(": ", "="))
        with self.assertRaisesRegex(ConfigError, "code: param_sync_interval"):
            Config(param_sync_interval=4, sync_mode="gradients")

    def test_a_setting_without_effect_that_was_inherited_falls_back_to_its_default(self):
        for line, other, word in self.USELESS:
            with self.subTest(line):
                self.write(f"{line}\n", "base.yaml")
                for config in (self.load(f"inherits: base.yaml\n{other}\n"), self.load("inherits: base.yaml\n", word)):
                    key = line.split(":")[0]
                    self.assertEqual(getattr(config, key), getattr(Config(), key))
                    self.assertEqual(config.origins[key], "default")

    def test_a_broken_value_does_not_cause_complaints_about_others(self):
        self.assert_refused("num_gpus: x\nnum_actors: 3\nactors_per_gpu: 1\n", "num_gpus: got x")


class DerivedTest(unittest.TestCase):
    def test_total_steps_are_rounded_up_to_whole_rounds(self):
        config = Config(total_env_steps=10_000, num_actors=3, envs_per_actor=5, rollout_length=100)
        self.assertEqual((config.envs_per_learner, config.samples_per_round), (15, 1500))
        self.assertEqual(config.num_rounds(1), 7)  # 10,500 steps
        self.assertEqual((config.transitions_per_round(2), config.num_rounds(2)), (3000, 4))
        self.assertEqual(Config(total_env_steps=1).num_rounds(1), 1)
        self.assertEqual(Config(total_env_steps=2048).num_rounds(1), 1)

    def test_a_resumed_run_has_the_rounds_that_its_remaining_steps_need(self):
        config = Config(total_env_steps=10_000, num_actors=3, envs_per_actor=5, rollout_length=100)
        for env_steps, expected in ((6_000, 15), (9_999, 13), (10_000, 12), (12_000, 12)):  # of 1,500 steps each
            self.assertEqual(config.num_rounds(1, done=12, env_steps=env_steps), expected)

    def test_totals_are_shared_by_the_learners(self):
        config = Config(num_gpus=8, num_actors=64, envs_per_actor=4, rollout_length=16)
        self.assertEqual((config.actors_per_learner, config.envs_per_learner), (8, 32))
        self.assertEqual((config.samples_per_round, config.transitions_per_round(8)), (512, 4096))

    def test_every_sample_is_in_one_mini_batch(self):
        for size, batches, last in ((64, 2, 36), (256, 1, 100), (100, 1, 100), (50, 2, 50), (1, 100, 1)):
            config = Config(num_actors=1, envs_per_actor=1, rollout_length=100, minibatch_size=size)
            with self.subTest(size):
                self.assertEqual((config.minibatches_per_epoch, config.last_minibatch_size), (batches, last))

    def test_mini_batches_that_do_not_fit_the_round_are_remarked_with_exact_sizes(self):
        def remark(size):
            return warnings(Config(num_actors=1, envs_per_actor=1, rollout_length=100, minibatch_size=size))

        self.assertRegex(remark(64)[0], r"minibatch_size: 64 .*100.* 36$")
        self.assertRegex(remark(256)[0], r"minibatch_size: 256 .* one batch of 100$")
        self.assertEqual((remark(50), remark(100)), ([], []))


class CodeTest(ConfigCase):
    def test_a_config_cannot_be_changed(self):
        with self.assertRaises(dataclasses.FrozenInstanceError):
            Config().seed = 2

    def test_values_get_their_canonical_type_and_a_copy(self):
        kwargs = {"range": (0, 1.5)}
        config = Config(gamma=1, hidden_sizes=[32], env_kwargs=kwargs)
        kwargs["range"] = None
        self.assertEqual((config.gamma, config.hidden_sizes, config.env_kwargs), (1.0, (32,), {"range": [0, 1.5]}))
        self.assertIs(type(config.gamma), float)
        self.assertIsNot(Config().env_kwargs, Config().env_kwargs)

    def test_values_are_checked_in_code_too_all_at_once(self):
        with self.assertRaises(ConfigError) as caught:
            Config(gamma=1.2, seed=True, num_gpus=3, env_kwargs={"f": print})
        for part in ("gamma: got 1.2", "seed: got True", "env_kwargs: got", "num_actors: 2"):
            self.assertIn(part, str(caught.exception))

    def test_origins_tell_what_code_chose(self):
        config = Config(seed=5)
        self.assertEqual((config.origins["seed"], config.origins["gamma"]), ("code", "default"))

    def test_a_config_travels_to_other_processes(self):
        config = pickle.loads(pickle.dumps(Config(env_kwargs={"a": [1]}, seed=4)))
        self.assertEqual(config, Config(env_kwargs={"a": [1]}, seed=4))


class EffectiveTest(ConfigCase):
    def test_it_loads_again_to_an_equal_config(self):
        for config in (Config(), Config(**ODD_VALUES), load_config(ROOT / "configs/multi_gpu.yaml", ["seed=9"])):
            path = self.folder / "effective.yaml"
            save_effective(config, path)
            self.assertEqual(load_config(path), config)
            self.assertEqual(path.read_text(encoding="utf-8"), dump_effective(config))

    def test_it_holds_every_setting_with_its_origin(self):
        config = self.load("\nseed: 3\n", "gamma=.5")
        lines = dump_effective(config).splitlines()
        self.assertEqual(len(lines), len(describe_settings()))
        self.assertIn(f"seed: 3  # {self.folder}/task.yaml:2", lines)
        self.assertIn("gamma: 0.5  # command line", lines)
        self.assertIn("gae_lambda: 0.95  # default", lines)

    def test_other_yaml_readers_agree(self):
        values = yaml.safe_load(dump_effective(Config(seed=7, run_name="010", hidden_sizes=(8, 4))))
        self.assertEqual((values["seed"], values["run_name"], values["hidden_sizes"]), (7, "010", [8, 4]))

    def test_settings_that_were_inherited_without_effect_load_again(self):
        self.write("param_sync_interval: 4\n", "base.yaml")
        config = self.load("inherits: base.yaml\nsync_mode: gradients\n")
        save_effective(config, self.folder / "effective.yaml")
        self.assertEqual(load_config(self.folder / "effective.yaml"), config)


class ShippedConfigsTest(unittest.TestCase):
    def test_every_file_loads_and_its_mini_batches_fit(self):
        paths = sorted((ROOT / "configs").glob("*.yaml"))
        self.assertGreaterEqual(len(paths), 15)
        for path in paths:
            with self.subTest(path.name):
                config = load_config(path)
                self.assertEqual(warnings(config), [])
                self.assertEqual(config.name, path.stem)

    def test_half_cheetah_takes_2048_samples_a_round(self):
        config = load_config(ROOT / "configs/half_cheetah.yaml")
        self.assertEqual((config.num_actors, config.envs_per_actor, config.rollout_length), (2, 8, 128))
        self.assertEqual((config.samples_per_round, config.total_env_steps), (2048, 1_000_000))

    def test_the_smoke_run_is_six_rounds_of_256_samples(self):
        config = load_config(ROOT / "configs/smoke.yaml")
        self.assertEqual((config.samples_per_round, config.num_rounds(1)), (256, 6))

    def test_what_counts_as_solved_is_what_gymnasium_registers(self):
        import gymnasium

        for path in (ROOT / "configs").glob("*.yaml"):
            config = load_config(path)
            with self.subTest(path.name):
                module, _, name = config.env_id.rpartition(":")
                if module:
                    importlib.import_module(module)
                spec = gymnasium.spec(name)
                self.assertIn(config.solved_return, (None, spec.reward_threshold))

    def test_settings_page_is_what_the_command_prints(self):
        self.assertEqual((ROOT / "docs/settings.md").read_text(), settings_reference())

    def test_relative_paths_work_from_another_folder(self):
        path = os.path.relpath(ROOT / "configs" / "ant.yaml")
        self.assertEqual(load_config(path).origins["gamma"].split(":")[0], os.path.relpath(ROOT / "configs/base.yaml"))


if __name__ == "__main__":
    unittest.main()
