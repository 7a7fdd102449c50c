#!/usr/bin/env python3
"""torchtitan: its trainer on tokens from Penstock, beside its own loader on the documents that they are of."""

import os
import pathlib
import unittest

from program import ROOT, ProgramTest, run

STEPS = 8
EARLY = 3  # trainers end before their run
TENSOR = ("--set", "delivery.mesh=pp:1,dp_replicate:1,dp_shard:1,cp:1,tp:2")


class Torchtitan(ProgramTest):
    NAME = "torchtitan"
    OWN = []  # digests of the own loader's epoch, sorted

    def steps(self, first=1):
        """{(step, digest), ...} of the last run, from step `first` on."""
        return {(step, digest) for _, step, digest in self.samples() if step >= first}

    def digests(self):
        return sorted(digest for _, _, digest in self.samples())

    def own(self):
        if not self.OWN:
            self.train("own")
            self.OWN.extend(self.digests())
        return self.OWN

    def test_an_epoch_has_the_same_samples(self):
        """Tokens, positions in documents and labels."""
        self.assertGreater(len(set(self.own())), 500)
        self.train("penstock")
        self.assertEqual(self.digests(), self.own())

    def test_a_killed_training_goes_on_with_other_groups(self):
        """The checkpoint of two ranks that divide the batch goes on on two that share a model, which the own loader refuses."""
        checkpoints = os.path.join(self.folder, "checkpoints")
        self.train("penstock", "--steps", STEPS + 4, expect=EARLY)
        whole = self.steps(5)
        self.train("penstock", "--steps", STEPS, "--resume", checkpoints, "--kill-at", 6, expect=4)
        self.train("penstock", "--steps", STEPS, "--resume", checkpoints, expect=EARLY)
        self.assertEqual(self.steps(), {sample for sample in whole if sample[0] <= STEPS})
        self.train("penstock", "--steps", STEPS + 4, "--resume", checkpoints, "--tensor-parallel", 2, options=TENSOR, expect=EARLY)
        self.assertEqual(self.steps(), {sample for sample in whole if sample[0] > STEPS})

    def test_the_own_loader_refuses_other_groups(self):
        checkpoints = os.path.join(self.folder, "checkpoints")
        self.train("own", "--steps", 4, "--resume", checkpoints)
        self.assertIn("dataloader resharding is not supported yet",
                      self.train("own", "--steps", STEPS, "--resume", checkpoints, "--tensor-parallel", 2, expect=1))

    def test_workers_of_the_own_loader_repeat_documents(self):
        own = self.own()
        self.train("own", "--workers", 2)
        self.assertEqual(self.digests(), sorted(2 * own))

    def test_other_runs_are_refused(self):
        self.assertIn("torchtitan trains on fields input and labels of training.seq_len = 128 tokens, and the run has",
                      self.train("penstock", "--sequence", 128, expect=4))
        self.assertIn("torchtitan counts this rank", self.train("penstock", expect=4, options=TENSOR))

    def test_other_releases_are_refused(self):
        components = pathlib.Path(self.folder) / "torchtitan" / "components"
        components.mkdir(parents=True)
        env = self.environment()
        env["PYTHONPATH"] = f"{self.folder}:{ROOT / 'python'}"
        old = "BaseDataLoader = DataloaderExhaustedError = Exception\n"
        for text, message in (("", "needs torchtitan 0.3, with torchtitan.components.dataloader"),
                              (old, "needs torchtitan 0.3, whose data loaders are")):
            (components / "dataloader.py").write_text(text, encoding="ascii")
            for package in (components, components.parent):
                (package / "__init__.py").touch()
            told = run([self.python, "-Bc", "import penstock.integrations.torchtitan"], env=env, cwd=self.folder)
            self.assertIn(message, told.output)


if __name__ == "__main__":
    unittest.main()
