"""Train and validation at once in Slurm jobs, by each launcher, and where readers die."""

import os
import shlex
import sys
import threading
import unittest

import cluster  # noqa: F401; first: where also is
from also import PASSES, TRAINER, SupervisedTest
from job import launcher_is_open_mpi, leftovers, program, run


class Slurm(SupervisedTest):
    trainers = 4

    def batch(self, mode, *options, kill=()):
        """What penstock-run prints in a job on two nodes. `kill`: as supervise() has it."""
        script, log = (os.path.join(self.folder, name) for name in ("script", "log"))
        command = [program("penstock-run"), "--verbose", "-c", self.train(), "--also", "val=" + self.val(), *options, "--",
                   sys.executable, TRAINER, self.folder, mode]
        with open(script, "w", encoding="ascii") as file:
            file.write(f"#!/bin/bash\nexec {shlex.join(command)}\n")
        killer = threading.Thread(target=self.kill_readers, args=(kill,))
        killer.start()
        before = leftovers()
        job = run(["sbatch", "--wait", "--nodes=2", "--ntasks-per-node=1", "--exclusive", f"--chdir={self.folder}",
                   f"--output={log}", script], env=self.environment())
        killer.join()
        with open(log, encoding="utf-8") as file:
            output = file.read()
        self.assertEqual(job.code, 0, output)
        self.check(PASSES, self.alone(self.val(), 5))
        self.assert_nothing_left(before, job)
        return output

    def test_launchers(self):
        for launcher in ("srun", "mpirun"):
            with self.subTest(launcher=launcher):
                self.batch("keep", "--launcher", launcher)

    def test_readers_die(self):
        if not launcher_is_open_mpi():
            self.skipTest("under Slurm's pmi2 the other readers do not hear of it")
        output = self.batch("slow", "--restarts", "4", kill=[("train", 3), ("val", 4)])
        self.assertIn("restart 2 of 4", output)


if __name__ == "__main__":
    unittest.main()
