"""Epochs that trainers abandon: each goes on in order at the next epoch, and readers leave out what nobody wants."""

import json
import os
import unittest

from job import SANITIZED, JobTest, environment, python_words

TRAINER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "skipping_trainer.py")
PYTHON_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python")


class Skip(JobTest):
    trainers = 2

    def settings(self, samples=120, **more):
        return {"dataset.uri": self.synth(f"skip-{samples}", samples), "batch.global_size": 8, "order.seed": 5,
                "order.window_rows": 16, "delivery.trainers": self.trainers, "readers.threads": 1,
                "order.epochs": 0, **more}

    def job(self, readers, settings, counts, *arguments, code=0):
        """What each trainer logged, and the report's epochs."""
        report = os.path.join(self.folder, "report.json")
        outcome = self.reader(readers, settings, (*python_words(), TRAINER, self.folder, *map(str, counts), *arguments),
                              ["--report", report], env=environment(PYTHONPATH=PYTHON_PATH))
        self.assertEqual(outcome.code, code, outcome.output)
        logs = []
        for rank in range(self.trainers):
            with open(os.path.join(self.folder, f"log.{rank}"), encoding="ascii") as file:
                logs.append([tuple(line.split()) for line in file])
        with open(report, encoding="ascii") as file:
            return logs, json.load(file)["epochs"]

    def whole(self, epochs, readers):
        """The undisturbed order: what each rank gets of each epoch."""
        logs, _ = self.job(readers, self.settings(**{"order.epochs": epochs}), [0] * epochs)
        return [[[line for line in log[:-1] if line[0] == str(epoch)] for epoch in range(epochs)] for log in logs]

    def expected(self, whole, counts, differs=False):
        out = []
        for rank, epochs in enumerate(whole):
            more = differs and rank == 0
            out.append([line for epoch, count in zip(epochs, counts)
                        for line in epoch[:count + more if count or more else None]])
        return out

    def test_abandoned_epochs(self):
        """A sanity check of two batches, whole passes, epochs of one batch and of nearly all."""
        counts = [2, 0, 1, 1, 14, 0, 2]
        for readers, slots in (1, 2), (2, 4), (3, 2):
            with self.subTest(readers=readers, slots=slots):
                whole = self.whole(len(counts), readers)
                logs, epochs = self.job(readers, self.settings(**{"delivery.slots": slots}), counts)
                self.assertEqual([log[:-1] for log in logs], self.expected(whole, counts))
                self.assertEqual({log[-1] for log in logs}, {("state", "6", "2")})
                given = {epoch["epoch"]: epoch["samples"] for epoch in epochs}
                steps = [len(whole[0][e]) if count == 0 else count for e, count in enumerate(counts)]
                self.assertEqual([given[e] for e in range(len(counts))], [8 * count for count in steps])

    def test_trainers_that_differ(self):
        """One that abandons an epoch a step later gets what it asks for, and nobody waits for ever."""
        counts = [2, 1, 3, 15]
        whole = self.whole(len(counts), 2)
        logs, _ = self.job(2, self.settings(), counts, "--differ")
        self.assertEqual([log[:-1] for log in logs], self.expected(whole, counts, differs=True))

    def test_little_is_read(self):
        """Of an abandoned epoch the windows under way are read, and what is read until the reader hears of the skip:
        little, and on a busy machine still less than all."""
        counts = [2] * 10
        for readers in 1, 2:
            _, epochs = self.job(readers, self.settings(480, **{"readers.cache": "off", "order.window_rows": 32,
                                                                "delivery.slots": 2}), counts)
            rows = sum(epoch["chunks"] for epoch in epochs)
            self.assertLess(rows, (1 if SANITIZED else 0.8) * 480 * len(counts))
            self.assertGreaterEqual(rows, 16 * len(counts))

    def test_resume(self):
        """The state of an abandoned epoch is the beginning of the next one."""
        whole = self.whole(2, 1)
        state = os.path.join(self.folder, "state.json")
        script = ("import json, penstock\nwith penstock.connect() as loader:\n    next(loader)\n    loader.skip(1)\n"
                  f"    json.dump(loader.state(), open({state!r} + str(loader.info.rank), 'w'))\n")
        outcome = self.reader(2, self.settings(), (*python_words(), "-c", script),
                              env=environment(PYTHONPATH=PYTHON_PATH))
        self.assertEqual(outcome.code, 0, outcome.output)
        lines = self.digests(2, self.trainers, self.settings(**{"order.epochs": 2}),
                             options=["--resume", state + "0"])
        self.assertEqual([line[:2] for line in lines],
                         [["1", str(step)] for step in range(len(whole[0][1])) for _ in range(8)])

    def test_last_epoch(self):
        """Of the last epoch, too, little is read."""
        counts = [2] * 3
        _, epochs = self.job(2, self.settings(480, **{"readers.cache": "off", "order.window_rows": 32,
                                                      "delivery.slots": 2, "order.epochs": 3}),
                             counts, "--all")
        self.assertEqual([epoch["samples"] for epoch in epochs], [16, 16, 16])
        self.assertLess(epochs[2]["chunks"], 0.9 * 480)

    def test_the_last_batch_is_held(self):
        """Epochs of two batches and whole ones in turn, of which the last batch is always leased. A skip that readers hear of
        late does not bring back what trainers have had: that would fill the slots behind the leased one."""
        script = ("import penstock\nheld = None\nwith penstock.connect() as loader:\n    for epoch in loader.epochs():\n"
                  "        for count, held in enumerate(epoch, 1):\n            if count == 2 and epoch.number % 2 == 0:\n"
                  "                break\n        if epoch.number == 60:\n            break\n")
        for placement in "fixed", "local":
            outcome = self.reader(2, self.settings(40, **{"order.placement": placement}), (*python_words(), "-c", script),
                                  env=environment(PYTHONPATH=PYTHON_PATH))
            self.assertEqual(outcome.code, 0, outcome.output)

    def test_leases_from_before(self):
        """A view from before a skip leases its slot: the next skip says so at once, and goes on when the view is gone."""
        script = ("import sys, penstock\nsay = sys.stdout.write  # a line at once: two trainers write\n"
                  "with penstock.connect() as loader:\n    view = next(loader).indices\n    loader.skip(1)\n"
                  "    try:\n        loader.skip(2)\n"
                  "    except penstock.Invalid as error:\n        say(f'refused: {error}\\n')\n"
                  "    del view\n    loader.skip(3)\n    batch = next(loader)\n    say(f'epoch {batch.epoch} {batch.step}\\n')\n")
        outcome = self.reader(2, self.settings(), (*python_words(), "-c", script),
                              env=environment(PYTHONPATH=PYTHON_PATH))
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assertEqual(outcome.output.count("refused: epoch 0 step 0 is leased since before the last skip"), 2, outcome.output)
        self.assertEqual(outcome.output.count("epoch 3 0"), 2, outcome.output)

    def test_wrong_steps(self):
        script = ("import penstock\nwith penstock.connect() as loader:\n    next(loader)\n    loader.skip(2)\n"
                  "    for epoch, step in (1, 14), (0, 0), (2**28 + 1, 0), (3, 15):\n"
                  "        try:\n            loader.skip(epoch, step)\n"
                  "        except penstock.Invalid as error:\n            print('refused:', error)\n")
        outcome = self.reader(1, self.settings(**{"delivery.trainers": 1}), (*python_words(), "-c", script),
                              env=environment(PYTHONPATH=PYTHON_PATH))
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assertEqual(outcome.output.count("refused:"), 4, outcome.output)
        self.assertIn("epoch 1 step 14 is over; the next batch is that of epoch 2 step 0", outcome.output)


if __name__ == "__main__":
    unittest.main()
