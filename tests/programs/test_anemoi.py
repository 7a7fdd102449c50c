#!/usr/bin/env python3
"""anemoi-training: its data module, task and strategy, with batches of Penstock, beside its own."""

import pathlib
import sys
import tempfile
import unittest

from program import ROOT, ProgramTest, run

EPOCH = 40  # steps; 39 with a rollout
SHARED = ("--share", 2)
ONE, GROWING = 'steps: "-1:2"', 'steps: {0: "-1:2", 1: "-1:3"}'
HALVES = (("  fields:", "  cuts: {grid: {over: model, split: even}}\n  fields:"), ("data: {array: data,", "data: {array: data, cut: {cell: grid},"),
          ("{trainers: 2,", "{trainers: 2, mesh: [dp: 1, model: 2], data: [dp],"))
REVERSED = ", ".join(f"{name}{level}" for name in "tuvq" for level in (500, 850))
SINGLE = ("global_size: 2", "global_size: 1")


class Anemoi(ProgramTest):
    NAME = "anemoi"

    def epoch(self, first, last, rank=None):
        """The digests of steps [first, last), sorted."""
        return sorted(digest for of, step, digest in self.samples() if first <= step < last and rank in (None, of))

    def changed(self, *changes):
        """self.data becomes the same dataset with another run.yaml."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(dir=self.folder)))
        (folder / "data.zarr").symlink_to(pathlib.Path(type(self).data) / "data.zarr")
        text = pathlib.Path(type(self).data, "run.yaml").read_text(encoding="utf-8")
        for before, after in changes:
            self.assertIn(before, text)
            text = text.replace(before, after)
        (folder / "run.yaml").write_text(text, encoding="utf-8")
        self.data = str(folder)

    def test_a_growing_rollout_has_the_same_samples(self):
        self.train("own", "--rollout", 2)
        own, whole = self.epoch(40, 79), self.epoch(0, 40)
        self.assertEqual((len(set(own)), len(set(whole))), (78, 80))
        self.changed((ONE, GROWING))
        self.train("penstock", "--rollout", 2)
        self.assertEqual(self.epoch(39, 78), own)
        self.assertLess(set(self.epoch(0, 39)), set(whole))
        self.assertEqual(len(set(self.epoch(0, 39))), 78)

    def test_halves_of_the_grid_are_the_same(self):
        self.changed(SINGLE)
        self.train("own", *SHARED, "--steps", 80)
        own = [self.epoch(0, 80, rank) for rank in (0, 1)]
        self.assertNotEqual(own[0], own[1])
        self.changed(*HALVES, SINGLE)
        self.train("penstock", *SHARED, "--steps", 80, expect=3)
        self.assertEqual([self.epoch(0, 80, rank) for rank in (0, 1)], own)

    def test_a_killed_training_goes_on(self):
        """Each sample comes once in the epoch of the kill."""
        checkpoints = pathlib.Path(self.folder) / "checkpoints"
        self.train("penstock", "--checkpoints", checkpoints, "--kill-at", 31, expect=4)
        before = self.epoch(0, 30)
        self.train("penstock", "--steps", 2 * EPOCH, "--resume", checkpoints / "step=30.ckpt", expect=3)  # before the last epoch
        self.assertEqual(len(set(before + self.epoch(30, EPOCH))), 80)
        self.assertEqual(len(set(self.epoch(EPOCH, 2 * EPOCH))), 80)

    def test_the_own_loader_begins_the_epoch_again(self):
        checkpoints = pathlib.Path(self.folder) / "checkpoints"
        self.train("own", "--checkpoints", checkpoints, "--steps", 31)
        before = self.epoch(0, 30)
        self.train("own", "--steps", 30 + EPOCH, "--resume", checkpoints / "step=30.ckpt")
        self.assertEqual(len(set(before)), 60)
        self.assertEqual(len(set(self.epoch(30, 30 + EPOCH))), 80)

    def test_other_datasets_and_steps_are_refused(self):
        zigzag = ("split: even", "order: zigzag")
        for reason, changes, arguments in (
                ("samples of the field 'data' are [3, 2, 1, ", [("data: {array: data,", "data: {array: data, slice: {variable: [t850, q500]},")], ()),
                ("are not what anemoi-training's dataset has", [("data: {array: data,", f"data: {{array: data, slice: {{variable: [{REVERSED}]}},")], ()),
                ("anemoi-training's task takes the steps [-1, 0, 1]", [(ONE, 'steps: [0, 2, 4]')], ()),
                ("and the run's in group 0 of 1", HALVES, ()),
                ("this rank's part of 'data' is 576 of 1152 cells, and anemoi-training's is ", (*HALVES, zigzag, SINGLE), SHARED)):
            with self.subTest(reason):
                self.changed(*changes)
                self.assertIn(reason, self.train("penstock", *arguments, expect=4))

    def test_old_releases_are_refused(self):
        told = run([sys.executable, "-c", "import sys; sys.modules['penstock.torch'] = sys\nimport penstock.integrations.anemoi"],
                   env=self.environment(), cwd=ROOT)
        self.assertIn("penstock.integrations.anemoi was made for anemoi-training 0.17.1: No module named", told.output)


if __name__ == "__main__":
    unittest.main()
