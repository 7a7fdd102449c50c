#!/usr/bin/env python3
"""scvi-tools: model.train() on cells from Penstock, beside annbatch's loader on the same collection."""

import os
import pathlib
import shutil
import unittest

from program import ROOT, ProgramTest, run

STEPS = 16  # of an epoch


class Scvi(ProgramTest):
    NAME = "scvi"

    def epochs(self):
        """The digests of each epoch, sorted."""
        return [sorted(digest for _, step, digest in self.samples() if step // STEPS == epoch) for epoch in range(2)]

    def changed(self, *changes):
        """A folder with the same cells, and another run.yaml."""
        folder = pathlib.Path(self.folder) / "changed"
        shutil.copytree(self.data, folder, symlinks=True)
        text = (folder / "run.yaml").read_text(encoding="utf-8")
        for before, after in changes:
            self.assertIn(before, text)
            text = text.replace(before, after)
        (folder / "run.yaml").write_text(text, encoding="utf-8")
        self.data = str(folder)

    def test_epochs_have_the_same_cells(self):
        self.train("own")
        own = self.epochs()
        self.assertEqual(len(own[1]), 2048)
        self.train("penstock")
        self.assertEqual(self.epochs(), own)

    def test_sparse_cells_are_the_same(self):
        self.train("own", "--steps", STEPS)
        own = self.epochs()
        self.changed(("deliver: {dense: [500], combine: sum}", "deliver: csr"))
        self.train("penstock", "--steps", STEPS)
        self.assertEqual(self.epochs(), own)

    def test_a_killed_training_goes_on(self):
        self.train("penstock", "--steps", STEPS)
        whole = self.samples()
        checkpoints = os.path.join(self.folder, "checkpoints")
        self.train("penstock", "--steps", STEPS, "--checkpoints", checkpoints, "--kill-at", 7, expect=1)
        self.train("penstock", "--steps", STEPS, "--resume", os.path.join(checkpoints, "step=6.ckpt"))
        self.assertEqual(self.samples(), [sample for sample in whole if sample[1] >= 6])

    def test_a_panel_needs_its_names(self):
        self.changed(("deliver: {dense: [500]", 'slice: {1: [gene7, gene3]}, deliver: {dense: [2]'))
        self.assertIn("X has samples of [2], and there are names of 500 genes: with a panel give genes=",
                      self.train("penstock", expect=1))

    def test_a_run_without_a_column(self):
        self.changed(("    kind: obs/kind/codes\n", ""))
        self.assertIn("the run has no field kind, but X, donor: name them in dataset.fields", self.train("penstock", expect=1))

    def test_other_datasets_are_refused(self):
        shutil.copytree(self.data, os.path.join(self.folder, "moved"))
        shutil.rmtree(os.path.join(self.folder, "moved", "cells.zarr", "dataset_0", "obs", "donor", "categories"))
        self.data = os.path.join(self.folder, "moved")
        self.assertIn("has no 'obs/donor/categories': it is no AnnData in Zarr", self.train("penstock", expect=1))

    def test_other_numbers_of_processes_are_refused(self):
        self.assertIn("", self.train("penstock", expect=1, options=("--torchrun", "3")))

    def test_old_releases_are_refused(self):
        package = pathlib.Path(self.folder) / "scvi"
        package.mkdir()
        (package / "__init__.py").write_text("__version__ = '1.2'\nclass model:\n    SCVI = lambda adata: 0\n", encoding="ascii")
        env = self.environment()
        env["PYTHONPATH"] = f"{self.folder}:{ROOT / 'python'}"
        told = run([self.python, "-c", "import penstock.integrations.scvi"], env=env, cwd=self.folder)
        self.assertIn("needs scvi-tools 1.3 or newer, whose models take a registry; this is 1.2", told.output)


if __name__ == "__main__":
    unittest.main()
