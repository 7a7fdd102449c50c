#!/usr/bin/env python3
"""LeRobot: its diffusion policy on batches from Penstock, beside LeRobot's own loader on the same episodes."""

import os
import pathlib
import shutil
import unittest

from program import ProgramTest

STEPS, BATCH = 7, 32  # whole ones of an epoch: LeRobot has another, which is not full


class LeRobot(ProgramTest):
    NAME = "lerobot"

    def changed(self, *changes):
        """A folder with the same episodes, and another run.yaml."""
        folder = pathlib.Path(self.folder) / "changed"
        shutil.copytree(self.data, folder)
        text = (folder / "run.yaml").read_text(encoding="utf-8")
        for before, after in changes:
            self.assertIn(before, text)
            text = text.replace(before, after)
        (folder / "run.yaml").write_text(text, encoding="utf-8")
        self.data = str(folder)

    def test_an_epoch_has_the_same_samples(self):
        self.train("own", "--steps", STEPS + 1, "--workers", 1)
        own = {digest for _, _, digest in self.samples()}
        self.train("penstock")
        for epoch in range(2):
            found = {digest for _, step, digest in self.samples() if step // STEPS == epoch}
            self.assertEqual(len(found), STEPS * BATCH)
            self.assertLess(found, own)

    def test_a_killed_training_goes_on(self):
        self.train("penstock")
        whole = self.samples()
        checkpoint = os.path.join(self.folder, "checkpoint")
        self.train("penstock", "--checkpoint", checkpoint, "--kill-at", 4, expect=4)
        self.train("penstock", "--resume", checkpoint)
        self.assertEqual(self.samples(), [sample for sample in whole if sample[1] >= 3])

    def test_the_own_loader_begins_the_epoch_again(self):
        checkpoint = os.path.join(self.folder, "checkpoint")
        self.train("own", "--checkpoint", checkpoint, "--kill-at", 4, "--workers", 0, expect=1)  # workers would stay
        before = {digest for _, step, digest in self.samples() if step < 3}
        self.train("own", "--resume", checkpoint, "--steps", 3 + STEPS + 1, "--workers", 1)
        after = {digest for _, _, digest in self.samples()}
        self.assertEqual(len(before & after), 3 * BATCH)

    def test_fields_that_the_policy_does_not_want(self):
        self.changed(('action: {array: action, steps: "-1:15"}', 'action: {array: action, steps: "0:15"}'))
        self.assertIn("'action' with its delta_timestamps has samples of [16, 2], and the run has samples of [15, 2]: mend dataset.fields",
                      self.train("penstock", expect=4))

    def test_a_run_without_tasks(self):
        self.changed(("  constants: [meta/tasks]\n", ""))
        self.assertIn("no texts of tasks: write dataset.constants: [meta/tasks]", self.train("penstock", expect=4))


if __name__ == "__main__":
    unittest.main()
