"""docs/use/transforms.md as it stands: its function, configuration, trainer and commands."""

import importlib.util
import os
import re
import sys
import unittest

from job import JobTest
from page import follow, read_page

if importlib.util.find_spec("numpy") is None:
    print(f"skipped: {sys.executable} has no numpy")
    sys.exit(77)


class Page(JobTest):
    def test_page(self):
        output = follow(self, read_page("transforms.md"), self.folder)
        self.assertTrue(os.path.exists(os.path.join(self.folder, "augment.py")))
        self.assertIn("transform  gets data; makes data float16 [3, 32, 32], flipped bool\n", output)
        flipped = [(int(epoch), int(count)) for epoch, count in re.findall(r"epoch (\d): (\d+) of float16 flipped", output)]
        self.assertEqual(sorted(epoch for epoch, _ in flipped), [0, 0, 1, 1], output)
        for number in (0, 1):
            self.assertTrue(400 < sum(count for epoch, count in flipped if epoch == number) < 600, output)


if __name__ == "__main__":
    unittest.main()
