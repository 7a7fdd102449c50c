"""Mixes: random sources, weights and shapes of runs against the brute-force model of mix_oracle.py.

Which sample is at each position, of which source, and what it has, is compared by index and digest. Runs of other shapes
deliver the same, also when they are stopped and go on.

Run by a Python with NumPy, xxhash and zarr 3.

    PENSTOCK_BIN=build/release/bin python test_mix_model.py --long 40 --seed 7

PENSTOCK_TEST_SEED and PENSTOCK_TEST_RUNS do the same.
"""

import collections
import glob
import json
import math
import os
import random
import sys
import unittest

from job import SANITIZED, JobTest, environment, random_options
from test_samples import EXIT_STOPPED_EARLY, PADDING, World, digest_of, np

from mix_oracle import Mix, Source, rows_of
from samples_oracle import Samples, steps_of

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "1"))
RUNS = int(os.environ.get("PENSTOCK_TEST_RUNS", "4" if SANITIZED else "8"))


class Part(World):
    """A source: a random dataset with the fields of another one, where there is one."""

    phases = False
    is_written = aligns = False

    def __init__(self, rng, folder, number, first=None):
        self.first_part = first
        super().__init__(rng, os.path.join(folder, f"part{number}"))
        self.window_rows = rng.choice((1, 2, 3, 5, 100))
        self.shuffled = rng.random() < 0.8

    def make_store(self, count):
        if self.first_part:
            self.items = self.first_part.items
            self.chunks["image"] = (self.chunks["image"][0], *self.items["image"][1])
        return super().make_store(count)

    def make_fields(self):
        """The same fields: steps may be others, as many."""
        first = self.first_part
        if not first:
            super().make_fields()
            return
        move = self.rng.choice((0, 0, 1))
        for name, field in first.fields.items():
            self.fields[name] = dict(field)
            if "steps" in field:
                self.fields[name]["steps"] = [step + move for step in steps_of(field)]

    def make_samples(self):
        """With rows of a length that is known, and the same made fields as the first source."""
        first, rng = self.first_part, self.rng
        super().make_samples()
        self.samples["row_chunks"] = rng.randint(1, 3)
        if not first:
            return
        for field in self.fields.values():
            field.pop("segments", None)
        self.samples.pop("segments", None)
        if "segments" in first.samples:
            self.samples["segments"] = self.add("documents", lambda count: self.cuts(count, 5), 7)
        for name, field in first.fields.items():
            self.fields[name] |= {"segments": True} if field.get("segments") else {}
        pads, own = (sum(part.samples.get("pad", {}).values()) for part in (first, self))
        if bool(pads) != bool(own):
            self.samples.pop("pad", None)
        if pads and not own:
            self.samples["pad"] = {"before": 0, "after": 1}

    def row_length(self):
        """Chunks of the direct field with the most bytes a frame, the first by name of such."""
        def frame_bytes(name):
            whole = {key: value for key, value in self.fields[name].items() if key != "crop"}
            return self.model.frame(whole, 0, 0).nbytes
        direct = sorted(name for name, field in self.fields.items() if "index" not in field)
        lead = self.fields[max(direct, key=frame_bytes)]["array"]
        return min(self.chunks[lead][0] * self.samples["row_chunks"], max(self.counts))

    def list_anchors(self):
        return self.model.anchors()

    def source(self):
        return Source(rows_of(self.counts, self.row_length(), set(self.anchors)), self.window_rows, self.shuffled)

    def document(self):
        return super().document() | {"order": {"window_rows": self.window_rows, "shuffle": self.shuffled, "seed": 999, "epochs": 7},
                                     "batch": {"global_size": 77}}

    def write_part(self, name="part.yaml"):
        """The configuration's path, relative to that of the mix. Stores are written once."""
        if not self.is_written:
            os.makedirs(self.folder, exist_ok=True)
            self.write_stores()
            self.is_written = True
        return os.path.relpath(self.configure(name), os.path.dirname(self.folder))

    def __str__(self):
        return f"{super().__str__()} window {self.window_rows} shuffle {self.shuffled}"


def make_part(rng, folder, number, first=None, kind=Part):
    """A source with a sample at least, and a group for each part of its split."""
    while True:
        part = kind(rng, folder, number, first)
        if sum(part.samples.get("pad", {}).values()) >= len(part.model.union):
            continue
        anchors, split = part.list_anchors(), part.samples.get("split", {})
        if anchors and ("parts" not in split or len(set(part.model.groups(split["by"]))) > 1):
            part.anchors = anchors
            return part


class MixedWorld:
    """One to four sources, and their weights."""

    kind = Part

    def __init__(self, rng, folder):
        self.folder = folder
        self.parts = [make_part(rng, folder, 0, kind=self.kind)]
        for number in range(1, rng.choice((1, 2, 2, 3, 3, 4))):
            self.parts.append(make_part(rng, folder, number, self.parts[0], self.kind))
        self.weights = [rng.choice((1, 2, 3, 5, 7, 11, 17)) for _ in self.parts]
        self.texts = self.write_weights(rng)
        sources = [part.source() for part in self.parts]
        self.samples = rng.choice((None, rng.randint(4, 150)))
        divisor = math.gcd(*self.weights)
        self.schedule = self.make_schedule(rng) if rng.random() < 0.5 else []
        self.mix = Mix(sources, [weight // divisor for weight in self.weights], self.samples, self.schedule)
        self.bad = set()

    def write_weights(self, rng):
        """As whole numbers, or as decimals where these are exact."""
        total = sum(self.weights)
        if rng.random() < 0.5 and 10**6 % total == 0:
            return [weight / total for weight in self.weights]
        return self.weights

    def make_schedule(self, rng):
        """Weights from later steps on, some 0, some on ramps. Where the first are for step 0, the sources have none."""
        entries, step = [], 0
        for _ in range(rng.randint(1, 4)):
            step += rng.randint(1, 12)
            weights = [rng.choice((0, 0, 1, 2, 3, 50)) for _ in self.parts]
            weights[rng.randrange(len(weights))] += 1
            entries.append((step, weights, rng.random() < 0.5))
        if rng.random() < 0.5:
            self.texts = [None] * len(self.parts)
        return entries

    def document(self):
        mix = {"sources": [{"config": part.write_part()} | ({"weight": text} if text else {})
                           for part, text in zip(self.parts, self.texts)]}
        if self.samples:
            mix["samples"] = self.samples
        if self.schedule:
            first = [] if self.texts[0] else [(0, self.weights, False)]
            for d, source in enumerate(mix["sources"]):
                source["name"] = f"source {d}"
            mix["schedule"] = [{"step": step, "weights": {f"source {d}": w for d, w in enumerate(weights) if w or step % 2}}
                               | ({"ramp": "linear"} if ramp else {}) for step, weights, ramp in first + self.schedule]
        return {"mix": mix}

    def write(self, name="run.yaml"):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.document(), file)
        return path

    def sample(self, d, anchor, key):
        fields = self.parts[d].model.sample(anchor, key) | {"source": np.array(d, "i4")}
        return {name: fields[name] for name in sorted(fields)}

    def delivered(self, d, anchor, key):
        """A sample that is masked is zero in all fields."""
        values = self.sample(d, anchor, key)
        return {name: np.zeros_like(value) for name, value in values.items()} if (d, anchor) in self.bad else values

    def damage(self, rng):
        """Removes a chunk of a source; or a folder is in its place, which cannot be read."""
        d = rng.randrange(len(self.parts))
        self.bad = {(d, anchor) for anchor in self.parts[d].damage(folder=rng.random() < 0.5)}

    def expect(self, order):
        """The digest lines of a run: epoch, step, position, index and digest."""
        return [[str(word) for word in (epoch, step, position, anchor, digest_of(self.delivered(d, anchor, key)))]
                for epoch in range(order["order.epochs"])
                for step, position, d, _, anchor, key in self.mix.epoch(order["order.seed"], epoch,
                                                                      order["batch.global_size"], order["batch.last"])]

    def __str__(self):
        parts = "\n".join(map(str, self.parts))
        return f"weights {self.texts} schedule {self.schedule} samples {self.samples}\n{parts}"


class Model(JobTest):
    """penstock-trainer's digests against the model."""

    @staticmethod
    def order(rng, mix):
        trainers = rng.choice((1, 2, 3, 4))
        batch = rng.randint(trainers, 12 * trainers)
        if batch > mix.samples:
            batch, trainers = 1, 1
        return {"batch.global_size": batch, "batch.last": rng.choice(("drop", "pad", "partial")),
                "order.seed": rng.randint(0, 2**64 - 1), "order.epochs": rng.randint(1, 3),
                "errors.missing_chunk": "fill"}, trainers  # random indices may all be 0

    @staticmethod
    def shape(rng):
        return {"readers.threads": rng.randint(1, 3), "delivery.slots": rng.choice((2, 4)),
                "readers.cache": rng.choice(("auto", "decoded", "stored", "off")),
                "exchange.steps_per_round": rng.choice(("auto", 1)),
                "dataset.hold_limit": rng.choice(("1GiB", "4KiB"))}

    def make_world(self, rng):
        return MixedWorld(rng, self.folder)

    def try_world(self, rng):
        world = self.make_world(rng)
        order, trainers = self.order(rng, world.mix)
        joins = any(part.joins() for part in world.parts)
        options = ["--config", world.write()]
        if not joins and rng.random() < 0.3:
            world.damage(rng)
            order |= {"dataset.hold_limit": "0", "errors.bad_sample": "mask", "errors.max_bad": 1000000,
                      "errors.missing_chunk": "fail", "errors.report": "", "store.retries": 0}
        expected = self.known(world.expect(order))
        lines = [line[:5] for line in self.digests(1, 1, order, PADDING, options)]
        self.assertEqual(lines, expected, f"{order} {world}")
        other = {**self.shape(rng), **({"dataset.hold_limit": "1GiB"} if joins else {}), **order}
        return len(lines) + self.try_shape(rng, trainers, other, expected, options, world)

    def try_shape(self, rng, trainers, other, expected, options, world):
        """A run of another shape delivers the same: in one go, or stopped and resumed."""
        readers = rng.randint(1, 5)
        steps = int(expected[-1][1]) + 1
        if rng.random() < 0.4:
            other["order.placement"] = "fixed"
        if rng.random() < 0.4 and steps > 1:
            state = os.path.join(self.folder, "state")
            stop = ["--steps", str(rng.randint(1, steps - 1)), "--state", state]
            got = self.digests(readers, 1, other, PADDING + stop, options, expect=EXIT_STOPPED_EARLY)
            got += self.digests(rng.randint(1, 5), trainers, other, PADDING, [*options, "--resume", state])
        else:
            got = self.digests(readers, trainers, other, PADDING, options)
        got = [line[:5] for line in got]
        self.assertEqual(got, expected, f"{readers} readers {trainers} trainers {other} {world}")
        return len(got)

    def test_random_mixes(self):
        compared = 0
        for number in range(RUNS):
            with self.subTest(seed=SEED, run=number):
                compared += self.try_world(random.Random(SEED * 1000003 + number))
        print(f"{compared} samples of {RUNS} mixes equal to the model")


class Python(JobTest):
    """What a trainer in Python gets: the source, and keys, of each sample."""

    def test_sources_and_keys(self):
        rng, world = random.Random(11), None
        while world is None or len(world.parts) < 3:
            world = MixedWorld(rng, self.folder)
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "samples_trainer.py")
        env = environment(PYTHONPATH=os.path.join(os.path.dirname(script), "..", "..", "python"))
        outcome = self.reader(2, {"delivery.trainers": 2, "batch.global_size": 4, "batch.last": "partial"},
                              (sys.executable, script, self.folder), ["--config", world.write()], env=env)
        self.assertEqual(outcome.code, 0, outcome.output)
        got = collections.Counter()
        for path in glob.glob(os.path.join(self.folder, "*.npz")):
            with np.load(path) as batch:
                self.assertEqual(batch["source"].dtype, np.int32)
                for i, (d, t) in enumerate(zip(batch["source"].tolist(), batch["indices"].tolist())):
                    for name, value in world.sample(d, t, int(batch["keys"][i])).items():
                        np.testing.assert_array_equal(batch[name][i], value, f"{name} of sample {t} of source {d}")
                    got[d, t, int(batch["keys"][i])] += 1
        expected = collections.Counter((d, t, key) for _, _, d, _, t, key in world.mix.epoch(0, 0, 4, "partial"))
        self.assertEqual(got, expected)


if __name__ == "__main__":
    RUNS, SEED = random_options(RUNS, SEED)
    unittest.main()
