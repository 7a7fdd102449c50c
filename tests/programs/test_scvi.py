#!/usr/bin/env python3
"""scvi-tools: model.train() on cells from Penstock, beside annbatch's loader on the same collection."""

import os
import pathlib
import unittest

from program import ROOT, ProgramTest, program, run

STEPS = 16  # of an epoch
KILL, LAST = 11, 10  # the step of a kill, and that of the last checkpoint before
FAILED = 4  # of penstock-run: a trainer failed
LOADED = """
import scvi, sys
model = scvi.model.SCVI.load(sys.argv[1])
mappings = [model.get_state_registry(field).categorical_mapping for field in ("batch", "labels")]
print(f"{len(model.get_var_names())} genes, {len(mappings[0])} donors, {len(mappings[1])} kinds", model.is_trained)
"""
REFUSED = """
import pathlib, penstock, sys
from penstock.integrations.scvi import DataModule
cells = pathlib.Path(sys.argv[1]) / "cells.zarr"
for path, more in ((cells, {}), (cells / "dataset_0", eval(sys.argv[2]))):
    try:
        DataModule(path, **more)
        print("taken", flush=True)
    except penstock.Invalid as error:
        print(error, flush=True)
"""


class Scvi(ProgramTest):
    NAME = "scvi"
    WHOLE = {}  # loader -> samples of a whole run

    def whole(self, loader):
        if loader not in self.WHOLE:
            self.train(loader)
            self.WHOLE[loader] = self.samples()
        return self.WHOLE[loader]

    @staticmethod
    def epochs(samples):
        """The digests of each epoch, sorted."""
        return [sorted(digest for _, step, digest in samples if step // STEPS == epoch) for epoch in range(2)]

    def test_epochs_have_the_same_cells(self):
        own = self.epochs(self.whole("own"))
        self.assertEqual(len(own[1]), 2048)
        self.assertEqual(self.epochs(self.whole("penstock")), own)

    def test_sparse_cells_are_the_same(self):
        self.train("penstock", options=("--set", "dataset.fields.X.deliver=csr"))
        self.assertEqual(self.samples(), self.whole("penstock"))

    def test_other_numbers_of_processes_are_refused(self):
        told = self.train("penstock", "--devices", 1, expect=FAILED)
        self.assertIn("1 processes train together, and the run has 2 trainers", told)

    def test_a_killed_training_goes_on(self):
        """Lightning's checkpoint within an epoch: model.train(ckpt_path=) takes the rest of the cells."""
        checkpoints = os.path.join(self.folder, "checkpoints")
        self.train("penstock", "--checkpoints", checkpoints, "--kill-at", KILL, expect=FAILED)
        self.train("penstock", "--resume", os.path.join(checkpoints, f"{LAST}.ckpt"))
        self.assertEqual(self.samples(), [sample for sample in self.whole("penstock") if sample[1] >= LAST])

    def test_the_own_loader_goes_on_with_other_cells(self):
        """Of the epoch of the kill some cells come twice, and others never."""
        checkpoints = os.path.join(self.folder, "checkpoints")
        self.train("own", "--checkpoints", checkpoints, "--kill-at", KILL, expect=1)
        before = [digest for _, step, digest in self.samples() if step < LAST]
        self.train("own", "--resume", os.path.join(checkpoints, f"{LAST}.ckpt"))
        after = [digest for _, step, digest in self.samples() if step < STEPS]
        self.assertEqual(len(before + after), 2048)
        self.assertLess(len(set(before + after)), 2048)

    def test_a_saved_model_is_loaded(self):
        model = os.path.join(self.folder, "model")
        self.train("penstock", "--save", model)
        told = run([self.python, "-c", LOADED, model], 300, self.environment(), cwd=self.folder)
        self.assertIn("500 genes, 8 donors, 4 kinds True", told.output)

    def refused(self, **more):
        told = run([program("penstock-run"), "-c", os.path.join(self.data, "run.yaml"), "--set", "delivery.trainers=1", "--",
                    self.python, "-c", REFUSED, self.data, repr(more)], 300, self.environment(), cwd=self.folder)
        self.assertIn("has no 'var/_index': it is no AnnData in Zarr", told.output)
        return told.output

    def test_other_panels_are_refused(self):
        self.assertIn("X has samples of [500], and there are names of 2 genes: with a panel give genes=",
                      self.refused(genes=["gene3", "gene7"]))

    def test_columns_that_the_run_lacks(self):
        self.assertIn("the run has no field src_path, but X, donor, kind: name them in", self.refused(batch_key="src_path"))

    def test_old_releases_are_refused(self):
        package = pathlib.Path(self.folder) / "scvi"
        package.mkdir()
        (package / "__init__.py").write_text("__version__ = '1.2'\nclass model:\n    SCVI = lambda adata: 0\n", encoding="ascii")
        env = self.environment()
        env["PYTHONPATH"] = f"{self.folder}:{ROOT / 'python'}"
        told = run([self.python, "-c", "import penstock.integrations.scvi"], env=env, cwd=self.folder)
        self.assertIn("needs scvi-tools 1.4 or newer, whose models take a registry; this is 1.2", told.output)


if __name__ == "__main__":
    unittest.main()
