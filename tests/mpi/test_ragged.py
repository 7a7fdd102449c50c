"""Ragged fields: random stores, forms and configurations against the brute-force model of ragged_oracle.py, as in
test_samples.py: every sample by its digest, on many shapes of jobs, masked, stopped and resumed.

Run by a Python with NumPy, xxhash and zarr 3.

    PENSTOCK_BIN=build/release/bin python test_ragged.py --long            500 configurations
    PENSTOCK_BIN=build/release/bin python test_ragged.py --long 40 --seed 7
"""

import json
import os
import random
import sys
import unittest
import warnings

from job import SANITIZED, launcher_is_open_mpi, random_options
from recovery import SLOTS, RecoveryTest

import servers
import test_samples  # skips where it cannot run

import numpy as np
import zarr

import ragged_oracle

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "1"))
RUNS = int(os.environ.get("PENSTOCK_TEST_RUNS", "4" if SANITIZED else "7"))
SHAPE = (3, 5, 4)  # of dense tensors
INDEX_TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
VALUE_TYPES = ("u1", "i2", "u4", "i8", "f2", "f4", "f8", "bool")


class World(test_samples.World):
    """Ragged fields beside the fields of frames. The model has numbers of frames, from 1, instead of items."""

    aligns = False

    def make_store(self, count):
        arrays, rng = super().make_store(count), self.rng
        if not hasattr(self, "ragged"):
            self.ragged, self.first_frame = {}, 1
            for name in rng.sample(("e", "p", "q", "t"), rng.randint(1, 3)):
                self.ragged[name] = self.make_ragged(name, len(self.ragged) > 0)
        for name, field in self.ragged.items():
            self.add_items(arrays, name, field, count)
            arrays[f"frames of {name}"] = np.arange(self.first_frame, self.first_frame + count)
        self.first_frame += count
        return arrays

    def make_ragged(self, name, may_join):
        """A field: its arrays, what is delivered, and the lengths of its frames."""
        rng = self.rng
        axes, has_values = rng.randint(1, 3), rng.random() < 0.8
        self.kinds = getattr(self, "kinds", {})
        field = {"ragged": {"offsets": f"{name}/starts"}}
        columns = [f"{name}/i{axis}" for axis in range(axes)]
        length = rng.choice((1, 7, 40, 300))
        form = rng.choice(("csr", "csr", "pad", "dense", "dense"))
        if form == "dense" or rng.random() < 0.5:
            field["ragged"]["index"] = columns
            types = {path: (rng.choice(INDEX_TYPES), ()) for path in columns}
        else:
            field["ragged"]["columns"] = columns
            types = {path: (rng.choice(VALUE_TYPES[:-1]), rng.choice(((), (), (3,)))) for path in columns}
        if has_values and "index" in field["ragged"]:
            field["ragged"]["values"] = f"{name}/data"
            types[f"{name}/data"] = (rng.choice(VALUE_TYPES), ())
            if rng.random() < 0.4:
                field["cast"] = rng.choice(("float16", "float32", "uint8" if form == "dense" else "float64"))
                if field["cast"] == "uint8" and types[f"{name}/data"][0].startswith("f"):
                    field["cast"] = "float32"  # floating values would be cut off: that is refused
        elif form == "dense" and rng.random() < 0.5:
            field["cast"] = rng.choice(("uint8", "int16", "float16"))
        if form == "pad":
            field["deliver"] = {"pad": rng.choice((1, 4, 30)), "truncate": True}
        elif form == "dense":
            field["deliver"] = {"dense": list(SHAPE[:axes]), "combine": rng.choice(("sum", "last", "max"))}
        elif rng.random() < 0.6:
            field["deliver"] = rng.choice(("csr", {"pad_to_multiple_of": 1}, {"pad_to_multiple_of": 16}, {"pad_to_multiple_of": 24}))
        if may_join and form != "dense" and rng.random() < 0.4:
            field["index"] = f"{name}/join"
        elif "index" in field["ragged"] and axes + has_values > 1 and rng.random() < 0.5:
            axis = rng.randrange(axes)
            listed = rng.sample(range(SHAPE[axis]), rng.randint(1, SHAPE[axis]))
            field["slice"] = {axis + 1: listed}
            if form == "dense":
                field["deliver"]["dense"][axis] = len(listed)
        starts = rng.choice(("i8", "i4", "u4", "u8"))
        self.kinds[name] = (types, starts, rng.choice((0, 1, 4, 20)), rng.random() < 0.5)
        self.chunks[f"{name}/starts"] = (rng.choice((3, 50)),)
        for path, (_, shape) in types.items():
            self.chunks[path] = (length, *shape) if rng.random() < 0.7 else (rng.choice((5, 64)), *shape)
            if rng.random() < 0.4:
                self.shards[path] = (3 * self.chunks[path][0], *shape)
        return field

    def add_items(self, arrays, name, field, count):
        """Frames of few items, without any, and maybe one of very many."""
        types, starts, mean, has_giant = self.kinds[name]
        if "index" in field:
            arrays[field["index"]] = self.numbers.integers(0, test_samples.TABLE, count).astype(starts)
            self.chunks[field["index"]] = (17,)
            count = test_samples.TABLE
        lengths = np.where(self.numbers.random(count) < 0.3, 0, self.numbers.integers(0, 2 * mean + 1, count))
        if has_giant:
            lengths[self.numbers.integers(count)] = 1500
        if lengths.sum() == 0:
            lengths[-1] = 1
        arrays[f"{name}/starts"] = np.concatenate(([0], np.cumsum(lengths))).astype(starts)
        for path, (dtype, shape) in types.items():
            axis = int(path[-1]) if path[-1].isdigit() else 0
            high = SHAPE[axis] if "index" in field["ragged"] and path != field["ragged"].get("values") else 100
            values = self.numbers.integers(0, high, (int(lengths.sum()), *shape))
            arrays[path] = (values if np.dtype(dtype).kind in "iu" else values % 2 if dtype == "bool"
                            else (values - 50) / 4).astype(dtype)
            if np.dtype(dtype).itemsize >= 4 and "cast" not in field and not ("deliver" in field and "dense" in field["deliver"]):
                self.add_long_values(arrays[path])

    def add_long_values(self, values):
        """Values that need all of their bytes, in some stretches."""
        for first in range(0, len(values), 100):
            if self.rng.random() < 0.3:
                values[first:first + 100] = values[first:first + 100] * 1000003 / 7

    def compressors(self):
        """Blosc shuffles bytes, so that items of a chunk may be narrow."""
        codec = zarr.codecs.BloscCodec(cname=self.rng.choice(("zstd", "lz4")), shuffle="shuffle", blocksize=self.rng.choice((0, 256)))
        return {path: codec for types, *_ in self.kinds.values() for path in types if self.rng.random() < 0.7}

    def make_fields(self):
        super().make_fields()
        rng = self.rng
        steps = {"steps": self.make_steps()} if rng.random() < 0.5 else {}
        for name, field in self.ragged.items():
            spec = steps if rng.random() < 0.7 else {"steps": self.make_steps()}
            field |= spec
            self.fields[name] = {"array": f"frames of {name}", **spec}
        if rng.random() < 0.3:  # ragged fields alone
            self.fields = {name: self.fields[name] for name in self.ragged}

    def damages_beside_joins(self):
        return self.joins() and all(name in self.ragged for name in self.fields)

    def longest(self, name):
        """The most items that any sample has of the field, or more."""
        lengths = [len(next(iter(self.items_at(name, number + 1).values()))) for number in range(self.model.frames)]
        return max(lengths) * np.size(self.model.sample(self.model.anchors()[0], 0)[name])

    def joins(self):
        return super().joins() or any("index" in field for field in self.ragged.values())

    def make_samples(self):
        super().make_samples()
        for name in self.ragged:
            self.fields[name].pop("segments", None)
        if not any("segments" in field for field in self.fields.values()):
            self.samples.pop("segments", None)
        if len(self.counts) > 1:
            self.samples.pop("continuous", None)

    def movable(self):
        """Of ragged fields all but the index."""
        ragged = {name: [path for path in self.stores[0] if path.startswith(f"{name}/") and path != field.get("index")]
                  for name, field in self.ragged.items() if len(self.stores) == 1 and name in self.fields}
        return {name: arrays for name, arrays in super().movable().items() if name not in self.ragged} | ragged

    def write_stores(self):
        super().write_stores(self.compressors())

    def configured_fields(self):
        fields = super().configured_fields()
        return {name: {**self.ragged.get(name, {}), **({"store": field["store"]} if "store" in field else {})} if name in self.ragged else field
                for name, field in fields.items()}

    def damage(self, folder=False):
        """Removes a chunk of a column, but of one that is read at the start. Returns the anchors whose samples are bad then."""
        name = self.rng.choice([name for name, field in self.ragged.items()  # others are held
                                if "index" not in field and not (self.place_of(name) or "").endswith(".zip")])
        field, store = self.ragged[name], self.rng.randrange(len(self.stores))
        path = self.rng.choice([path for path in ragged_oracle.columns_of(field) if path != ragged_oracle.sliced(field)[0]])
        length = self.shards.get(path, self.chunks[path])[0]
        chunk = self.rng.randrange(-(-len(self.stores[store][path]) // length))
        file = os.path.join(self.folder_of(path, store), "c", str(chunk))
        while os.path.isdir(file):
            file = os.path.join(file, os.listdir(file)[0])
        os.remove(file)
        first = chunk * length
        starts = self.stores[store][field["ragged"]["offsets"]].astype("i8")
        frames = {int(self.model.first[store]) + i for i in range(self.counts[store])
                  if max(starts[i], first) < min(starts[i + 1], first + length)}
        return {t for t in self.model.anchors() if self.model.touches(t, frames, f"frames of {name}")}

    def items_at(self, name, number):
        """The items of a frame, which is numbered from 1; 0: none."""
        field = self.ragged[name]
        if number == 0:
            return ragged_oracle.empty(field, self.stores[0])
        store = int(np.searchsorted(self.model.first, number - 1, "right")) - 1
        return ragged_oracle.items_of(field, self.stores[store], number - 1 - int(self.model.first[store]))

    def sample(self, t, key):
        values = self.model.sample(t, key)
        for name, field in self.ragged.items():
            numbers = values.pop(name).tolist()
            steps = [self.items_at(name, n) for n in numbers] if isinstance(numbers, list) else self.items_at(name, numbers)
            values |= ragged_oracle.sample(name, field, steps)
        return {name: np.array(values[name], order="C") for name in sorted(values)}

    def delivered(self, t, key, good=True):
        values = self.sample(t, key)
        kept = {f"{name}.{which}" for name in self.ragged for which in ("offsets", "length")}
        joined = {name for name, field in self.ragged.items() if "index" in field}  # these are held: no chunk is missing
        for name, value in values.items():
            field, _, part = name.partition(".")
            if not (good or name in kept or (field in joined and part != "valid")):
                values[name] = np.zeros_like(value)
        return values

    def __str__(self):
        return json.dumps({"base": super().__str__(), "ragged": self.ragged, "items": str(self.kinds)})


class Ragged(test_samples.Model):
    """penstock-trainer's digests against the model."""

    def make_world(self, rng):
        return test_samples.make_world(rng, self.folder, World)

    def draw_budget(self, rng, world, anchors, order):
        """Batches by budget have the same samples, in steps of other sizes."""
        names = [name for name, field in world.ragged.items() if "dense" not in field.get("deliver", "csr")]
        if names and rng.random() < 0.3:
            name = rng.choice(names)
            order |= {"batch.budget_field": name, "batch.budget_items": max(world.longest(name), 1) * rng.randint(1, 5),
                      "batch.last": "partial"}

    def test_random_configurations(self):
        compared = 0
        for number in range(RUNS):
            with self.subTest(seed=SEED, run=number):
                compared += self.try_world(random.Random(SEED * 1000003 + number))
        print(f"{compared} samples of {RUNS} configurations equal to the model")


# The layout of events, small: sequences of two windows as dense tensors, and the same events as they are.
EVENTS = {"dataset.fields.events.ragged.offsets": "events/offsets",
          "dataset.fields.events.ragged.index": "[events/bin,events/y,events/x]",
          "dataset.fields.events.ragged.values": "events/count"}
DENSE = {**EVENTS, "dataset.fields.events.deliver.dense": "[4,9,16]", "dataset.fields.events.cast": "uint8",
         "dataset.fields.events.steps": "0:2", "samples.pad_after": 1}
# Beside them a joined field, whose items make the budget of a step.
JOINED = {"dataset.fields.note.ragged.offsets": "events/offsets", "dataset.fields.note.ragged.values": "events/count",
          "dataset.fields.note.index": "join", "batch.budget_field": "note", "batch.budget_items": 1000}


class Jobs(RecoveryTest):
    """Whole jobs: what is sent, stores behind a network, readers and trainers that die."""

    SAMPLES, EVEN = 203, 64

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        numbers = np.random.default_rng(3)
        lengths = numbers.integers(0, 60, cls.SAMPLES)
        lengths[7] = 900
        cls.write("events", numbers, lengths)
        cls.write("even", numbers, np.full(cls.SAMPLES, cls.EVEN))

    @classmethod
    def write(cls, name, numbers, lengths):
        path, items = os.path.join(cls.datasets, name), int(lengths.sum())
        arrays = {"events/offsets": np.concatenate(([0], np.cumsum(lengths))), "join": numbers.integers(0, cls.SAMPLES, cls.SAMPLES)}
        for column, high, dtype in (("bin", 4, "u2"), ("y", 9, "u2"), ("x", 16, "u2"), ("count", 9, "u1")):
            arrays[f"events/{column}"] = numbers.integers(0, high, items).astype(dtype)
        test_samples.write_store(path, arrays, {name: (64,) for name in arrays}, {})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(path)

    def settings(self, **more):
        return {"dataset.uri": os.path.join(self.datasets, "events"), "batch.global_size": 8, "batch.last": "partial", "order.epochs": 8, "order.seed": 5,
                "readers.threads": 1, "delivery.trainers": self.trainers, "delivery.slots": SLOTS,
                "delivery.run_dir": self.run_dir, "delivery.reconnect_timeout": 100, **DENSE, **more}

    def test_messages_are_as_large_as_the_items(self):
        self.trainers, report = 1, os.path.join(self.folder, "report.json")
        settings = self.settings(**{"dataset.uri": os.path.join(self.datasets, "even"), "order.epochs": 3})
        outcome = self.reader(2, settings, [], ["--quiet", "--report", report])
        self.assertEqual(outcome.code, 0, outcome.output)
        with open(report, encoding="utf-8") as file:
            epochs = json.load(file)["epochs"]
        moved = sum(epoch["moved_samples"] for epoch in epochs)
        item_bytes, steps = 2 + 2 + 2 + 1, 2
        self.assertGreater(moved, self.SAMPLES // 2)
        self.assertEqual(sum(epoch["sent_bytes"] for epoch in epochs), moved * steps * self.EVEN * item_bytes)

    @unittest.skipUnless(servers.nginx_program(), "needs nginx")
    def test_a_store_behind_http(self):
        expected = self.digests(1, 1, self.settings(**{"order.epochs": 2}))
        server = servers.Nginx(self.datasets)
        self.addCleanup(server.close)
        for way in ("stored", "decoded"):
            more = {"dataset.uri": server.url + "/events", "order.epochs": 2, "readers.cache": way}
            self.assertEqual(self.digests(3, 2, self.settings(**more)), expected)

    def kill_and_go_on(self, victims, **more):
        expected = self.expected(**more)
        job = self.start_readers(3, self.settings(**more), ["--supervised"])
        trainers = self.start_trainers("--compute-ms", "5", readers=3)
        self.until_lines("0", 60)
        for rank in victims.get("trainers", ()):
            trainers[rank].kill()
            trainers[rank].wait()
            trainers[rank] = self.start_trainer(rank, "digest.again", readers=3)
        if "reader" in victims:
            os.kill(self.reader_pid(victims["reader"]), 9)
            self.assertNotEqual(job.wait(), 0)
            job = self.start_readers(2, self.settings(**more), ["--supervised"])
        self.assert_ends_well(*trainers, job)
        got = {tuple(line[:3]): line for name in ("0", "1", "again") for line in self.digest(name)}
        self.assertEqual(test_samples.by_index(got.values()),
                         test_samples.by_index(line for lines in expected for line in lines))

    @unittest.skipUnless(launcher_is_open_mpi(), "MPICH's mpirun may end with 0 after a kill")
    def test_a_reader_is_killed(self):
        self.kill_and_go_on({"reader": 1}, **JOINED)

    def test_a_trainer_is_killed(self):
        self.kill_and_go_on({"trainers": [1]}, **{"order.placement": "local"})


if __name__ == "__main__":
    RUNS, SEED = random_options(RUNS, SEED)
    unittest.main()
