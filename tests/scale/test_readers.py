"""64, 128 and 256 readers on one machine deliver what one delivers. Prints what they cost beside what the plan says."""

import glob
import json
import os
import signal
import statistics
import unittest

from scale import MIB, Clock, available_mib, settings_of, tell
from process_tree import pss_bytes

from job import launcher_is_open_mpi, program
from recovery import RecoveryTest

READER_MIB = 32  # of memory, with MPI's own, and a trainer


class ScaleTest(RecoveryTest):
    def forget_digests(self):
        """Those of the run that single() has made."""
        for path in glob.glob(os.path.join(self.folder, "digest.*")):
            os.remove(path)


class Readers:
    """A job of `count` readers; each has a trainer of its own."""
    count = 0

    def setUp(self):
        super().setUp()
        if available_mib() < self.count * READER_MIB:
            self.skipTest(f"{self.count} readers take {self.count * READER_MIB} MiB, and {available_mib()} are there")
        self.trainers = self.count

    def tell_costs(self, report, settings, startup_s, memory):
        planned = self.plan(self.count, settings)
        mean = statistics.mean(memory) / MIB if memory else 0
        tell(f"{self.count} readers: {startup_s:.1f} s until the first batch; {mean:.1f} MiB a reader with what MPI takes,"
             f" planned {planned['memory_bytes_of_a_reader'] / MIB:.1f}")
        for epoch, foreseen in zip(report["epochs"], planned["epochs"]):
            tell(f"  epoch {epoch['epoch']}: {epoch['sent_bytes']} bytes sent, planned {foreseen['exchanged_bytes']};"
                 f" {epoch['rows_read']} rows read, planned {foreseen['rows_read']};"
                 f" turns up to 0.1 ms, 0.3, 1, 3, 10, longer: {epoch['turns']}")
            self.assertEqual(epoch["rows_read"], foreseen["rows_read"])
            self.assertLess(abs(epoch["sent_bytes"] - foreseen["exchanged_bytes"]), 0.1 * foreseen["exchanged_bytes"])

    def test_the_same_as_of_one(self):
        settings = settings_of(self, self.count)
        expected = self.single({**settings, "delivery.trainers": 1})
        report = os.path.join(self.folder, "report.json")
        command = (program("penstock-trainer"), "--compute-ms", "20", "--digest", os.path.join(self.folder, "digest.{rank}"))
        self.forget_digests()
        clock = Clock()
        job = self.start_readers(self.count, {**settings, "delivery.run_dir": self.run_dir}, ["--report", report], command)
        self.until(lambda: self.digest_lines() or job.popen.poll() is not None, "a batch")
        startup_s = clock.seconds()
        pids = [self.reader_pid(reader) for reader in range(self.count)] if job.popen.poll() is None else []
        memory = [bytes_ for bytes_ in map(pss_bytes, pids) if bytes_]
        self.assert_ends_well(job)
        self.assertEqual(len(self.digest_lines()), len(expected))
        self.assertTrue(self.digest_lines() == expected, "samples differ from those of one reader")
        with open(report, encoding="utf-8") as file:
            self.tell_costs(json.load(file), settings, startup_s, memory)


class Readers64(Readers, ScaleTest):
    count = 64


class Readers128(Readers, ScaleTest):
    count = 128


class Readers256(Readers, ScaleTest):
    count = 256


@unittest.skipUnless(launcher_is_open_mpi(), "MPICH's mpirun may end with 0 after a kill")
class KilledReader(ScaleTest):
    """One of 64 readers is killed, and all are started again, while the trainers live."""
    trainers = 64

    def test_go_on(self):
        settings = {**settings_of(self, self.trainers), "order.epochs": 4}
        expected = self.single({**settings, "delivery.trainers": 1})
        self.forget_digests()
        settings = {**settings, "delivery.run_dir": self.run_dir, "delivery.reconnect_timeout": 600}
        job = self.start_readers(self.trainers, settings, ["--supervised"])
        trainers = self.start_trainers("--compute-ms", "500", readers=self.trainers)
        self.until_lines("0", 24)
        os.kill(self.reader_pid(17), signal.SIGKILL)
        clock = Clock()
        self.assertNotEqual(job.wait(), 0)
        had = len(self.digest_lines())
        self.assertLess(had, len(expected), "it was killed early enough")
        job = self.start_readers(self.trainers, settings, ["--supervised"])
        self.assert_ends_well(*trainers, job)
        tell(f"64 readers: all has ended {clock.seconds():.1f} s after one was killed")
        self.assertTrue(self.digest_lines() == expected, "samples differ from those of one reader")


if __name__ == "__main__":
    unittest.main()
