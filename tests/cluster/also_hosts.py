"""For tests of --also on several hosts: penstock-run from the head node, and what it should come to."""

import json
import os
import subprocess
import sys
import time

from cluster import HOSTS  # first: where also is
from also import PASSES, TRAINER, SupervisedTest
from job import TIMEOUT_S, leftovers, program, run


class HostsTest(SupervisedTest):
    trainers = 4
    run_dir = "/tmp/also"

    def penstock_run(self, mode, hosts, *options):
        return [program("penstock-run"), "--verbose", "--hosts", ",".join(hosts), "-c", self.train(run_dir=self.run_dir + "/"),
                "--also", "val=" + self.val(), *options, "--", sys.executable, TRAINER, self.folder, mode]

    def check_hosts(self, hosts, mode="keep", *options):
        before = leftovers()
        outcome = run(self.penstock_run(mode, hosts, *options), env=self.environment(), cwd=self.folder)
        self.assertEqual(outcome.code, 0, outcome.output)
        self.check(PASSES, self.alone(self.val(), 5))
        self.assertEqual(outcome.output.count(f" on {', '.join(hosts)}: "), 2, outcome.output)  # readers of each run
        self.assert_nothing_left(before, outcome)
        return outcome

    def look(self, looked, names, readers):
        """What `penstock top` on the first host shows of each run once it has seen so many readers that serve trainers. Trainers in mode
        watched go on afterwards."""
        deadline = time.monotonic() + TIMEOUT_S
        for name in names:
            while time.monotonic() < deadline and not self.is_served(looked, name, readers):
                time.sleep(0.1)
        with open(os.path.join(self.folder, "looked"), "w", encoding="ascii"):
            pass

    def is_served(self, looked, name, readers):
        shown = subprocess.run([os.environ["CLUSTER_RSH"], HOSTS[0], program("penstock"), "top", self.run_dir + name, "--once",
                                "--json"], capture_output=True, text=True, check=False)
        looked[name] = json.loads(shown.stdout) if shown.returncode == 0 else shown.stderr
        return shown.returncode == 0 and [bool(reader["serving"]) for reader in looked[name]["readers"]] == [True] * readers
