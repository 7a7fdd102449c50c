#!/usr/bin/env python3
"""anemoi-training: its data module, task and strategy, with batches of Penstock, beside its own."""

import pathlib
import sys
import unittest

from program import ROOT, ProgramTest, run

EPOCH = 40  # steps; 39 with a rollout
GROWING = "{0: '-1:2', 1: '-1:3'}"
ROLLOUT = [word for field in ("data", "dates") for word in ("--set", f"dataset.fields.{field}.steps={GROWING}")]
HALVES = ["--set", "delivery.mesh=[dp: 1, model: 2]", "--set", "delivery.data=[dp]", "--set", "dataset.cuts={grid: {over: model, split: even}}",
          "--set", "dataset.fields.data.cut={cell: grid}", "--set", "batch.global_size=1"]


class Anemoi(ProgramTest):
    NAME = "anemoi"

    def epoch(self, first, last, rank=None):
        """The digests of steps [first, last), sorted."""
        return sorted(digest for of, step, digest in self.samples() if first <= step < last and rank in (None, of))

    def test_a_growing_rollout_has_the_same_samples(self):
        self.train("own", "--rollout", 2)
        own, whole = self.epoch(40, 79), self.epoch(0, 40)
        self.assertEqual((len(set(own)), len(set(whole))), (78, 80))
        self.train("penstock", "--rollout", 2, options=ROLLOUT)
        self.assertEqual(self.epoch(39, 78), own)
        self.assertLess(set(self.epoch(0, 39)), set(whole))
        self.assertEqual(len(set(self.epoch(0, 39))), 78)

    def test_halves_of_the_grid_are_the_same(self):
        self.train("own", "--share", 2, "--steps", 80)
        own = [self.epoch(0, 80, rank) for rank in (0, 1)]
        self.assertNotEqual(own[0], own[1])
        self.train("penstock", "--share", 2, "--steps", 80, options=HALVES)
        self.assertEqual([self.epoch(0, 80, rank) for rank in (0, 1)], own)

    def test_a_killed_training_goes_on(self):
        """Each sample comes once in the epoch of the kill; with the own loader some come twice."""
        checkpoints = pathlib.Path(self.folder) / "checkpoints"
        self.train("penstock", "--checkpoints", checkpoints, "--kill-at", 31, expect=1)
        before = self.epoch(0, 30)
        self.train("penstock", "--steps", 2 * EPOCH, "--resume", checkpoints / "step=30.ckpt")
        self.assertEqual(len(set(before + self.epoch(30, EPOCH))), 80)
        self.assertEqual(len(set(self.epoch(EPOCH, 2 * EPOCH))), 80)

    def test_other_datasets_and_steps_are_refused(self):
        for options, reason in ((["--set", "dataset.fields.data.slice={variable: [t850, q500]}"], "samples of the field 'data' are [3, 2, 1, "),
                                (ROLLOUT[:2] + ["--set", "dataset.fields.dates.steps=-1:1"], "anemoi-training's task takes the steps [-1, 0, 1]"),
                                (HALVES, "and the run's in group 0 of 1")):
            with self.subTest(reason):
                self.assertIn(reason, self.train("penstock", expect=1, options=options))

    def test_old_releases_are_refused(self):
        told = run([sys.executable, "-c", "import sys; sys.modules['penstock.torch'] = sys\nimport penstock.integrations.anemoi"],
                   env=self.environment(), cwd=ROOT)
        self.assertIn("penstock.integrations.anemoi needs anemoi-training, 0.17.1 or newer: No module named", told.output)


if __name__ == "__main__":
    unittest.main()
