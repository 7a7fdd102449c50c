"""Weights of samples: random datasets and mixes against the brute-force model of weights_oracle.py.

Which sample is at each position, and what it has, is compared by index and digest. Runs of other shapes deliver the same,
also when they are stopped and go on. How often samples come is compared with their weights, and with NumPy's draws.

Run by a Python with NumPy, xxhash and zarr 3.

    PENSTOCK_BIN=build/release/bin python test_weights.py --long 40 --seed 7

PENSTOCK_TEST_SEED and PENSTOCK_TEST_RUNS do the same.
"""

import json
import os
import random
import unittest

import test_mix_model
import test_mix_ragged
from job import SANITIZED, JobTest, program, random_options, run
from test_mix_model import Part, make_part
from test_samples import PADDING, digest_of, np, write_store

from mix_oracle import rows_of
from samples_oracle import sample_key
from weights_oracle import Weighted

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "1"))
RUNS = int(os.environ.get("PENSTOCK_TEST_RUNS", "2" if SANITIZED else "4"))


def draw_weights(rng, numbers):
    """What makes the weights of n frames: some are 0, some are whole, some are small."""
    kind = rng.choice(("whole", "halves", "small", "wide", "any", "one"))
    make = {"whole": lambda n: numbers.choice((0, 1, 1, 2, 5), n), "halves": lambda n: numbers.choice((0, 0.5, 1), n),
            "small": lambda n: numbers.random(n) / 20, "wide": lambda n: 10.0 ** numbers.integers(-12, 1, n),
            "any": lambda n: numbers.random(n) * rng.choice((1, 3)),
            "one": lambda n: np.where(np.arange(n) == numbers.integers(n), 7.25, 0.01)}[kind]
    dtype = rng.choice(("i1", "u2", "i8") if kind == "whole" else ("f4", "f8"))
    return lambda n: make(n).astype(dtype)


class Weighing:
    """Of a source; most have weights."""

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


class WeightedPart(Weighing, Part):
    pass


class RaggedPart(Weighing, test_mix_ragged.Part):
    """The longest samples come several times."""

    def make_samples(self):
        super().make_samples()
        for store in self.stores:
            for name, field in self.ragged.items():
                if "weight" in self.samples and "index" not in field:
                    store["weight"][np.argmax(np.diff(store[f"{name}/starts"].astype("i8")))] = 6


class WeightedWorld(test_mix_model.MixedWorld):
    kind = WeightedPart


class RaggedWorld(test_mix_ragged.World):
    kind = RaggedPart


class Mixes(test_mix_model.Model):
    """Sources of mixes may have weights."""

    def make_world(self, rng):
        return WeightedWorld(rng, self.folder)

    def test_random_mixes(self):
        for number in range(max(RUNS // 2, 1)):
            with self.subTest(seed=SEED, run=number):
                self.try_world(random.Random(SEED * 1000003 + number))


class Ragged(Mixes):
    """Memory for items is settled by how often the longest samples may come."""

    def make_world(self, rng):
        return RaggedWorld(rng, self.folder)


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
                values = world.delivered(t, sample_key(seed, epoch, getattr(t, "key_index", t)), t not in self.bad)
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


class Refused(JobTest):
    """What makes no sense, or does not go together, and what `penstock plan` says of the rest."""

    FRAMES = 40

    def setUp(self):
        super().setUp()
        weights = np.where(np.arange(self.FRAMES) % 10 == 0, 3, 0.1)
        arrays = {"x": np.arange(self.FRAMES, dtype="f4"), "w": weights, "zero": np.zeros(self.FRAMES), "bool": np.ones(self.FRAMES, bool),
                  "negative": np.where(np.arange(self.FRAMES) == 7, -1, 1), "nan": np.where(np.arange(self.FRAMES) == 7, np.nan, 1),
                  "infinite": np.full(self.FRAMES, np.inf), "short": np.ones(self.FRAMES - 1), "many": np.full(self.FRAMES, 1e9),
                  "two": np.ones((self.FRAMES, 2)), "first": (np.arange(self.FRAMES) < 5).astype("u1"),
                  "p/starts": np.arange(self.FRAMES + 1), "p/items": np.zeros(self.FRAMES, "i4")}
        self.uri = os.path.join(self.folder, "refused.zarr")
        write_store(self.uri, arrays, {name: (8, *values.shape[1:]) for name, values in arrays.items()}, {})

    def plan(self, *options, **settings):
        settings = {"dataset.uri": self.uri, "dataset.fields.x.array": "x", "batch.global_size": 4} | settings
        said = run([program("penstock"), "plan", *options, *(word for item in settings.items() for word in ("--set", "=".join(map(str, item))))])
        return said.code, said.output

    def test_what_is_refused(self):
        ragged = {"dataset.fields.p.ragged.offsets": "p/starts", "dataset.fields.p.ragged.columns": "[p/items]"}
        for settings, said in (
                ({"samples.weight": "none"}, "samples.weight: there is no array 'none' in the store"),
                ({"samples.weight": "bool"}, "the array must be of integers, float32 or float64; the array is of bool"),
                ({"samples.weight": "two"}, "samples.weight: array 'two' of the store"),
                ({"samples.weight": "short"}, "the array has 39 items, and the fields have 40 frames"),
                ({"samples.weight": "negative"}, "item 7 is -1: a weight must be a number of at least 0"),
                ({"samples.weight": "nan"}, "item 7 is nan: a weight must be a number of at least 0"),
                ({"samples.weight": "infinite"}, "item 0 is inf: a weight must be a number of at least 0"),
                ({"samples.weight": "zero"}, "samples.weight: all weights of the array 'zero' are 0: no sample is left"),
                ({"samples.weight": "first", "samples.split_range": "5:"}, "look at samples.weight and samples.where"),
                ({"samples.weight": "many"}, "epochs of more than 2147483647 samples (the greatest weight is 1e+09)"),
                ({"samples.draws": 10}, "samples.draws is set without samples.weight"),
                ({"samples.weight": "w", "samples.draws": 3}, "global batch 4 exceeds the dataset's 3 samples"),
                ({"samples.weight": "w", "batch.budget_field": "p", "batch.budget_items": 9} | ragged,
                 "samples.weight and batch.budget_field are both set")):
            code, output = self.plan(**settings)
            self.assertNotEqual(code, 0, f"{settings}: {output}")
            self.assertIn(said, output)
        self.assertEqual(self.plan(**{"samples.weight": "many", "samples.draws": 100})[0], 0)

    def test_what_plan_says(self):
        code, output = self.plan(**{"samples.weight": "w"})
        self.assertEqual(code, 0, output)
        self.assertIn("weights    16 an epoch, of 40 samples, each as often as it weighs, at most 3 times; an epoch reads 5 of 5 rows", output)
        code, output = self.plan("--json", **{"samples.weight": "w", "samples.draws": 3, "batch.global_size": 1})
        self.assertEqual(code, 0, output)
        weights, = json.loads(output)["weights"]
        self.assertEqual({name: weights[name] for name in ("source", "samples", "of_samples", "of_rows")},
                         {"source": 0, "samples": 3, "of_samples": 40, "of_rows": 5})
        self.assertEqual(weights["rows"], 3)


class Shares(unittest.TestCase):
    """The model: how often samples come, over many epochs. The seed is fixed, so that nothing depends on chance."""

    EPOCHS = 1000

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
