"""Who does what on machines of many shapes."""

import unittest

from ddp_ppo.config.load import load_config
from ddp_ppo.config.settings import Config, ConfigError
from ddp_ppo.distributed.topology import resolve_training_topology
from tests.support.config_case import ROOT


def torchrun(rank, world_size, nodes=1):
    """The environment variables that torchrun gives one process."""
    per_node = world_size // nodes
    values = {"RANK": rank, "WORLD_SIZE": world_size, "LOCAL_RANK": rank % per_node}
    values |= {"LOCAL_WORLD_SIZE": per_node, "GROUP_RANK": rank // per_node}
    return {name: str(value) for name, value in values.items()}


def config(num_gpus, actors_per_gpu=2, **settings):
    return Config(num_gpus=num_gpus, num_actors=num_gpus * actors_per_gpu, envs_per_actor=4, **settings)


def resolve(settings, environ=None, gpus=0, mps=False):
    return resolve_training_topology(settings, environ=environ or {}, num_cuda_devices=gpus, has_mps=mps)


def resolve_all(settings, world_size, nodes=1, **machine):
    return [resolve(settings, torchrun(rank, world_size, nodes), **machine) for rank in range(world_size)]


class PlainPythonTest(unittest.TestCase):
    def test_no_gpu_is_one_cpu_learner(self):
        topology = resolve(config(1))
        self.assertEqual((topology.rank, topology.num_learners, topology.device), (0, 1, "cpu"))
        self.assertEqual((topology.backend, topology.num_actors, topology.num_envs), ("none", 2, 8))
        self.assertEqual((topology.is_surplus, topology.notes), (False, ()))

    def test_one_gpu_is_one_gpu_learner(self):
        topology = resolve(config(1), gpus=1)
        self.assertEqual((topology.device, topology.num_learners, topology.backend), ("cuda:0", 1, "none"))

    def test_apple_s_gpu_is_used_where_there_is_no_other(self):
        self.assertEqual(resolve(config(1), mps=True).device, "mps")
        self.assertEqual(resolve(config(1), gpus=1, mps=True).device, "cuda:0")
        self.assertEqual(resolve(config(1, device="cpu"), gpus=1, mps=True).device, "cpu")
        self.assertEqual(resolve(config(1, device="mps"), gpus=1, mps=True).device, "mps")

    def test_one_actor_on_one_gpu_is_exactly_one_actor(self):
        for gpus in (0, 1, 8):
            topology = resolve(Config(num_gpus=1, num_actors=1), gpus=gpus)
            self.assertEqual((topology.num_actors, topology.num_learners), (1, 1))

    def test_one_learner_of_several_gpus_names_the_line_that_starts_all(self):
        topology = resolve(config(8, 4), gpus=8)
        self.assertEqual((topology.num_learners, topology.num_actors, topology.device), (1, 4, "cuda:0"))
        self.assertEqual(len(topology.notes), 1)
        self.assertIn("torchrun --standalone --nproc_per_node=8 ", topology.notes[0])
        self.assertIn("torchrun --standalone --nproc_per_node=2 ", resolve(config(8), gpus=2).notes[0])
        self.assertIn("torchrun --standalone --nproc_per_node=4 ", resolve(config(4, device="cpu")).notes[0])

    def test_several_gpus_asked_without_any_are_one_learner_with_its_share_of_actors(self):
        topology = resolve(config(4, 3))
        self.assertEqual((topology.num_learners, topology.num_actors, topology.device), (1, 3, "cpu"))
        self.assertEqual(len(topology.notes), 1)
        for part in ("num_gpus", "4", "no CUDA GPU", "device=cpu", "3 of num_actors: 12"):
            self.assertIn(part, topology.notes[0])
        self.assertIn("1 GPU visible", resolve(config(4), gpus=1).notes[0])

    def test_the_line_that_starts_all_can_be_pasted(self):
        words = ("configs/smoke.yaml", "num_gpus=2", "env_kwargs={a: 1}")
        settings = load_config(ROOT / words[0], words[1:])
        for options, last in (({}, "'env_kwargs={a: 1}' device=cpu"), ({"gpus": 2}, "'env_kwargs={a: 1}'")):
            note = resolve(settings, **options).notes[0]
            start = f"torchrun --standalone --nproc_per_node=2 {ROOT / 'train.py'} {ROOT / words[0]} num_gpus=2 "
            self.assertTrue(note.endswith(start + last), note)

    def test_a_device_that_is_asked_for_but_missing_is_refused(self):
        with self.assertRaisesRegex(ConfigError, "device: got cuda.*allowed here: auto, cpu"):
            resolve(config(1, device="cuda"))
        with self.assertRaisesRegex(ConfigError, "device: got mps.*allowed here: auto, cuda, cpu"):
            resolve(config(1, device="mps"), gpus=2)


class SharesTest(unittest.TestCase):
    """How many environments each actor of a learner steps."""

    def shares(self, num_cores, num_envs=16, environ=None, gpus=0, **settings):
        topology = resolve_training_topology(
            Config(num_envs=num_envs, **settings),
            environ=environ or {},
            num_cuda_devices=gpus,
            has_mps=False,
            num_cores=num_cores,
        )
        self.assertEqual(topology.num_envs, num_envs)
        return topology.envs_of_actors

    def test_auto_takes_the_fewest_actors_that_keep_the_largest_share_minimal(self):
        for num_cores, expected in (
            (1, (16,)),
            (2, (8, 8)),
            (3, (6, 5, 5)),
            (5, (4, 4, 4, 4)),  # a fifth actor would leave one with 4
            (7, (3, 3, 3, 3, 2, 2)),
            (64, (1,) * 16),
        ):
            with self.subTest(num_cores=num_cores):
                self.assertEqual(self.shares(num_cores), expected)

    def test_learners_of_a_node_share_its_cores(self):
        settings = {"num_gpus": 4, "device": "cpu"}
        self.assertEqual(self.shares(8, environ=torchrun(1, 4), **settings), (8, 8))
        self.assertEqual(self.shares(8, environ=torchrun(3, 4, nodes=2), **settings), (4, 4, 4, 4))
        self.assertEqual(self.shares(2, environ=torchrun(1, 4), **settings), (16,))

    def test_a_number_is_what_it_says_whatever_cores_there_are(self):
        self.assertEqual(self.shares(1, num_actors=3), (6, 5, 5))
        self.assertEqual(self.shares(64, num_gpus=1, actors_per_gpu=2), (8, 8))

    def test_slices_follow_each_other(self):
        topology = resolve(Config(num_envs=5, num_actors=2))
        self.assertEqual(topology.slices, [slice(0, 3), slice(3, 5)])


class OneNodeTest(unittest.TestCase):
    def test_as_many_processes_as_gpus_are_all_learners(self):
        for gpus in (2, 8):
            topologies = resolve_all(config(gpus), gpus, gpus=gpus)
            self.assertEqual([topology.rank for topology in topologies], list(range(gpus)))
            self.assertEqual([topology.device for topology in topologies], [f"cuda:{i}" for i in range(gpus)])
            self.assertEqual({topology.backend for topology in topologies}, {"nccl"})
            self.assertEqual({topology.notes for topology in topologies}, {()})
            self.assertEqual({topology.num_actors for topology in topologies}, {2})

    def test_one_process_of_torchrun_needs_no_process_group(self):
        (topology,) = resolve_all(config(1), 1, gpus=8)
        self.assertEqual((topology.num_learners, topology.backend, topology.notes), (1, "none", ()))

    def test_more_processes_than_asked_are_surplus(self):
        topologies = resolve_all(config(2), 4, gpus=8)
        self.assertEqual([topology.is_surplus for topology in topologies], [False, False, True, True])
        self.assertEqual([topology.rank for topology in topologies], [0, 1, 2, 3])
        self.assertEqual({topology.num_learners for topology in topologies}, {2})
        self.assertEqual((topologies[3].num_actors, topologies[3].backend), (0, "none"))
        self.assertEqual(len(topologies[0].notes), 1)
        self.assertIn("4 processes for 2 learners: 2 of them end", topologies[0].notes[0])
        self.assertIn("rank 3 is surplus", topologies[3].notes[0])

    def test_more_processes_than_gpus_are_surplus_and_actors_of_a_learner_stay_the_same(self):
        topologies = resolve_all(config(8, 5), 8, gpus=2)
        self.assertEqual([topology.is_surplus for topology in topologies], [False] * 2 + [True] * 6)
        self.assertEqual([topology.num_actors for topology in topologies], [5, 5] + [0] * 6)
        self.assertIn("num_gpus asks for 8 learners, but this run has 2 on cuda", topologies[0].notes[0])
        self.assertIn("2 GPUs visible on each node", topologies[0].notes[0])
        self.assertEqual(len(topologies[0].notes), 2)

    def test_fewer_processes_than_gpus_are_fewer_learners(self):
        topologies = resolve_all(config(8), 2, gpus=8)
        self.assertEqual({topology.num_learners for topology in topologies}, {2})
        self.assertEqual(len(topologies[0].notes), 1)
        self.assertIn("torchrun started 2 processes; raise --nproc_per_node", topologies[0].notes[0])

    def test_without_a_gpu_one_learner_remains(self):
        for machine, device in (({}, "cpu"), ({"mps": True}, "mps")):
            topologies = resolve_all(config(2), 2, **machine)
            self.assertEqual([topology.is_surplus for topology in topologies], [False, True])
            self.assertEqual((topologies[0].device, topologies[0].backend), (device, "none"))

    def test_several_cpu_learners_run_where_they_are_asked_for(self):
        topologies = resolve_all(config(3, device="cpu"), 4, gpus=8)
        self.assertEqual([topology.is_surplus for topology in topologies], [False, False, False, True])
        self.assertEqual([topology.rank for topology in topologies[:3]], [0, 1, 2])
        self.assertEqual({topology.device for topology in topologies}, {"cpu"})
        self.assertEqual({topology.backend for topology in topologies[:3]}, {"gloo"})

    def test_processes_that_see_only_one_gpu_each_are_one_learner(self):
        topologies = resolve_all(config(4), 4, gpus=1)
        self.assertEqual([topology.is_surplus for topology in topologies], [False, True, True, True])


class SeveralNodesTest(unittest.TestCase):
    def test_two_nodes_of_four_gpus_are_eight_learners(self):
        topologies = resolve_all(config(8), 8, nodes=2, gpus=4)
        self.assertEqual([topology.rank for topology in topologies], list(range(8)))
        self.assertEqual([topology.local_rank for topology in topologies], [0, 1, 2, 3] * 2)
        self.assertEqual(topologies[5].device, "cuda:1")
        self.assertEqual({(topology.num_nodes, topology.notes) for topology in topologies}, {(2, ())})

    def test_surplus_processes_of_each_node_leave_no_gap_between_learners(self):
        topologies = resolve_all(config(8), 8, nodes=2, gpus=3)
        learners = [topology for topology in topologies if not topology.is_surplus]
        self.assertEqual([topology.rank for topology in learners], [0, 1, 2, 3, 4, 5])
        self.assertEqual([topology.device for topology in learners], ["cuda:0", "cuda:1", "cuda:2"] * 2)
        self.assertEqual([i for i, topology in enumerate(topologies) if topology.is_surplus], [3, 7])

    def test_fewer_learners_than_gpus_fill_the_first_nodes(self):
        topologies = resolve_all(config(6), 8, nodes=2, gpus=4)
        self.assertEqual([topology.is_surplus for topology in topologies], [False] * 6 + [True] * 2)

    def test_without_a_gpu_one_learner_remains_on_the_first_node(self):
        topologies = resolve_all(config(8), 8, nodes=2)
        self.assertEqual([topology.is_surplus for topology in topologies], [False] + [True] * 7)

    def test_cpu_clusters_run_a_learner_for_each_process(self):
        topologies = resolve_all(config(8, device="cpu"), 8, nodes=2)
        self.assertEqual([topology.rank for topology in topologies], list(range(8)))
        self.assertEqual({topology.backend for topology in topologies}, {"gloo"})

    def test_learners_of_every_shape_are_numbered_without_gaps(self):
        for nodes in (1, 2, 3):
            for per_node in (1, 2, 4):
                for gpus in (0, 1, 2, 8):
                    for asked in (1, 2, 5, 12):
                        with self.subTest(nodes=nodes, per_node=per_node, gpus=gpus, asked=asked):
                            topologies = resolve_all(config(asked), nodes * per_node, nodes, gpus=gpus)
                            ranks = [topology.rank for topology in topologies if not topology.is_surplus]
                            expected = min(asked, nodes * min(per_node, gpus)) if gpus else 1
                            self.assertEqual(ranks, list(range(expected)))
                            self.assertEqual({topology.num_learners for topology in topologies}, {expected})


class EnvironmentVariablesTest(unittest.TestCase):
    def test_rank_and_world_size_alone_are_one_node(self):
        topology = resolve(config(2), {"RANK": "1", "WORLD_SIZE": "2"}, gpus=2)
        self.assertEqual((topology.rank, topology.device, topology.num_nodes), (1, "cuda:1", 1))

    def test_other_variables_alone_are_ignored(self):
        self.assertEqual(resolve(config(1), {"LOCAL_RANK": "3", "PATH": "/bin"}), resolve(config(1)))

    def test_contradictions_are_refused_by_name(self):
        complete = torchrun(1, 4)
        broken = (
            ({"RANK": "0"}, "RANK is set without WORLD_SIZE"),
            ({"WORLD_SIZE": "2"}, "WORLD_SIZE is set without RANK"),
            (complete | {"RANK": "one"}, "RANK: got 'one'"),
            (complete | {"WORLD_SIZE": ""}, "WORLD_SIZE: got ''"),
            (complete | {"LOCAL_RANK": "1.0"}, "LOCAL_RANK: got '1.0'"),
            (complete | {"RANK": "4"}, "RANK 4, WORLD_SIZE 4"),
            (complete | {"RANK": "-1"}, "RANK -1"),
            (complete | {"LOCAL_RANK": "4"}, "LOCAL_RANK 4"),
            (complete | {"GROUP_RANK": "1"}, "GROUP_RANK 1"),
            (complete | {"LOCAL_WORLD_SIZE": "3"}, "not a multiple of LOCAL_WORLD_SIZE 3"),
            (complete | {"LOCAL_WORLD_SIZE": "0"}, "LOCAL_WORLD_SIZE 0"),
            (complete | {"WORLD_SIZE": "0"}, "WORLD_SIZE 0"),
        )
        for environ, message in broken:
            with self.subTest(message), self.assertRaisesRegex(ConfigError, message):
                resolve(config(1), environ, gpus=1)


if __name__ == "__main__":
    unittest.main()
