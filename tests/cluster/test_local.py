"""order.placement local on several hosts: only the imbalance crosses their links, and each step has the samples that it
has on one host."""

import json
import math
import os
import unittest

from cluster import HOSTS, ClusterTest
from job import MPIEXEC, run

RECORD_BYTES = 4096
BATCH_OF_A_HOST = 64


class Local(ClusterTest):
    EPOCHS = 3
    SAMPLES = 8 * BATCH_OF_A_HOST * len(HOSTS)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        uri = cls.synth("small", cls.SAMPLES, layout="plain", shape=RECORD_BYTES // 4, chunk=1)
        cls.settings = {"dataset.uri": uri, "batch.global_size": BATCH_OF_A_HOST * len(HOSTS), "order.epochs": cls.EPOCHS,
                        "order.seed": 5, "readers.threads": 1}

    def deliver(self, placement):
        """One reader and one trainer a host. Returns digest lines, and the bytes that readers sent of each epoch."""
        path = os.path.join(self.folder, "report.json")
        outcome = run([MPIEXEC, *self.flags, "-np", str(len(HOSTS)),
                       *self.reader_command(len(HOSTS), order__placement=placement), "--report", path, "--",
                       *self.trainer_command()])
        self.assertEqual(outcome.code, 0, outcome.output)
        with open(path, encoding="ascii") as file:
            report = json.load(file)
        self.assertEqual([reader["node"] for reader in report["readers"]], HOSTS)
        return self.take_digests(), [epoch["sent_bytes"] for epoch in report["epochs"]]

    def test_only_the_imbalance_is_sent(self):
        """Of the samples' own bytes; what MPI adds is not counted."""
        epoch_bytes = self.SAMPLES * RECORD_BYTES
        lines, fixed = self.deliver("fixed")
        self.assertEqual(lines, self.expected)  # of one process
        lines, local = self.deliver("local")
        self.assertEqual(lines, self.expected)
        formula = math.sqrt((1 - 1 / len(HOSTS)) / (2 * math.pi * BATCH_OF_A_HOST))
        print(f"sent of all samples: fixed {[round(count / epoch_bytes, 3) for count in fixed]}, local "
              f"{[round(count / epoch_bytes, 3) for count in local]}, formula {formula:.3f}")
        for count in fixed[1:]:  # the first epoch reads each row where its sample goes
            self.assertAlmostEqual(count / epoch_bytes, 1 - 1 / len(HOSTS), delta=0.05)
        self.assertGreater(min(local), 0)
        self.assertLess(sum(local) / len(local), 1.15 * formula * epoch_bytes)


if __name__ == "__main__":
    unittest.main()
