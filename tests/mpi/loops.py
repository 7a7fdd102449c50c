"""What tests of training loops share: one server that has imported the frameworks, and forks the trainers of all jobs."""

import os
import subprocess
import sys

from job import JobTest, environment, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
PROGRAM = os.path.join(HERE, "loop_program.py")


class LoopsTest(JobTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        path = os.path.join(cls.datasets, "loops.sock")
        cls.loop_environment = {
            "PYTHONPATH": os.pathsep.join([os.path.join(ROOT, "python"), os.environ.get("PYTHONPATH", "")]),
            "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu", "LOOP_SERVER": path}
        server = subprocess.Popen([sys.executable, PROGRAM, "--serve", path], stdin=subprocess.PIPE,
                                  env=environment(**cls.loop_environment))
        cls.addClassCleanup(server.wait)
        cls.addClassCleanup(server.stdin.close)
        wait_until(lambda: os.path.exists(path), server)

    def loop(self, program, *arguments):
        """The command of a trainer."""
        return sys.executable, PROGRAM, program, *arguments
