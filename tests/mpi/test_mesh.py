"""Meshes of trainers: random worlds, meshes, cuts and shapes of runs, against the models of samples_oracle.py, ragged_oracle.py
and mix_oracle.py, and what mesh_oracle.py makes of their samples for each rank.

Each rank's samples are compared by their digests, what it is told of its fields by the report of penstock-trainer. All ranks
of a group have the same samples in each step, and all groups together those of a run without a mesh.

Run by a Python with NumPy, xxhash and zarr 3.

    PENSTOCK_BIN=build/release/bin python test_mesh.py --long            500 configurations
    PENSTOCK_BIN=build/release/bin python test_mesh.py --long 40 --seed 7

PENSTOCK_TEST_SEED and PENSTOCK_TEST_RUNS do the same.
"""

import collections
import json
import math
import os
import random
import unittest

from job import SANITIZED, program, random_options

import test_mix_model
import test_mix_ragged
import test_ragged
import test_samples  # skips where it cannot run
import numpy as np
from mesh_oracle import Mesh, Shares
from samples_oracle import sample_key
from test_samples import EXIT_STOPPED_EARLY, PADDING, digest_of

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "1"))
RUNS = int(os.environ.get("PENSTOCK_TEST_RUNS", "0"))  # 0: as each class has it
MESHES = 3  # of a world: its stores are written once
MOST_RANKS, MOST_PARTS = 8, 256


def factors(rng, product, count):
    """As many sizes with that product, in any order."""
    sizes = [1] * count
    for prime in (2, 2, 2, 3, 5, 7):
        if product % prime == 0:
            sizes[rng.randrange(count)] *= prime
            product //= prime
    assert product == 1
    return sizes


def draw_mesh(rng, groups):
    """Up to four axes, those that divide the batch anywhere."""
    names = rng.sample(("pp", "dp", "cp", "tp", "sp", "dp_shard"), 4)
    data, others = rng.choice((1, 1, 2)), rng.choice((0, 1, 1, 2, 2))
    sizes = factors(rng, groups, data) + factors(rng, rng.randint(1, MOST_RANKS // groups) if others else 1, others)
    axes = list(zip(names, sizes))
    divides = names[:data]
    rng.shuffle(axes)
    return Mesh(dict(axes), divides)


class Rules:
    """Random cuts of fields, and which ranks have them. `shapes`: of the samples of fields that may be cut, by name."""

    def __init__(self, rng, mesh, names, shapes, multiples):
        self.rng, self.mesh = rng, mesh
        self.cuts, self.rules = {}, {name: {} for name in names}
        self.places = [(name, axis, length) for name, shape in sorted(shapes.items()) for axis, length in enumerate(shape)]
        self.repeats = [axis for axis in mesh.axes if axis not in mesh.data]
        for number in range(rng.randint(0, 4) if self.repeats and self.places else 0):
            self.add_cut(f"c{number}")
        for name, multiple in multiples.items():
            if self.repeats and rng.random() < 0.8:
                self.cut_items(name, multiple)
        for name in names:
            if rng.random() < 0.25:
                self.rules[name]["only"] = {axis: self.draw_coordinates(mesh.axes[axis])
                                            for axis in rng.sample(list(mesh.axes), rng.choice((1, 1, min(2, len(mesh.axes)))))}

    def add_cut(self, name):
        rng = self.rng
        field, axis, length = rng.choice(self.places)
        over = rng.sample(self.repeats, rng.choice((1, 1, min(2, len(self.repeats)))))
        cut = {"over": over if len(over) > 1 or rng.random() < 0.5 else over[0]}
        cut |= rng.choice(self.splits(self.mesh.part_count(cut), length))
        for other in [(field, axis, length), *rng.sample(self.places, len(self.places))]:
            cuts = self.rules[other[0]].get("cut", {})
            if other[2] == length and other[1] not in cuts and len(cuts) < 2 and (name not in self.cuts or rng.random() < 0.5):
                self.rules[other[0]]["cut"] = {**cuts, other[1]: name}
                self.cuts[name] = cut
                if self.part_total() > MOST_PARTS:
                    self.rules[other[0]]["cut"] = cuts

    def cut_items(self, name, multiple):
        """Cuts a ragged field whose steps are padded to multiples."""
        over = self.rng.choice(self.repeats)
        count = self.mesh.axes[over]
        orders = [order for order, pieces in (("contiguous", count), ("zigzag", 2 * count)) if multiple % pieces == 0]
        if orders and self.part_total() + 4 * count <= MOST_PARTS:
            self.cuts[f"of_{name}"] = {"over": over, "order": self.rng.choice(orders)}
            self.rules[name]["cut"] = {0: f"of_{name}"}

    def part_total(self):
        """Of fields, and of what is said of their steps."""
        return sum(4 * math.prod(self.mesh.part_count(self.cuts[cut]) for cut in rule.get("cut", {}).values())
                   for rule in self.rules.values() if rule.get("cut"))

    def splits(self, count, length):
        """All rules that can divide so many indices."""
        marks = sorted(self.rng.randint(0, length) for _ in range(count - 1))
        sizes = [end - begin for begin, end in zip([0, *marks], [*marks, length])]
        found = [{"split": "chunk"}, {"split": "even"}, {"split": sizes}, {"split": sizes, "order": "contiguous"}]
        if length % count == 0:
            found += [{}, {}, {"order": "contiguous"}]
        if length % (2 * count) == 0:
            found += [{"order": "zigzag"}] * 4
        return found

    def draw_coordinates(self, size):
        one = self.rng.choice((self.rng.randrange(size), "first", "last"))
        return one if self.rng.random() < 0.6 else sorted(self.rng.sample(range(size), self.rng.randint(1, size)))


class Meshed:
    """A world whose fields may be cut: longer axes, smaller stores, chunks that divide the other axes, names of dimensions."""

    phases = False  # fields that are cut have the same steps in all epochs

    ITEMS = {"action": ("f4", (12,)), "state": ("i2", ()), "image": ("u1", (8, 5)), "depth": ("f2", (4, 6))}
    COUNTS = (1, 2, 7, 13, 30, 44)
    shares, bad = None, frozenset()

    def make_store(self, count):
        if self.dimensions is None:
            for name in ("image", "depth", "action"):
                if self.rng.random() < 0.4:
                    self.chunks[name] = (max(self.chunks[name][0], 3),
                                         *(max(1, length // self.rng.randint(1, 3)) for length in self.items[name][1]))
        arrays = super().make_store(count)
        self.dimensions = {name: ["sample", *(f"{name}_{axis}" for axis in range(len(shape)))]
                           for name, (_, shape) in self.items.items()}
        return arrays

    def damage(self, folder=False):
        self.bad = super().damage(folder)
        return self.bad

    def stepped(self):
        return {name for name, field in self.fields.items() if "steps" in field}

    def cuttable(self):
        """Shapes of fields that may be cut."""
        sample = self.model.sample(self.model.anchors()[0], 0)
        return {name: sample[name].shape for name in self.fields if name not in getattr(self, "ragged", {})}

    def multiples(self):
        """Ragged fields that may be cut, and the multiples that their steps are padded to."""
        return {name: field["deliver"]["pad_to_multiple_of"] for name, field in getattr(self, "ragged", {}).items()
                if "pad_to_multiple_of" in field.get("deliver", "")}

    def axis_word(self, name, axis):
        """As in a configuration: a number, or a dimension's name."""
        if name in getattr(self, "ragged", {}):
            return str(axis)
        field, stepped = self.fields[name], name in self.stepped()
        names = self.dimensions.get(field["array"]) if self.names_axes else None
        return names[axis - stepped + 1] if names and axis >= stepped and self.rng.random() < 0.5 else str(axis)

    names_axes = True  # sources of a mix have numbers alone

    def configured_fields(self):
        fields = super().configured_fields()
        rules = self.shares.rules if self.shares else {}
        return {name: self.with_rule(name, field, rules.get(name, {})) for name, field in fields.items()}

    def with_rule(self, name, field, rule):
        cut = {self.axis_word(name, axis): cut for axis, cut in rule.get("cut", {}).items()}
        return {**field, **({"cut": cut} if cut else {}), **({"only": rule["only"]} if "only" in rule else {})}

    def document(self):
        document = super().document()
        if self.shares:
            document["dataset"]["cuts"] = self.shares.cuts
        return document

    def table(self, order, lines):
        """What each step has: position, index, and the samples that may be meant, which delivered_as() knows."""
        cropped = any("crop" in field for field in self.fields.values())
        table = collections.defaultdict(list)
        for e, s, p, i in ([int(word) for word in line[:4]] for line in lines):
            key = sample_key(order["order.seed"], e, i) if cropped else 0
            table[e, s].append((p, i, (i, key)))
        return table

    def delivered_as(self, sample):
        t, key = sample
        return self.delivered(t, key, t not in self.bad)


class Frames(Meshed, test_samples.World):
    pass


class Padded:
    """Most ragged fields are padded to multiples, so that they may be cut."""

    def make_ragged(self, name, may_join):
        field = super().make_ragged(name, may_join)
        if field.get("deliver", "csr") == "csr" and self.rng.random() < 0.8:
            field["deliver"] = {"pad_to_multiple_of": self.rng.choice((4, 16, 48))}
        return field


class Ragged(Meshed, Padded, test_ragged.World):
    pass


class Part(Meshed, Padded, test_mix_ragged.Part):
    names_axes = False

    def document(self):
        document = super().document()
        document["dataset"].pop("cuts", None)
        return document


class Mixed(test_mix_ragged.World):
    kind = Part
    shares = None

    @property
    def fields(self):
        return self.parts[0].fields

    def stepped(self):
        return self.parts[0].stepped()

    def cuttable(self):
        return self.parts[0].cuttable()

    def multiples(self):
        return self.parts[0].multiples()

    @property
    def ragged(self):
        return self.parts[0].ragged

    def document(self):
        self.parts[0].shares = self.shares
        document = super().document()
        if self.shares:
            document["dataset"] = {"cuts": self.shares.cuts}
        return document

    def configure(self, name):
        return self.write(name)

    def table(self, order, lines):
        table = collections.defaultdict(list)
        for e in range(order["order.epochs"]):
            for s, p, d, _, anchor, key in self.mix.epoch(order["order.seed"], e, order["batch.global_size"], order["batch.last"]):
                table[e, s].append((p, anchor, (d, anchor, key)))
        return table

    def delivered_as(self, sample):
        return self.delivered(*sample)


class Case:
    """A mesh for a world, and the configuration of both."""

    def __init__(self, rng, world, groups):
        self.mesh = draw_mesh(rng, groups)
        rules = Rules(rng, self.mesh, list(world.fields), world.cuttable(), world.multiples())
        self.shares = Shares(self.mesh, rules.cuts, rules.rules, world.stepped(), getattr(world, "ragged", ()))
        world.shares = self.shares
        self.path = world.configure("mesh.yaml")
        world.shares = None
        self.settings = {"delivery.mesh": ",".join(f"{axis}:{size}" for axis, size in self.mesh.axes.items()),
                         "delivery.data": ",".join(self.mesh.data)}

    def __str__(self):
        return f"mesh {self.mesh.axes} data {self.mesh.data} cuts {self.shares.cuts} rules {self.shares.rules}"


class Checker:
    """What the ranks of one run, or of several that follow one another, have had."""

    def __init__(self, test, world, table, text):
        self.test, self.world, self.table, self.text = test, world, table, text
        self.delivered = {}  # by sample
        self.seen = collections.defaultdict(list)  # by step: position and index

    def digest(self, case, sample, rank):
        if sample not in self.delivered:
            self.delivered[sample] = self.world.delivered_as(sample)
        return digest_of(case.shares.of(self.delivered[sample], rank))

    def add_group(self, case, ranks, lines):
        """The lines of a group's ranks: the same samples, and each one's own part of these."""
        known = [[tuple(map(int, line[:4])) for line in lines[rank]] for rank in ranks]
        for rank, own in zip(ranks, known):
            self.test.assertEqual(own, known[0], f"ranks {rank} and {ranks[0]} of one group: {self.text}")
        for n, (e, s, p, i) in enumerate(known[0]):
            candidates = [sample for _, index, sample in self.table[e, s] if index == i]
            self.test.assertTrue(candidates, f"epoch {e} step {s} has no sample {i}: {self.text}")
            for rank in ranks:
                fitting = [sample for sample in candidates if self.digest(case, sample, rank) == lines[rank][n][4]]
                if not fitting:
                    self.test.fail(f"{self.test.last[0]} readers, rank {rank}, line {lines[rank][n]}: {self.explain(case, rank, e, s, p, candidates)}: "
                                   f"{self.text}")
                candidates = fitting
            self.seen[e, s].append((p, i))
        return sum(len(lines[rank]) for rank in ranks)

    def explain(self, case, rank, e, s, p, candidates):
        """Which fields differ, by running it once more."""
        try:
            got, first = self.test.run_again(rank, e, s)
        except (AssertionError, OSError) as error:
            return f"not seen again: {error}"
        wrong = [self.compare(got, p - first, case.shares.of(self.delivered[sample], rank)) for sample in candidates]
        return " or ".join(wrong)

    @staticmethod
    def compare(got, i, expected):
        """What is wrong with sample `i` of a batch."""
        wrong = []
        for name, value in expected.items():
            own = got[name][i] if name in got and len(got[name]) > i else None
            owner, _, made = name.partition(".")
            if owner + ".offsets" in expected and made != "valid":
                steps = len(expected[owner + ".offsets"])
                offsets = got[owner + ".offsets"][i * steps:(i + 1) * steps + 1]
                ends = offsets[[0, -1]] * len(got[name]) // max(1, got[owner + ".offsets"][-1])  # or of its parts
                if made != "length":
                    own = np.diff(offsets) if made == "offsets" else got[name][ends[0]:ends[1]]
            if own is None or not np.array_equal(own, value):
                wrong.append(f"{name} {value.shape} is {str(own)[:300]} and not {str(value)[:300]}")
        return ", ".join(wrong) or "it is right now"

    def add(self, case, lines):
        return sum(self.add_group(case, ranks, lines) for ranks in case.mesh.groups())

    def finish(self, fixed):
        """All steps are there, each with the samples of the run without a mesh. Groups have followed one another."""
        self.test.assertEqual(sorted(self.seen), sorted(self.table), self.text)
        for step, expected in self.table.items():
            seen = self.seen[step]
            self.test.assertEqual([p for p, _ in seen], sorted(p for p, *_ in expected), f"step {step}: {self.text}")
            expected = [(p, i) for p, i, _ in sorted(expected)]
            if not fixed:
                seen, expected = sorted(i for _, i in seen), sorted(i for _, i in expected)
            self.test.assertEqual(seen, expected, f"step {step}: {self.text}")


class Meshes:
    """Instead of try_shape() of a test of another shape: meshes."""

    POSITIONS = True
    runs = 15

    def order(self, rng, count):
        """With fixed placement the run without a mesh says which sample is at which position."""
        order, groups = super().order(rng, count)
        return {**order, "order.placement": "fixed"}, groups

    def shape_of(self, rng, order):
        """Settings of the run, which do not change the order. What the order needs stays."""
        kept = {key: order[key] for key in ("dataset.hold_limit",) if order.get(key) == "1GiB"}
        return {**order, **self.shape(rng), **kept, "order.placement": rng.choice(("fixed", "local", "local"))}

    def run_case(self, rng, case, settings, options=(), trainer=(), expect=0):
        """The lines of each rank."""
        words = ["--digest", os.path.join(self.folder, "digest.{rank}"), "--json=" + os.path.join(self.folder, "share.{rank}"),
                 *PADDING, "--hold", str(rng.randint(1, settings["delivery.slots"])), *trainer]
        command, count = (program("penstock-trainer"), *words), rng.randint(1, 5)
        if rng.random() < 0.3:
            command = self.with_coordinates(rng, case, words, count)
        self.last = (count, {"delivery.trainers": len(case.mesh.ranks), **settings, **case.settings},
                     ["--quiet", "--config", case.path, *options])
        readers, settings, options = self.last
        self.deliver(readers, len(case.mesh.ranks), settings, command, options, expect)
        return [self.lines_of(rank) for rank in range(len(case.mesh.ranks))]

    def run_again(self, rank, e, s):
        """A rank's batch of the last job, from a trainer in Python; and the position of its first sample."""
        readers, settings, options = self.last
        trainer, env = test_samples.python_trainer(self.folder)
        outcome = self.reader(readers, settings, trainer, options, env=env)
        assert outcome.code == 0, outcome.output
        first = min(int(line[2]) for line in self.lines_of(rank) if line[:2] == [str(e), str(s)])
        with np.load(os.path.join(self.folder, f"{rank}.{e}.{s}.npz")) as batch:
            return dict(batch), first

    def with_coordinates(self, rng, case, words, readers):
        """Ranks that a program places: those of a reader and a group change places."""
        places, blocks = list(case.mesh.ranks), collections.defaultdict(list)
        for group, ranks in enumerate(case.mesh.groups()):
            for rank in ranks:
                blocks[group, rank * readers // len(places)].append(rank)
        for ranks in blocks.values():
            for rank, other in zip(ranks, rng.sample(ranks, len(ranks))):
                places[rank] = case.mesh.ranks[other]
        path = os.path.join(self.folder, "coordinates")
        with open(path, "w", encoding="ascii") as file:
            for place in places:
                file.write(",".join(f"{axis}={at}" for axis, at in place.items()) + "\n")
        script = f'exec "$0" --coordinates "$(sed -n "$((RANK + 1))p" {path})" "$@"'
        return ("sh", "-c", script, program("penstock-trainer"), *words)

    def lines_of(self, rank, name="digest"):
        with open(os.path.join(self.folder, f"{name}.{rank}"), encoding="ascii") as file:
            return [line.split() for line in file]

    def check_shares(self, world, case, text):
        """What each rank was told of its place, and of its fields and their parts."""
        groups = case.mesh.groups()
        for rank, place in enumerate(case.mesh.ranks):
            with open(os.path.join(self.folder, f"share.{rank}"), encoding="ascii") as file:
                told = json.load(file)
            self.assertEqual((told["rank"], told["group_count"]), (rank, len(groups)), text)
            self.assertIn(rank, groups[told["group"]], text)
            self.assertEqual(told["coordinates"], place, text)
            fields = {field["name"]: field for field in told["fields"]}
            owners = {name.partition(".")[0] for name in fields} - {"source"}  # a ragged field may be nothing but columns
            self.assertEqual(owners, {name for name in world.fields if case.shares.has(name, rank)}, text)
            for name, shape in world.cuttable().items():
                if name in fields:
                    self.check_field(fields[name], shape, case.shares.indices(name, shape, rank), f"rank {rank}: {text}")

    def check_field(self, told, shape, indices, text):
        self.assertEqual([cut["axis"] for cut in told["cuts"]], sorted(indices), text)
        for axis, length in enumerate(shape):
            self.assertEqual(told["shape"][axis], len(indices[axis]) if axis in indices else length, text)
        for cut in told["cuts"]:
            count = told["shape"][cut["axis"]]
            half = count if cut["second"] is None else count // 2
            runs = [*range(cut["begin"], cut["begin"] + half)]
            runs += range(cut["second"], cut["second"] + half) if cut["second"] is not None else []
            self.assertEqual(runs, indices[cut["axis"]].tolist(), text)
            self.assertEqual(cut["whole"], shape[cut["axis"]], text)

    def try_shape(self, rng, trainers, order, lines, options, world):
        table = world.table(order, lines)
        return sum(self.try_mesh(rng, trainers, order, world, table) for _ in range(MESHES))

    def try_mesh(self, rng, groups, order, world, table):
        """One run; or two, the second with another mesh from the state of the first."""
        case, settings = Case(rng, world, groups), self.shape_of(rng, order)
        text = f"{case} {settings} {world}"
        checker, steps = Checker(self, world, table, text), 1 + max(s for _, s in table)
        self.__class__.tried += 1
        if rng.random() < 0.25 and steps > 1:
            state = os.path.join(self.folder, "state.{rank}")
            stop = ["--steps", str(rng.randint(1, steps - 1)), "--state", state]
            compared = checker.add(case, self.run_case(rng, case, settings, [], stop, EXIT_STOPPED_EARLY))
            state = state.format(rank=rng.randrange(len(case.mesh.ranks)))
            batch = order["batch.global_size"]
            groups = rng.choice([n for n in range(1, MOST_RANKS + 1) if batch >= n])
            case = Case(rng, world, groups)
            compared += checker.add(case, self.run_case(rng, case, settings, ["--resume", state]))
        else:
            compared = checker.add(case, self.run_case(rng, case, settings))
        self.check_shares(world, case, text)
        checker.finish(settings["order.placement"] == "fixed")
        return compared

    def test_random_configurations(self):
        compared, number = 0, 0
        self.__class__.tried = 0
        while self.tried < (RUNS or (self.runs // 3 if SANITIZED else self.runs)):
            with self.subTest(seed=SEED, run=number):
                compared += self.try_world(random.Random(SEED * 1000003 + number))
            number += 1
        print(f"{compared} samples of {self.tried} configurations from seed {SEED} equal to the model")


class Model(Meshes, test_ragged.Ragged):
    """Frames, or ragged fields beside frames."""

    def make_world(self, rng):
        return test_samples.make_world(rng, self.folder, rng.choice((Frames, Ragged)))

    def draw_budget(self, rng, world, anchors, order):
        if isinstance(world, Ragged):
            super().draw_budget(rng, world, anchors, order)


class Also(Model):
    """A run beside the one that is trained on (--also), with the same mesh: both are compared with the model."""

    runs = 2

    def make_world(self, rng):
        return test_samples.make_world(rng, self.folder, Frames)

    def try_shape(self, rng, trainers, order, lines, options, world):
        case, settings = Case(rng, world, trainers), self.shape_of(rng, order)
        text, table = f"{case} {settings} {world}", world.table(order, lines)
        self.__class__.tried += 1
        self.last = (4, {}, [])
        both = [Checker(self, world, table, f"{name}: {text}") for name in ("train", "val")]
        paths = [os.path.join(self.folder, name) for name in ("digest.{rank}", "val.{rank}")]
        script = ('"$0" --digest "$1" --digest-padding & "$0" --run-dir "$PENSTOCK_RUN_DIR.val" --digest "$2" --digest-padding '
                  f'--steps {len(table)} && wait $!')
        command = ("sh", "-c", script, program("penstock-trainer"), *paths)
        self.deliver(4, len(case.mesh.ranks), {**settings, **case.settings}, command,
                     ["--config", case.path, "--also", "val=" + self.val_path(case, settings)])
        compared = both[0].add(case, [self.lines_of(rank) for rank in range(len(case.mesh.ranks))])
        compared += both[1].add(case, [self.lines_of(rank, "val") for rank in range(len(case.mesh.ranks))])
        for checker in both:
            checker.finish(settings["order.placement"] == "fixed")
        return compared

    def val_path(self, case, settings):
        """The same configuration in a file; the trainers and their mesh are those of the training."""
        with open(case.path, encoding="utf-8") as file:
            document = json.load(file)
        for key, value in {**settings, **case.settings}.items():
            section, _, name = key.partition(".")
            if key not in ("delivery.mesh", "delivery.data"):
                document.setdefault(section, {})[name] = value
        path = os.path.join(self.folder, "val.yaml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
        return path


class Mixes(Meshes, test_mix_model.Model):
    """The same of several sources."""

    runs = 6

    test_random_mixes = None

    def make_world(self, rng):
        return Mixed(rng, self.folder)


if __name__ == "__main__":
    RUNS, SEED = random_options(RUNS, SEED)
    unittest.main()
