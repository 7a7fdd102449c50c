"""Weights of samples: random datasets and mixes against the brute-force model of weights_oracle.py.

Which sample is at each position, and what it has, is compared by index and digest. Runs of other shapes deliver the same,
also when they are stopped and go on. How often samples come is compared with their weights, and with NumPy's draws.

Run by a Python with NumPy, xxhash and zarr 3.

    PENSTOCK_BIN=build/release/bin python test_weights.py --long 40 --seed 7

PENSTOCK_TEST_SEED and PENSTOCK_TEST_RUNS do the same.
"""

import collections
import os
import random
import unittest

import test_mix_model
from job import SANITIZED, JobTest, random_options
from test_mix_model import Part, make_part
from test_samples import PADDING, digest_of, np

from mix_oracle import rows_of
from samples_oracle import sample_key
from weights_oracle import Weighted

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "1"))
RUNS = int(os.environ.get("PENSTOCK_TEST_RUNS", "3" if SANITIZED else "8"))


def draw_weights(rng, numbers):
    """What makes the weights of n frames: some are 0, some are whole, some are small."""
    kind = rng.choice(("whole", "halves", "small", "wide", "any", "one"))
    make = {"whole": lambda n: numbers.choice((0, 1, 1, 2, 5), n), "halves": lambda n: numbers.choice((0, 0.5, 1), n),
            "small": lambda n: numbers.random(n) / 20, "wide": lambda n: 10.0 ** numbers.integers(-12, 1, n),
            "any": lambda n: numbers.random(n) * rng.choice((1, 3)),
            "one": lambda n: np.where(np.arange(n) == numbers.integers(n), 7.25, 0.01)}[kind]
    dtype = rng.choice(("i1", "u2", "i8") if kind == "whole" else ("f4", "f8"))
    return lambda n: make(n).astype(dtype)


class WeightedPart(Part):
    """A source; most have weights."""

    weighs = 0.8

    def make_samples(self):
        super().make_samples()
        self.draws = 0
        if self.rng.random() < self.weighs:
            self.samples["weight"] = self.add("weight", draw_weights(self.rng, self.numbers))
            if self.rng.random() < 0.4:
                self.draws = self.samples["draws"] = self.rng.randint(1, 120)

    def list_anchors(self):
        anchors = super().list_anchors()
        if "weight" not in self.samples:
            return anchors
        self.weights = np.concatenate([store["weight"] for store in self.stores]).astype("f8")
        return [t for t in anchors if self.weights[t] > 0]

    def source(self):
        if "weight" not in self.samples:
            return super().source()
        length, end, rows, places = self.row_length(), 0, [], []
        place, anchors = 0, set(self.anchors)
        for count in self.counts:
            begin, end = end, end + count
            for first in range(begin, end, length):
                row = [t for t in range(first, min(first + length, end)) if t in anchors]
                if row:
                    rows.append(row)
                    places.append(place)
                place += 1
        return Weighted(rows, places, self.weights, self.draws, self.window_rows, self.shuffled)


class WeightedWorld(test_mix_model.MixedWorld):
    kind = WeightedPart


class Mixes(test_mix_model.Model):
    """Sources of mixes may have weights."""

    def make_world(self, rng):
        return WeightedWorld(rng, self.folder)

    def test_random_mixes(self):
        for number in range(max(RUNS // 2, 1)):
            with self.subTest(seed=SEED, run=number):
                self.try_world(random.Random(SEED * 1000003 + number))


class AlonePart(WeightedPart):
    weighs = 1


class Model(test_mix_model.Model):
    """One dataset."""

    def expect(self, world, source, order):
        """The digest lines of a run."""
        batch, seed, last, lines = order["batch.global_size"], order["order.seed"], order["batch.last"], []
        for epoch in range(order["order.epochs"]):
            windows = list(source.windows(seed, epoch))
            anchors, end = sum(windows, []), windows[-1]
            first = len(anchors) - len(end)
            if last == "pad":
                anchors += [end[(p - first) % len(end)] for p in range(len(anchors), -(-len(anchors) // batch) * batch)]
            elif last == "drop":
                del anchors[len(anchors) // batch * batch:]
            for p, t in enumerate(anchors):
                values = world.delivered(t, sample_key(seed, epoch, t), t not in self.bad)
                lines.append([str(word) for word in (epoch, p // batch, p % batch, t, digest_of(values))])
        return lines

    def make_alone(self, rng):
        while True:
            world = make_part(rng, self.folder, 0, kind=AlonePart)
            source = world.source()
            if source.count >= 1:
                return world, source

    def try_world(self, rng):
        world, source = self.make_alone(rng)
        os.makedirs(world.folder, exist_ok=True)
        world.write_stores()
        order, trainers = self.order(rng, type("Epoch", (), {"samples": source.count}))
        order |= {"order.window_rows": world.window_rows, "order.shuffle": str(world.shuffled).lower(), "dataset.hold_limit": "1GiB"}
        self.bad = set()
        if not world.joins() and rng.random() < 0.3:
            self.bad = world.damage()
            order |= {"dataset.hold_limit": "0", "errors.bad_sample": "mask", "errors.max_bad": 1000000,
                      "errors.missing_chunk": "fail", "errors.report": "", "store.retries": 0}
        options = ["--config", world.configure()]
        expected = self.known(self.expect(world, source, order))
        lines = [line[:5] for line in self.digests(1, 1, order, PADDING, options)]
        self.assertEqual(lines, expected, f"{order} {world}")
        return len(lines) + self.try_shape(rng, trainers, {**self.shape(rng), **order}, expected, options, world)

    def test_random_mixes(self):
        compared = 0
        for number in range(RUNS):
            with self.subTest(seed=SEED, run=number):
                compared += self.try_world(random.Random(SEED * 1000003 + number))
        print(f"{compared} samples of {RUNS} datasets with weights equal to the model")


class Shares(unittest.TestCase):
    """The model: how often samples come, over many epochs. The seed is fixed, so that nothing depends on chance."""

    EPOCHS = 2000

    def counts(self, weights, draws, row_length=7):
        rows = [row for row in rows_of([len(weights)], row_length, set(np.flatnonzero(weights)))]
        places = [row[0] // row_length for row in rows]
        source = Weighted(rows, places, weights, draws, 3)
        found = np.zeros((self.EPOCHS, len(weights)))
        for epoch in range(self.EPOCHS):
            for row in source.draw(17, epoch):
                np.add.at(found[epoch], row, 1)
        return source, found

    def test_each_sample_comes_as_often_as_it_weighs_rounded_up_or_down(self):
        weights = np.array([0.5, 0.25, 2, 0, 1.75, 0.125, 3.5] * 5 + [0.05] * 20 + [0.9375, 0.9375])
        source, found = self.counts(weights, 0)
        self.assertEqual(set(found.sum(axis=1)), {round(weights.sum())})
        self.assertTrue(np.all((found == np.floor(weights)) | (found == np.ceil(weights))))
        used, settled = weights > 0, np.array(sum(source.weights, [])) / 2**32
        self.assertLess(np.abs(settled - weights[used]).sum(), 1)  # for whole sums
        part = settled % 1
        error = np.abs(found.mean(axis=0)[used] - settled) / np.sqrt(np.maximum(part * (1 - part), 1e-9) / self.EPOCHS)
        self.assertLess(error[part > 0].max(), 4.5)

    def test_draws_are_as_numpys(self):
        """With replacement: chi-square of all draws by weights, and of a row's draws as of numpy.random's multinomial."""
        weights = np.array([0.3, 1e-3, 5, 2, 0, 0.7, 1] * 6)
        source, found = self.counts(weights, 50)
        self.assertEqual(set(found.sum(axis=1)), {50})
        expected = weights / weights.sum() * 50
        used = expected > 0
        error = (found.sum(axis=0)[used] - expected[used] * self.EPOCHS) / np.sqrt(expected[used] * self.EPOCHS)
        self.assertLess(np.abs(error).max(), 4.5)
        rows, shares = found[:, :7], weights[:7] / weights[:7].sum()
        drawn = np.array([np.random.default_rng(e).multinomial(int(n), shares) for e, n in enumerate(rows.sum(axis=1))])
        np.testing.assert_allclose(rows.var(axis=0), drawn.var(axis=0), rtol=0.2, atol=0.01)

    def test_neighbours_do_not_hang_together(self):
        """Of samples of weight 1/2 many subsets come, and not two."""
        _, found = self.counts(np.full(64, 0.5), 0, 8)
        self.assertGreater(len({row.tobytes() for row in found}), self.EPOCHS - 5)
        together = (found.T @ found / self.EPOCHS)[np.triu_indices(64, 1)]
        self.assertLess(together.max(), 0.5)


if __name__ == "__main__":
    RUNS, SEED = random_options(RUNS, SEED)
    unittest.main()
