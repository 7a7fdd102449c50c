"""Runs that are delivered to the same trainers at once (--also), for tests: what is configured, started, noted and expected."""

import glob
import json
import os
import re
import signal
import sys
import threading
import time

from job import MPIEXEC, TIMEOUT_S, JobTest, environment, leftovers, program, python_words, run

HERE = os.path.dirname(os.path.abspath(__file__))
TRAINER = os.path.join(HERE, "also_trainer.py")
STEPS, VAL_STEPS = 12, 5
PASSES = [(0, 2)] + [(epoch, VAL_STEPS) for epoch in range(1, 5)]  # (epoch, steps) of the validations of most trainers


class AlsoTest(JobTest):
    """A run to train on, one beside it, and what an undisturbed run gives each trainer."""

    trainers = 2

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.orders = {}  # by configuration and epochs

    def configure(self, name, **sections):
        """Path of a configuration in this test's folder."""
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as file:
            json.dump(sections, file)  # JSON is YAML
        return path

    def train(self, sections=None, **more):
        return self.configure("train.yaml", **(sections or {}), dataset={"uri": self.synth("train", 96, chunk=4)},
                              batch={"global_size": 8}, order={"seed": 5, "epochs": 2, "window_rows": 6},
                              readers={"threads": 1}, delivery={"trainers": self.trainers, **more})

    def val(self, name="val.yaml", uri=None, sections=None, **more):
        return self.configure(name, **(sections or {}), dataset={"uri": uri or self.synth("val", 38)},
                              batch={"global_size": 8, "last": "partial"}, order={"seed": 9},
                              readers={"threads": 1, **more})

    def job(self, processes, mode="keep", also=None, options=(), train=None, trainer=None):
        command = [MPIEXEC, *self.flags, "-np", str(processes), program("penstock-reader"), "-c", train or self.train()]
        for run_also in also if also is not None else ["val=" + self.val()]:
            command += ["--also", run_also]
        command += [*options, "--", *(trainer or [*python_words(), TRAINER, self.folder, mode])]
        return run(command, env=self.environment(), cwd=self.folder)

    @staticmethod
    def environment():
        return environment(PYTHONPATH=os.path.join(HERE, "..", "..", "python"))

    @staticmethod
    def errors(outcome):
        """What readers said, which may stand in the middle of a trainer's line: both write at once."""
        return re.findall("penstock-reader: error.*", outcome.output)

    def log(self, name):
        """What each trainer noted: a list of (epoch, step) and indices."""
        logs = []
        for rank in range(self.trainers):
            with open(os.path.join(self.folder, f"{name}.{rank}"), encoding="ascii") as file:
                lines = [[int(word) for word in line.split()] for line in file]
            logs.append([((line[0], line[1]), line[2:]) for line in lines])
        return logs

    def alone(self, config, epochs):
        """The order of a run without another: for each rank (epoch, step) -> indices."""
        with open(config, encoding="ascii") as file:
            key = (file.read(), epochs)
        if key in self.orders:
            return self.orders[key]
        script = ("import penstock\nwith penstock.connect() as loader:\n"
                  f"    with open({self.folder!r} + '/alone.%d' % loader.info.rank, 'w') as file:\n"
                  "        for batch in loader:\n            print(batch.epoch, batch.step, *batch.indices, file=file)\n")
        command = [program("penstock-reader"), "-c", config, "--set", f"order.epochs={epochs}", "--set",
                   f"delivery.trainers={self.trainers}", "--", *python_words(), "-c", script]
        outcome = run(command, env=self.environment(), cwd=self.folder)
        self.assertEqual(outcome.code, 0, outcome.output)
        self.orders[key] = [dict(log) for log in self.log("alone")]
        return self.orders[key]

    def expect(self, name, steps, order):
        """All trainers got these steps, in this order, and together the samples of each."""
        def together(batches):
            return sorted(index for batch in batches for index in batch)

        logs = self.log(name)
        self.assertEqual([[at for at, _ in log] for log in logs], [list(steps)] * self.trainers)
        self.assertEqual([together(log[i][1] for log in logs) for i in range(len(steps))],
                         [together(batches[at] for batches in order) for at in steps])

    def check(self, passes, order_of_val):
        """Training got its order, undisturbed; validation the passes that are listed as (epoch, steps)."""
        self.expect("train", [(epoch, step) for epoch in range(2) for step in range(STEPS)], self.alone(self.train(), 2))
        self.expect("val", [(epoch, step) for epoch, steps in passes for step in range(steps)], order_of_val)

    def check_passes(self, readers, mode):
        before = leftovers()
        outcome = self.job(2 * readers, mode)
        self.assertEqual(outcome.code, 0, outcome.output)
        self.check(PASSES, self.alone(self.val(), 5))
        self.assertIn("also       run 'val': penstock.connect(\"val\")", outcome.output)
        self.assert_nothing_left(before, outcome)


class SupervisedTest(AlsoTest):
    """penstock-run --restarts: readers die and come again, and trainers go on in both runs."""

    def supervise(self, mode, *options, kill=(), readers=1, python=None):
        """A run of penstock-run. `kill`: (log, lines): once trainer 0 has noted so many lines in that log, a reader dies.
        `python`: words in front of the trainer's script."""
        command = [program("penstock-run"), "--restarts", "4", "-c", self.train(), "--also", "val=" + self.val(),
                   *(("--readers-per-node", str(readers)) if readers > 1 else ()), *options, "--",
                   *(python_words() if python is None else python), TRAINER, self.folder, mode]
        killer = threading.Thread(target=self.kill_readers, args=(kill,))
        killer.start()
        env = {**self.environment(), "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]}  # torchrun
        outcome = run(command, env=env, cwd=self.folder)
        killer.join()
        self.assertEqual(outcome.code, 0, outcome.output)
        return outcome

    def kill_readers(self, kill):
        before = set()
        for number, (name, lines) in enumerate(kill):
            self.until(lambda log=name, count=lines: self.lines(log) >= count)
            self.until(lambda: (pids := set(self.readers())) and not pids & before)
            before = set(self.readers())
            if before:
                os.kill(sorted(before)[number % len(before)], signal.SIGKILL)

    @staticmethod
    def until(ready):
        deadline = time.monotonic() + TIMEOUT_S
        while not ready() and time.monotonic() < deadline:
            time.sleep(0.01)

    def lines(self, name):
        """How many trainer 0 has noted."""
        path = os.path.join(self.folder, f"{name}.0")
        if not os.path.exists(path):
            return 0
        with open(path, encoding="ascii") as file:
            return len(file.readlines())

    def readers(self):
        for path in glob.glob("/proc/[0-9]*"):
            try:
                with open(path + "/cmdline", "rb") as file:
                    words = file.read()
                if self.folder.encode() in words and os.readlink(path + "/exe").endswith("penstock-reader"):
                    yield int(path[6:])
            except OSError:
                continue

    def check_kills(self, kill, *options, readers=1, python=None):
        before = leftovers()
        outcome = self.supervise("slow", *options, kill=kill, readers=readers, python=python)
        self.check(PASSES, self.alone(self.val(), 5))
        self.assertIn(f"restart {len(kill)} of 4", outcome.output)
        self.assert_nothing_left(before, outcome)
