"""One host of three has a tenth of a core: it reads fewer rows than the others, and all are delivered as ever."""

import json
import os
import unittest

from cluster import HOSTS, ClusterTest
from job import MPIEXEC, run


class Balance(ClusterTest):
    SLOW = len(HOSTS) - 1  # the reader on the host that hosts.sh slows down

    def deliver(self, readers, dataset, **more):
        """Runs a job in which every epoch reads everything; returns its digest lines, and the chunks that each
        reader has read in its last epoch."""
        path = os.path.join(self.folder, "report.json")
        outcome = run([MPIEXEC, *self.flags, "-np", str(readers),
                       *self.reader_command(readers, dataset__uri=dataset, readers__cache="off", order__epochs=4,
                                            exchange__steps_per_round=1, **more),
                       "--report", path, "--", *self.trainer_command()])
        self.assertEqual(outcome.code, 0, outcome.output)
        with open(path, encoding="ascii") as file:
            report = json.load(file)
        self.assertEqual([reader["node"] for reader in report["readers"]], HOSTS[:readers])
        for epoch, total in enumerate(report["epochs"]):
            self.assertEqual(sum(reader["epochs"][epoch]["chunks"] for reader in report["readers"]), total["chunks"])
        return self.take_digests(), [reader["epochs"][-1]["chunks"] for reader in report["readers"]]

    def check(self, chunk, window_rows):
        dataset = self.synth(f"rows-of-{chunk}", 600, chunk=chunk)
        expected, _ = self.deliver(1, dataset, order__window_rows=window_rows)
        lines, chunks = self.deliver(len(HOSTS), dataset, order__window_rows=window_rows)
        self.assertEqual(lines, expected)
        others = sum(chunks) - chunks[self.SLOW]
        print(f"chunks that each reader read: {chunks}")
        self.assertLess(chunks[self.SLOW], 0.7 * others / (len(HOSTS) - 1), chunks)

    def test_rows_of_one_sample(self):
        self.check(1, 48)

    def test_rows_of_several_samples(self):
        self.check(4, 15)


if __name__ == "__main__":
    unittest.main()
