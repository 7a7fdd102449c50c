"""Train and validation at once on more hosts, and where readers of either run die."""

import unittest

from cluster import HOSTS
from also_hosts import HostsTest
from job import launcher_is_open_mpi


class More(HostsTest):
    def test_four_hosts(self):
        self.check_hosts(HOSTS[:4])

    def test_two_readers_a_run(self):
        self.check_hosts(HOSTS[:2], "keep", "--readers-per-node", "2")

    @unittest.skipUnless(launcher_is_open_mpi(), "MPICH's mpirun may end with 0 after a kill")
    def test_readers_die(self):
        """On the head node all hosts' processes are seen."""
        self.check_kills([("train", 3), ("val", 4), ("train", 14)], "--hosts", ",".join(HOSTS[:3]))


if __name__ == "__main__":
    unittest.main()
