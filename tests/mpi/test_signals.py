"""SIGINT and SIGTERM end everything soon, with nothing left; so does the death of any process."""

import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest

from job import TIMEOUT_S, JobTest, environment, launcher_is_open_mpi, leftovers, program, run_dirs

SLACK_S = 60.0  # on a busy machine; it takes less than two on a quiet one


class Signals(JobTest):
    def settings(self):
        return {"dataset.uri": self.synth("signals", 64, videos=3), "batch.global_size": 8,
                "order.epochs": 1000, "delivery.trainers": 2, "readers.threads": 1}

    def assert_stopped(self, outcome):
        """MPICH's launcher ends with code 0 when it is told to stop, whatever its ranks say."""
        self.assertIn("stopped by", outcome.output)
        if launcher_is_open_mpi():
            self.assertNotEqual(outcome.code, 0)

    def processes(self, name, before):
        """Numbers of the processes of that name that this test has started."""
        return sorted(int(path.split()[0].split("/")[2]) for path in leftovers() - before if path.endswith(" " + name))

    def trained(self, before, trainers):
        """Whether so many trainers are there; they take batches, or will in a moment."""
        return len(self.processes("penstock-trainer", before)) >= trainers

    def check(self, number):
        before = leftovers()
        outcome = self.reader(2, self.settings(), ["--compute-ms", "20"],
                              send=(lambda: self.trained(before, 2), number))
        self.assert_stopped(outcome)
        self.assertLess(outcome.seconds, SLACK_S, outcome.output)
        self.assert_nothing_left(before, outcome)

    def test_interrupt(self):
        self.check(signal.SIGINT)

    def test_terminate(self):
        self.check(signal.SIGTERM)

    def test_terminate_while_children_linger(self):
        """Trainers that stopped early but have not exited do not hold the run."""
        before = leftovers()
        outcome = self.reader(1, {**self.settings(), "delivery.trainers": 1},
                              ("sh", "-c", f"{program('penstock-trainer')} --steps 1; sleep 200"),
                              send=(lambda: self.processes("sleep", before), signal.SIGTERM))
        self.assert_stopped(outcome)
        self.assertLess(outcome.seconds, SLACK_S, outcome.output)
        self.assert_nothing_left(before, outcome)

    def test_terminate_with_trainers_from_elsewhere(self):
        """The service leaves no socket behind; its trainers are told."""
        before = leftovers()
        run_dir = os.path.join(self.folder, "run")
        trainers = [subprocess.Popen(
            [program("penstock-trainer"), "--run-dir", run_dir, "--rank", str(rank),
             "--world-size", "2", "--compute-ms", "1",
             "--digest", os.path.join(self.folder, "digest.{rank}")], stderr=subprocess.PIPE, text=True,
            env=environment(PENSTOCK_READER=rank)) for rank in range(2)]
        outcome = self.reader(2, {**self.settings(), "delivery.run_dir": run_dir},
                              send=(self.digest_lines, signal.SIGTERM))
        self.assert_stopped(outcome)
        self.assertNotIn("Segmentation", outcome.output)
        for trainer in trainers:
            _, message = trainer.communicate(timeout=10)
            if trainer.returncode != 0:  # there was no time for good order
                self.assertRegex(message, "stopped by|went away|ended|lost")
        self.assertFalse(os.path.exists(run_dir), "the run directory is gone")
        self.assert_nothing_left(before, outcome)

    def signal_a_reader(self, before):
        """Sends SIGUSR2 to one reader, not the first, once trainers have written digests."""
        self.await_(lambda: len(self.digest_lines()) >= 100)
        os.kill(self.processes("penstock-reader", before)[-1], signal.SIGUSR2)

    def await_(self, condition):
        deadline = time.monotonic() + TIMEOUT_S
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.02)

    def test_orderly_end(self):
        """SIGUSR2 lets all trainers come to the same step; what is delivered before and after is the whole."""
        settings = {**self.settings(), "order.epochs": 200, "batch.last": "partial"}
        expected = self.digests(1, 2, settings)
        for readers in (1, 3):
            with self.subTest(readers=readers):
                before = leftovers()
                for path in glob.glob(os.path.join(self.folder, "digest.*")):
                    os.remove(path)
                killer = threading.Thread(target=self.signal_a_reader, args=(before,))
                killer.start()
                state = os.path.join(self.folder, "state.json")
                outcome = self.reader(
                    readers, settings,
                    ["--digest", os.path.join(self.folder, "digest.{rank}"), "--compute-ms", "3"],
                    ["--save-state", state])
                killer.join()
                self.assertIn("stopped by SIGUSR2, in good order, before epoch", outcome.output)
                if launcher_is_open_mpi():
                    self.assertEqual(outcome.code, 128 + signal.SIGUSR2, outcome.output)
                self.assert_nothing_left(before, outcome)
                with open(state, encoding="ascii") as file:
                    cursor = json.load(file)
                first = self.digest_lines()
                cursor = [cursor["epoch"], cursor["step"]]
                self.assertEqual(first, [line for line in expected
                                         if [int(line[0]), int(line[1])] < cursor])
                rest = self.digests(2, 2, settings, options=["--resume", state])
                self.assertEqual(first + rest, expected)

    # A trainer whose `with` is left by an exception, or by sys.exit(143), when a signal comes.
    TRAINER = """
import os, penstock, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
signal.signal(signal.SIGINT, signal.default_int_handler)
with penstock.connect() as loader, open(sys.argv[1], "wb", 0) as seen:
    for batch in loader:
        seen.write(b"%d %d\\n" % (batch.epoch, batch.step))
        time.sleep(0.02)
"""

    def test_signals_that_reach_trainers_too(self):
        """A trainer that ends of the same signal has left where it was: the others go on, the state is saved."""
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number=number):
                before = leftovers()
                run_dir, seen, state = (os.path.join(self.folder, name) for name in ("run", "seen", "state.json"))
                script = (sys.executable, "-c", self.TRAINER, seen)
                env = environment(RANK=1, WORLD_SIZE=2, PENSTOCK_RUN_DIR=run_dir, PENSTOCK_READER=0,
                                  PYTHONPATH=os.path.join(os.path.dirname(__file__), "..", "..", "python"))
                python = subprocess.Popen(script, stderr=subprocess.PIPE, text=True, env=env)
                other = subprocess.Popen(
                    [program("penstock-trainer"), "--run-dir", run_dir, "--rank", "0", "--world-size", "2",
                     "--compute-ms", "20"], stderr=subprocess.DEVNULL, env=environment(PENSTOCK_READER=0))
                self.addCleanup(python.kill)
                self.addCleanup(other.kill)
                killer = threading.Thread(target=self.signal_both, args=(before, seen, python, number))
                killer.start()
                outcome = self.reader(1, {**self.settings(), "delivery.run_dir": run_dir}, options=["--save-state", state])
                killer.join()
                message = python.communicate(timeout=TIMEOUT_S)[1]
                if "ASan runtime" in message or "libtsan" in message:
                    self.skipTest("this Python cannot load a library with a sanitizer")
                self.assertIn("stopped by SIGUSR2, in good order, before epoch", outcome.output)
                self.assertRegex(outcome.output, "warning: .*trainer 1 .*(KeyboardInterrupt|SystemExit: 143)")
                self.assertEqual(other.wait(TIMEOUT_S), 0)
                with open(state, encoding="ascii") as file:
                    cursor = json.load(file)
                with open(seen, encoding="ascii") as file:
                    self.assertEqual(f"{cursor['epoch']} {cursor['step']}", file.read().splitlines()[-1])
                self.assert_nothing_left(before, outcome)
                os.remove(seen)
                os.remove(state)

    def signal_both(self, before, seen, python, number):
        self.await_(lambda: python.poll() is not None or os.path.exists(seen) and os.path.getsize(seen))
        for reader in self.processes("penstock-reader", before):
            os.kill(reader, signal.SIGUSR2)
        time.sleep(0.005)  # else a trainer that fails may be heard of first
        python.send_signal(number)

    def test_orderly_end_that_takes_too_long(self):
        """A trainer that does not consume does not hold the run."""
        before = leftovers()
        settings = {**self.settings(), "delivery.drain_timeout": 1}
        killer = threading.Thread(target=self.signal_late, args=(before,))
        killer.start()
        outcome = self.reader(2, settings, ["--compute-ms", "20000"])
        killer.join()
        self.assertIn("stopped by SIGUSR2", outcome.output)
        self.assertNotIn("good order", outcome.output)
        self.assertLess(outcome.seconds, SLACK_S, outcome.output)
        self.assert_nothing_left(before, outcome)

    def signal_late(self, before):
        self.await_(lambda: self.trained(before, 2))
        time.sleep(1.0)  # in the middle of a step
        for number in self.processes("penstock-reader", before):
            os.kill(number, signal.SIGUSR2)

    def kill_one(self, name, before):
        """Kills one process of ours with SIGKILL once the run is under way."""
        self.await_(lambda: self.trained(before, 2))
        os.kill(self.processes(name, before)[0], signal.SIGKILL)

    def check_killed(self, name):
        before = leftovers()
        killer = threading.Thread(target=self.kill_one, args=(name, before))
        killer.start()
        outcome = self.reader(2, self.settings(), ["--compute-ms", "20"])
        killer.join()
        self.assertNotEqual(outcome.code, 0)
        return before, outcome

    def test_trainer_killed(self):
        before, outcome = self.check_killed("penstock-trainer")
        self.assertRegex(outcome.output, r"trainer [01] \(pid \d+\) was killed by signal 9")
        self.assert_nothing_left(before, outcome)

    def test_reader_killed(self):
        """The job dies with its reader; trainers notice. Only the run directory of a killed reader may stay."""
        before, outcome = self.check_killed("penstock-reader")
        deadline = time.monotonic() + SLACK_S
        while leftovers() - before and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertFalse(leftovers() - before)
        for path in run_dirs(outcome):
            shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    unittest.main()
