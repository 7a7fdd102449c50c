"""Train and validation at once on two hosts: both runs deliver what a single process delivers, and top shows each of them."""

import threading
import unittest

from cluster import HOSTS
from also_hosts import HostsTest


class Hosts(HostsTest):
    def test_two_hosts(self):
        looked = {}
        threads = [threading.Thread(target=self.look, args=(name, looked, 2)) for name in ("", ".val")]
        for thread in threads:
            thread.start()
        self.check_hosts(HOSTS[:2], "slow")
        for thread in threads:
            thread.join()
        for name in "", ".val":
            self.assertEqual([(reader["reader"], reader["node"]) for reader in looked[name]["readers"]],
                             [(0, HOSTS[0]), (1, HOSTS[1])], looked)


if __name__ == "__main__":
    unittest.main()
