#!/usr/bin/env python3
"""Megatron-core: microbatches of a step from Penstock, beside GPTDataset's with the same documents, in Megatron's groups."""

import os
import pathlib
import unittest

from program import ROOT, ProgramTest, run

STEPS = 8
EARLY = 3  # trainers end before their run
TENSOR = ("--set", "delivery.mesh=pp:1,dp:1,cp:1,tp:2")


class Megatron(ProgramTest):
    NAME = "megatron"

    def digests(self, first=0):
        return sorted(digest for _, step, digest in self.samples() if step >= first)

    def test_an_epoch_has_the_same_samples(self):
        """Tokens, labels, masks of the loss, and positions that begin anew in each document."""
        self.train("own")
        own = self.digests()
        self.assertGreater(len(own), 500)
        self.train("penstock")
        self.assertEqual(self.digests(), own)

    def test_a_killed_training_goes_on_in_other_groups(self):
        """Two ranks that divide the batch, killed, and then two that share a model: the samples of a training without a break."""
        checkpoints = os.path.join(self.folder, "checkpoints")
        self.train("penstock", "--steps", 12, expect=EARLY)
        whole = self.digests(4)
        self.train("penstock", "--steps", STEPS, "--resume", checkpoints, "--kill-at", 6, expect=4)
        self.train("penstock", "--steps", STEPS, "--resume", checkpoints, expect=EARLY)
        resumed = self.digests()
        self.train("penstock", "--steps", 12, "--resume", checkpoints, "--tensor-parallel", 2, options=TENSOR, expect=EARLY)
        shared = self.digests()
        self.assertEqual(shared[::2], shared[1::2])  # both ranks have all
        self.assertEqual(sorted(resumed + shared[::2]), whole)

    def test_parts_of_samples(self):
        """Context parallelism is refused without parts of samples; with them each rank has those that Megatron would cut."""
        mesh = ("--set", "delivery.mesh=pp:1,dp:1,cp:2,tp:1")
        self.assertIn("context parallelism needs its parts", self.train("penstock", "--context-parallel", 2, options=mesh, expect=4))
        path = pathlib.Path(self.data) / "run.yaml"
        text = path.read_text(encoding="ascii")
        self.addCleanup(path.write_text, text, encoding="ascii")
        cut = text.replace("segments: true}", "segments: true, cut: {0: seq}}").replace('513"}', '513", cut: {0: seq}}')
        path.write_text(cut.replace("  fields:", "  cuts: {seq: {over: cp, order: zigzag}}\n  fields:"), encoding="ascii")
        told = self.train("penstock", "--context-parallel", 2, "--steps", 2, "--check-cut", options=mesh, expect=EARLY)
        self.assertIn("parts are Megatron's", told)

    def test_other_runs_are_refused(self):
        self.assertIn("Megatron trains on fields tokens and labels of seq_length = 128, and the run has labels [512], tokens",
                      self.train("penstock", "--sequence", 128, expect=4))
        self.assertIn("delivery.mesh", self.train("penstock", "--tensor-parallel", 2, expect=4))

    def test_a_missing_package_is_named(self):
        megatron = pathlib.Path(self.folder) / "megatron"
        megatron.mkdir()
        (megatron / "__init__.py").touch()
        env = self.environment()
        env["PYTHONPATH"] = f"{self.folder}:{ROOT / 'python'}"
        told = run([self.python, "-Bc", "import penstock.integrations.megatron"], env=env, cwd=self.folder)
        self.assertIn("penstock.integrations.megatron needs megatron-core, 0.15 or newer", told.output)


if __name__ == "__main__":
    unittest.main()
