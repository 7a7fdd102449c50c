"""Readers on 1 to 4 nodes of a Slurm job deliver what a single process delivers."""

import os
import re
import shlex
import time
import unittest

from cluster import HOSTS, ClusterTest
from job import MPIEXEC, TIMEOUT_S, launcher_is_open_mpi, run


class Slurm(ClusterTest):
    def batch(self, nodes, lines):
        """Submits a script, waits for its end, and returns what it printed."""
        script, log = (os.path.join(self.folder, name) for name in ("script", "log"))
        with open(script, "w", encoding="ascii") as file:
            file.write("\n".join(["#!/bin/bash", "set -euo pipefail", *lines, ""]))
        submitted = run(["sbatch", "--parsable", f"--nodes={nodes}", "--ntasks-per-node=1",
                         "--exclusive", f"--output={log}", script])
        self.assertEqual(submitted.code, 0, submitted.output)
        job = submitted.output.strip()
        state, shown = self.end_of_job(job)
        with open(log, encoding="utf-8") as file:
            output = file.read()
        self.assertEqual(state, "COMPLETED", output + shown)
        return output

    def end_of_job(self, job):
        """Waits for it; returns the job's last state, and what Slurm says about it."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            shown = run(["scontrol", "show", "job", job]).output
            state = re.search(r"JobState=(\S+)", shown)
            if state and state[1] not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"):
                return state[1], shown
            if time.monotonic() > deadline:
                run(["scancel", job])
                return "HANGING", shown + run(["ps", "axf"]).output
            time.sleep(0.1)

    def check(self, nodes, output):
        self.assertEqual(sorted(self.nodes(output)), HOSTS[:nodes])
        self.assert_same_digests()

    def test_readers_and_trainers_as_two_steps(self):
        """Trainers know from Slurm who they are, and find the reader of their node."""
        pmi = "pmix" if launcher_is_open_mpi() else "pmi2"
        for nodes in (1, 2, 3, 4):
            with self.subTest(nodes=nodes):
                output = self.batch(nodes, [
                    "export PENSTOCK_RUN_DIR=/tmp/penstock-$SLURM_JOB_ID SLURM_OVERLAP=1",
                    f"srun --mpi={pmi} {shlex.join(self.reader_command(2 * nodes))} &",
                    f"srun --ntasks-per-node=2 --ntasks={2 * nodes} "
                    f"{shlex.join(self.trainer_command())}",
                    "wait $!"])
                self.check(nodes, output)

    def test_mpirun_in_a_batch_script(self):
        for nodes in (1, 2, 3, 4):
            with self.subTest(nodes=nodes):
                command = [MPIEXEC, *self.flags, *self.reader_command(nodes), "--",
                           *self.trainer_command()]
                self.check(nodes, self.batch(nodes, [shlex.join(command)]))


if __name__ == "__main__":
    unittest.main()
