"""exchange.way auto: two hosts with slow links measure how slow these are, read rows again where that is faster, and never
from a slow store."""

import json
import os
import signal
import subprocess
import time
import unittest

from cluster import HOSTS, ClusterTest
from job import MPIEXEC, environment, launcher_is_open_mpi, run
from servers import Nginx, nginx_program

HEAD = "10.77.0.1"
RECORD_BYTES = 16384
LINK_BYTES_PER_S = 40e6 / 8
STORE_RATE = "5mbit"  # an eighth of the links'
GRACE_S = 3
# Debian's MPICH takes these hosts for one, since they share the machine's memory, and sends nothing over their links.
ENVIRONMENT = {} if launcher_is_open_mpi() else {"UCX_TLS": "tcp,self"}


class Ways(ClusterTest):
    EPOCHS = 6
    SAMPLES = 256

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.uri = cls.synth("ways", cls.SAMPLES, layout="plain", shape=RECORD_BYTES // 4, chunk=1)
        cls.settings = {"dataset.uri": cls.uri, "batch.global_size": 8 * len(HOSTS), "order.epochs": cls.EPOCHS,
                        "order.seed": 5, "order.window_rows": 64, "exchange.steps_per_round": 1, "readers.threads": 1}

    def run_job(self, command, report):
        """A job that writes the report. MPICH over TCP may hang in MPI_Finalize (docs/launching.md), when all is over."""
        seen = []

        def is_over():
            if os.path.exists(report):
                seen.append(time.monotonic())
            return seen and time.monotonic() > seen[0] + GRACE_S

        may_hang = not launcher_is_open_mpi()
        outcome = run(command, env=environment(**ENVIRONMENT), send=(is_over, signal.SIGTERM) if may_hang else None)
        if not may_hang:
            self.assertEqual(outcome.code, 0, outcome.output)
        self.assertTrue(os.path.exists(report), outcome.output)

    def deliver(self, way, uri):
        """One reader and one trainer a host. The report's epochs."""
        path = os.path.join(self.folder, "report.json")
        self.run_job([MPIEXEC, *self.flags, "-np", str(len(HOSTS)),
                      *self.reader_command(len(HOSTS), exchange__way=way, dataset__uri=uri), "--report", path, "--",
                      *self.trainer_command()], path)
        self.assert_same_digests()
        with open(path, encoding="ascii") as file:
            report = json.load(file)
        for reader in report["readers"]:  # as tc shapes it, bursts included; a busy machine may move less
            self.assertLess(reader["rates"]["link_bytes_per_s"], 2 * LINK_BYTES_PER_S)
            self.assertGreater(reader["rates"]["link_bytes_per_s"], 0.2 * LINK_BYTES_PER_S)
        print(f"{way} {uri}: each {[epoch['ways']['each_rows'] for epoch in report['epochs']]}, sent "
              f"{[epoch['sent_bytes'] >> 10 for epoch in report['epochs']]} KiB, {report['ways']}, "
              f"{[reader['rates'] for reader in report['readers']]}")
        return report["epochs"]

    def test_reads_again_where_links_are_slow(self):
        """Half of the samples go to the other host. From the third epoch on few of them are sent."""
        half = self.SAMPLES * RECORD_BYTES // 2
        for epoch in self.deliver("auto", self.uri)[2:]:
            self.assertLess(epoch["sent_bytes"], half // 2)
            self.assertGreater(epoch["ways"]["each_rows"], self.SAMPLES // 4)

    def test_sends_where_the_store_is_slow(self):
        """Each row is read once in the run."""
        if not nginx_program():
            self.skipTest("there is no nginx")
        subprocess.run(["tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", STORE_RATE, "burst", "16kb",
                        "latency", "50ms"], check=True)
        self.addCleanup(subprocess.run, ["tc", "qdisc", "del", "dev", "eth0", "root"], check=True)
        server = Nginx(os.path.dirname(self.uri), address=HEAD)
        self.addCleanup(server.close)
        epochs = self.deliver("auto", f"{server.url}/{os.path.basename(self.uri)}")
        self.assertEqual([epoch["ways"]["each_rows"] for epoch in epochs], [0] * self.EPOCHS)
        self.assertEqual([epoch["rows_read"] for epoch in epochs], [self.SAMPLES] + [0] * (self.EPOCHS - 1))


if __name__ == "__main__":
    unittest.main()
