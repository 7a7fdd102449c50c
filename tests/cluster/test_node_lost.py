"""A node that does not come back: readers and trainers go on, on those that are left, and get the same order."""

import glob
import os
import re
import shlex
import subprocess
import sys
import time
import unittest

from cluster import HERE, ClusterTest
from job import TIMEOUT_S, environment, program, run
from recovery import lines_of


class NodeLost(ClusterTest):
    """Each test takes a host away, for good: h5, h3, then h2."""

    def lose(self, host, hosts, options, trainer, ready, **env):
        """Runs a job on `hosts`, and takes one away when `ready()`; returns what the job prints."""
        command = [program("penstock-run"), "--hosts", hosts, "--restarts", "4", *options]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        log = os.path.join(self.folder, "log")
        with open(log, "w", encoding="utf-8") as out:
            job = subprocess.Popen([*command, "--", *trainer], env=environment(**env), stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT, start_new_session=True, cwd=self.folder)
        self.addCleanup(job.wait)
        self.addCleanup(job.terminate)
        deadline = time.monotonic() + TIMEOUT_S
        while not ready():
            self.assertLess(time.monotonic(), deadline, self.read(log))
            time.sleep(0.05)
        subprocess.run([os.path.join(HERE, "hosts.sh"), "lose", host], check=True)
        lost = time.monotonic()
        while job.poll() is None:
            self.assertLess(time.monotonic(), lost + TIMEOUT_S + 60, self.read(log))
            time.sleep(0.1)
        output = self.read(log)
        self.assertEqual(job.returncode, 0, output)
        self.assertIn(f"no answer from {host}: left out, 2 of 3 nodes go on", output)
        self.assertRegex(output, r"serving again, from epoch \d+ step \d+: [\d.]+ s after the readers ended")
        return output

    def test_readers_go_on_without_it(self):
        """Readers on three hosts, trainers on h1 and h2; h3 goes without a word."""
        self.settings = {**self.settings, "order.epochs": 12, "delivery.trainers": 2}
        expected = self.single_process()
        output = self.lose("h3", "h1,h2,h3", (), [*self.trainer_command(), "--compute-ms", "30"],
                           lambda: len(self.digest_lines()) >= 200)
        self.assertEqual(len(re.findall(r"^readers +\d on h1", output, re.MULTILINE)), 2, output)
        self.assertEqual(self.take_digests(), expected)

    def go_on_without(self, host, hosts, **settings):
        """Trainers that save their state; one of their hosts goes without a word."""
        if run([sys.executable, "-c", "import xxhash"]).code:
            self.skipTest(f"{sys.executable} has no xxhash")
        self.settings = {**self.settings, "order.epochs": 12,
                         "delivery.slots": 4}  # nothing else keeps these trainers close together
        expected = self.single_process()
        self.settings = {**self.settings, **settings}
        state = os.path.join(self.folder, "state.json")
        trainer = shlex.join([sys.executable, os.path.join(HERE, "trainer.py"), "--checkpoint", self.folder, "--save-every", "5",
                              "--step-seconds", "0.03"])
        output = self.lose(host, hosts, ("--state", state),
                           ["sh", "-c", f"exec {trainer} --digest {self.folder}/digest.$RANK.$$"],
                           lambda: os.path.exists(state), PYTHONPATH=os.path.join(HERE, "..", "..", "python"))
        lines = [line for path in glob.glob(os.path.join(self.folder, "digest.*")) for line in lines_of(path)]
        # Some steps came twice, and positions may depend on how many trainers there are.
        self.assertEqual(*({(*line[:2], *line[3:]) for line in of} for of in (lines, expected)))
        return output.replace(state, "STATE")

    def test_trainers_go_on_elsewhere(self):
        """Trainers on h1 and h2; all of them go on at their state, on h1 and h4."""
        output = self.go_on_without("h2", "h1,h2,h4", **{"delivery.trainers": 2})
        self.assertIn("the trainers of h2 go to other nodes; all go on at STATE", output)
        self.assertRegex(output, r"(?m)^readers +2 on h1, h4:")

    def test_fewer_trainers_go_on(self):
        """Two on each of three hosts; as many as run on h1 and h4 go on at their state."""
        output = self.go_on_without("h5", "h1,h4,h5", **{"delivery.trainers": 6, "delivery.trainers_least": 3})
        self.assertIn("4 trainers instead of 6 go on, on the nodes that are left, at STATE", output)
        self.assertRegex(output, r"(?m)^readers +2 on h1, h4:")

    def read(self, path):
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()


if __name__ == "__main__":
    unittest.main()
