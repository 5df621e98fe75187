"""What `compare --against` makes of a peer's script: its runs, its failure, its absence."""

import shutil
import unittest
from unittest import mock

from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.report import against
from ddp_ppo.runs.reading import read_run
from tests.support.process import ROOT, FolderTestCase
from tests.support.runs import write_run

PROGRAMS = ROOT / "tests" / "support" / "programs"  # peer_run.py copies runs with the learner "peer"


@mock.patch.object(against, "PEERS", PROGRAMS)
class PeerTest(FolderTestCase):
    def made(self, name, **settings):
        config = Config(num_actors=1, envs_per_actor=2, rollout_length=5, **settings)
        return read_run(write_run(self.folder / self.id() / name, config, {"eval/return_mean": [1.0]}))

    def test_each_seed_of_the_first_group_gets_a_run_of_the_peer_after_all_others(self):
        runs = [self.made("one", seed=1), self.made("two", seed=2), self.made("other", gamma=0.9)]
        found = against.add_peer(runs, [], "peer")
        self.assertEqual(found[:3], runs)
        self.assertEqual([run.path.name for run in found[3:]], ["one-peer", "two-peer"])
        self.assertEqual([run.setting("learner") for run in found[3:]], ["peer", "peer"])

    def test_a_run_of_the_peer_that_is_there_already_counts_once(self):
        runs = against.add_peer([self.made("one")], [], "peer")
        self.assertEqual(against.add_peer(runs, [], "peer"), runs)

    def test_runs_of_the_peer_alone_are_refused(self):
        runs = against.add_peer([self.made("one")], [], "peer")
        with self.assertRaisesRegex(ConfigError, "^--against peer: these are all its own runs"):
            against.add_peer(runs[1:], [], "peer")

    def test_the_script_s_failure_ends_the_command_with_its_exit_status(self):
        run = self.made("one")
        shutil.rmtree(run.path)  # the script has nothing to copy
        with self.assertRaises(SystemExit) as caught:
            against.add_peer([run], [], "peer")
        self.assertEqual(caught.exception.code, 2)


class InstalledTest(FolderTestCase):
    def test_an_installed_package_says_where_to_run_it(self):
        shutil.copytree(ROOT / "ddp_ppo", self.folder / "site" / "ddp_ppo")
        write_run(self.work / "run", Config(num_actors=1, envs_per_actor=2), {"eval/return_mean": [1.0]})
        site = {"PYTHONPATH": str(self.folder / "site")}
        code, out, err = self.command_line("compare", "run", "--against", "sb3", environ=site)
        self.assertEqual((code, out, err.count("\n")), (2, "", 1), err)
        self.assertRegex(err, "^ddp-ppo: --against sb3: .*sb3_run.py is missing; .* in a checkout of the repository$")


if __name__ == "__main__":
    unittest.main()
