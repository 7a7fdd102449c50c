"""Where only some frames are anchors: orders as docs/inside/order.md says, on any number of readers and trainers."""

import json
import os
import sys
import unittest

import test_local
from job import SANITIZED, JobTest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "golden"))
import order_v1  # noqa: E402


def write_mask(uri, values):
    """An array of a truth value for each frame, beside `data`."""
    folder = os.path.join(uri, "mask")
    array = {"zarr_format": 2, "shape": [len(values)], "chunks": [len(values)], "dtype": "|b1", "compressor": None,
             "filters": None, "fill_value": False, "order": "C"}
    if os.path.exists(folder):
        return
    os.mkdir(folder)
    with open(os.path.join(folder, ".zarray"), "w", encoding="ascii") as file:
        json.dump(array, file)
    with open(os.path.join(folder, "0"), "wb") as file:
        file.write(bytes(values))
    path = os.path.join(uri, ".zmetadata")
    with open(path, encoding="ascii") as file:
        consolidated = json.load(file)
    consolidated["metadata"]["mask/.zarray"] = array
    with open(path, "w", encoding="ascii") as file:
        json.dump(consolidated, file)


class Orders(JobTest):
    """Three stores in rows of 8 frames; each is an episode, so that a stride begins anew in each."""

    FRAMES, CHUNK, BATCH, SEED, EPOCHS = (37, 200, 61), 8, 12, 17, 3
    POSITIONS = True

    def settings(self, **more):
        uris = [self.synth(f"store{n}", n, layout="plain", shape=64, chunk=self.CHUNK, seed=n) for n in self.FRAMES]
        return {"dataset.uri": ",".join(uris), "batch.global_size": self.BATCH, "batch.last": "partial",
                "order.epochs": self.EPOCHS, "order.seed": self.SEED, "order.placement": "fixed", "readers.threads": 1,
                **more}

    def anchors(self, stride):
        begins = [sum(self.FRAMES[:i]) for i in range(len(self.FRAMES))]
        return {t for begin, count in zip(begins, self.FRAMES) for t in range(begin, begin + count, stride)}

    def steps(self, stride, window_rows, last, epochs, shuffle):
        """The indices of each step, by epoch and step: worked out from the page."""
        order_v1.C, order_v1.W, order_v1.SEED = self.CHUNK, window_rows, self.SEED
        anchors, steps = self.anchors(stride), {}
        for epoch in range(epochs):
            order = list(order_v1.epoch_order(epoch, self.FRAMES, anchors.__contains__)) if shuffle else sorted(anchors)
            end = len(order) // self.BATCH * self.BATCH if last == "drop" else len(order)
            for p in range(0, end, self.BATCH):
                steps[epoch, p // self.BATCH] = order[p:min(p + self.BATCH, end)]
        return steps

    @classmethod
    def contents(cls, test):
        """The digest of each frame's data."""
        if not hasattr(cls, "digest_of"):
            lines = test.digests(1, 1, test.settings(**{"order.epochs": 1}))
            cls.digest_of = {int(line[3]): line[4:] for line in lines}
            assert len(cls.digest_of) == sum(cls.FRAMES)
        return cls.digest_of

    def expected(self, settings):
        """Epoch, step, position and index of each sample."""
        steps = self.steps(settings["samples.stride"], settings["order.window_rows"], settings["batch.last"],
                           settings["order.epochs"], settings.get("order.shuffle") != "false")
        return sorted([*step, p, index] for step, samples in steps.items() for p, index in enumerate(samples))

    def check(self, readers, trainers, stride, window_rows, **more):
        contents = self.contents(self)
        settings = self.settings(**{"samples.stride": stride, "order.window_rows": window_rows, **more})
        expected = self.expected(settings)
        lines = self.digests(readers, trainers, settings)
        self.assertEqual([[int(word) for word in line[:4]] for line in lines], expected)
        for line in lines:
            self.assertEqual(line[4:], contents[int(line[3])])


class Anchors(Orders):
    """Samples at a stride."""

    def test_unequal_rows(self):
        for readers, trainers in ((1, 1), (2, 3), (3, 4), (4, 2)):
            with self.subTest(readers=readers, trainers=trainers):
                self.check(readers, trainers, 3, 5)

    def test_rows_without_samples(self):
        for readers, trainers in ((1, 2), (3, 3)):
            with self.subTest(readers=readers, trainers=trainers):
                self.check(readers, trainers, 20, 4)

    def test_windows(self):
        for window_rows in (1, 2, 1000):
            for last in ("partial",) if SANITIZED else ("partial", "pad", "drop"):
                with self.subTest(window_rows=window_rows, last=last):
                    self.check(3, 2, 3, window_rows, **{"batch.last": last})

    def test_no_memory_for_rows(self):
        self.check(3, 4, 3, 5, **{"readers.cache": "off"})

    def test_several_steps_a_round(self):
        self.check(3, 4, 3, 5, **{"exchange.steps_per_round": 2, "delivery.slots": 4})

    def test_many_epochs(self):
        """More than the tables have room for at once: of one window each, and of a few."""
        for window_rows in (1000, 13):
            with self.subTest(window_rows=window_rows):
                self.check(2, 2, 3, window_rows, **{"order.epochs": 20, "readers.cache": "off"})

    def test_resume(self):
        """After some steps of the second epoch, on other readers and trainers."""
        path = os.path.join(self.folder, "state")
        settings = self.settings(**{"samples.stride": 3, "order.window_rows": 5})
        expected = self.expected(settings)
        steps = len({tuple(line[:2]) for line in expected if line[0] == 0}) + 3
        head = self.digests(3, 4, settings, ["--steps", str(steps), "--state", path + ".{rank}"], expect=3)
        for shape in ((1, 1), (2, 3), (4, 6)):
            with self.subTest(shape=shape):
                tail = self.digests(*shape, settings, options=["--resume", path + ".0"])
                self.assertEqual([[int(word) for word in line[:4]] for line in head + tail], expected)


class Where(Orders):
    """A quarter of the frames, and none in the middle of the second store."""

    def anchors(self, stride):
        return {t for t in range(sum(self.FRAMES)) if order_v1.random_u64(5, 5, t) % 4 == 0 and not 90 <= t < 190}

    def settings(self, **more):
        settings = super().settings(**more)
        first = 0
        for uri, count in zip(settings["dataset.uri"].split(","), self.FRAMES):
            write_mask(uri, [first + i in self.anchors(1) for i in range(count)])
            first += count
        return settings

    def check_where(self, readers, trainers, window_rows, **more):
        self.check(readers, trainers, 1, window_rows, **{"samples.where": "mask", **more})

    def test_windows(self):
        for window_rows, last in ((1, "pad"), (4, "partial"), (1000, "drop")):
            with self.subTest(window_rows=window_rows):
                self.check_where(3, 4, window_rows, **{"batch.last": last})

    def test_not_shuffled(self):
        self.check_where(2, 2, 4, **{"order.shuffle": "false"})


class Local(test_local.Page):
    """Destinations as the page says."""

    def near(self, row):
        """Spread by the golden ratio, from the row's number among all rows."""
        return (row * 0x9E3779B97F4A7C15 % 2**64) * self.TRAINERS >> 64

    def settings(self, shape=64, **more):
        return super().settings(shape, **{"samples.stride": 3, "order.window_rows": 7, **more})


class Shapes(test_local.Local):
    """All of that test, with a third of the frames."""

    def settings(self, uri, **more):
        return super().settings(uri, **{"samples.stride": 3, **more})


if __name__ == "__main__":
    unittest.main()
