"""Train and validation at once: two runs of one launcher, for the same trainers (--also)."""

import glob
import importlib.util
import json
import os
import re
import unittest

from also import PASSES, STEPS, VAL_STEPS, AlsoTest, SupervisedTest
from job import SANITIZED, launcher_is_open_mpi, leftovers, python_words


class Also(AlsoTest):
    def test_sanity_check_and_passes(self):
        torch = "torch" if importlib.util.find_spec("torch") else "keep"
        for readers, mode in (1, "keep"), (2, torch):
            with self.subTest(readers=readers, mode=mode):
                self.check_passes(readers, mode)

    def test_a_connection_for_each_validation(self):
        """A new connection begins with the first epoch."""
        outcome = self.job(4, "again")
        self.assertEqual(outcome.code, 0, outcome.output)
        self.check([(0, 2)] + [(0, VAL_STEPS)] * 4, self.alone(self.val(), 5))
        lines = re.findall(r"run 'val': epoch 0 delivered: (\d+) samples", outcome.output)
        # Of each pass alone. The first one's two batches are told if all are gone soon enough.
        self.assertEqual([line for line in lines if line != "16"], ["38"] * 4, outcome.output)

    def test_a_trainer_dies_in_validation(self):
        before = leftovers()
        outcome = self.job(4, "die")
        self.assertNotIn(outcome.code, (0, 3), outcome.output)
        errors = self.errors(outcome)
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
        errors = self.errors(outcome)
        self.assertEqual(len(errors), 1, outcome.output)
        self.assertRegex(errors[0], "reader [01] on .*chunk 20")
        self.assert_nothing_left(before, outcome)

    @unittest.skipIf(SANITIZED, "sanitizers are not idle")
    def test_idle_readers(self):
        """Readers that nobody asks anything of use next to no processor."""
        outcome = self.job(4, "idle")
        self.assertEqual(outcome.code, 0, outcome.output)
        with open(os.path.join(self.folder, "cpu"), encoding="ascii") as file:
            shares = json.load(file)
        self.assertEqual(len(shares), 4)
        self.assertLess(max(shares), 0.15, shares)

    def test_wrong_use(self):
        val = self.val()
        broken = self.configure("broken.yaml", order={"epochs": -1})
        for processes, delivery, also, message in (
                (2, {}, ["val=" + broken], "run 'val': "),
                (2, {"restarts": 1}, ["val=" + val], "delivery.restarts does not go with --also"),
                (3, {}, ["val=" + val], "start 2 on a node, or a multiple of 2")):
            with self.subTest(also=also, processes=processes):
                outcome = self.job(processes, also=also, train=self.train(**delivery))
                self.assertNotEqual(outcome.code, 0)
                errors = [line for line in outcome.output.splitlines() if "error" in line and "penstock-reader" in line]
                self.assertEqual(len([line for line in errors if message in line]), 1, outcome.output)

    def test_outputs_of_two_runs(self):
        """Both runs would write to one file, or listen at one port: one message, before anything is written."""
        path = os.path.join(self.folder, "m-{rank}.prom")
        for one, other, message in (
                ({"metrics": {"file": path}}, {"metrics": {"file": path}}, "metrics.file '" + path),
                ({"errors": {"bad_sample": "mask"}}, {"errors": {"bad_sample": "mask"}}, "errors.report '/"),
                ({"metrics": {"listen": "127.0.0.1:29417"}}, {"metrics": {"listen": "127.0.0.1:29418"}},
                 "metrics.listen '127.0.0.1:29418': ")):
            with self.subTest(message=message):
                outcome = self.job(4, train=self.train(one), also=["val=" + self.val(sections=other)])
                self.assertEqual(outcome.code, 4, outcome.output)
                errors = self.errors(outcome)
                self.assertEqual(len(errors), 1, outcome.output)
                self.assertIn("run 'val': " + message, errors[0])
                self.assertIn("the run that is trained on", errors[0])
                self.assertFalse(glob.glob(os.path.join(self.folder, "*.prom")) +
                                 glob.glob(os.path.join(self.folder, "*.jsonl")))

    def test_metrics(self):
        """Both runs are seen, by HTTP and by file; their series differ, for node_exporter puts all files together."""
        def metrics(name):
            return {"metrics": {"listen": "127.0.0.1:0", "file": os.path.join(self.folder, name + ".prom")}}
        outcome = self.job(2, "metrics", train=self.train(metrics("train")), also=["val=" + self.val(sections=metrics("val"))])
        self.assertEqual(outcome.code, 0, outcome.output)
        with open(os.path.join(self.folder, "seen"), encoding="utf-8") as file:
            seen = json.load(file)
        for way in "http", "file":
            names = [{line.rsplit(" ", 1)[0] for line in seen[way + "." + run].splitlines() if line[0] != "#"}
                     for run in ("train", "val")]
            self.assertFalse(names[0] & names[1])
            self.assertLessEqual({'penstock_epoch{reader="0"}', 'penstock_trainer_batches_total{reader="0",rank="1"}'}, names[0])
            self.assertLessEqual({'penstock_epoch{reader="0",run="val"}',
                                  'penstock_trainer_batches_total{reader="0",run="val",rank="1"}'}, names[1])
        self.assertEqual(glob.glob(os.path.join(self.folder, "*.prom")), [])

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
                               readers={"memory_limit": "1000TiB"}, delivery={"trainers": self.trainers, "slots": 1024},
                               errors={"missing_chunk": "fill"})
        outcome = self.job(2, train=train)
        self.assertNotEqual(outcome.code, 0)
        errors = self.errors(outcome)
        self.assertEqual(len(errors), 1, outcome.output)
        self.assertRegex(errors[0], r"the readers of a node take 2\.\d+ TiB, and .*beside the [0-9.]+ MiB that the other "
                                    "runs of --also take there")


class MoreAlso(AlsoTest):
    def test_three_readers(self):
        self.check_passes(3, "keep")

    def test_resume_of_training(self):
        """The other run is no part of a state."""
        order = self.alone(self.val(), 1)
        script = ("import json, penstock\ntrain, val = penstock.connect(), penstock.connect('val')\n"
                  "next(val)\nfor _ in range(7):\n    next(train)\n"
                  f"json.dump(train.state(), open({self.folder!r} + '/state.json', 'w'))\n")
        outcome = self.job(2, trainer=(*python_words(), "-c", script))
        self.assertEqual(outcome.code, 3, outcome.output)  # they left early
        outcome = self.job(4, options=["--resume", os.path.join(self.folder, "state.json")])
        self.assertEqual(outcome.code, 0, outcome.output)
        steps = [(epoch, step) for epoch in range(2) for step in range(STEPS)]
        self.expect("train", steps[7:], self.alone(self.train(), 2))
        self.assertLessEqual(set(self.log("val")[0][0][1]), {index for rank in order for index in rank[0, 0]})

    def test_unknown_name(self):
        script = ("import penstock\nwith penstock.connect():\n    try:\n        penstock.connect('nosuch')\n"
                  "    except penstock.NotFound as error:\n        print('refused:', error)\n")
        outcome = self.job(2, trainer=(*python_words(), "-c", script))
        self.assertEqual(outcome.output.count("have no run 'nosuch': start them with --also nosuch=FILE"), self.trainers,
                         outcome.output)


@unittest.skipUnless(launcher_is_open_mpi(), "MPICH's mpirun may end with 0 after a kill")
class Restarts(SupervisedTest):
    def test_a_reader_dies_in_validation(self):
        self.check_kills([("val", 4)])


@unittest.skipUnless(launcher_is_open_mpi(), "MPICH's mpirun may end with 0 after a kill")
class MoreRestarts(SupervisedTest):
    def test_readers_die(self):
        """In training, in a validation, and in the last epoch: of either run."""
        self.check_kills([("train", 3), ("val", 4), ("train", 14)], readers=2)

    def check_trainer_dies(self, *options, python=None):
        """All trainers begin again at the state, and the validations anew."""
        before = leftovers()
        outcome = self.supervise("die-once", "--state", os.path.join(self.folder, "saved.json"), *options, python=python)
        steps = [(epoch, step) for epoch in range(2) for step in range(STEPS)]
        self.expect("train", steps[5:], self.alone(self.train(), 2))
        self.expect("val", [(0, 0), (0, 1)] + [(epoch, step) for epoch in range(1, 4) for step in range(VAL_STEPS)],
                    self.alone(self.val(), 5))
        self.assert_nothing_left(before, outcome)
        return outcome.output

    def test_a_trainer_dies(self):
        self.assertIn("the trainers' step ended with exit code 9: restart 1 of 4", self.check_trainer_dies())

    @unittest.skipUnless(importlib.util.find_spec("torch"), "needs PyTorch")
    def test_a_trainer_of_torchrun_dies(self):
        """torchrun itself starts all trainers again."""
        self.assertNotIn("the trainers' step", self.check_trainer_dies("--torchrun", str(self.trainers), python=()))

    @unittest.skipUnless(importlib.util.find_spec("torch"), "needs PyTorch")
    def test_readers_of_torchruns_trainers_die(self):
        self.check_kills([("train", 3), ("val", 4)], "--torchrun", str(self.trainers), python=())


if __name__ == "__main__":
    unittest.main()
