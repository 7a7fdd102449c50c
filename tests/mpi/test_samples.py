"""Samples of several frames: random configurations against the brute-force model of samples_oracle.py.

Every sample that any trainer gets is compared, by its digest, with what NumPy makes of the arrays at its index. Each
epoch has the samples that the model says there are. Runs of other shapes deliver the same.

Run by a Python with NumPy, xxhash and zarr 3.

    PENSTOCK_BIN=build/release/bin python test_samples.py --long            500 configurations
    PENSTOCK_BIN=build/release/bin python test_samples.py --long 40 --seed 7

PENSTOCK_TEST_SEED and PENSTOCK_TEST_RUNS do the same.
"""

import collections
import glob
import json
import os
import random
import sys
import unittest

from job import SANITIZED, JobTest, environment, program, random_options, run

try:
    import numpy as np
    import xxhash
    import zarr
except ImportError as error:
    print(f"skipped: {sys.executable}: {error}")
    sys.exit(77)
if zarr.__version__.startswith("2."):
    print(f"skipped: zarr {zarr.__version__}: zarr 3 writes the stores")
    sys.exit(77)

from samples_oracle import Samples, listed, sample_key  # noqa: E402

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "1"))
RUNS = int(os.environ.get("PENSTOCK_TEST_RUNS", "5" if SANITIZED else "10"))
PADDING = ["--digest-padding"]
EXIT_STOPPED_EARLY = 3
TABLE = 9  # rows of the array that joins look up

ITEMS = {"action": ("f4", (3,)), "state": ("i2", ()), "image": ("u1", (5, 4)), "depth": ("f2", (2, 3))}
LARGE = ("f4", (9000,))  # of more than 32 KiB a frame: zero-copy


def write_store(path, arrays, chunks, shards, compressors=None, dimensions=None):
    archive = zarr.storage.ZipStore(path, mode="w") if path.endswith(".zip") else None
    group = zarr.open_group(archive or path, mode="w")
    for name, values in arrays.items():
        options = {"shards": shards[name]} if name in shards else {}
        options |= {"dimension_names": dimensions[name]} if name in (dimensions or {}) else {}
        options |= {"compressors": compressors[name]} if name in (compressors or {}) else {}
        array = group.create_array(name, shape=values.shape, chunks=chunks[name], dtype=values.dtype,
                                   config={"write_empty_chunks": True}, **options)
        array[:] = values
    if archive:
        archive.close()


class World:
    """A random dataset, what a sample is, and fields: in memory, in stores, and as a configuration."""

    ITEMS, COUNTS = ITEMS, (1, 2, 7, 13, 30, 64, 90)
    dimensions = None  # names of arrays' dimensions, where they have any
    aligns = True      # a field may have frames of its own
    phases = True      # steps may differ from epoch to epoch

    def __init__(self, rng, folder):
        self.rng, self.folder = rng, folder
        self.numbers = np.random.default_rng(rng.randint(0, 2**32))
        self.counts = [rng.choice(self.COUNTS) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        self.items = dict(self.ITEMS)
        if rng.random() < 0.25:
            self.items["image"] = LARGE
        self.samples, self.fields = {}, {}
        self.chunks = {name: (rng.choice((1, 3, 8, 8, 16, 25)), *shape) for name, (_, shape) in self.items.items()}
        if rng.random() < 0.3:  # chunks cut along the other axes, too
            self.chunks["action"] = (self.chunks["action"][0], 2)
        self.shards = {}
        if rng.random() < 0.2:
            self.shards["state"] = (2 * self.chunks["state"][0],)
        self.stores = [self.make_store(count) for count in self.counts]
        self.make_fields()
        if self.aligns:
            self.make_aligned(random.Random(7 * sum(self.counts) + len(self.fields)))
        self.make_samples()
        self.dated = self.by_dates(random.Random(sum(self.counts)))
        self.places = self.move(random.Random(11 * sum(self.counts) + len(self.fields)))
        self.model = Samples(self.stores, self.samples, self.fields)

    def make_store(self, count):
        arrays = {}
        for name, (dtype, shape) in self.items.items():
            values = self.numbers.integers(0, 255, (count, *shape))
            arrays[name] = (values if dtype[0] in "iu" else values / 8).astype(dtype)
        arrays["video"] = self.numbers.integers(0, TABLE, count)
        arrays["text"] = self.numbers.integers(0, 99, (TABLE, 4)).astype("f4")
        self.chunks |= {"video": (40,), "text": (4, 4)}
        return arrays

    def add(self, name, make, chunk=11):
        """An array of each store: make(number of frames)."""
        for store, count in zip(self.stores, self.counts):
            store[name] = make(count)
        self.chunks[name] = (chunk,)
        return name

    def cuts(self, count, mean, empty=False):
        """Ends of runs of frames."""
        ends, at = [], 0
        while at < count:
            at = min(count, at + self.rng.choice((1, 1, mean, mean, 2 * mean, int(self.numbers.integers(1, 3 * mean)))))
            ends.append(at)
            if empty and self.rng.random() < 0.1:
                ends.append(at)
        return np.array(ends, "i8")

    def make_steps(self):
        rng = self.rng
        if rng.random() < 0.6:
            first = rng.randint(-4, 2)
            return f"{first}:{first + rng.randint(1, 9)}"
        return sorted(rng.sample(range(-5, 8), rng.randint(1, 5)))

    def make_phases(self, steps):
        """Some of the first steps in some epochs, and all in one."""
        most, rng = listed(steps), self.rng
        parts = [most[:rng.randint(1, len(most))] for _ in range(rng.randint(0, 2))] + [steps]
        rng.shuffle(parts)
        return dict(zip([0, *sorted(rng.sample((1, 2, 5), len(parts) - 1))], parts))

    def make_fields(self):
        rng = self.rng
        arrays = ["action", *rng.sample(["action", "state", "state", "image", "depth", "text"], rng.randint(0, 4))]
        crops = {}
        for i, array in enumerate(arrays):
            field = {"array": array}
            if array == "text":
                field["index"] = "video"
            if rng.random() < 0.75:
                field["steps"] = self.make_steps()
                if self.phases and rng.random() < 0.3:
                    field["steps"] = self.make_phases(field["steps"])
            if rng.random() < 0.15 and array in ("state", "depth"):
                field |= {"cast": "float32", "scale": 0.5}
            if array != "state" and rng.random() < 0.35:
                field["crop"] = self.make_crop(i, array, crops)
            self.fields[f"{array[0]}{i}" if rng.random() < 0.7 else f"z{i}"] = field

    def make_aligned(self, rng):
        """In some worlds a field of other frames, which are found by numbers or by times."""
        if rng.random() < 0.6:
            return
        kinds = rng.choice((("i8", "i4"), ("f8", "f4"), ("M8[s]", "M8[ns]"), ("M8[h]", "M8[ms]")))
        method, own = rng.choice(("exact", "nearest", "previous")), None
        self.is_one = rng.random() < 0.5  # the same items for all stores
        for store, count in zip(self.stores, self.counts):
            frames = np.cumsum([rng.choice((1, 1, 2, 6)) for _ in range(count)]) + 400000
            if not (own and self.is_one):
                own = {int(t) + rng.choice((0, 0, 1, -1)) for t in frames if rng.random() < 0.5} | {400001} | set(frames[:3].tolist())
            if rng.random() < 0.3:
                rng.shuffle(frames)
            store["at"], store["slow/when"] = (np.array(numbers, "M8[h]" if kinds[0][0] == "M" else "i8") for numbers in (frames, sorted(own)))
            store["at"], store["slow/when"] = store["at"].astype(kinds[0]), store["slow/when"].astype(kinds[1])
            first = store if not self.is_one else self.stores[0]
            store["slow/x"] = first["slow/x"] if "slow/x" in first else self.numbers.integers(0, 99, (len(own), 2)).astype("f4")
        self.chunks |= {"at": (7,), "slow/when": (5,), "slow/x": (3, 2)}
        self.dimensions = (self.dimensions or {}) | {"slow/x": ("when", "y"), "slow/when": ("when",)}
        steps = {"steps": rng.choice(("0:2", "-2:1"))} if rng.random() < 0.5 else {}
        self.fields["slow"] = {"array": "slow/x", "align": "at", "method": method} | steps

    def movable(self):
        """Arrays of each field that may lie in another store than the dataset's: it has them for the frames of all stores."""
        found = {name: [field["array"], *["slow/when"] * ("align" in field)] for name, field in self.fields.items()}
        if len(self.stores) > 1:
            found = {name: arrays for name, arrays in found.items() if "slow/when" in arrays and self.is_one}
        return found

    def move(self, rng):
        """In some worlds the stores of some fields' arrays, by array. One field at least stays where the frames are counted."""
        movable, places = self.movable(), {}
        if rng.random() < 0.4:
            return {}
        for name in sorted(movable):
            place = rng.choice((None, "other.zarr", "other.zarr", "more/store0.zarr", "a,b.zip")[:5 - bool(places)])
            if place and movable[name][0] not in places:
                places |= dict.fromkeys(movable[name], place)
        stay = movable[min(movable)] if movable and all(movable.get(name, [None])[0] in places for name in self.fields) else []
        return {array: place for array, place in places.items() if array not in stay}

    def place_of(self, name):
        """The store that the field has of its own; None: it has none."""
        return self.places.get(self.movable().get(name, [None])[0])

    def folder_of(self, array, store):
        """Where an array lies."""
        return os.path.join(self.folder, self.places.get(array, f"store{store}.zarr"), array)

    def make_crop(self, i, array, crops):
        """A random crop. Fields of one array share a group; some fields have one of their own."""
        shape = self.stores[0][array].shape[1:]
        axes = self.rng.sample(range(len(shape)), self.rng.randint(1, len(shape)))
        cut = {str(axis + 1): self.rng.randint(1, shape[axis]) for axis in sorted(axes)} | {"at": "random"}
        if self.rng.random() < 0.3:
            return cut | {"group": 100 + i}
        return crops.setdefault(array, cut | {"group": list(self.items).index(array) if array in self.items else 9})

    def make_episodes(self, split_by_episode):
        rng, mean = self.rng, self.rng.choice((2, 6, 12, 30))
        kind = rng.choice(("none", "ends", "ends", "id"))
        if kind == "ends":
            name = self.add("ends", lambda count: self.cuts(count, mean, not split_by_episode), 4)
            self.samples["episodes"] = {"ends": name}
        elif kind == "id":
            used = iter(rng.sample(range(-500, 500), 500))

            def ids(count):
                ends = self.cuts(count, mean)
                return np.repeat([next(used) for _ in ends], np.diff(ends, prepend=0)).astype("i8")
            self.samples["episodes"] = {"id": self.add("episode", ids)}
        elif rng.random() < 0.5:
            self.samples["continuous"] = True

    def make_pads(self):
        rng = self.rng
        union = Samples(self.stores, {}, self.fields).union
        if len(union) > 1 and rng.random() < 0.85:
            before = rng.randint(0, len(union) - 1)
            most = len(union) - 1 - before
            self.samples["pad"] = {"before": before, "after": rng.choice((most, rng.randint(0, most)))}
        if rng.random() < 0.4:
            self.samples["fill"] = rng.choice(("edge", "zero"))

    def damages_beside_joins(self):
        """Whether a sample can be bad where arrays are held."""
        return False

    def joins(self):
        return any("index" in field or "align" in field for field in self.fields.values())

    def make_masks(self):
        rng = self.rng
        share = rng.choice((0.02, 0.1))
        if rng.random() < 0.15:
            self.samples["missing"] = self.add("missing", lambda n: self.numbers.random(n) < share)
        elif rng.random() < 0.15:
            self.samples["missing"] = self.add("missing", lambda n: np.flatnonzero(self.numbers.random(n) < share)[:2]
                                               if n > 1 else np.zeros(0, "i8"))
            if any(len(store["missing"]) == 0 for store in self.stores):
                self.add("missing", lambda n: np.zeros(1, "i8"))  # arrays of at least one item
        if rng.random() < 0.2:
            self.samples["where"] = self.add("where", lambda n: self.numbers.random(n) < 0.6)

    def make_split(self, kind):
        rng, frames = self.rng, sum(self.counts)
        if kind == "range":
            begin = rng.choice((0, frames // 3))
            end = rng.choice(("", frames - frames // 4))
            self.samples["split"] = {"range": f"{begin or ''}:{end}" if rng.random() < 0.5 else f"{begin}:{end}",
                                     "gap": rng.randint(0, 5)}
        elif kind:
            by = kind if kind != "array" else self.add("group", lambda n: self.numbers.integers(-9, 9, n))
            self.samples["split"] = {"part": rng.choice(("train", "val")), "by": by,
                                     "parts": {"train": 0.6, "val": 0.4}, "seed": rng.randint(0, 99)}

    def make_samples(self):
        rng = self.rng
        split = rng.choice((None, None, None, "range", "episode", "array", "sample"))
        self.make_episodes(split == "episode")
        if rng.random() < 0.4:
            self.samples["stride"] = rng.randint(1, 4)
        self.make_pads()
        self.make_masks()
        self.make_split(split)
        stepped = [field for field in self.fields.values() if "steps" in field]
        if stepped and rng.random() < 0.3:
            self.samples["segments"] = self.add("documents", lambda count: self.cuts(count, 5), 7)
            for field in rng.sample(stepped, rng.randint(1, len(stepped))):
                field["segments"] = True
        if rng.random() < 0.3:
            self.samples["row_chunks"] = rng.randint(1, 3)

    def by_dates(self, rng):
        """How the configuration writes what the model knows by numbers of frames, or by an array: in half of the worlds by dates."""
        if rng.random() < 0.5:
            return {}
        start, first, split = np.datetime64("2015-12-20T06"), 0, self.samples.get("split", {})
        dates = [str(start + 6 * t) for t in range(sum(self.counts))]  # down to the hour
        for store, count in zip(self.stores, self.counts):
            store["when"] = start.astype("M8[s]") + 21600 * np.arange(first, first + count)
            first += count
        self.chunks["when"] = (16,)
        found = {}
        if len(split.get("range", ":")) > 1:
            begin, end = split["range"].split(":")
            low, high = dates[int(begin or 0)], dates[int(end or 0) - 1]
            found[split["range"]] = f"{low if begin else ''}:{high if end else ''}"
        if self.samples.get("missing"):
            flags = [store[self.samples["missing"]] for store in self.stores]
            if flags[0].dtype == bool and any(map(np.any, flags)):
                found["missing"] = [dates[t] for t in np.flatnonzero(np.concatenate(flags))]
        return found

    def uri(self, store):
        return os.path.join(self.folder, f"store{store}.zarr")

    def write_stores(self, compressors=None):
        for i, store in enumerate(self.stores):
            kept = {name: array for name, array in store.items() if name not in self.places and not name.startswith("frames of")}
            write_store(self.uri(i), kept, self.chunks, self.shards, compressors, self.dimensions)
        for place in set(self.places.values()):
            path = os.path.join(self.folder, place)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            arrays = {name: self.stores[0][name] for name in self.places if self.places[name] == place}
            write_store(path, arrays, self.chunks, self.shards, compressors, self.dimensions)

    def configured_fields(self):
        """As in a configuration. A store is relative to its folder."""
        return {name: field | ({"store": self.place_of(name)} if self.place_of(name) else {}) for name, field in self.fields.items()}

    def document(self):
        """The configuration."""
        samples, split = dict(self.samples), self.samples.get("split", {})
        if split.get("range") in self.dated:
            samples["split"] = split | {"range": f"when={self.dated[split['range']]}"}
        if samples.get("missing") in self.dated:
            samples["missing"] = [f"when={date}" for date in self.dated["missing"]]
        return {"dataset": {"uri": [self.uri(i) for i in range(len(self.stores))], "fields": self.configured_fields()},
                "samples": samples}

    def configure(self, name="run.yaml"):
        """The configuration's path."""
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.document(), file)
        return path

    def write(self):
        """Writes stores and configuration. Returns the configuration's path."""
        self.write_stores()
        return self.configure()

    def damage(self, folder=False):
        """Removes a chunk of a field's array, or puts a folder in its place. Returns the anchors whose samples are bad then."""
        arrays = [array for array in (field["array"] for field in self.fields.values())
                  if array not in self.shards and not self.places.get(array, "").endswith(".zip")]
        if not arrays:
            return set()
        array = self.rng.choice(arrays)
        store = self.rng.randrange(len(self.stores))
        length = self.chunks[array][0]
        chunk = self.rng.randrange(-(-self.counts[store] // length))
        path = os.path.join(self.folder_of(array, store), "c", str(chunk))
        if os.path.isdir(path):
            path = next(os.path.join(inner, files[0]) for inner, _, files in os.walk(path) if files)
        os.remove(path)
        if folder:
            os.mkdir(path)
        first = int(self.model.first[store]) + chunk * length
        frames = set(range(first, min(first + length, int(self.model.first[store + 1]))))
        return {t for t in self.model.anchors() if self.model.touches(t, frames, array)}

    def delivered(self, t, key, good=True):
        """All fields of the sample at an anchor, in order of name."""
        values = self.model.sample(t, key)
        return values if good else {name: np.zeros_like(value) for name, value in values.items()}

    def __str__(self):
        return json.dumps({"counts": self.counts, "samples": self.samples, "fields": self.fields,
                           "chunks": self.chunks, "shards": self.shards, "places": self.places})


def make_world(rng, folder, kind=World):
    """A world with at least four samples, and a group for each part."""
    while True:
        world = kind(rng, folder)
        anchors, split = world.model.anchors(), world.samples.get("split", {})
        if len(anchors) >= 4 and ("parts" not in split or len(set(world.model.groups(split["by"]))) > 1):
            return world, anchors


def digest_of(values):
    """What penstock-trainer --digest writes of a sample."""
    digest = xxhash.xxh3_64()
    for value in values.values():
        digest.update(value.tobytes())
    return digest.hexdigest()


def by_index(lines):
    """Each step's samples as a set: without their positions."""
    return sorted((*line[:2], *line[3:]) for line in lines)


class Model(JobTest):
    """penstock-trainer's digests against the model."""

    def order(self, rng, count):
        trainers = rng.choice((1, 2, 3, 4))
        batch = rng.randint(trainers, max(trainers, min(count, 12 * trainers)))
        while batch > count:
            batch, trainers = 1, 1
        return {"batch.global_size": batch, "batch.last": rng.choice(("drop", "pad", "partial")),
                "order.seed": rng.randint(0, 2**64 - 1), "order.epochs": rng.randint(1, 2),
                "order.window_rows": rng.choice(("auto", 1, 2, 5)),
                "dataset.hold_limit": rng.choice(("0", "1KiB", "1GiB")),
                "order.shuffle": rng.choice(("true", "true", "false")),
                "errors.missing_chunk": "fill"}, trainers  # random indices may all be 0

    def draw_budget(self, rng, world, anchors, order):
        """Batches by budget are for ragged fields."""

    @staticmethod
    def shape(rng):
        return {"readers.threads": rng.randint(1, 3), "delivery.slots": rng.choice((2, 4)),
                "readers.cache": rng.choice(("auto", "decoded", "stored", "off")),
                "exchange.steps_per_round": rng.choice(("auto", 1))}

    def check(self, world, anchors, bad, order, lines):
        """Every sample is what the model makes of it, and each epoch has all of the samples."""
        differ = any("crop" in field or isinstance(field.get("steps"), dict) for field in world.fields.values())
        expected = {}
        for epoch in range(order["order.epochs"] if differ else 1):
            world.model.epoch = epoch
            for t in anchors:
                key = sample_key(order["order.seed"], epoch, t)
                expected[str(epoch), str(t)] = digest_of(world.delivered(t, key, t not in bad))
        for line in lines:
            sample = (line[0] if differ else "0", line[3])
            self.assertIn(sample, expected, f"no sample is at frame {line[3]}: {world}")
            self.assertEqual(line[4], expected[sample], f"sample {line[3]}, line {line}: {world}")
        batch, count = order["batch.global_size"], len(anchors)
        delivered = {"drop": count // batch * batch, "pad": -(-count // batch) * batch,
                     "partial": count}[order["batch.last"]]
        for epoch in range(order["order.epochs"]):
            seen = collections.Counter(line[3] for line in lines if line[0] == str(epoch))
            self.assertEqual(sum(seen.values()), delivered, f"epoch {epoch}: {world}")
            self.assertEqual(len(seen), min(delivered, count), f"epoch {epoch}: {world}")

    def make_world(self, rng):
        return make_world(rng, self.folder)

    def try_world(self, rng):
        world, anchors = self.make_world(rng)
        order, trainers = self.order(rng, len(anchors))
        if world.joins():
            order["dataset.hold_limit"] = "1GiB"
        options, bad = ["--config", world.write()], set()
        self.draw_budget(rng, world, anchors, order)
        if world.damages_beside_joins() or (order["dataset.hold_limit"] != "1GiB" and rng.random() < 0.4):
            bad = world.damage()
            order |= {"dataset.hold_limit": "1GiB" if world.joins() else "0", "errors.bad_sample": "mask",
                      "errors.max_bad": 1000000, "errors.missing_chunk": "fail", "errors.report": ""}
        lines = self.digests(1, 1, order, PADDING, options)
        self.check(world, anchors, bad, order, lines)
        return len(lines) + self.try_shape(rng, trainers, order, lines, options, world)

    def try_shape(self, rng, trainers, order, lines, options, world):
        """A run of another shape delivers the same: in one go, or stopped and resumed."""
        other, readers = {**order, **self.shape(rng)}, rng.randint(1, 5)
        steps = int(lines[-1][1]) + 1
        if rng.random() < 0.4:
            other["order.placement"] = "fixed"
            got = self.digests(readers, trainers, other, PADDING, options)
            self.assertEqual(got, lines, f"{readers} {other} {world}")
        elif rng.random() < 0.3 and steps > 1:
            state = os.path.join(self.folder, "state")
            stop = ["--steps", str(rng.randint(1, steps - 1)), "--state", state]
            got = self.digests(readers, 1, other, PADDING + stop, options, expect=EXIT_STOPPED_EARLY)
            got += self.digests(rng.randint(1, 3), trainers, order, PADDING, [*options, "--resume", state])
            self.assertEqual(got, lines, f"{readers} {trainers} {other} {world}")
        else:
            got = self.digests(readers, trainers, other, PADDING, options)
            self.assertEqual(got, lines, f"{readers} {trainers} {other} {world}")
        return len(got)

    def test_random_configurations(self):
        compared = 0
        for number in range(RUNS):
            with self.subTest(seed=SEED, run=number):
                compared += self.try_world(random.Random(SEED * 1000003 + number))
        print(f"{compared} samples of {RUNS} configurations equal to the model")


SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "samples_trainer.py")


def python_trainer(folder):
    """A trainer that saves what it gets in the folder, and its environment."""
    env = environment(PYTHONPATH=os.path.join(os.path.dirname(SCRIPT), "..", "..", "python"))
    return (sys.executable, SCRIPT, folder), env


class Python(JobTest):
    """What a trainer in Python gets: arrays with an axis of steps, and masks."""

    def test_weather_with_constants(self):
        """configs/weather-windows.yaml: variables by name, normalised, and constants with attributes, on two readers."""
        path = os.path.join(self.folder, "weather.zarr")
        made = run([program("penstock"), "synth", path, "--layout", "weather", "--samples", "40", "--shape", "69,4,4"])
        self.assertEqual(made.code, 0, made.output)
        config = os.path.join(os.path.dirname(SCRIPT), "..", "..", "configs", "weather-windows.yaml")
        trainer, env = python_trainer(self.folder)
        outcome = self.reader(2, {"dataset.uri": path, "delivery.trainers": 2, "batch.global_size": 4, "order.epochs": 1,
                                  "samples.split_range": "0:40"}, trainer, ["--config", config], env=env)
        self.assertEqual(outcome.code, 0, outcome.output)
        store = zarr.open_group(path, mode="r")
        names = ("t2m u10 v10 msl z500 z700 z850 z1000 q500 q700 q850 t500 t700 t850 u500 u700 u850 v500 v700 v850").split()
        chosen = [list(store["variable"][:]).index(name) for name in names]
        mean, std = (store[name][:][chosen][:, None, None] for name in ("mean", "std"))
        states = (store["data"][:][:, chosen] - mean) / std
        count = 0
        for path in glob.glob(os.path.join(self.folder, "?.*.npz")):
            with np.load(path) as batch:
                for i, t in enumerate(batch["indices"].tolist()):
                    np.testing.assert_allclose(batch["x"][i], states[t:t + 2], rtol=1e-6, atol=1e-6)
                    np.testing.assert_allclose(batch["y"][i], states[t + 2:t + 3], rtol=1e-6, atol=1e-6)
                    count += 1
        self.assertGreater(count, 20)
        for rank in range(2):
            with np.load(os.path.join(self.folder, f"constants.{rank}.npz")) as got:
                for name in ("orography", "latitude", "longitude"):
                    np.testing.assert_array_equal(got[name], store[name][:], name)
                    self.assertEqual(got[name].dtype, store[name].dtype)
                for name, array in (("latitude", "latitude"), ("x", "data"), ("y", "data")):
                    self.assertEqual(json.loads(str(got[f"attributes of {name}"])), store[array].attrs.asdict())

    def test_arrays_and_masks(self):
        world = make_world(random.Random(5), self.folder)[0]
        world.fields = {"state": {"array": "state"}, "action": {"array": "action", "steps": {0: "-2:1", 1: "-2:3"}},
                        "image": {"array": "image", "steps": [0, 2]}}
        world.samples = {"pad": {"before": 2, "after": 1}}
        world.model = Samples(world.stores, world.samples, world.fields)
        anchors, got = world.model.anchors(), []
        trainer, env = python_trainer(self.folder)
        outcome = self.reader(2, {"delivery.trainers": 2, "batch.global_size": 4, "batch.last": "partial", "order.epochs": 2},
                              trainer, ["--config", world.write()], env=env)
        self.assertEqual(outcome.code, 0, outcome.output)
        for path in glob.glob(os.path.join(self.folder, "*.npz")):
            world.model.epoch = int(os.path.basename(path).split(".")[1])
            with np.load(path) as batch:
                for i, t in enumerate(batch["indices"].tolist()):
                    for name, value in world.model.sample(t).items():
                        self.assertEqual(batch[name].dtype, value.dtype, name)
                        np.testing.assert_array_equal(batch[name][i], value, f"{name} of sample {t}")
                    got.append(t)
                np.testing.assert_array_equal(batch["valid of action"], batch["action.valid"])
                self.assertEqual({name for name in batch if name.startswith("valid of")},
                                 {"valid of action", "valid of image"})
        self.assertEqual(sorted(got), sorted(2 * anchors))


if __name__ == "__main__":
    RUNS, SEED = random_options(RUNS, SEED)
    unittest.main()
