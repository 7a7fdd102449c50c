"""Batches by budget: steps and order against a model written from docs/inside/order.md, on many shapes of jobs, resumed, and with
a reader that is killed.

Run by a Python with NumPy, xxhash and zarr 3.
"""

import importlib.util
import itertools
import json
import os
import sys
import unittest
import warnings
from unittest import mock

from job import SANITIZED, environment, launcher_is_open_mpi, program, run
from recovery import SLOTS, RecoveryTest

import test_samples  # skips where it cannot run

import numpy as np
import xxhash
import zarr

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "golden"))
import order_v1  # noqa: E402
from order_v1 import permute, random_u64  # noqa: E402

ROW, WINDOW_ROWS, SAMPLES, SEED = 8, 5, 203, 5
ITEMS, MOST = 1000, 16
KEY_ROWS, KEY_STEPS = 1, 7


BUCKETS = [40, 150, 600, 950]
buckets = []


def bound(length):
    """What a sample of that length counts as."""
    if buckets:
        return min(b for b in buckets if b >= length)
    if length >= 64:
        unit = 1 << length.bit_length() - 6
        length = (length // unit + 1) * unit - 1
    return min(max(length, 1), ITEMS)


def bucket(length):
    """Samples are put in order of this: those without items come before those with one, and have the same bound."""
    return 0 if length == 0 and not buckets else bound(length)


def buckets_up_to(longest):
    return sorted({bucket(length) for length in range(longest + 1)})


def most_of(length):
    return min(ITEMS // bound(length), MOST)


def cut(lengths):
    """Sizes of steps of samples in order of their buckets."""
    sizes, size = [], 0
    for length in lengths:
        if size >= most_of(length):
            sizes.append(size)
            size = 0
        size += 1
    return sizes + [size]


def steps_of_all_epochs(lengths, windows):
    ordered = sorted(lengths)
    if windows == 1:
        return len(cut(ordered))
    unit, units = 2**32, 0
    bounds = [b for b in buckets_up_to(max(lengths)) if b >= bucket(min(lengths))]
    for b in bounds:
        units += -(-sum(bucket(length) == b for length in lengths) * unit // most_of(b))
    more = unit
    for one, next_one in zip(bounds, bounds[1:]):
        b, c = most_of(one), most_of(next_one)
        if b > c:
            more += -(-(b - 1) * (b - c) * unit // (b * c))
    return min((units + windows * more) // unit, len(lengths))


def epoch_steps(epoch, lengths, window_rows=WINDOW_ROWS, shuffle=True):
    """The samples of each step of an epoch."""
    order_v1.C, order_v1.W, order_v1.SEED = ROW, window_rows, SEED
    rows = -(-len(lengths) // ROW)
    step_key = random_u64(SEED, KEY_STEPS, epoch)
    order = list(order_v1.epoch_order(epoch, [len(lengths)])) if shuffle else list(range(len(lengths)))
    row_order = [permute(i, rows, random_u64(SEED, KEY_ROWS, epoch)) if shuffle else i for i in range(rows)]
    begin, windows = 0, []
    for first in range(0, rows, window_rows):
        count = sum(min(ROW, len(lengths) - row * ROW) for row in row_order[first:first + window_rows])
        windows.append(sorted(order[begin:begin + count], key=lambda i: bucket(lengths[i])))
        begin += count
    sizes = [cut([lengths[i] for i in window]) for window in windows]
    wanted = steps_of_all_epochs(lengths, len(windows)) - sum(map(len, sizes))
    places, passed, result = len(lengths) - sum(map(len, sizes)), 0, []
    for w, window in enumerate(windows):
        steps, at = [], 0
        for size in sizes[w]:
            end = passed + size - 1
            parts = 1 + (wanted * end // places - wanted * passed // places if places else 0)
            passed = end
            steps += [window[at + j * size // parts:at + (j + 1) * size // parts] for j in range(parts)]
            at += size
        of_window = random_u64(step_key, 0, w)
        result += [steps[permute(i, len(steps), of_window)] for i in range(len(steps))] if shuffle else steps
    return result


TRAINER = """
import importlib.util, json, sys
import numpy as np
import penstock
pyarrow, torch = (importlib.import_module(name) if importlib.util.find_spec(name) else None for name in ("pyarrow", "torch"))
def look(batch):
    padded = batch["tokens.values"]
    shapes = [list(padded.shape)]
    for row, length in zip(padded, batch["tokens.length"]):
        assert not row[length:].any()
    if batch.sample_count:
        tensor = batch.torch("tokens.values") if torch else padded
        shapes.append(list(tensor.shape))
        if pyarrow:
            column = pyarrow.record_batch(batch.arrow()).column("tokens.values")
            shapes.append([len(column), column.type.list_size])
            assert np.array_equal(np.array(column.to_pylist()), padded)
    return [batch.bound, batch.sample_count, *shapes]

seen = []
with penstock.connect() as loader:
    for batch in loader:
        seen.append(look(batch))
    rank = loader.info.rank
with open(f"{sys.argv[0]}.{rank}", "w") as file:
    json.dump(seen, file)
"""


TENSORS = """
import json, sys
import penstock
def batches():
    if sys.argv[1] == "torch":
        import penstock.torch
        with penstock.torch.Loader() as loader:
            for epoch in loader.epochs():
                yield from epoch
    else:
        import jax, penstock.jax
        mesh = jax.sharding.Mesh(jax.devices()[:1], "data")
        with penstock.connect(wait_for_release=True) as loader:
            yield from penstock.jax.batches(loader, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data")))

seen = [[batch.sample_count, *map(len, (batch.indices, batch["frames"]))] for batch in batches()]
with open(sys.argv[0] + ".seen", "w") as file:
    json.dump(seen, file)
"""


class World(RecoveryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        numbers = np.random.default_rng(3)
        cls.lengths = numbers.geometric(0.02, SAMPLES).clip(0, 600) - 1
        cls.lengths[[7, 90]] = 900, 0
        cls.tokens = numbers.integers(0, 30000, int(cls.lengths.sum())).astype("u2")
        cls.starts = np.concatenate(([0], np.cumsum(cls.lengths)))
        cls.frames = numbers.random((SAMPLES, 64)).astype("f4")
        cls.path = os.path.join(cls.datasets, "documents")
        arrays = {"tokens/offsets": cls.starts, "tokens/values": cls.tokens, "frames": cls.frames}
        test_samples.write_store(cls.path, arrays, {"tokens/offsets": (64,), "tokens/values": (100,), "frames": (ROW, 64)}, {})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(cls.path)

    def settings(self, **more):
        return {"dataset.uri": self.path, "dataset.fields.frames": "frames", "samples.row_chunks": 1,
                "dataset.fields.tokens.ragged.offsets": "tokens/offsets",
                "dataset.fields.tokens.ragged.columns": "[tokens/values]",
                "batch.global_size": MOST, "batch.budget_field": "tokens", "batch.budget_items": ITEMS,
                "order.seed": SEED, "order.window_rows": WINDOW_ROWS, "order.epochs": 3,
                "readers.threads": 1, "delivery.trainers": self.trainers, "delivery.slots": SLOTS,
                "delivery.run_dir": self.run_dir, "delivery.reconnect_timeout": 100, **more}

    def steps(self, epoch, **more):
        return epoch_steps(epoch, [int(length) for length in self.lengths], **more)

    def model(self, epochs=3, **more):
        return self.known([str(epoch), str(s), str(p), str(sample)] for epoch in range(epochs)
                          for s, step in enumerate(self.steps(epoch, **more)) for p, sample in enumerate(step))

    def assert_whole(self, lines):
        for line in lines:
            i, digest = int(line[3]), xxhash.xxh3_64()
            digest.update(self.frames[i].tobytes())
            digest.update(np.array([self.lengths[i]], "i8").tobytes())
            digest.update(self.tokens[self.starts[i]:self.starts[i + 1]].tobytes())
            self.assertEqual(line[4], digest.hexdigest(), f"sample {i}")

    def with_padded_digests(self, epochs=3, **more):
        """The model's lines, with digests of samples that are padded to the bound of their step."""
        for epoch in range(epochs):
            for s, step in enumerate(self.steps(epoch, **more)):
                longest = max(bound(int(self.lengths[i])) for i in step)
                for p, i in enumerate(step):
                    padded = np.zeros(longest, "u2")
                    padded[:self.lengths[i]] = self.tokens[self.starts[i]:self.starts[i + 1]]
                    length = np.array([self.lengths[i]], "i4")
                    digest = xxhash.xxh3_64(self.frames[i].tobytes() + length.tobytes() + padded.tobytes())
                    yield [str(epoch), str(s), str(p), str(i), digest.hexdigest()]


class Short(World):
    def test_buckets_and_padding(self):
        settings = {"batch.budget_buckets": ",".join(map(str, BUCKETS)), "dataset.fields.tokens.deliver.pad": "bound"}
        with mock.patch.multiple(sys.modules[__name__], buckets=BUCKETS):
            lines = self.digests(2, 2, self.settings(**settings))
            self.assertEqual(lines, self.known(self.with_padded_digests()))

    def test_samples_too_long_for_a_step_of_all_trainers(self):
        command = [program("penstock"), "plan"]
        for key, value in self.settings(**{"delivery.trainers": 8}).items():
            command += ["--set", f"{key}={value}"]
        count = sum(bound(int(length)) > ITEMS // 8 for length in self.lengths)
        self.assertIn(f"warning: {count} samples of 'tokens' count as more than {ITEMS // 8} items, which are batch.budget_items "
                      f"({ITEMS}) over 8 trainers: ", run(command).output)

    def test_other_steps_of_the_same_number(self):
        """The budget bounds the items of a field's steps, not those of another field with other steps."""
        more = {"dataset.fields.tokens.steps": "0:2", "dataset.fields.near.steps": "-1:1", "batch.global_size": 64,
                "dataset.fields.near.ragged.offsets": "tokens/offsets", "dataset.fields.near.ragged.columns": "[tokens/values]",
                "batch.budget_items": 2 * ITEMS}
        lines = self.digests(2, 1, self.settings(**more))
        for line in lines:
            i, digest = int(line[3]), xxhash.xxh3_64(self.frames[int(line[3])].tobytes())
            for first in (i - 1, i):  # fields by name
                digest.update(np.array(self.lengths[first:first + 2], "i8").tobytes())
                digest.update(self.tokens[self.starts[first]:self.starts[first + 2]].tobytes())
            self.assertEqual(line[4], digest.hexdigest(), f"sample {i}")
        for epoch in range(3):
            samples = sorted(int(line[3]) for line in lines if line[0] == str(epoch))
            self.assertEqual(samples, list(range(1, SAMPLES - 1)))
        near = max(sum(sum(self.lengths[int(line[3]) - 1:int(line[3]) + 1]) for line in lines if line[:2] == [str(epoch), str(s)])
                   for epoch in range(3) for s in range(int(lines[-1][1]) + 1))
        self.assertGreater(near, 2 * ITEMS, "a step has more of the other field: the case is worth something")


class Budget(World):
    def test_the_model_keeps_its_promises(self):
        counts = set()
        for epoch in range(8):
            steps = self.steps(epoch)
            counts.add(len(steps))
            self.assertEqual(sorted(i for step in steps for i in step), list(range(SAMPLES)))
            for step in steps:
                self.assertLessEqual(len(step) * max(int(self.lengths[i]) for i in step), ITEMS)
                self.assertLessEqual(len(step), MOST)
        self.assertEqual(len(counts), 1, "all epochs have equally many steps")

    def test_shapes(self):
        expected, whole = self.model(), None
        for readers, trainers, more in ((1, 1, {}), (1, 4, {}), (2, 2, {"exchange.steps_per_round": 2}), (5, 4, {}),
                                        (3, 2, {"order.placement": "fixed"}), (2, 1, {})):
            with self.subTest(readers=readers, trainers=trainers, more=more):
                lines = self.digests(readers, trainers, self.settings(**more))
                self.assertEqual([line[:4] for line in lines], expected)
                whole = whole or sorted(lines)
        self.assert_whole(whole)

    def test_one_window_no_shuffle_and_padding(self):
        for more, of_model in (({"order.window_rows": 1000}, {"window_rows": 26}), ({"order.shuffle": "false"}, {"shuffle": False}),
                               ({"dataset.fields.tokens.deliver.pad": 900}, {})):
            with self.subTest(more=more):
                lines = self.digests(2, 2, self.settings(**more))
                self.assertEqual([line[:4] for line in lines], self.model(**of_model))

    def test_buckets(self):
        text = ",".join(map(str, BUCKETS))
        for readers, trainers, more in ((2, 3, {}), (3, 2, {"order.window_rows": 1000})):
            with self.subTest(more=more), mock.patch.multiple(sys.modules[__name__], buckets=BUCKETS, MOST=12):
                expected = self.model(**({"window_rows": 26} if more else {}))
                for steps in (self.steps(0), self.steps(1)):
                    self.assertTrue(all(len(step) * max(bound(int(self.lengths[i])) for i in step) <= ITEMS for step in steps))
                lines = self.digests(readers, trainers, self.settings(**{"batch.budget_buckets": text, **more}))
                self.assertEqual([line[:4] for line in lines], expected)

    def test_padded_to_the_bound(self):
        expected = self.known(self.with_padded_digests())
        padded = {"dataset.fields.tokens.deliver.pad": "bound"}
        for readers, trainers, more in ((1, 1, {}), (3, 4, {"exchange.steps_per_round": 2}), (5, 4, {}),
                                        (3, 2, {"order.placement": "fixed"})):
            with self.subTest(readers=readers, trainers=trainers, more=more):
                self.assertEqual(self.digests(readers, trainers, self.settings(**padded, **more)), expected)
        path = os.path.join(self.folder, "resume.json")
        with open(path, "w", encoding="ascii") as file, mock.patch.object(self, "settings", return_value=self.settings(**padded)):
            file.write(self.state_after(len(self.steps(0)) + 7))
        lines = self.digests(2, 2, self.settings(**padded), options=["--resume", path])
        self.assertEqual(lines, [line for line in expected if (int(line[0]), int(line[1])) >= (1, 7)])

    @unittest.skipUnless(launcher_is_open_mpi(), "MPICH's mpirun may end with 0 after a kill")
    def test_padded_to_the_bound_and_killed(self):
        settings = self.settings(**{"dataset.fields.tokens.deliver.pad": "bound"})
        self.assertEqual(self.lines_past_a_reader(settings), self.known(self.with_padded_digests()))

    @unittest.skipIf(SANITIZED, "an interpreter without sanitizers cannot load a library with them")
    def test_python_gets_the_shapes(self):
        text = ",".join(map(str, BUCKETS))
        trainer = os.path.join(self.folder, "trainer.py")
        with open(trainer, "w", encoding="utf-8") as file:
            file.write(TRAINER)
        python = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python")
        with mock.patch.multiple(sys.modules[__name__], buckets=BUCKETS):
            outcome = self.reader(2, self.settings(**{"dataset.fields.tokens.deliver.pad": "bound", "batch.budget_buckets": text}),
                                  (sys.executable, trainer), ["--quiet"], env=environment(PYTHONPATH=python))
            self.assertEqual(outcome.code, 0, outcome.output)
            bounds = [max(bound(int(self.lengths[i])) for i in step) for epoch in range(3) for step in self.steps(epoch)]
        for rank in range(self.trainers):
            with open(f"{trainer}.{rank}", encoding="ascii") as file:
                seen = json.load(file)
            self.assertEqual([step[0] for step in seen], bounds)
            for longest, count, *others in seen:
                self.assertEqual(others, [[count, longest]] * len(others))
                self.assertLessEqual(longest * count, ITEMS)
        self.assertLessEqual(set(bounds), set(BUCKETS))

    @unittest.skipIf(SANITIZED, "an interpreter without sanitizers cannot load a library with them")
    def test_torch_and_jax_count_samples(self):
        """By a budget that binds, and by one that never does: then only the last step of an epoch is short."""
        trainer, self.trainers = os.path.join(self.folder, "tensors.py"), 1
        with open(trainer, "w", encoding="utf-8") as file:
            file.write(TENSORS)
        python = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python")
        wide = {"order.window_rows": 1000, "batch.budget_items": 900 * MOST}
        sizes = [len(step) for epoch in range(3) for step in self.steps(epoch)]
        for kind, name in itertools.product(("binds", "wide"), ("torch", "jax")):
            if not importlib.util.find_spec(name):
                continue
            with self.subTest(kind=kind, name=name):
                outcome = self.reader(2, self.settings(**(wide if kind == "wide" else {})), (sys.executable, trainer, name),
                                      ["--quiet"], env=environment(PYTHONPATH=python, JAX_PLATFORMS="cpu"))
                self.assertEqual(outcome.code, 0, outcome.output)
                with open(trainer + ".seen", encoding="ascii") as file:
                    seen = json.load(file)
                counts = [step[0] for step in seen]
                self.assertEqual(seen, [[count] * 3 for count in counts])
                if kind == "binds":
                    self.assertEqual(counts, sizes)
                else:
                    self.assertEqual((len(counts), sum(counts)), (3 * -(-SAMPLES // MOST), 3 * SAMPLES))

    def test_the_plan_prints_the_same(self):
        command = [program("penstock"), "plan", "--order", "--epoch", "1"]
        for key, value in self.settings().items():
            command += ["--set", f"{key}={value}"]
        printed = run(command)
        self.assertEqual(self.known(line.split() for line in printed.output.splitlines()),
                         [line for line in self.model() if line[0] == "1"])
        self.assertEqual(self.plan(2, self.settings())["steps_per_epoch"], len(self.steps(0)))

    def test_resumed_in_the_middle_of_an_epoch(self):
        expected = self.model()
        state = self.state_after(len(self.steps(0)) + 7)
        path = os.path.join(self.folder, "resume.json")
        with open(path, "w", encoding="ascii") as file:
            file.write(state)
        self.assertEqual([json.loads(state)[key] for key in ("epoch", "step")], [1, 7])
        lines = self.digests(3, 2, self.settings(), options=["--resume", path])
        self.assertEqual([line[:4] for line in lines], [line for line in expected if (int(line[0]), int(line[1])) >= (1, 7)])

    @unittest.skipUnless(launcher_is_open_mpi(), "MPICH's mpirun may end with 0 after a kill")
    def test_a_reader_is_killed(self):
        self.assertEqual([line[:4] for line in self.lines_past_a_reader(self.settings())], self.model())

    def test_refused(self):
        for more, words in (({"batch.budget_field": "frames"}, "no ragged field of the dataset; 'tokens' is one"),
                            ({"batch.budget_items": 899}, "the longest sample, which has 900 items"),
                            ({"batch.last": "pad"}, "leave batch.last out"),
                            ({"batch.budget_buckets": "100,50"}, "lengths from 1 to batch.budget_items, 1000, that rise"),
                            ({"batch.budget_buckets": "100,2000"}, "lengths from 1 to batch.budget_items, 1000, that rise"),
                            ({"batch.budget_buckets": "100,890"}, "the sample at frame 7 of the store"),
                            ({"batch.budget_items": 0, "batch.budget_field": "", "dataset.fields.tokens.deliver.pad": "bound"},
                             "field 'tokens' has deliver: {pad: bound}: that is for batch.budget_field"),
                            ({"dataset.fields.tokens.deliver.pad": "bound", "dataset.fields.tokens.deliver.truncate": "true"},
                             "deliver.truncate is for pad"),
                            ({"batch.budget_items": 0}, "belong together")):
            with self.subTest(more=more):
                outcome = self.reader(2, self.settings(**more), [], ["--quiet"])
                self.assertEqual(outcome.code, 4, outcome.output)
                self.assertIn(words, outcome.output)


if __name__ == "__main__":
    unittest.main()
