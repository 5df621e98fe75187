"""Cores and memory follow affinity and control groups, read from the kernel's files as containers show them."""

import os
import subprocess
import sys
import tempfile
import unittest
import uuid
from pathlib import Path

from ddp_ppo.machine import Machine, this_machine
from tests.support.process import ROOT

V2 = "30 23 0:26 {mounted} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "31 23 0:2{n} {mounted} /sys/fs/cgroup/{name} rw,nosuid shared:5 - cgroup cgroup rw,{name}\n"
PLENTY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
GIB = 2**30


class KernelFilesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def put(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def version_2(self, path="/a/b", mounted="/"):
        self.put("proc/self/cgroup", f"0::{path}\n")
        self.put("proc/self/mountinfo", V2.format(mounted=mounted))

    def test_without_control_groups_affinity_and_installed_memory_count(self):
        found = this_machine(self.root)
        allowed = len(os.sched_getaffinity(0))
        self.assertEqual(found[:5], (allowed, allowed, None, PLENTY, PLENTY))

    def test_a_quota_of_version_2_counts_in_complete_cores_at_least_one(self):
        self.version_2()
        for text, num_cores, quota in (("50000 100000", 1, 0.5), ("150000 100000", 1, 1.5), ("max 100000", None, None)):
            self.put("sys/fs/cgroup/a/b/cpu.max", text + "\n")
            found = this_machine(self.root)
            with self.subTest(text):
                self.assertEqual(found.quota, quota)
                self.assertEqual(found.num_cores, num_cores or found.num_allowed)

    def test_the_smallest_limit_of_all_groups_above_counts(self):
        self.version_2()
        self.put("sys/fs/cgroup/a/b/cpu.max", "max 100000")
        self.put("sys/fs/cgroup/a/cpu.max", "100000 100000")
        self.put("sys/fs/cgroup/a/b/memory.max", str(2 * GIB))
        self.put("sys/fs/cgroup/a/memory.max", str(GIB))
        found = this_machine(self.root)
        self.assertEqual((found.quota, found.memory_bytes), (1.0, GIB))

    def test_a_container_that_sees_its_group_as_the_root(self):
        self.version_2(path="/")
        self.put("sys/fs/cgroup/cpu.max", "50000 100000")
        self.assertEqual(this_machine(self.root).quota, 0.5)

    def test_a_container_whose_mount_is_a_part_of_the_hierarchy(self):
        self.version_2(path="/docker/abc/job", mounted="/docker/abc")
        self.put("sys/fs/cgroup/job/cpu.max", "70000 100000")
        self.put("sys/fs/cgroup/cpu.max", "60000 100000")
        self.assertEqual(this_machine(self.root).quota, 0.6)

    def test_a_group_that_is_not_in_sight_is_looked_for_at_the_mount(self):
        self.version_2(path="/elsewhere/deep")
        self.put("sys/fs/cgroup/memory.max", str(GIB))
        self.assertEqual(this_machine(self.root).memory_bytes, GIB)

    def test_version_1_has_a_hierarchy_for_each_controller(self):
        self.put("proc/self/cgroup", "4:memory:/job\n3:cpu,cpuacct:/job\n")
        mounts = V1.format(n=1, mounted="/", name="memory") + V1.format(n=2, mounted="/", name="cpu,cpuacct")
        self.put("proc/self/mountinfo", mounts)
        self.put("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "25000\n")
        self.put("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "50000\n")
        self.put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n")
        self.put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
        self.put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", str(3 * GIB // 2))
        self.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")  # what no limit looks like
        found = this_machine(self.root)
        self.assertEqual((found.num_cores, found.quota, found.memory_bytes), (1, 0.5, 3 * GIB // 2))

    def test_files_that_cannot_be_understood_are_no_limit(self):
        self.version_2()
        self.put("sys/fs/cgroup/a/b/cpu.max", "what\n")
        self.put("sys/fs/cgroup/a/b/memory.max", "\n")
        self.assertEqual(this_machine(self.root)[2:4], (None, PLENTY))


class DescribeTest(unittest.TestCase):
    def test_limits_are_named_where_there_are_some(self):
        self.assertEqual(Machine(2, 2, None, 8 * GIB, 8 * GIB, "x").describe(), "2 cores, 8.0 GiB of memory")
        text = Machine(1, 2, 0.5, GIB, 8 * GIB, "x").describe()
        self.assertEqual(
            text, "2 cores, of which a quota allows 0.5, 1.0 GiB of memory (a limit; 8.0 GiB are installed)"
        )


class RealTest(unittest.TestCase):
    def ask(self, *, setup):
        """What another process finds, after it has done `setup`."""
        code = f"import os\n{setup}\nfrom ddp_ppo.machine import this_machine\nprint(*this_machine()[:4])"
        result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.split()

    def test_affinity_is_followed(self):
        core = min(os.sched_getaffinity(0))
        self.assertEqual(self.ask(setup=f"os.sched_setaffinity(0, {{{core}}})")[:2], ["1", "1"])

    def test_a_real_control_group_is_followed(self):
        folders = self.new_groups()
        enter = "\n".join(f"open('{folder}/cgroup.procs', 'w').write(str(os.getpid()))" for folder in folders)
        cores, _, quota, memory = self.ask(setup=enter)
        self.assertEqual((cores, quota), ("1", "0.5"))
        self.assertEqual(memory, str(GIB))

    def test_a_plan_follows_a_real_control_group(self):
        enter = "\n".join(f"open('{folder}/cgroup.procs', 'w').write(str(os.getpid()))" for folder in self.new_groups())
        words = ["plan", "configs/smoke.yaml", "num_actors=4"]
        code = f"import os\n{enter}\nfrom ddp_ppo.__main__ import main\nmain({words})"
        result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
        self.assertIn("cores: 1", result.stdout, result.stderr)
        self.assertIn("4 actors share 1 core here", result.stdout)

    def new_groups(self):
        """The folders of a control group of half a core and 1 GiB, of whichever version there is."""
        top, name = Path("/sys/fs/cgroup"), f"ddp_ppo_test_{uuid.uuid4().hex[:8]}"
        if (top / "cgroup.controllers").exists():
            wanted = {top / name: {"cpu.max": "50000 100000", "memory.max": str(GIB)}}
        else:
            cpu = {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"}
            wanted = {top / "cpu" / name: cpu, top / "memory" / name: {"memory.limit_in_bytes": str(GIB)}}
        try:
            for folder, files in wanted.items():
                if not (folder.parent / "cgroup.procs").exists():
                    self.skipTest(f"{folder.parent} is not a control group")
                folder.mkdir()
                self.addCleanup(folder.rmdir)
                for file, text in files.items():
                    (folder / file).write_text(text)
        except OSError as error:
            self.skipTest(f"control groups cannot be made here: {error}")
        return list(wanted)


if __name__ == "__main__":
    unittest.main()
