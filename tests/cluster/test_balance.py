"""One host of three reads slowly: its reader reads fewer rows than the others, and all are delivered as ever."""

import json
import os
import unittest

from cluster import HOSTS, ClusterTest
from job import MPIEXEC, run

# Far more than a busy machine adds to reading a row: which host is slow, and that it is, must not depend on the load.
DELAY_MS = 200


@unittest.skipUnless(os.environ.get("PENSTOCK_HAS_FAULTS") == "1", "built without the fault-injecting store")
class Balance(ClusterTest):
    SLOW = len(HOSTS) - 1  # the reader on the host whose store takes its time
    EPOCHS = 3
    SAMPLES = 120

    def deliver(self, readers, dataset, **more):
        """Runs a job in which every epoch reads everything; returns its digest lines, and the rows that each reader
        has read for each epoch."""
        path = os.path.join(self.folder, "report.json")
        slowly = (f'[ "$(hostname)" != {HOSTS[self.SLOW]} ] || export PENSTOCK_FAULTS=delay=1,delay_ms={DELAY_MS}; '
                  'exec "$@"')
        outcome = run([MPIEXEC, *self.flags, "-np", str(readers), "sh", "-c", slowly, "sh",
                       *self.reader_command(readers, dataset__uri=dataset, batch__global_size=3, readers__cache="off",
                                            order__epochs=self.EPOCHS, exchange__steps_per_round=1, **more),
                       "--report", path, "--", *self.trainer_command()])
        self.assertEqual(outcome.code, 0, outcome.output)
        with open(path, encoding="ascii") as file:
            report = json.load(file)
        self.assertEqual([reader["node"] for reader in report["readers"]], HOSTS[:readers])
        rows = [[reader["epochs"][epoch]["rows_read"] for reader in report["readers"]] for epoch in range(self.EPOCHS)]
        self.assertEqual([sum(epoch) for epoch in rows], [epoch["rows_read"] for epoch in report["epochs"]])
        return self.take_digests(), rows

    def check(self, chunk, window_rows):
        dataset = self.synth(f"rows-of-{chunk}", self.SAMPLES, chunk=chunk)
        expected, _ = self.deliver(1, dataset, order__window_rows=window_rows)
        lines, rows = self.deliver(len(HOSTS), dataset, order__window_rows=window_rows)
        print(f"rows that each reader read, epoch by epoch: {rows}")
        self.assertEqual(lines, expected)
        for epoch in rows[1:]:  # in the first one nobody knows yet
            others = sum(epoch) - epoch[self.SLOW]
            self.assertLess(epoch[self.SLOW], 0.5 * others / (len(HOSTS) - 1))

    def test_rows_of_one_sample(self):
        self.check(1, 6)

    def test_rows_of_several_samples(self):
        self.check(4, 3)


if __name__ == "__main__":
    unittest.main()
