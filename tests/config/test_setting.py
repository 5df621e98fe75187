"""One setting: how it is declared, and that every setting of the package refuses what it does not allow, by name."""

import dataclasses
import unittest
from collections.abc import Mapping
from typing import Any, Literal

from ddp_ppo.config.setting import Choice, Number, OrWord, nearest, setting, settings_of
from ddp_ppo.config.settings import Config, ConfigError, describe_settings
from ddp_ppo.config.yaml_text import RefusedError
from tests.support.config_case import ConfigCase

WRONG_TYPES = {
    "int": ("2.5", "true", "yes", '"1"', "[1]", "{a: 1}", "word"),
    "float": ("true", "no", '"1"', "[1]", "{a: 1}", "word", ".nan", ".inf"),
    "bool": ("0", "on", '"true"', "[true]", "null"),
    "str": ("1", "true", "[a]", "{a: 1}", '""', '" "', '"a\\nb"', '"\\0"'),
    "dict": ("1", "word", "[a]", "null", "{1: 2}", "{a: 1, a: 2}", "{a: yes}", "{a: .nan}", "{a b: 1}"),
    "list[str]": ("64", "word", "[1]", "[true]", '[""]', "[[a]]", "null", "{a: 1}"),
    "int or auto": ("2.5", "true", '"1"', "[1]", "{a: 1}", "null", "word"),
    "list[int]": ("64", "word", "[0]", "[-1]", "[2.5]", "[true]", '["64"]', "[[64]]", "null", "{a: 1}"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Toy:
    """One setting of each kind."""

    step: float = setting(0.5, above=0, high=1, doc="Size of a step.")
    number: int | None = setting(None, low=2, doc="A number of steps.")
    way: Literal["up", "down"] = setting("up", doc="Where to.")
    is_on: bool = setting(True, doc="Whether.")
    place: str = setting("here", is_path=True, expected="a path", doc="Where.")
    names: tuple[str, ...] = setting((), doc="What for.")
    options: Mapping[str, Any] = setting({}, doc="More.")
    count: int | Literal["auto"] = setting("auto", low=1, doc="How many.")
    other: int = 3


class DeclarationTest(unittest.TestCase):
    def test_a_field_s_annotation_says_of_which_kind_it_is(self):
        found = settings_of(Toy, "toy")
        types = {name: one.type for name, one in found.items()}
        expected = {"toy.step": "float", "toy.number": "int | None", "toy.way": "str", "toy.is_on": "bool"}
        expected |= {"toy.place": "str", "toy.names": "list[str]", "toy.options": "dict", "toy.count": "int or auto"}
        self.assertEqual(types, expected)
        defaults = [one.default for one in settings_of(Toy).values()]
        self.assertEqual(defaults, [0.5, None, "up", True, "here", (), {}, "auto"])

    def test_it_says_in_words_what_it_allows(self):
        allowed = [one.allowed for one in settings_of(Toy).values()]
        expected = ["a number > 0 and <= 1", "a whole number >= 2 or null", "one of up, down", "true or false"]
        self.assertEqual(
            allowed, [*expected, "a path", "a list of texts", "a mapping of names", "auto or a whole number >= 1"]
        )

    def test_a_value_comes_in_its_canonical_type(self):
        found = settings_of(Toy)
        for name, given, expected in (
            ("step", 1, 1.0),
            ("names", ["a"], ("a",)),
            ("number", None, None),
            ("count", "auto", "auto"),
        ):
            with self.subTest(name):
                value = found[name].check(given)
                self.assertEqual((value, type(value)), (expected, type(expected)))

    def test_a_value_that_is_nearly_right_is_refused_with_a_hint(self):
        found = settings_of(Toy)
        for name, given, hint in (("number", 3.0, "write 3"), ("way", "dwon", "did you mean down?")):
            with self.subTest(name), self.assertRaisesRegex(RefusedError, hint.replace("?", r"\?")):
                found[name].check(given)

    def test_a_field_of_another_type_cannot_be_a_setting(self):
        for hint in (complex, int | str, list[int], int | str | None):
            wrong = dataclasses.make_dataclass("Wrong", [("a", hint, setting(0, doc="."))])
            with self.subTest(hint), self.assertRaisesRegex(TypeError, "is not a type of a setting"):
                settings_of(wrong)

    def test_only_a_near_word_is_suggested(self):
        words = ("num_epochs", "gamma", "learning_rate")
        self.assertEqual(nearest("num_epoch", words), "num_epochs")
        self.assertEqual([nearest(word, words) for word in ("num_steps", "lr")], ["", ""])


class EverySettingTest(ConfigCase):
    @staticmethod
    def out_of_range(one):
        kind = one.kind.value if isinstance(one.kind, OrWord) else one.kind
        if isinstance(kind, Choice):
            return ["nonsense"]
        if not isinstance(kind, Number):
            return []
        below = [f"{kind.low - 1}"] if kind.low > -1e17 else []
        at = [f"{kind.above}"] if kind.above > -1e17 else []
        return [*below, *at, f"{kind.high + 1}" if kind.high < 1e17 else "1e19"]

    def test_every_setting_refuses_wrong_types_and_values_out_of_range_by_name(self):
        for one in describe_settings():
            for text in (*WRONG_TYPES[one.kind.name], *self.out_of_range(one)):
                with self.subTest(f"{one.name}: {text}"):
                    self.assert_refused(f"\n{one.name}: {text}\n", f"task.yaml:2: {one.name}: got ", "; allowed: ")

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
        for one in describe_settings():
            texts = () if one.kind.name == "str" else WRONG_TYPES[one.kind.name]
            for text in (*texts, *self.out_of_range(one), ""):
                with self.subTest(f"{one.name}={text}"):
                    lines = self.refused("{}", f"{one.name}={text}") if text or not one.is_optional else None
                    if lines:
                        self.assertEqual(len(lines), 1)
                        self.assertIn(f"command line: {one.name}: got ", lines[0])

    def test_every_setting_refuses_a_foreign_object_in_code(self):
        for one in describe_settings():
            for value in (object(), float("nan"), b"x", {1}):
                with (
                    self.subTest(f"{one.name}={value}"),
                    self.assertRaisesRegex(ConfigError, f"code: {one.name}: got .*; allowed: "),
                ):
                    Config(**{one.name: value})

    def test_all_of_them_at_once_are_reported_at_once(self):
        wrong = {one.name: WRONG_TYPES[one.kind.name][-1] for one in describe_settings()}
        lines = self.refused("".join(f"{key}: {text}\n" for key, text in wrong.items()))
        self.assertEqual([line.split(": ")[1] for line in lines], list(wrong))

    def test_every_setting_is_described(self):
        for one in describe_settings():
            with self.subTest(one.name):
                self.assertGreater(len(one.doc), 20)
                self.assertTrue(one.allowed)
                self.assertEqual(one.check(one.default), one.default)

    def test_the_fixed_field_names_exist(self):
        fixed = "num_actors num_gpus actors_per_gpu param_sync_interval rollout_length gamma gae_lambda metrics_path"
        self.assertLessEqual(set(fixed.split()), {one.name for one in describe_settings()})

    def test_the_origin_and_name_of_a_config_are_no_settings(self):
        for key in ("name", "origins"):
            self.assert_refused(f"{key}: x\n", f"{key}: unknown setting")

    def test_a_number_beyond_all_limits_is_told_why(self):  # D16
        with self.assertRaisesRegex(ConfigError, r"learning_rate: got 1e\+19; .* > 0 \(no setting may exceed 1e\+18\)"):
            Config(learning_rate=1e19)


if __name__ == "__main__":
    unittest.main()
