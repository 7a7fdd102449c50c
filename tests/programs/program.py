"""What tests of training programs share: the package's own environment, its data, and runs with two processes."""

import glob
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "mpi"), str(ROOT / "bench")]

import environments  # noqa: E402
from job import JobTest, environment, program, run  # noqa: E402

TIMEOUT_S = 300


class ProgramTest(JobTest):
    """`NAME`: a folder of python/examples/programs, and an environment of bench/environments.py."""

    NAME = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        try:
            cls.python = environments.prepare(os.environ["PENSTOCK_ENVIRONMENTS"], cls.NAME)
        except environments.Missing as reason:
            print(f"skipped: {reason}", flush=True)
            os._exit(77)
        cls.programs = ROOT / "python" / "examples" / "programs" / cls.NAME
        cls.data = os.path.join(cls.datasets, "data")
        made = run([cls.python, str(cls.programs / "data.py"), cls.data, "--scale", "1"], TIMEOUT_S, cls.environment())
        if made.code != 0:
            raise AssertionError(made.output)

    @staticmethod
    def environment(**more):
        return environment(PYTHONPATH=ROOT / "python", OMP_NUM_THREADS=1, **more)

    def train(self, loader, *arguments, expect=0, options=(), env=None):
        """What train.py printed; its samples are told by samples() afterwards. `options`: of penstock-run."""
        for old in glob.glob(os.path.join(self.folder, "record.*")):
            os.remove(old)
        command = [str(self.programs / "train.py"), self.data, "--loader", loader, *map(str, arguments)]
        command = ([self.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *command] if loader == "own"
                   else [program("penstock-run"), "-c", os.path.join(self.data, "run.yaml"), *options, "--", self.python, *command])
        outcome = run([str(word) for word in command], TIMEOUT_S,
                      self.environment(RECORD=os.path.join(self.folder, "record"), **(env or {})), cwd=self.folder)
        self.assertEqual(outcome.code, expect, outcome.output)
        return outcome.output

    def samples(self):
        """[(rank, step, digest), ...] of the last run, in the order of steps."""
        found = []
        for path in glob.glob(os.path.join(self.folder, "record.*")):
            rank = int(path.rpartition(".")[2])
            with open(path, encoding="ascii") as file:
                found += [(rank, int(step), digest) for step, digest in map(str.split, file)]
        return sorted(found, key=lambda line: (line[1], line[0]))
