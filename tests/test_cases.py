"""tests/cases.md names each case once; it and docs/contracts.md name only tests and checks that exist."""

import ast
import re
import unittest
from pathlib import Path

from tests.long import effects

TESTS = Path(__file__).parent
ROW = re.compile(r"\| ([A-Z]-?\w+) \| ([^|]+) \| ([^|]+) \|")
CONTRACT = re.compile(r"\| (C\d+) \| .+ \| (.+) \|")
PROVEN = re.compile(r"`((?:\w+/)*test_\w+|long\.\w+)`((?:(?:: |, )\"[^\"]+\")*)")  # a module, and parts of names
NAMED = re.compile(r"((?:\b\w+/)*\btest_\w+): (test_\w+(?:, test_\w+)*)")


def rows():
    """(case, tests) of each row of the table."""
    lines = (TESTS / "cases.md").read_text().splitlines()
    return [(match[1], match[3]) for line in lines if (match := ROW.fullmatch(line))]


def tests_of(module):
    """Names of the test methods in a module, read without running it."""
    tree = ast.parse((TESTS / f"{module}.py").read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test")}


class CasesTest(unittest.TestCase):
    def test_every_case_has_one_row(self):
        known = [case for case, _ in rows() if case.startswith("O-")]
        self.assertEqual(known, [f"O-{number:02}" for number in range(1, 70)])
        self.assertEqual(len({case for case, _ in rows()}), len(rows()))

    def test_every_named_test_exists(self):
        for case, tests in rows():
            named = NAMED.findall(tests)
            words = {word for _, names in named for word in names.split(", ")} | {
                module.rpartition("/")[2] for module, _ in named
            }
            with self.subTest(case):
                self.assertEqual(set(re.findall(r"\btest_\w+", tests)), words, "a name without its module")
                for module, names in named:
                    self.assertEqual(set(names.split(", ")) - tests_of(module), set(), module)

    def test_every_named_long_check_exists(self):
        for case, tests in rows():
            for name in re.findall(r"\blong\.(\w+)", tests):
                self.assertTrue((TESTS / "long" / f"{name}.py").is_file(), f"{case}: {name}")

    def test_every_case_has_a_test_and_one_that_waits_a_refusal(self):
        for case, tests in rows():
            with self.subTest(case):
                self.assertRegex(tests, r"^(\w+/)*test_|^long\.|^waiting: feature [\w ]+, refused by (\w+/)*test_")

    def test_every_setting_has_its_effect_shown(self):  # O-67
        self.assertEqual(effects.unlisted(), [])
        for setting, module in effects.ELSEWHERE.items():
            self.assertTrue((TESTS / f"{module}.py").is_file(), f"{setting}: {module}")


class ContractsTest(unittest.TestCase):
    def test_every_contract_names_tests_that_exist(self):
        lines = (TESTS.parent / "docs" / "contracts.md").read_text().splitlines()
        found = {match[1]: match[2] for line in lines if (match := CONTRACT.fullmatch(line))}
        self.assertGreater(len(found), 25)
        for contract, tests in found.items():
            proven = PROVEN.findall(tests)
            with self.subTest(contract):
                self.assertEqual(len(proven), len(re.findall(r"test_\w+|long\.", tests)), "a name is read in part")
                for module, quotes in proven:
                    if module.startswith("long."):
                        self.assertTrue((TESTS / f"{module.replace('.', '/')}.py").is_file(), module)
                        continue
                    names = "\n".join(tests_of(module)).replace("_", " ")
                    for words in re.findall(r"\"([^\"]+)\"", quotes):
                        self.assertIn(words, names, module)


if __name__ == "__main__":
    unittest.main()
