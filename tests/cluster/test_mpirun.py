"""Readers that mpirun starts on 1 to 4 hosts deliver what a single process delivers."""

import itertools
import unittest

from cluster import HOSTS, ClusterTest
from job import MPIEXEC, run


class Mpirun(ClusterTest):
    def deliver(self, readers, trainers, **more):
        """Runs a job on the default list of hosts, and returns the nodes of its readers."""
        outcome = run([MPIEXEC, *self.flags, "-np", str(readers),
                       *self.reader_command(trainers, **more), "--", *self.trainer_command()])
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assert_same_digests()
        return self.nodes(outcome.output)

    def test_one_reader_a_host(self):
        for hosts, (trainers, cache) in itertools.product(
                (1, 2, 3, 4), ((1, "decoded"), (4, "decoded"), (8, "off"))):
            with self.subTest(hosts=hosts, trainers=trainers, cache=cache):
                nodes = self.deliver(hosts, trainers, readers__cache=cache)
                self.assertEqual(nodes, HOSTS[:hosts])

    def test_several_readers_on_some_hosts(self):
        nodes = self.deliver(6, 6)
        self.assertEqual((len(nodes), set(nodes)), (6, set(HOSTS)))
        self.deliver(6, 6, exchange__way="auto")  # links are measured, between nodes of one reader and of two


if __name__ == "__main__":
    unittest.main()
