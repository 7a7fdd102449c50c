"""Spawned trainers run where the table at the start says; a crowded node is named, and binds none."""

import json
import fcntl
import os
import re
import unittest

from job import JobTest, program

# A trainer that says where it may run before it becomes one.
SAYS_WHERE = "grep Cpus_allowed_list /proc/self/status; exec \"$0\""


def cpus(text):
    """The set of cpus of a list such as 0-3,8-14:2."""
    found = set()
    for part in text.split(","):
        part, _, stride = part.partition(":")
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1, int(stride or 1)))
    return found


class Placement(JobTest):
    def seats(self, readers, trainers, **settings):
        """Cpus of workers and of trainers by the table, cpus where trainers really ran, all output."""
        options = {"dataset.uri": self.synth("placement", 16), "batch.global_size": 8,
                   "delivery.trainers": trainers}
        options.update({key.replace("__", "."): value for key, value in settings.items()})
        outcome = self.reader(readers, options,
                              ("sh", "-c", SAYS_WHERE, program("penstock-trainer")), ["--verbose"])
        self.assertEqual(outcome.code, 0, outcome.output)
        table = re.findall(r"^ +\d+ (worker|trainer)s? +on NUMA node \d+, .*cpus ([\d,:-]+)",
                           outcome.output, re.MULTILINE)
        seats = {kind: set().union(*(cpus(text) for name, text in table if name == kind))
                 for kind in ("worker", "trainer")}
        ran = [cpus(text) for text in
               re.findall(r"Cpus_allowed_list:\s*([\d,-]+)", outcome.output)]
        self.assertEqual(len(ran), trainers, outcome.output)
        return seats["worker"], seats["trainer"], ran, outcome.output

    def test_bound_beside_workers(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("one cpu: a reader and a trainer take turns on it")
        workers, trainers, ran, output = self.seats(1, 1, readers__threads=1)
        self.assertTrue(trainers, output)
        self.assertFalse(workers & trainers, output)
        self.assertEqual(ran, [trainers], output)
        self.assertNotIn("warning:", output)

    def test_four_lines(self):
        """Dataset, plan, memory, readers; tables only where they are asked for. The report has them, too."""
        settings = {"dataset.uri": self.synth("placement", 16), "batch.global_size": 8, "readers.threads": 1}
        path = os.path.join(self.folder, "report.json")
        table = re.compile(r"^( +\d+ workers? on NUMA node .*)$", re.MULTILINE)
        said = {}
        for options in (), ("--verbose",):
            outcome = self.reader(2, settings, [], ["--report", path, *options])
            self.assertEqual(outcome.code, 0, outcome.output)
            start = outcome.output[:outcome.output.index("epoch 0 delivered")].splitlines()
            said[options] = [line for line in start if not line.startswith(("warning: ", "penstock-reader: warning: "))]
            seats = table.findall(outcome.output)
            self.assertEqual(bool(seats), bool(options), outcome.output)
        self.assertEqual([line.split()[0] for line in said[()]], ["dataset", "plan", "memory", "readers"], said)
        self.assertTrue({line.split()[0] for line in said[()]} < {line.split()[0] for line in said[("--verbose",)]})
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        self.assertTrue(all(seat in {line for reader in report["readers"] for line in reader["seats"]}
                            for seat in seats), report["readers"])
        self.assertEqual(sum(bytes for name, bytes in report["memory"].items() if name not in ("total", "limit", "least")),
                         report["memory"]["total"])

    def test_not_bound_where_told_so(self):
        everywhere = os.sched_getaffinity(0)
        *_, ran, output = self.seats(1, 1, delivery__bind_trainers="false")
        self.assertEqual(ran, [everywhere], output)
        workers, trainers, ran, output = self.seats(1, 1, readers__bind="none")
        self.assertEqual(ran, [everywhere], output)
        self.assertEqual(workers, everywhere, output)
        self.assertFalse(trainers, output)

    def test_crowded(self):
        everywhere = os.sched_getaffinity(0)
        threads = len(everywhere) + 1
        _, trainers, ran, output = self.seats(2, 2, readers__threads=threads)
        self.assertFalse(trainers, output)
        self.assertEqual(ran, [everywhere, everywhere], output)
        warnings = re.findall(r"^warning: node \S+: (.*)$", output, re.MULTILINE)
        self.assertEqual(len(warnings), 1, output)
        self.assertRegex(warnings[0], f"^2 readers with {2 * threads} worker threads and 2 trainers "
                                      r"share \d+ cores?: they take turns; lower readers.threads")


    def test_several_numa_nodes(self):
        """Each cpu passes for a NUMA node of its own (hwloc is told so): copies go to the workers of the node where they
        are written, rings and buffers lie on several, and the batches are the same."""
        cpus_here = len(os.sched_getaffinity(0))
        if cpus_here < 2 or os.sched_getaffinity(0) != set(range(cpus_here)):
            self.skipTest("two cpus are needed, numbered from 0")
        settings = {"dataset.uri": self.synth("nodes", 96), "batch.global_size": 24, "order.epochs": 2,
                    "readers.threads": 4}
        expected = self.digests(1, 1, settings)
        pretended = {"HWLOC_SYNTHETIC": f"numa:{cpus_here} core:1 pu:1", "HWLOC_THISSYSTEM": "1"}
        os.environ.update(pretended)
        self.addCleanup(lambda: [os.environ.pop(name) for name in pretended])
        outcome = self.reader(1, {**settings, "delivery.trainers": 4}, [], ["--verbose"])
        self.assertEqual(outcome.code, 0, outcome.output)
        nodes = re.findall(r"^ +\d+ workers? on NUMA node (\d+),", outcome.output, re.MULTILINE)
        self.assertEqual(nodes, [str(node) for node in range(min(4, cpus_here))], outcome.output)
        for readers, trainers in (1, 4), (2, 4):
            self.assertEqual(self.digests(readers, trainers, settings), expected)

    def test_rings_in_huge_pages(self):
        """Slots of 16 MiB: where huge pages are set aside, rings are made of them, at both ends."""
        path = "/proc/sys/vm/nr_hugepages"
        try:
            turn = os.open("/sys/kernel/mm/hugepages", os.O_RDONLY)  # tests that do this take turns
            self.addCleanup(os.close, turn)
            fcntl.flock(turn, fcntl.LOCK_EX)
            with open(path, "r+", encoding="ascii") as file:
                before = int(file.read())
                file.seek(0)
                file.write(str(before + 100))
        except OSError as error:
            self.skipTest(f"no huge pages can be set aside here: {error}")
        try:
            with open(path, encoding="ascii") as file:
                if int(file.read()) != before + 100:
                    self.skipTest("the machine has no room for 200 MiB of huge pages")
            settings = {"dataset.uri": self.synth("huge", 64, layout="plain", codec="none", shape="512,512"),
                        "batch.global_size": 32, "order.epochs": 2, "delivery.trainers": 2, "delivery.slots": 2}
            for _ in range(5):  # what else runs on this machine may take huge pages for a moment
                outcome = self.reader(2, settings, [], ["--verbose"])
                if outcome.code or "2 of huge pages" in outcome.output:
                    break
        finally:
            with open(path, "w", encoding="ascii") as file:
                file.write(str(before))
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assertRegex(outcome.output, r"rings +2 of .*: 2 of huge pages set aside \(hugetlb\)\n")


if __name__ == "__main__":
    unittest.main()
