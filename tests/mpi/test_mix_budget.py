"""Mixes with batches by budget: steps and order against a model written from docs/inside/order.md, on many shapes of jobs, resumed,
with the bounds of steps, and with a reader that is killed.

Run by a Python with NumPy, xxhash and zarr 3.
"""

import json
import os
import re
import sys
import unittest
import warnings
from unittest import mock

from job import launcher_is_open_mpi, program, run
from mix_oracle import Mix
from recovery import SLOTS, RecoveryTest

import test_budget
import test_samples  # skips where it cannot run

import numpy as np
import xxhash
import zarr

from order_v1 import random_u64

SEED, ITEMS, MOST, KEY_SOURCES = test_budget.SEED, test_budget.ITEMS, test_budget.MOST, 6


class Source:
    """A dataset of documents, and the steps of its passes."""

    def __init__(self, number, samples, row, window_rows, mean):
        numbers = np.random.default_rng(number)
        self.number, self.row, self.window_rows, self.count = number, row, window_rows, samples
        self.lengths = numbers.geometric(1 / mean, samples).clip(0, 900) - 1
        self.tokens = numbers.integers(0, 30000, int(self.lengths.sum())).astype("u2")
        self.starts = np.concatenate(([0], np.cumsum(self.lengths)))
        self.frames = numbers.random((samples, 64)).astype("f4")
        self.passes = {}

    def write(self, folder):
        self.path = os.path.join(folder, f"documents{self.number}")
        arrays = {"tokens/offsets": self.starts, "tokens/values": self.tokens, "frames": self.frames}
        test_samples.write_store(self.path, arrays, {"tokens/offsets": (64,), "tokens/values": (100,), "frames": (self.row, 64)}, {})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(self.path)

    def steps(self, number):
        """The samples of each step of a pass."""
        if number not in self.passes:
            with mock.patch.multiple(test_budget, ROW=self.row, SEED=random_u64(SEED, KEY_SOURCES, self.number)):
                self.passes[number] = test_budget.epoch_steps(number, [int(length) for length in self.lengths], self.window_rows)
        return self.passes[number]

    def step(self, k):
        """Its step k, through all passes."""
        steps = self.steps(0)
        return self.steps(k // len(steps))[k % len(steps)]

    def digest(self, i, padded_to=None):
        tokens = self.tokens[self.starts[i]:self.starts[i + 1]]
        fields = [self.frames[i], np.array(self.number, "i4")]
        if padded_to is None:
            fields += [np.array([self.lengths[i]], "i8"), tokens]
        else:
            fields += [np.array([self.lengths[i]], "i4"), np.pad(tokens, (0, padded_to - len(tokens)))]
        return xxhash.xxh3_64(b"".join(field.tobytes() for field in fields)).hexdigest()


def make_sources():
    return [Source(0, 203, 8, 5, 50), Source(1, 64, 1, 20, 200), Source(2, 21, 1, 30, 90)]


class World(RecoveryTest):
    """The last source comes several times in an epoch, and its passes have one window."""

    WEIGHTS = (5, 3, 4)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sources = make_sources()
        for source in cls.sources:
            source.write(cls.datasets)
        cls.mix = Mix(cls.sources, cls.WEIGHTS)
        cls.step_count = cls.steps_of(cls, cls.mix.samples)

    def steps_of(self, samples):
        """The steps that have so many samples on average."""
        sizes = [(source.count << 16) // len(source.steps(0)) for source in self.sources]
        mean = sum(w * size for w, size in zip(self.WEIGHTS, sizes)) // sum(self.WEIGHTS)
        return -((-samples << 16) // mean)

    def settings(self, deliver=None, **more):
        parts = []
        for source, weight in zip(self.sources, self.WEIGHTS):
            tokens = {"ragged": {"offsets": "tokens/offsets", "columns": ["tokens/values"]}}
            sections = {"dataset": {"uri": source.path, "fields": {"frames": "frames", "tokens": {**tokens, **(deliver or {})}}},
                        "samples": {"row_chunks": 1}, "order": {"window_rows": source.window_rows}}
            path = os.path.join(self.folder, f"source{source.number}.yaml")
            with open(path, "w", encoding="ascii") as file:
                json.dump(sections, file)
            parts.append(f"{path}:{weight}")
        return {"mix.sources": ",".join(parts), "batch.global_size": MOST, "batch.budget_field": "tokens",
                "batch.budget_items": ITEMS, "order.seed": SEED, "order.epochs": 3, "readers.threads": 1,
                "delivery.trainers": self.trainers, "delivery.slots": SLOTS, "delivery.run_dir": self.run_dir,
                "delivery.reconnect_timeout": 100, **more}

    def scheduled(self, epochs=2):
        """Settings with other weights from later steps on, of which an epoch's steps follow the last ones; and their lines."""
        settings = self.settings(**{"order.epochs": epochs})
        names = [part.rsplit(":", 1)[0] for part in settings["mix.sources"].split(",")]
        entries = [(9, (0, 1, 1), False), (40, (1, 0, 3), True), (47, (2, 2, 1), True)]
        settings["mix.schedule"] = json.dumps([{"step": step, "weights": dict(zip(names, weights))} |
                                               ({"ramp": "linear"} if ramp else {}) for step, weights, ramp in entries])
        mix = Mix(self.sources, self.WEIGHTS, schedule=entries)
        mix.cut(1, 1, 1)  # a step is a position
        with mock.patch.object(self, "WEIGHTS", entries[-1][1]):
            steps = self.steps_of(mix.samples)
        with mock.patch.object(self, "mix", mix):
            return settings, list(self.model(epochs, steps))

    def source_step(self, step):
        """The source of a step of the run, and which of its steps."""
        before, behind = self.mix.divide(step), self.mix.divide(step + 1)
        d = next(d for d in range(len(self.sources)) if behind[d] > before[d])
        return d, before[d]

    def model(self, epochs=3, steps=None, padded=False):
        """All lines of a run, with digests."""
        steps = steps or self.step_count
        for step in range(epochs * steps):
            d, k = self.source_step(step)
            samples = self.sources[d].step(k)
            longest = max(test_budget.bound(int(self.sources[d].lengths[i])) for i in samples) if padded else None
            for p, i in enumerate(samples):
                yield [str(step // steps), str(step % steps), str(p), str(i), self.sources[d].digest(i, longest)]

    def assert_same(self, lines, expected):
        self.assertEqual(lines, self.known(expected))

    def plan(self, settings, *options):
        command = [program("penstock"), "plan", *options]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        outcome = run(command)
        self.assertEqual(outcome.code, 0, outcome.output)
        return outcome.output


class Short(World):
    def test_shapes(self):
        expected = list(self.model())
        for readers, trainers, more in ((1, 3, {}), (2, 2, {}), (3, 2, {"order.placement": "fixed"})):
            with self.subTest(readers=readers, trainers=trainers, more=more):
                lines = self.digests(readers, trainers, self.settings(**more))
                self.assert_same(lines, expected)

    def test_padded_and_resumed(self):
        expected = list(self.model(padded=True))
        padded = {"deliver": {"deliver": {"pad": "bound"}}}
        self.assert_same(self.digests(2, 2, self.settings(**padded)), expected)
        path, settings = os.path.join(self.folder, "resume.json"), self.settings(**padded)
        with open(path, "w", encoding="ascii") as file, mock.patch.object(self, "settings", return_value=settings):
            file.write(self.state_after(self.step_count + 7))
        lines = self.digests(3, 1, settings, options=["--resume", path])
        self.assert_same(lines, [line for line in expected if (int(line[0]), int(line[1])) >= (1, 7)])

    def test_schedule(self):
        """Weights by step, also resumed on a ramp."""
        settings, expected = self.scheduled()
        self.assert_same(self.digests(2, 2, settings), expected)
        path = os.path.join(self.folder, "resume.json")
        with open(path, "w", encoding="ascii") as file, mock.patch.object(self, "settings", return_value=settings):
            file.write(self.state_after(23))
        lines = self.digests(3, 1, settings, options=["--resume", path])
        count = int(lines[0][0]), int(lines[0][1])
        self.assert_same(lines, [line for line in expected if (int(line[0]), int(line[1])) >= count])
        self.assertEqual(count, (0, 23))

    def test_the_plan_says_so(self):
        printed = [line.split() for line in self.plan(self.settings(), "--order", "--epoch", "1").splitlines()]
        expected = [[*line[:4], str(self.source_step(self.step_count + int(line[1]))[0])]
                    for line in self.model() if line[0] == "1"]
        self.assertEqual(printed, expected)
        text = self.plan(self.settings())
        self.assertRegex(text, rf"(?m)^steps +{self.step_count} an epoch of {MOST} samples, .* each step has samples of one source")
        self.assertRegex(text, r"(?m)^source 0 .*: 41\.7% of the steps: ")


class Budget(World):
    def test_promises(self):
        """Every sample of a source once a pass; steps within the budget; the weights' shares of the steps."""
        lines, seen, steps = self.digests(2, 2, self.settings(**{"order.epochs": 5})), [[], [], []], {}
        for line in lines:
            steps.setdefault((int(line[0]), int(line[1])), []).append(int(line[3]))
        for (epoch, step), samples in steps.items():
            d, _ = self.source_step(epoch * self.step_count + step)
            seen[d] += samples
            self.assertLessEqual(len(samples) * max(int(self.sources[d].lengths[i]) for i in samples), ITEMS)
        for d, source in enumerate(self.sources):
            for first in range(0, len(seen[d]), source.count):
                of_pass = seen[d][first:first + source.count]
                self.assertEqual(sorted(set(of_pass)), sorted(of_pass))
            share = sum(self.source_step(s)[0] == d for s in range(len(steps))) / len(steps)
            self.assertAlmostEqual(share, self.WEIGHTS[d] / sum(self.WEIGHTS), delta=0.01)

    def test_shapes(self):
        expected = list(self.model())
        for readers, trainers, more in ((1, 1, {}), (1, 4, {}), (2, 2, {"exchange.steps_per_round": 2}), (5, 4, {}),
                                        (4, 4, {"order.placement": "fixed", "exchange.steps_per_round": 3, "delivery.slots": 6}),
                                        (2, 1, {"readers.cache": "off"}), (3, 2, {"readers.cache": "stored"})):
            with self.subTest(readers=readers, trainers=trainers, more=more):
                lines = self.digests(readers, trainers, self.settings(**more))
                self.assert_same(lines, expected)

    def test_short_and_long_epochs(self):
        for samples, epochs in ((1, 30), (40, 9), (3000, 2)):
            with self.subTest(samples=samples):
                lines = self.digests(2, 2, self.settings(**{"mix.samples": samples, "order.epochs": epochs}))
                self.assert_same(lines, self.model(epochs, self.steps_of(samples)))

    def test_buckets(self):
        text = ",".join(map(str, test_budget.BUCKETS))
        sources = make_sources()  # with other steps
        for source, old in zip(sources, self.sources):
            source.path = old.path
        with mock.patch.object(test_budget, "buckets", test_budget.BUCKETS), mock.patch.object(self, "sources", sources):
            steps = self.steps_of(self.mix.samples)
            lines = self.digests(2, 3, self.settings(**{"batch.budget_buckets": text}))
            self.assert_same(lines, self.model(steps=steps))

    def test_least_memory(self):
        """A run with the least memory that `penstock plan` asks for delivers the same."""
        for readers, trainers in ((1, 2), (3, 2)):
            settings = self.settings(**{"readers.cache": "off"})
            low, high = 0, 1 << 16
            while high - low > 1:
                middle = (low + high) // 2
                command = [program("penstock"), "plan", "--readers", str(readers)]
                for key, value in {**settings, "delivery.trainers": trainers, "readers.memory_limit": f"{middle}KiB"}.items():
                    command += ["--set", f"{key}={value}"]
                low, high = (low, middle) if run(command).code == 0 else (middle, high)
            with self.subTest(readers=readers, least=high):
                lines = self.digests(readers, trainers, {**settings, "readers.memory_limit": f"{high}KiB"})
                self.assert_same(lines, self.model())

    @unittest.skipUnless(launcher_is_open_mpi(), "MPICH's mpirun may end with 0 after a kill")
    def test_a_reader_is_killed(self):
        self.assert_same(self.lines_past_a_reader(self.settings()), self.model())

    @unittest.skipUnless(launcher_is_open_mpi(), "MPICH's mpirun may end with 0 after a kill")
    def test_a_reader_is_killed_on_a_ramp(self):
        settings, expected = self.scheduled(epochs=3)
        self.assert_same(self.lines_past_a_reader(settings), expected)

    def test_resumed_at_an_epoch_s_end_and_with_fixed(self):
        for step, more in ((2 * self.step_count, {}), (self.step_count + 3, {"order.placement": "fixed"})):
            with self.subTest(step=step, more=more):
                settings, path = self.settings(**more), os.path.join(self.folder, "resume.json")
                with open(path, "w", encoding="ascii") as file, mock.patch.object(self, "settings", return_value=settings):
                    file.write(self.state_after(step))
                lines = self.digests(3, 4, {**settings, "delivery.trainers": 4}, options=["--resume", path])
                left = [line for line in self.model() if int(line[0]) * self.step_count + int(line[1]) >= step]
                self.assert_same(lines, left)

    def test_counted(self):
        """Reports count samples as if the steps of a pass were equal: about right, and never less than none."""
        expected = [line[0] for line in self.model()]
        report = os.path.join(self.folder, "report.json")
        self.digests(2, 8, self.settings(), options=["--report", report])
        with open(report, encoding="utf-8") as file:
            epochs = json.load(file)["epochs"]
        for epoch in epochs:
            count = expected.count(str(epoch["epoch"]))
            self.assertAlmostEqual(epoch["samples"], count, delta=0.1 * count)

    def test_forecast(self):
        """On documents in many rows: what travels, and what is read."""
        parts = []
        for d, (samples, weight) in enumerate(((6000, 2), (4000, 1))):
            uri = self.synth(f"forecast{d}", samples, layout="documents", chunk=4096, seed=d)
            path = os.path.join(self.folder, f"forecast{d}.yaml")
            with open(path, "w", encoding="ascii") as file:
                json.dump({"dataset": {"uri": uri, "fields": {"tokens": {"ragged": {
                    "offsets": "tokens/offsets", "columns": ["tokens/values"]}}}}}, file)
            parts.append(f"{path}:{weight}")
        for placement, off in (("fixed", 0.05), ("local", 0.35)):
            settings = {"mix.sources": ",".join(parts), "batch.global_size": 240, "batch.budget_field": "tokens",
                        "batch.budget_items": 32768, "order.epochs": 3, "order.placement": placement, "readers.threads": 1,
                        "delivery.trainers": 3}
            with self.subTest(placement=placement):
                planned = json.loads(self.plan(settings, "--json", "--readers", "3", "--nodes", "3"))
                report = os.path.join(self.folder, "report.json")
                outcome = self.reader(3, settings, (program("penstock-trainer"),), ["--quiet", "--report", report])
                self.assertEqual(outcome.code, 0, outcome.output)
                with open(report, encoding="utf-8") as file:
                    epochs = json.load(file)["epochs"]
                for forecast, epoch in zip(planned["epochs"], epochs):
                    sent, expected = epoch["sent_bytes"], forecast["exchanged_bytes"]
                    self.assertAlmostEqual(sent, expected, delta=off * expected)

    def test_refused(self):
        for more, words in (({"batch.budget_field": "frames"}, r"mix.sources: '.*source0.yaml': batch.budget_field 'frames' is no"),
                            ({"batch.budget_items": 300}, r"source [01] of the mix: batch.budget_items 300 is below the longest"),
                            ({"exchange.buffer_limit": 4096}, "is below a step of the longest samples"),
                            ({"batch.last": "pad"}, "leave batch.last out")):
            with self.subTest(more=more):
                outcome = self.reader(2, self.settings(**more), [], ["--quiet"])
                self.assertEqual(outcome.code, 4, outcome.output)
                self.assertTrue(re.search(words, outcome.output), outcome.output)


if __name__ == "__main__":
    unittest.main()
