"""A node that does not come back: readers go on, on those that are left, and trainers there get the same order."""

import os
import re
import subprocess
import time
import unittest

from cluster import HERE, ClusterTest
from job import TIMEOUT_S, environment, program


class NodeLost(ClusterTest):
    """One test: the host is gone after it."""

    def test_readers_go_on_without_it(self):
        """Readers on three hosts, trainers on h1 and h2; h3 goes without a word."""
        self.settings = {**self.settings, "order.epochs": 12, "delivery.trainers": 2}
        expected = self.single_process()
        command = [program("penstock-run"), "--hosts", "h1,h2,h3", "--restarts", "3"]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        log = os.path.join(self.folder, "log")
        with open(log, "w", encoding="utf-8") as out:
            job = subprocess.Popen([*command, "--", *self.trainer_command(), "--compute-ms", "30"], env=environment(),
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        self.addCleanup(job.wait)
        self.addCleanup(job.terminate)
        deadline = time.monotonic() + TIMEOUT_S
        while len(self.digest_lines()) < 200:
            self.assertLess(time.monotonic(), deadline, self.read(log))
            time.sleep(0.05)
        subprocess.run([os.path.join(HERE, "hosts.sh"), "lose", "h3"], check=True)
        lost = time.monotonic()
        while job.poll() is None:
            self.assertLess(time.monotonic(), lost + TIMEOUT_S + 60, self.read(log))
            time.sleep(0.1)
        output = self.read(log)
        self.assertEqual(job.returncode, 0, output)
        self.assertIn("no answer from h3: left out, 2 of 3 nodes go on", output)
        self.assertRegex(output, r"serving again, from epoch \d+ step \d+: [\d.]+ s after the readers ended")
        self.assertEqual(len(re.findall(r"^readers +\d on h1", output, re.MULTILINE)), 2, output)
        self.assertEqual(self.take_digests(), expected)

    def read(self, path):
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()


if __name__ == "__main__":
    unittest.main()
