"""Train and validation at once: two runs of one launcher, for the same trainers (--also)."""

import glob
import importlib.util
import json
import os
import signal
import sys
import threading
import time
import unittest

from job import MPIEXEC, TIMEOUT_S, JobTest, environment, launcher_is_open_mpi, leftovers, program, run

HERE = os.path.dirname(os.path.abspath(__file__))
TRAINER = os.path.join(HERE, "also_trainer.py")
STEPS, VAL_STEPS, TRAINERS = 12, 5, 2


class AlsoTest(JobTest):
    def configure(self, name, **sections):
        """Path of a configuration in this test's folder."""
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as file:
            json.dump(sections, file)  # JSON is YAML
        return path

    def train(self, **more):
        return self.configure("train.yaml", dataset={"uri": self.synth("train", 96, chunk=4)},
                              batch={"global_size": 8}, order={"seed": 5, "epochs": 2, "window_rows": 6},
                              readers={"threads": 1}, delivery={"trainers": TRAINERS, **more})

    def val(self, name="val.yaml", uri=None, **more):
        return self.configure(name, dataset={"uri": uri or self.synth("val", 38)},
                              batch={"global_size": 8, "last": "partial"}, order={"seed": 9},
                              readers={"threads": 1, **more})

    def job(self, processes, mode="keep", also=None, options=(), train=None, trainer=None):
        command = [MPIEXEC, *self.flags, "-np", str(processes), program("penstock-reader"), "-c", train or self.train()]
        for run_also in also if also is not None else ["val=" + self.val()]:
            command += ["--also", run_also]
        command += [*options, "--", *(trainer or (sys.executable, TRAINER, self.folder, mode))]
        path = os.path.join(HERE, "..", "..", "python")
        return run(command, env=environment(PYTHONPATH=path), cwd=self.folder)

    def log(self, name):
        """What each trainer noted: a list of (epoch, step) and indices."""
        logs = []
        for rank in range(TRAINERS):
            with open(os.path.join(self.folder, f"{name}.{rank}"), encoding="ascii") as file:
                lines = [[int(word) for word in line.split()] for line in file]
            logs.append([((line[0], line[1]), line[2:]) for line in lines])
        return logs

    def alone(self, config, epochs):
        """The order of a run without another: for each rank (epoch, step) -> indices."""
        script = ("import penstock\nwith penstock.connect() as loader:\n"
                  f"    with open({self.folder!r} + '/alone.%d' % loader.info.rank, 'w') as file:\n"
                  "        for batch in loader:\n            print(batch.epoch, batch.step, *batch.indices, file=file)\n")
        outcome = self.job(1, also=(), train=config, trainer=(sys.executable, "-c", script),
                           options=["--set", f"order.epochs={epochs}", "--set", f"delivery.trainers={TRAINERS}"])
        self.assertEqual(outcome.code, 0, outcome.output)
        return [dict(log) for log in self.log("alone")]

    def expect(self, name, steps, order):
        """All trainers got these steps, in this order."""
        self.assertEqual(self.log(name), [[(at, batches[at]) for at in steps] for batches in order])

    def check(self, passes, order_of_val):
        """Training got its order, undisturbed; validation the passes that are listed as (epoch, steps)."""
        self.expect("train", [(epoch, step) for epoch in range(2) for step in range(STEPS)], self.alone(self.train(), 2))
        self.expect("val", [(epoch, step) for epoch, steps in passes for step in range(steps)], order_of_val)


class Also(AlsoTest):
    def test_sanity_check_and_passes(self):
        passes = [(0, 2)] + [(epoch, VAL_STEPS) for epoch in range(1, 5)]
        order = self.alone(self.val(), 5)
        torch = "torch" if importlib.util.find_spec("torch") else "keep"
        for readers, mode in (1, "keep"), (2, torch), (3, "keep"):
            with self.subTest(readers=readers, mode=mode):
                before = leftovers()
                outcome = self.job(2 * readers, mode)
                self.assertEqual(outcome.code, 0, outcome.output)
                self.check(passes, order)
                self.assertIn("also       run 'val': penstock.connect(\"val\")", outcome.output)
                self.assert_nothing_left(before, outcome)

    def test_resume_of_training(self):
        """The other run is no part of a state."""
        order = self.alone(self.val(), 1)
        script = ("import json, penstock\ntrain, val = penstock.connect(), penstock.connect('val')\n"
                  "next(val)\nfor _ in range(7):\n    next(train)\n"
                  f"json.dump(train.state(), open({self.folder!r} + '/state.json', 'w'))\n")
        outcome = self.job(2, trainer=(sys.executable, "-c", script))
        self.assertEqual(outcome.code, 3, outcome.output)  # they left early
        outcome = self.job(4, options=["--resume", os.path.join(self.folder, "state.json")])
        self.assertEqual(outcome.code, 0, outcome.output)
        steps = [(epoch, step) for epoch in range(2) for step in range(STEPS)]
        self.expect("train", steps[7:], self.alone(self.train(), 2))
        self.assertEqual(self.log("val")[0][0][1], order[0][0, 0])

    def test_a_connection_for_each_validation(self):
        """A new connection begins with the first epoch."""
        order = self.alone(self.val(), 1)
        outcome = self.job(4, "again")
        self.assertEqual(outcome.code, 0, outcome.output)
        self.check([(0, 2)] + [(0, VAL_STEPS)] * 4, order)

    def test_a_trainer_dies_in_validation(self):
        before = leftovers()
        outcome = self.job(4, "die")
        self.assertNotIn(outcome.code, (0, 3), outcome.output)
        errors = [line for line in outcome.output.splitlines() if line.startswith("penstock-reader: error")]
        self.assertEqual(len(errors), 1, outcome.output)
        self.assertIn("trainer 1 ", errors[0])
        self.assert_nothing_left(before, outcome)

    def test_bad_data_in_validation(self):
        """What ends one run ends both, with one message that says whose error it is."""
        uri = self.synth("broken", 38)
        for folder, _, names in os.walk(uri):
            for name in names:
                if name.startswith("20.") or name == "20":
                    with open(os.path.join(folder, name), "wb") as file:
                        file.write(b"not a chunk")
        before = leftovers()
        outcome = self.job(4, also=["val=" + self.val(uri=uri)])
        self.assertEqual(outcome.code, 4, outcome.output)
        errors = [line for line in outcome.output.splitlines() if line.startswith("penstock-reader: error")]
        self.assertEqual(len(errors), 1, outcome.output)
        self.assertRegex(errors[0], "reader [01] on .*chunk 20")
        self.assert_nothing_left(before, outcome)

    def test_idle_readers(self):
        """Readers that nobody asks anything of use next to no processor."""
        outcome = self.job(4, "idle")
        self.assertEqual(outcome.code, 0, outcome.output)
        with open(os.path.join(self.folder, "cpu"), encoding="ascii") as file:
            shares = json.load(file)
        self.assertEqual(len(shares), 4)
        self.assertLess(max(shares), 0.15)

    def test_wrong_use(self):
        val = self.val()
        broken = self.configure("broken.yaml", order={"epochs": -1})
        for processes, also, message in (
                (2, ["val.yaml"], "--also 'val.yaml': give a name and a file, as in --also val=val.yaml"),
                (2, ["=" + val], "give a name and a file"),
                (2, ["a/b=" + val], "a name has at most 31 letters, digits, - and _"),
                (3, ["val=" + val, "val=" + val], "the name is given twice"),
                (2, ["val=" + val + ".missing"], "run 'val': "),
                (2, ["val=" + broken], "run 'val': "),
                (3, ["val=" + val], "start 2 on a node, or a multiple of 2")):
            with self.subTest(also=also, processes=processes):
                outcome = self.job(processes, also=also)
                self.assertNotEqual(outcome.code, 0)
                errors = [line for line in outcome.output.splitlines() if "error" in line and "penstock-reader" in line]
                self.assertEqual(len([line for line in errors if message in line]), 1, outcome.output)

    def test_memory(self):
        """What the other run takes of a node is not there for training."""
        large = os.path.join(self.folder, "large.zarr")  # 8 samples of 256 MiB without a chunk
        os.makedirs(os.path.join(large, "x"))
        for name, value in (".zgroup", {"zarr_format": 2}), ("x/.zarray", {
                "zarr_format": 2, "shape": [8, 1 << 26], "chunks": [1, 1 << 26], "dtype": "<f4", "order": "C",
                "fill_value": 0, "compressor": None, "filters": None}):
            with open(os.path.join(large, name), "w", encoding="ascii") as file:
                json.dump(value, file)
        train = self.configure("large.yaml", dataset={"uri": large}, batch={"global_size": 8},
                               readers={"memory_limit": "1000TiB"}, delivery={"trainers": TRAINERS, "slots": 1024})
        outcome = self.job(2, train=train)
        self.assertNotEqual(outcome.code, 0)
        errors = [line for line in outcome.output.splitlines() if line.startswith("penstock-reader: error")]
        self.assertEqual(len(errors), 1, outcome.output)
        self.assertRegex(errors[0], r"the readers of a node take 2\.\d+ TiB, and .*beside the [0-9.]+ MiB that the other "
                                    "runs of --also take there")

    def test_unknown_name(self):
        script = ("import penstock\nwith penstock.connect():\n    try:\n        penstock.connect('nosuch')\n"
                  "    except penstock.NotFound as error:\n        print('refused:', error)\n")
        outcome = self.job(2, trainer=(sys.executable, "-c", script))
        self.assertEqual(outcome.output.count("have no run 'nosuch': start them with --also nosuch=FILE"), TRAINERS,
                         outcome.output)


@unittest.skipUnless(launcher_is_open_mpi(), "MPICH's mpirun may end with 0 after a kill")
class Restarts(AlsoTest):
    """penstock-run --restarts: readers die and come again, and trainers go on in both runs."""

    def supervise(self, mode, *options, kill=(), readers=1):
        """A run of penstock-run. `kill`: (log, lines): once trainer 0 has noted so many lines in that log, a reader dies."""
        command = [program("penstock-run"), "--restarts", "4", "-c", self.train(), "--also", "val=" + self.val(),
                   "--readers-per-node", str(readers), *options, "--", sys.executable, TRAINER, self.folder, mode]
        env = environment(PYTHONPATH=os.path.join(HERE, "..", "..", "python"))
        killer = threading.Thread(target=self.kill_readers, args=(kill,))
        killer.start()
        outcome = run(command, env=env, cwd=self.folder)
        killer.join()
        self.assertEqual(outcome.code, 0, outcome.output)
        return outcome

    def kill_readers(self, kill):
        for number, (name, lines) in enumerate(kill):
            path = os.path.join(self.folder, f"{name}.0")
            deadline = time.monotonic() + TIMEOUT_S
            while time.monotonic() < deadline:
                if os.path.exists(path) and len(open(path, encoding="ascii").readlines()) >= lines:
                    break
                time.sleep(0.01)
            pids = sorted(self.readers())
            if pids:
                os.kill(pids[number % len(pids)], signal.SIGKILL)

    def readers(self):
        for path in glob.glob("/proc/[0-9]*"):
            try:
                with open(path + "/cmdline", "rb") as file:
                    words = file.read()
                if self.folder.encode() in words and os.readlink(path + "/exe").endswith("penstock-reader"):
                    yield int(path[6:])
            except OSError:
                continue

    def test_readers_die(self):
        """In training, in a validation, and before any."""
        before = leftovers()
        order = self.alone(self.val(), 5)
        outcome = self.supervise("slow", kill=[("train", 3), ("val", 4), ("train", 14)])
        self.check([(0, 2)] + [(epoch, VAL_STEPS) for epoch in range(1, 5)], order)
        self.assertIn("restart 3 of 4", outcome.output)
        self.assert_nothing_left(before, outcome)

    def test_a_trainer_dies(self):
        """All trainers begin again at the state, and the validations anew."""
        before = leftovers()
        order = self.alone(self.val(), 5)
        outcome = self.supervise("die-once", "--state", os.path.join(self.folder, "saved.json"))
        steps = [(epoch, step) for epoch in range(2) for step in range(STEPS)]
        self.expect("train", steps[5:], self.alone(self.train(), 2))
        self.expect("val", [(0, 0), (0, 1)] + [(epoch, step) for epoch in range(1, 4) for step in range(VAL_STEPS)], order)
        self.assertIn("the trainers' step ended with exit code 9: restart 1 of 4", outcome.output)
        self.assert_nothing_left(before, outcome)


if __name__ == "__main__":
    unittest.main()
