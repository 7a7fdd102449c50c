"""penstock rechunk started by mpirun: parts by rank, without a call of MPI; ranks that die, other numbers of ranks."""

import os
import re
import shutil
import signal
import tempfile
import unittest

from job import MPIEXEC, environment, mpi_flags, program, run, slabs_done


class Ranks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="penstock-rechunk-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.source = self.path("a.zarr")
        outcome = run([program("penstock"), "synth", self.source, "--samples", "80", "--videos", "4"])
        self.assertEqual(outcome.code, 0, outcome.output)
        self.digest = self.digest_of(self.source)

    def path(self, name):
        return os.path.join(self.folder, name)

    def digest_of(self, uri):
        outcome = run([program("penstock"), "verify", uri, "--digest"])
        self.assertEqual(outcome.code, 0, outcome.output)
        return re.search(r"^digest (\w{32})$", outcome.output, re.M).group(1)

    def rechunk(self, ranks, name, send=None):
        command = [MPIEXEC, *mpi_flags(), "-np", str(ranks), program("penstock"), "rechunk", self.source,
                   self.path(name), "--chunk", "2", "--threads", "1", "--codec", "zstd", "--level", "12"]
        return run(command, env=environment(), send=send)

    def check(self, name):
        self.assertEqual(self.digest_of(self.path(name)), self.digest)
        self.assertEqual([entry for entry in os.listdir(self.path(name)) if entry.startswith(".")], [])

    def test_parts(self):
        """Each rank does its part, one of them ends the work; more ranks than slabs, too."""
        for ranks in (2, 3, 7):
            with self.subTest(ranks=ranks):
                name = f"of{ranks}.zarr"
                outcome = self.rechunk(ranks, name)
                self.assertEqual(outcome.code, 0, outcome.output)
                self.assertIn(f"digest {self.digest}", outcome.output)
                for rank in range(ranks):
                    self.assertIn(f"part {rank} of {ranks}: ", outcome.output)
                self.check(name)

    def test_interrupted(self):
        """mpirun is ended, then fewer ranks and then one alone go on."""
        name = "killed.zarr"
        for ranks, slabs in ((3, 2), (2, 5)):
            self.rechunk(ranks, name, send=(lambda slabs=slabs: slabs_done(self.path(name), "rechunk") >= slabs, signal.SIGTERM))
        outcome = self.rechunk(1, name)
        if outcome.code != 0:  # complete before the signal came, or just before it ended the last act
            self.assertRegex(outcome.output, "not empty|is complete")
        self.check(name)


if __name__ == "__main__":
    unittest.main()
