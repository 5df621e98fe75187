"""Reading settings from files and words: scalars, sections, inheritance, mistakes with their places."""

import dataclasses
import os
import subprocess
import sys
import unittest

from ddp_ppo.config.load import load_config
from ddp_ppo.config.settings import Config, ConfigError
from tests.support.config_case import ROOT, ConfigCase


class ScalarTest(ConfigCase):
    def test_exponents_are_numbers(self):
        config = self.load("learning_rate: 1e-4\ntotal_env_steps: 1e6\nnum_epochs: 1.2e1\n")
        self.assertEqual((config.learning_rate, config.total_env_steps, config.ppo.num_epochs), (0.0001, 1_000_000, 12))
        self.assertIs(type(config.total_env_steps), int)

    def test_usual_spellings_of_numbers_are_read(self):
        config = self.load("gamma: .9\nseed: 1_000\nvalue_coef: 1\nadam_eps: 1.E-8\ninit_log_std: -1\n")
        self.assertEqual((config.gamma, config.seed, config.ppo.adam_eps, config.init_log_std), (0.9, 1000, 1e-8, -1.0))
        self.assertIs(type(config.ppo.value_coef), float)

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
        self.assertEqual((config.ppo.max_grad_norm, config.run_name, config.ppo.target_kl), (None, None, None))
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


class FileTest(ConfigCase):
    def test_an_empty_file_is_refused(self):
        for text in ("", "\n", "# nothing\n", "---\n", '""'):
            with self.subTest(text):
                self.assert_refused(text, "task.yaml: it is empty; expected lines of the form `key: value`")
        self.write("# nothing\n", "base.yaml")
        self.assert_refused("inherits: base.yaml\nseed: 2\n", "base.yaml: it is empty")

    def test_a_mapping_without_keys_means_all_defaults(self):
        self.assertEqual(self.load("{}"), Config())
        self.assertEqual(set(self.load("{}").origins.values()), {"default"})

    def test_the_name_is_the_stem_of_the_file(self):
        self.assertEqual(load_config(self.write("{}", "half_cheetah.yaml")).name, "half_cheetah")
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

    def test_only_a_near_key_is_suggested(self):
        for key in ("num_steps", "steps", "lr", "num_workers", "env", "ppo.lr"):
            with self.subTest(key):
                (line,) = self.refused(f"{key}: 1\n")
                self.assertTrue(line.endswith(f"task.yaml:1: {key}: unknown setting"), line)

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

    def test_all_errors_come_at_once(self):
        lines = self.refused("gamma: 2\nentropy_coeff: 1\nresume: a\ninit_from: b\nseed: x\n", "seed=-1", "oops", "x=1")
        keys = ("gamma", "entropy_coeff", "seed", "seed", "oops", "x", "init_from")
        self.assertEqual(len(lines), len(keys))
        for line, key in zip(lines, keys, strict=True):
            self.assertIn(f": {key}: ", line)

    def test_no_torch_is_loaded(self):
        code = "import sys, ddp_ppo.distributed.topology; from ddp_ppo.config.load import load_config; "
        code += "[load_config(name) for name in ('half_cheetah', 'disco_catch')]; "
        code += "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
        subprocess.run([sys.executable, "-B", "-c", code], check=True, timeout=60, cwd=ROOT)


class InheritsTest(ConfigCase):
    def test_values_come_from_the_nearest_file_of_a_chain(self):
        self.write("gamma: .5\nseed: 1\nnum_epochs: 3\n", "deep/root.yaml")
        self.write("inherits: root.yaml\nseed: 2\n", "deep/middle.yaml")
        config = self.load("seed: 3\ninherits: deep/middle.yaml\n", "num_epochs=4")
        self.assertEqual((config.gamma, config.seed, config.ppo.num_epochs), (0.5, 3, 4))
        self.assertEqual(config.origins["gamma"], f"{self.folder}/deep/root.yaml:1")
        self.assertEqual(config.origins["seed"], f"{self.folder}/task.yaml:1")
        self.assertEqual(config.origins["ppo.num_epochs"], "command line")
        self.assertEqual(config.origins["ppo.clip_range"], "default")

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
        self.assertIn("unknown setting", self.refused("{}", "inherits=base.yaml")[0])

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
            self.assertEqual(self.load("{}", f"run_name={text}").run_name, text)
        self.assertEqual(self.load("{}", "device=cpu").device, "cpu")
        self.assertEqual(self.load("{}", "output_dir=null").output_dir, "null")

    def test_the_last_word_of_a_key_wins(self):
        self.assertEqual(self.load("seed: 1\n", "seed=2", "seed=3").seed, 3)

    def test_words_that_are_no_assignments_are_refused(self):
        self.assertIn("command line: seed: expected key=value", self.refused("{}", "seed"))
        self.assertIn("did you mean gamma?", self.refused("{}", "gama=1")[0])
        self.assertIn("not valid YAML", self.refused("{}", "hidden_sizes=[")[0])


class SectionTest(ConfigCase):
    def test_a_section_is_read_in_files_and_words(self):
        config = self.load("ppo: {clip_range: 0.1, num_epochs: 3}\nseed: 2\n", "ppo.num_epochs=4")
        self.assertEqual((config.ppo.clip_range, config.ppo.num_epochs, config.seed), (0.1, 4, 2))
        config = self.load("learner: disco\ndisco:\n  batch_size: 32\n", "disco.replay_capacity=40")
        self.assertEqual((config.disco.batch_size, config.disco.replay_capacity), (32, 40))
        self.assertEqual(config.origins["disco.batch_size"], f"{self.folder}/task.yaml:3")

    def test_names_without_a_section_mean_the_same(self):
        self.assertEqual(self.load("clip_range: 0.1\n", "num_epochs=4"), Config(clip_range=0.1, num_epochs=4))
        config = self.load("learner: disco\ndisco_batch_size: 32\n", "disco_replay_capacity=40")
        self.assertEqual((config.disco.batch_size, config.disco.replay_capacity), (32, 40))
        self.assertEqual(self.load("ppo.clip_range: 0.1\n").ppo.clip_range, 0.1)

    def test_a_section_is_inherited_key_by_key(self):
        self.write("ppo: {clip_range: 0.1, num_epochs: 3}\nminibatch_size: 32\n", "base.yaml")
        ppo = self.load("inherits: base.yaml\nppo: {num_epochs: 4}\n").ppo
        self.assertEqual((ppo.clip_range, ppo.num_epochs, ppo.minibatch_size), (0.1, 4, 32))

    def test_mistakes_in_a_section_have_their_own_line(self):
        self.assert_refused("ppo:\n  clip_range: 0\n", "task.yaml:2: ppo.clip_range: got 0; allowed: a number > 0")
        self.assert_refused("ppo:\n  clip_rang: 0\n", "task.yaml:2: ppo.clip_rang: ", "did you mean ppo.clip_range?")
        self.assert_refused("ppo:\n  gamma: 1\n", "task.yaml:2: ppo.gamma: unknown setting; did you mean gamma?")
        self.assertIn("command line: ppo.clip_range: got 0; ", self.refused("{}", "ppo.clip_range=0")[0])

    def test_a_section_is_a_mapping(self):
        for text in ("3", "", "[a]", "word"):
            with self.subTest(text):
                self.assert_refused(f"ppo: {text}\n", "task.yaml:1: ppo: a section of settings; write ppo: {NAME: ")
        self.assertIn("command line: ppo: a section of settings", self.refused("{}", "ppo={clip_range: 0.1}")[0])

    def test_a_setting_stands_once_in_a_file_whatever_it_is_called(self):
        self.assert_refused("ppo:\n  num_epochs: 3\nnum_epochs: 3\n", "task.yaml:3: num_epochs: given twice", "2 and 3")
        self.assert_refused("ppo: {num_epochs: 3, num_epochs: 3}\n", "task.yaml:1: ppo: num_epochs: given twice")

    def test_merge_keys_work_inside_a_section(self):
        text = "few: &few {num_epochs: 3}\nppo:\n  <<: *few\n  clip_range: 0.1\n"
        self.assert_refused(text, "task.yaml:1: few: unknown setting")
        config = self.load("ppo:\n  <<: {num_epochs: 3, clip_range: 0.3}\n  clip_range: 0.1\n")
        self.assertEqual((config.ppo.num_epochs, config.ppo.clip_range), (3, 0.1))

    def test_another_learner_s_section_is_an_error_where_a_person_wrote_it(self):
        self.assert_refused(
            "learner: disco\nppo:\n  clip_range: 0.1\n",
            'task.yaml:3: ppo.clip_range: has no effect with learner: "disco", as it belongs to PPO; remove it',
        )
        lines = self.refused("{}", "disco.batch_size=32")
        self.assertEqual(len(lines), 1)
        self.assertIn('command line: disco.batch_size: has no effect with learner: "ppo"', lines[0])

    def test_another_learner_s_section_is_passed_over_where_it_was_inherited(self):
        self.write("ppo: {clip_range: 0.1}\ndisco: {batch_size: 32}\nlearning_rate_schedule: constant\n", "base.yaml")
        config = self.load("inherits: base.yaml\n", "learner=disco")
        self.assertEqual((config.ppo.clip_range, config.disco.batch_size), (0.2, 32))
        self.assertEqual((config.origins["ppo.clip_range"], config.section), ("default", config.disco))
        config = self.load("inherits: base.yaml\n")
        self.assertEqual((config.ppo.clip_range, config.disco.batch_size), (0.1, 64))
        self.assertIs(config.section, config.ppo)


class ArgumentsTest(ConfigCase):
    def test_words_that_are_not_a_list_or_no_path_are_refused_in_one_line(self):
        words = r'\A(overrides are a list such as \["seed=3"\]|a configuration is named by a text or a path), not .*\Z'
        for arguments in (("ant", "seed=3"), ("ant", {"seed": 3}), (None,), (3,), (b"ant",)):
            with self.subTest(arguments), self.assertRaisesRegex(ConfigError, words):
                load_config(*arguments)

    def test_the_kept_origin_of_a_mapping_is_where_it_stands(self):
        config = dataclasses.replace(self.load("env_kwargs: {a: [1]}\n"), seed=2)
        self.assertEqual(config.origins["env_kwargs"], f"{self.folder}/task.yaml:1")

    def test_a_config_is_a_key_of_a_dictionary(self):
        one, same, other = self.load("env_kwargs: {a: [1]}\n"), Config(env_kwargs={"a": [1]}), Config(seed=2)
        self.assertEqual({one: 1, other: 2}[same], 1)


class PathTest(ConfigCase):
    def test_home_and_variables_stand_for_what_they_do_in_a_shell(self):
        os.environ["DDP_PPO_TEST_FOLDER"] = str(self.folder)
        self.addCleanup(os.environ.pop, "DDP_PPO_TEST_FOLDER")
        self.write("seed: 7\n", "base.yaml")
        text = "inherits: $DDP_PPO_TEST_FOLDER/base.yaml\noutput_dir: ${DDP_PPO_TEST_FOLDER}/out\n"
        config = self.load(text, "metrics_path=~/m.csv")
        self.assertEqual((config.seed, config.output_dir), (7, f"{self.folder}/out"))
        self.assertEqual(config.metrics_path, os.path.expanduser("~/m.csv"))
        self.assertEqual(load_config("$DDP_PPO_TEST_FOLDER/base.yaml").seed, 7)
        self.assertEqual(Config(resume="~/run").resume, os.path.expanduser("~/run"))

    def test_an_unknown_variable_is_an_error_in_one_line(self):
        said = "the environment variable $DDP_PPO_NONE is not set"
        self.assert_refused("output_dir: $DDP_PPO_NONE/out\n", "task.yaml:1: output_dir: got $DDP_PPO_NONE/out", said)
        self.assert_refused("inherits: $DDP_PPO_NONE/a.yaml\n", "task.yaml:1: inherits: $DDP_PPO_NONE/a.yaml", said)
        self.assertIn(said, self.refused("{}", "resume=$DDP_PPO_NONE")[0])
        with self.assertRaisesRegex(ConfigError, r"\A\$DDP_PPO_NONE/a.yaml: the environment variable"):
            load_config("$DDP_PPO_NONE/a.yaml")

    def test_other_text_stays_as_it_is(self):
        self.assertEqual(self.load("{}", "run_name=$HOME").run_name, "$HOME")


if __name__ == "__main__":
    unittest.main()
