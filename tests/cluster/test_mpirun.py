"""Readers that mpirun starts on 1 to 4 hosts deliver what a single process delivers."""

import itertools
import json
import os
import signal
import subprocess
import unittest

from cluster import HOSTS, ClusterTest
from job import MPIEXEC, launcher_passes_last_words, program, run


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

    def look(self, host, looked):
        """Whether `penstock top` on the host sees a job that serves its trainers; notes what the job looks like."""
        shown = subprocess.run([os.environ["CLUSTER_RSH"], host, program("penstock"), "top", "/tmp/top", "--once", "--json"],
                               capture_output=True, text=True, check=False)
        if shown.returncode == 0:
            looked[host] = json.loads(shown.stdout)
        return shown.returncode == 0 and all(reader["serving"] for reader in looked[host]["readers"])

    def test_one_top_shows_all(self):
        """On the node of reader 0 the readers and trainers of all nodes, and on others those of the node. The end does not
        wait for whoever looks on."""
        looked = {}
        trainer = [program("penstock-trainer"), "--compute-ms", "20"]
        watching = []

        def look():
            if not (self.look(HOSTS[0], looked) and self.look(HOSTS[1], looked)):
                return False
            watching.append(subprocess.Popen(
                [os.environ["CLUSTER_RSH"], HOSTS[0], program("penstock"), "top", "/tmp/top"], stdout=subprocess.PIPE, text=True))
            return "samples/s" in watching[0].stdout.readline()
        outcome = run([MPIEXEC, *self.flags, "-np", "6", *self.reader_command(6, delivery__run_dir="/tmp/top", order__epochs=5000),
                       "--", *trainer], send=(look, signal.SIGINT), cwd=self.folder)
        if launcher_passes_last_words():
            self.assertRegex(outcome.output, "stopped by SIG(INT|TERM)")  # in good order, if half a second is enough
        self.assertIn("the run has ended", watching[0].communicate(timeout=120)[0])
        readers, rates = looked[HOSTS[0]]["readers"], looked[HOSTS[0]]["rates"]
        self.assertEqual([reader["reader"] for reader in readers], list(range(6)))
        self.assertEqual({reader["node"] for reader in readers}, set(HOSTS))
        self.assertEqual(sorted(t["rank"] for reader in readers for t in reader["trainers"]), list(range(6)))
        for rate in rates:
            self.assertGreater(rate["seconds"], 0, rate)
            self.assertGreater(rate["samples"], 0, rate)
        self.assertEqual({reader["node"] for reader in looked[HOSTS[1]]["readers"]}, {HOSTS[1]})


if __name__ == "__main__":
    unittest.main()
