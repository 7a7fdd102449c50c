"""docs/use/ragged.md as it stands: its programs, configurations and commands, in order. Run by a Python with torch, pyarrow, zarr 3 and anndata:
without anndata the first half alone."""

import importlib.util
import os
import re
import sys
import unittest

from job import JobTest
from page import follow, read_page

missing = [name for name in ("torch", "pyarrow", "zarr") if not importlib.util.find_spec(name)]
if missing:
    print(f"skipped: {sys.executable} has no {', '.join(missing)}")
    sys.exit(77)


class Page(JobTest):
    def follow(self, chapter):
        """Does what the chapter says. Returns what its commands printed."""
        text = re.search(rf"^## {chapter}\n(.*?)^## ", read_page("ragged.md"), re.MULTILINE | re.DOTALL).group(1)
        return follow(self, text, self.folder)

    def check_losses(self, output):
        """Four epochs of two trainers, which learn something."""
        losses = [(int(epoch), float(loss)) for epoch, loss in re.findall(r"epoch (\d): loss ([\d.]+)", output)]
        self.assertEqual(sorted(epoch for epoch, _ in losses), [0, 0, 1, 1, 2, 2, 3, 3], output)
        first, last = (sum(loss for epoch, loss in losses if epoch == number) for number in (0, 3))
        self.assertLess(last, 0.8 * first, output)

    def test_events(self):
        self.check_losses(self.follow("Events"))
        self.assertTrue(os.path.exists(os.path.join(self.folder, "sample.svg")))

    @unittest.skipUnless(importlib.util.find_spec("anndata"), "anndata is not installed")
    def test_cells(self):
        self.check_losses(self.follow("Cells"))

    def test_captions(self):
        output = self.follow("Captions")
        self.assertEqual(output.count("(20, 8, 4) ['"), 5, output)
        for caption in ("a dog runs", "Zwei Vögel fliegen", "a red car turns left"):
            self.assertIn(caption, output)


if __name__ == "__main__":
    unittest.main()
