"""Train and validation at once on two hosts: both runs deliver what a single process delivers, and top shows each of them."""

import threading
import unittest

from cluster import HOSTS
from also_hosts import HostsTest


class Hosts(HostsTest):
    def test_two_hosts(self):
        looked = {}
        watcher = threading.Thread(target=self.look, args=(looked, ("", ".val"), 2))
        watcher.start()
        self.check_hosts(HOSTS[:2], "watched")
        watcher.join()
        for name in "", ".val":
            self.assertEqual([(reader["reader"], reader["node"]) for reader in looked[name]["readers"]],
                             [(0, HOSTS[0]), (1, HOSTS[1])], looked)


if __name__ == "__main__":
    unittest.main()
