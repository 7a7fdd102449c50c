#!/usr/bin/env python3
"""PhysicsNeMo: its DataLoader and its ShardTensors on batches from Penstock, beside its own datapipe on the same store."""

import os
import pathlib
import shutil
import unittest

from program import ProgramTest, program, run

STEPS, SAMPLES = 8, 32  # of an epoch
FAILED = 4  # of penstock-run: a trainer failed
WHOLE = """
import sys, zlib
sys.path.insert(0, "{programs}")
import train, zarr
from penstock.integrations import physicsnemo
mesh = train.mesh_of(2)
dataset = train.Dataset(train.ZarrReader("{data}/data.zarr", fields=train.FIELDS))
found, rows = {name: set() for name in train.FIELDS}, set()
with physicsnemo.Dataset(dataset, mesh=mesh) as parts:
    for batch in train.DataLoader(parts):
        for name in train.FIELDS:
            rows.add(batch[name].to_local().shape[2])
            found[name].update(zlib.crc32(sample.numpy().tobytes()) for sample in batch[name].full_tensor())
for name, digests in found.items():
    stored = zarr.open_array("{data}/data.zarr/" + name, mode="r")[:]
    assert digests == {zlib.crc32(sample.tobytes()) for sample in stored}, name
print("rows", *rows, flush=True)
"""
OLD = """
import sys
sys.path.insert(0, "{programs}/..")
import vision, physicsnemo.datapipes
del physicsnemo.datapipes.IterableDatasetBase
import penstock.integrations.physicsnemo
"""


class PhysicsNemo(ProgramTest):
    NAME = "physicsnemo"

    def changed(self, *changes, configuration="run.yaml"):
        """A folder with the same store, and another run.yaml."""
        folder = pathlib.Path(self.folder) / "changed"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        data = pathlib.Path(type(self).data)
        (folder / "data.zarr").symlink_to(data / "data.zarr")
        text = (data / configuration).read_text(encoding="utf-8")
        for before, after in changes:
            self.assertIn(before, text)
            text = text.replace(before, after)
        (folder / "run.yaml").write_text(text, encoding="utf-8")
        self.data = str(folder)

    def script(self, text):
        text = text.replace("{programs}", str(self.programs)).replace("{data}", self.data)
        return run([program("penstock-run"), "-c", os.path.join(self.data, "run.yaml"), "--", self.python, "-c", text],
                   env=self.environment(), cwd=self.folder).output

    def epochs(self):
        """The digests of each epoch, sorted."""
        return [sorted(digest for _, step, digest in self.samples() if step // STEPS == epoch) for epoch in range(2)]

    def halves(self):
        """Of each epoch {(digest of rank 0, digest of rank 1)}."""
        ranks = [[(step // STEPS, digest) for rank, step, digest in self.samples() if rank == of] for of in (0, 1)]
        self.assertEqual(*map(len, ranks))
        return [{(one, other) for (at, one), (_, other) in zip(*ranks) if at == epoch} for epoch in range(2)]

    def test_epochs_have_the_same_samples(self):
        self.train("own", "--idle")
        own = self.epochs()
        self.assertEqual(len(set(own[0])), SAMPLES)
        self.train("penstock")
        self.assertEqual(self.epochs(), own)
        steps = [[digest for _, step, digest in self.samples() if step // STEPS == epoch] for epoch in range(2)]
        self.assertNotEqual(*steps)

    def test_transforms_are_the_same(self):
        self.train("own", "--idle")
        plain = self.epochs()
        self.train("own", "--idle", "--normalise")
        own = self.epochs()
        self.assertFalse(set(own[0]) & set(plain[0]))
        self.train("penstock", "--idle", "--normalise")
        self.assertEqual(self.epochs(), own)

    def test_halves_are_the_same(self):
        self.changed(configuration="domain.yaml")
        self.train("own", "--idle", "--domain")
        own = self.halves()
        self.assertEqual(len(own[0]), SAMPLES)
        self.train("penstock", "--domain")
        self.assertEqual(self.halves(), own)

    def test_unequal_parts_are_whole_together(self):
        self.changed(("{over: domain}", "{over: domain, split: [20, 12]}"), configuration="domain.yaml")
        output = self.script(WHOLE)
        self.assertIn("rows 20", output)
        self.assertIn("rows 12", output)

    def test_a_killed_training_goes_on(self):
        self.train("penstock")
        whole = self.samples()
        checkpoints = os.path.join(self.folder, "checkpoints")
        self.train("penstock", "--checkpoints", checkpoints, "--kill-at", STEPS + 3, expect=FAILED)
        self.train("penstock", "--checkpoints", checkpoints, "--resume")
        self.assertEqual(self.samples(), [sample for sample in whole if sample[1] >= STEPS + 2])

    def test_other_layouts_are_refused(self):
        for change, reason in ((("array: input", "array: input, slice: {2: ':16'}"),
                                "the reader's field 'input' has samples of [3, 32, 32], and the run has samples of [3, 16, 32]"),
                               (("array: target", "array: target, sample_axis: 2"), "samples of [32, 3, 32]"),
                               (("    target: {array: target}\n", ""), "'target' has samples of [3, 32, 32], and the run has")):
            with self.subTest(reason):
                self.changed(change)
                self.assertIn(reason, self.train("penstock", "--idle", expect=FAILED))

    def test_other_ranks_and_parts_are_refused(self):
        zigzag = ("{over: domain}", "{over: domain, order: zigzag}")
        for configuration, changes, arguments, reason in (
                ("run.yaml", (), ("--domain",), "/2), and delivery.mesh is not set"),
                ("domain.yaml", (), (), "by delivery.mesh ranks share samples, {'ddp': 0, 'domain': "),
                ("domain.yaml", (), ("--domain", "--normalise"), "the dataset's transforms would get parts of input, target"),
                ("domain.yaml", (zigzag,), ("--domain",), "ShardTensor cannot express the parts of field 'input'")):
            with self.subTest(reason):
                self.changed(*changes, configuration=configuration)
                self.assertIn(reason, self.train("penstock", "--idle", *arguments, expect=FAILED))

    def test_old_releases_are_refused(self):
        self.assertIn("needs PhysicsNeMo 2.2 or newer, with datapipes.IterableDatasetBase: cannot import", self.script(OLD))


if __name__ == "__main__":
    unittest.main()
