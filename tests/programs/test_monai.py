#!/usr/bin/env python3
"""MONAI: SupervisedTrainer on volumes of OME-Zarr from Penstock, beside CacheDataset and RandSpatialCropd."""

import glob
import os
import pathlib
import re
import shutil
import unittest

from program import ProgramTest, program, run

STEPS = 2  # of an epoch
FAILED = 4  # of penstock-run: a trainer failed
CHECK = """
import numpy, penstock.torch, zarr
with penstock.torch.Loader() as loader:
    places = set()
    for epoch in loader.epochs():
        for batch in epoch:
            for row, number in enumerate(batch.indices.tolist()):
                group = zarr.open_group(f"{data}/volume-{number}.zarr", mode="r")
                for field, name in (("image", "s0"), ("label", "labels/cells/s0")):
                    place = tuple(slice(k, k + 16) for k in batch[f"{field}.crop"][row].tolist())
                    wanted = group[name][(0, slice(None), *place)].astype("f4") / (512 if field == "image" else 1)
                    numpy.testing.assert_array_equal(batch[field][row].numpy(), wanted)
                places.add((number, str(place)))
assert len(places) == 8, places
print("equal", flush=True)
"""


class Monai(ProgramTest):
    NAME = "monai"

    def changed(self, *changes):
        """A folder with the same volumes, and another run.yaml."""
        folder = pathlib.Path(self.folder) / "changed"
        shutil.copytree(self.data, folder)
        text = (folder / "run.yaml").read_text(encoding="utf-8")
        for before, after in changes:
            self.assertIn(before, text)
            text = text.replace(before, after)
        (folder / "run.yaml").write_text(text, encoding="utf-8")
        self.data = str(folder)

    def epochs(self):
        """The digests of each epoch, sorted."""
        return [sorted(digest for _, step, digest in self.samples() if step // STEPS == epoch) for epoch in range(2)]

    def test_epochs_have_the_same_volumes(self):
        self.changed(("16", "56"))  # crops of whole volumes have one place
        self.train("own")
        own = self.epochs()
        self.assertEqual(len(set(own[0])), 8)
        self.train("penstock")
        self.assertEqual(self.epochs(), own)

    def test_crops_are_those_of_zarr(self):
        told = run([program("penstock-run"), "-c", os.path.join(self.data, "run.yaml"), "--", self.python, "-c",
                    CHECK.replace("{data}", self.data)], env=self.environment(), cwd=self.folder)
        self.assertEqual(told.output.count("equal"), 2, told.output)

    def test_a_killed_training_goes_on(self):
        self.train("penstock")
        whole = self.samples()
        checkpoints = os.path.join(self.folder, "checkpoints")
        self.train("penstock", "--checkpoints", checkpoints, "--kill-at", 3, expect=FAILED)
        (last,) = (path for path in glob.glob(f"{checkpoints}/*.pt") if re.search(r"=3\.pt", path))
        self.train("penstock", "--resume", last)
        self.assertEqual(self.samples(), [sample for sample in whole if sample[1] >= 3])

    def test_volumes_of_another_shape_are_refused(self):
        self.changed(("volume-0.zarr, ", ""))
        os.rename(os.path.join(self.data, "volume-1.zarr", "labels"), os.path.join(self.data, "volume-1.zarr", "masks"))
        self.assertIn("labels/cells", self.train("penstock", expect=1))

    def test_other_numbers_of_processes_are_refused(self):
        told = run([program("penstock-run"), "-c", os.path.join(self.data, "run.yaml"), "--", "env", "WORLD_SIZE=3", self.python,
                    "-c", "import penstock.torch; penstock.torch.Loader().info"], env=self.environment(), cwd=self.folder)
        self.assertIn("says that its world size is 3, the service was started for 2; set delivery.trainers", told.output)



if __name__ == "__main__":
    unittest.main()
