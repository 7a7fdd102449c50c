"""docs/use/changing.md as it stands: its configuration, trainer and commands."""

import importlib.util
import re
import sys
import unittest

from job import JobTest
from page import follow, read_page

if importlib.util.find_spec("numpy") is None:
    print(f"skipped: {sys.executable} has no numpy")
    sys.exit(77)

EPOCH = 2000  # samples
RAMP = 75 * 40  # samples before its end, where 3 of 4 are fine


class Page(JobTest):
    def test_page(self):
        output = follow(self, read_page("changing.md"), self.folder)
        told = [tuple(map(int, line)) for line in re.findall(r"epoch (\d): (\d) steps, (\d+) fine", output)]
        self.assertEqual(sorted(line[:2] for line in told), [(0, 2), (0, 2), (1, 4), (1, 4)], output)
        fine = [sum(line[2] for line in told if line[0] == number) for number in (0, 1)]
        first = 0.75 * EPOCH * EPOCH / (2 * RAMP)
        self.assertAlmostEqual(fine[0], first, delta=1, msg=output)
        self.assertAlmostEqual(fine[1], 0.75 * (RAMP / 2 + 2 * EPOCH - RAMP) - first, delta=1, msg=output)


if __name__ == "__main__":
    unittest.main()
