"""What tests on several hosts share: tests/mpi's jobs, and the digests of a single process.

They run on the head node of a cluster that hosts.sh or slurm.sh has brought up around them.
"""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "mpi"))

from job import JobTest, program, run  # noqa: E402

if "CLUSTER_HOSTS" not in os.environ:
    print(f"this is no cluster; run 'hosts.sh with 4 -- {' '.join(sys.argv)}', or slurm.sh")
    sys.exit(1)
HOSTS = os.environ["CLUSTER_HOSTS"].split(",")


class ClusterTest(JobTest):
    """A dataset that all hosts see, and what a run without mpirun delivers of it."""

    SAMPLES = 203  # 25 rows of 8 and a short one

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # A batch that 1 to 4 hosts with 1 or 2 trainers divide.
        cls.settings = {"dataset.uri": cls.synth("dataset", cls.SAMPLES, chunk=8, videos=7),
                        "batch.global_size": 24, "batch.last": "partial", "order.epochs": 2,
                        "order.seed": 5, "order.window_rows": 9, "readers.threads": 1}

    def setUp(self):
        super().setUp()
        self.expected = self.single_process()

    def reader_command(self, trainers, **more):
        """penstock-reader for so many trainers, without what starts them."""
        command = [program("penstock-reader"), "--verbose"]
        for key, value in {**self.settings, "delivery.trainers": trainers, **more}.items():
            command += ["--set", f"{key.replace('__', '.')}={value}"]
        return command

    def trainer_command(self):
        return [program("penstock-trainer"), "--digest", os.path.join(self.folder, "digest.{rank}")]

    def single_process(self):
        """What one reader without mpirun, on the head node, gives to one trainer: from one run for all tests."""
        key = tuple(map(str, self.settings.items()))
        if key in self.singles:
            return self.singles[key]
        outcome = run([*self.reader_command(1), "--", *self.trainer_command()])
        self.assertEqual(outcome.code, 0, outcome.output)
        lines = self.take_digests()
        for epoch in ("0", "1"):
            indices = [int(line[3]) for line in lines if line[0] == epoch]
            self.assertEqual(sorted(indices), list(range(self.SAMPLES)))
        self.singles[key] = lines
        return lines

    def take_digests(self):
        """The digest lines of the run before, and their files removed."""
        lines = self.digest_lines()
        for name in os.listdir(self.folder):
            if name.startswith("digest."):
                os.remove(os.path.join(self.folder, name))
        return lines

    def assert_same_digests(self):
        """The run before delivered what a single process does. unittest's own comparison of such
        lists takes minutes where all is different."""
        lines = self.take_digests()
        differ = [pair for pair in zip(lines, self.expected) if pair[0] != pair[1]]
        if lines != self.expected:
            self.fail(f"{len(lines)} samples, not {len(self.expected)}; {len(differ)} differ, "
                      f"the first as here, there: {differ[:1]}")

    def nodes(self, output):
        """The nodes of readers 0, 1, ..., as rank 0 prints them: one by one with --verbose, else names alone."""
        lines = re.findall(r"^reader (\d+ on .*)$", output, re.MULTILINE)
        found = dict(re.findall(r"(\d+) on ([^\s,]+)", "\n".join(lines)))
        names = re.search(r"^readers +\d+ on ([^:]*):", output, re.MULTILINE)
        return [found[str(rank)] for rank in range(len(found))] or (names[1].split(", ") if names else [])
