"""The model's ratios against those of another loader's mix: MapDataset.mix() of grain (PyPI), where it is installed."""

import collections
import math
import os
import random
import sys
import unittest

from mix_oracle import Mix, Source

try:
    import grain
except ImportError as error:
    print(f"skipped: {sys.executable}: {error}")
    sys.exit(77)

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "1"))


class Ratios(unittest.TestCase):
    def test_counts_are_those_of_grain(self):
        rng = random.Random(SEED)
        for _ in range(50):
            least = rng.choice((1, 2, 4, 5))  # grain rounds weights to hundredths of the least
            weights = [least, *(rng.randint(least, 20) for _ in range(rng.randint(1, 5)))]
            rng.shuffle(weights)
            theirs = grain.MapDataset.mix([grain.MapDataset.range(10**6 * d, 10**6 * d + 10**5)
                                           for d in range(len(weights))], weights=[float(w) for w in weights])
            ours = Mix([Source([[0]], 1)] * len(weights), weights, 1)
            counts, n = collections.Counter(), 2000
            for i in range(n):
                counts[theirs[i] // 10**6] += 1
                mine = ours.divide(i + 1)
                for d, weight in enumerate(weights):
                    exact = (i + 1) * weight / sum(weights)
                    self.assertLess(abs(mine[d] - exact), math.log2(len(weights)) + 1, (weights, i))
                    self.assertLess(abs(mine[d] - counts[d]), len(weights) + 1, (weights, i))


if __name__ == "__main__":
    unittest.main()
