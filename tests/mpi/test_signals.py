"""SIGINT and SIGTERM end everything soon, with nothing left; so does the death of any process."""

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest

from job import TIMEOUT_S, JobTest, environment, launcher_is_open_mpi, launcher_passes_last_words, leftovers, program, run_dirs

DRAIN_S = 100  # more than a machine stands still that does so at times; it takes less than two on a quiet one


def is_pending(process, number):
    """Whether the process has not taken the signal yet."""
    try:
        with open(f"/proc/{process}/status", encoding="ascii") as file:
            pending = int(re.search(r"^ShdPnd:\s*(\w+)", file.read(), re.MULTILINE)[1], 16)
    except OSError:
        return False
    return bool(pending >> number - 1 & 1)


class Signals(JobTest):
    STEPS = 8  # of an epoch

    def settings(self):
        """A run that does not come to its end by itself."""
        return {"dataset.uri": self.synth("signals", 8 * self.STEPS, videos=3), "batch.global_size": 8,
                "order.epochs": 1000000, "delivery.trainers": 2, "readers.threads": 1}

    def assert_stopped(self, outcome):
        """MPICH's launcher ends with code 0 when it is told to stop, whatever its ranks say."""
        if launcher_passes_last_words():
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
            _, message = trainer.communicate(timeout=TIMEOUT_S)
            if trainer.returncode != 0:  # there was no time for good order
                self.assertRegex(message, "stopped by|asked to end|went away|ended|lost")
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
        for readers in (1, 3):
            with self.subTest(readers=readers):
                settings = {**self.settings(), "batch.last": "partial", "delivery.drain_timeout": DRAIN_S}
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
                self.assertIn("asked to end by SIGUSR2, in good order, before epoch", outcome.output)
                if launcher_is_open_mpi():
                    self.assertEqual(outcome.code, 128 + signal.SIGUSR2, outcome.output)
                self.assert_nothing_left(before, outcome)
                with open(state, encoding="ascii") as file:
                    cursor = json.load(file)
                first = self.digest_lines()
                settings["order.epochs"] = cursor["epoch"] + 2
                expected = self.digests(1, 2, settings)
                cursor = [cursor["epoch"], cursor["step"]]
                self.assertEqual(first, [line for line in expected
                                         if [int(line[0]), int(line[1])] < cursor])
                rest = self.digests(2, 2, settings, options=["--resume", state])
                self.assertEqual(first + rest, expected)

    HELD = (0, 3)
    # A trainer that holds a batch until a file is there (never, if none is named), and whose `with` is left by an
    # exception when a signal comes: by KeyboardInterrupt, or by sys.exit(143).
    TRAINER = """
import os, penstock, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
signal.signal(signal.SIGINT, signal.default_int_handler)
with penstock.connect() as loader, open(sys.argv[1] + os.environ["RANK"], "wb", 0) as seen:
    for batch in loader:
        seen.write(b"%d %d\\n" % (batch.epoch, batch.step))
        while (batch.epoch, batch.step) == (0, 3) and not os.path.exists(sys.argv[2]):
            time.sleep(0.02)
"""

    def holding_trainer(self, until=""):
        """The command of a trainer of Python, which writes cursors of batches to seen.RANK in this test's folder."""
        return (sys.executable, "-c", self.TRAINER, os.path.join(self.folder, "seen."), until)

    def python_environment(self, **more):
        return environment(PYTHONPATH=os.path.join(os.path.dirname(__file__), "..", "..", "python"), **more)

    def seen(self, rank):
        """Epoch and step of each batch that a trainer of Python has got."""
        try:
            with open(os.path.join(self.folder, f"seen.{rank}"), encoding="ascii") as file:
                return [tuple(map(int, line.split())) for line in file.read().split("\n")[:-1]]
        except FileNotFoundError:
            return []

    def all_hold(self):
        return all(self.seen(rank)[-1:] == [self.HELD] for rank in (0, 1))

    def start_holding_trainer(self, rank, run_dir, until=""):
        env = self.python_environment(RANK=rank, WORLD_SIZE=2, PENSTOCK_RUN_DIR=run_dir, PENSTOCK_READER=0)
        trainer = subprocess.Popen(self.holding_trainer(until), stderr=subprocess.PIPE, text=True, env=env)
        self.addCleanup(trainer.kill)
        return trainer

    def check_signal_that_reaches_trainers_too(self, number, exception):
        """The reader gets its signal first, while both trainers hold a batch; then trainer 1, and when that is gone,
        trainer 0 goes on."""
        before = leftovers()
        run_dir, state, go = (os.path.join(self.folder, name) for name in ("run", "state", "go"))
        trainers = [self.start_holding_trainer(0, run_dir, go), self.start_holding_trainer(1, run_dir)]
        messages = []
        killer = threading.Thread(target=self.signal_both, args=(before, trainers, number, go, messages))
        killer.start()
        settings = {**self.settings(), "delivery.run_dir": run_dir, "delivery.drain_timeout": DRAIN_S}
        outcome = self.reader(1, settings, options=["--save-state", state])
        killer.join()
        if any("ASan runtime" in message or "libtsan" in message for message in messages):
            self.skipTest("this Python cannot load a library with a sanitizer")
        end = re.search(r"asked to end by SIGUSR2, in good order, before epoch (\d+) step (\d+)", outcome.output)
        self.assertTrue(end, outcome.output + "".join(messages))
        self.assertRegex(outcome.output, f"warning: .*trainer 1 .*{exception}")
        self.assertNotEqual(trainers[1].returncode, 0)
        self.assertEqual(trainers[0].returncode, 0, messages)
        steps = int(end[1]) * self.STEPS + int(end[2])
        self.assertEqual(self.seen(0), [divmod(cursor, self.STEPS) for cursor in range(steps)])
        with open(state, encoding="ascii") as file:
            cursor = json.load(file)
        self.assertEqual((cursor["epoch"], cursor["step"]), self.HELD)
        self.assert_nothing_left(before, outcome)

    def signal_both(self, before, trainers, number, go, ret_messages):
        self.await_(lambda: any(trainer.poll() is not None for trainer in trainers) or
                    self.all_hold())
        readers = self.processes("penstock-reader", before)
        for reader in readers:
            os.kill(reader, signal.SIGUSR2)
        self.await_(lambda: not any(is_pending(reader, signal.SIGUSR2) for reader in readers))
        for rank in (1, 0):
            if rank == 1:
                trainers[rank].send_signal(number)
            else:
                with open(go, "wb"):
                    pass
            ret_messages.append(trainers[rank].communicate(timeout=TIMEOUT_S)[1])

    def test_interrupt_that_reaches_trainers_too(self):
        """A trainer that ends of the same signal has left where it was: the others go on, the state is saved."""
        self.check_signal_that_reaches_trainers_too(signal.SIGINT, "KeyboardInterrupt")

    def test_terminate_that_reaches_trainers_too(self):
        self.check_signal_that_reaches_trainers_too(signal.SIGTERM, "SystemExit: 143")

    def test_orderly_end_that_takes_too_long(self):
        """A trainer that does not consume does not hold the run."""
        before = leftovers()
        settings = {**self.settings(), "delivery.drain_timeout": 1, "delivery.grace": 0}
        killer = threading.Thread(target=self.signal_readers, args=(before,))
        killer.start()
        outcome = self.reader(2, settings, self.holding_trainer(), env=self.python_environment())
        killer.join()
        self.assertIn("asked to end by SIGUSR2", outcome.output)
        self.assertNotIn("good order", outcome.output)
        self.assert_nothing_left(before, outcome)

    def signal_readers(self, before):
        """In the middle of a step of each trainer."""
        self.await_(self.all_hold)
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
        deadline = time.monotonic() + TIMEOUT_S
        while leftovers() - before and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertFalse(leftovers() - before)
        for path in run_dirs(outcome):
            shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    unittest.main()
