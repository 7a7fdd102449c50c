"""Random configurations: whatever the sizes, every run delivers what one reader and one trainer deliver.

PENSTOCK_TEST_SEED and PENSTOCK_TEST_RUNS choose others than the recorded ones.
"""

import json
import os
import random
import unittest

from job import JobTest, program, run

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "1"))
RUNS = int(os.environ.get("PENSTOCK_TEST_RUNS", "10"))


class Random(JobTest):
    def make(self, rng):
        """A small dataset, an order, and a shape that has nothing to do with the order."""
        samples, chunk = rng.randint(20, 400), rng.choice((1, 1, 3, 8, 50))
        item = rng.choice((1, 7, 2000))
        uri = self.synth(f"r{samples}-{chunk}-{item}", samples, layout="plain", chunk=chunk,
                         shape=item, dtype="int16", codec=rng.choice(("none", "zstd", "blosc-lz4")))
        trainers = rng.choice((1, 2, 3, 4, 6))
        batch = rng.randint(trainers, max(trainers, min(samples, 20 * trainers)))
        order = {"dataset.uri": uri, "batch.global_size": batch,
                 "batch.last": rng.choice(("drop", "pad", "partial")),
                 "order.seed": rng.randint(0, 2**64 - 1), "order.epochs": rng.randint(1, 4),
                 "order.window_rows": rng.choice(("auto", 1, 2, 5, 40))}
        slots = rng.choice((2, 3, 4, 8))
        shape = {"delivery.slots": slots, "readers.threads": rng.randint(1, 3),
                 "readers.cache": rng.choice(("auto", "decoded", "stored", "off")),
                 "readers.bind": rng.choice(("numa", "core", "none")),
                 "readers.memory_limit": rng.choice(("auto", "16MiB", "64MiB")),
                 "exchange.steps_per_round": rng.choice(("auto", 1, max(1, slots // 2)))}
        record = -(-2 * item // 16) * 16
        if shape["exchange.steps_per_round"] == 1 and rng.random() < 0.5:
            shape["exchange.buffer_limit"] = max(4096, record * trainers * rng.randint(1, 3))
        readers = rng.randint(1, 5)
        if shape["readers.memory_limit"] == "64MiB":
            shape["readers.memory_limit"] = self.room_for_some(rng, readers, trainers, order, shape)
        return order, shape, readers, trainers

    def room_for_some(self, rng, readers, trainers, order, shape):
        """A memory limit between what a run needs and what keeps all rows decoded."""
        sizes = []
        for cache in ("off", "decoded"):
            command = [program("penstock"), "plan", "--json", "--readers", str(readers)]
            for key, value in {**order, **shape, "readers.memory_limit": "1GiB",
                               "readers.cache": cache, "delivery.trainers": trainers}.items():
                command += ["--set", f"{key}={value}"]
            made = run(command)
            self.assertEqual(made.code, 0, made.output)
            sizes.append(json.loads(made.output)["memory_bytes_of_a_reader"])
        least = sizes[0] + 4096  # the home table of kept rows, which `off` does not have
        return rng.randint(least, max(least, *sizes))

    def test_runs(self):
        rng = random.Random(SEED)
        for number in range(RUNS):
            order, shape, readers, trainers = self.make(rng)
            with self.subTest(run=number, readers=readers, trainers=trainers, **order, **shape):
                padding = ["--digest-padding"]
                expected = self.digests(1, 1, order, padding)
                lines = self.digests(readers, trainers, {**order, **shape}, padding)
                self.assertEqual(lines, expected)
                if number % 3 == 0:
                    fixed = {**order, **shape, "order.placement": "fixed", "readers.memory_limit": "auto"}
                    self.assertEqual(self.digests(readers, trainers, fixed, padding), expected)


if __name__ == "__main__":
    unittest.main()
