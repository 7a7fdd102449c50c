"""Ragged fields in little memory: the least that a run takes suffices, one byte less is refused, and nobody waits for
ever, with one sample that is larger than all others together."""

import contextlib
import itertools
import json
import os
import random
import struct
import sys
import unittest
import zlib

import servers
from job import SANITIZED, JobTest, random_options

RUNS, SEED = random_options(3, 3)
GIANT = 40000


def write_array(path, code, values, chunk, width=1):
    """An array of Zarr's version 2 with chunks of `chunk` items of `width` numbers, and codec zlib."""
    os.makedirs(path)
    count = len(values) // width
    kind = {"q": "<i8", "H": "<u2", "B": "|u1"}[code]
    shape = [count] if width == 1 else [count, width]
    with open(os.path.join(path, ".zarray"), "w", encoding="ascii") as file:
        json.dump({"zarr_format": 2, "shape": shape, "chunks": [chunk, *shape[1:]], "dtype": kind, "order": "C",
                   "fill_value": 0, "filters": None, "compressor": {"id": "zlib", "level": 1}}, file)
    for index in range(0, count, chunk):
        items = values[index * width:(index + chunk) * width]
        items += [0] * (chunk * width - len(items))
        name = ".".join([str(index // chunk)] + ["0"] * (len(shape) - 1))
        with open(os.path.join(path, name), "wb") as file:
            file.write(zlib.compress(struct.pack(f"<{len(items)}{code}", *items), 1))


def write_documents(path, samples, chunk, mean, seed, giant):
    """tokens and marks of `samples` documents of 0 to 2 * mean of them; document `giant` has GIANT."""
    draw = random.Random(seed)
    os.makedirs(path)
    with open(os.path.join(path, ".zgroup"), "w", encoding="ascii") as file:
        json.dump({"zarr_format": 2}, file)
    lengths = [GIANT if i == giant else draw.randrange(2 * mean + 1) for i in range(samples)]
    offsets = list(itertools.accumulate(lengths, initial=0))
    items = offsets[-1]
    write_array(os.path.join(path, "offsets"), "q", offsets, 512)
    write_array(os.path.join(path, "tokens"), "H", [draw.randrange(50000) for _ in range(items)], chunk)
    write_array(os.path.join(path, "marks"), "B", [draw.randrange(4) for _ in range(3 * items)], chunk, 3)
    write_array(os.path.join(path, "label"), "q", list(range(samples)), 64)


class Ragged(JobTest):
    def documents(self, samples=1003, chunk=256, mean=30, seed=1, giant=77):
        path = os.path.join(self.datasets, f"documents-{samples}-{chunk}-{mean}-{seed}-{giant}")
        if not os.path.exists(path):
            write_documents(path, samples, chunk, mean, seed, giant)
        return path

    def settings(self, uri, **more):
        return {"dataset.uri": uri, "dataset.fields.label.array": "label",
                "dataset.fields.text.ragged.offsets": "offsets", "dataset.fields.text.ragged.columns": "[tokens,marks]",
                "batch.global_size": 12, "batch.last": "partial", "order.epochs": 3, "order.seed": 5,
                "order.window_rows": 12, "readers.threads": 1, "delivery.slots": 2,
                **{key.replace("__", "."): value for key, value in more.items()}}

    def least(self, readers, settings):
        """The least limit in bytes."""
        return self.plan(readers, settings)["memory"]["least"]

    def check(self, readers, trainers, settings, expected):
        """The least memory suffices, and a byte less is refused, with sizes."""
        settings = {**settings, "delivery.trainers": trainers}
        least = self.least(readers, settings)
        self.assertEqual(self.digests(readers, trainers, {**settings, "readers.memory_limit": least}), expected)
        outcome = self.reader(readers, {**settings, "readers.memory_limit": least - 1}, [])
        self.assertIn(outcome.code, (1, 4), outcome.output)
        self.assertRegex(outcome.output, r"readers.memory_limit .* is too low for one reader: it takes at least .* "
                         r"pages? of .* for ragged fields .* or lower .*samples.row_chunks")
        return least


class Memory(Ragged):
    SHAPES = ((1, 1), (3, 2)) if SANITIZED else ((1, 1), (2, 4), (3, 2), (5, 3))

    def test_least(self):
        settings = self.settings(self.documents())
        expected = self.digests(1, 1, settings)
        self.assertEqual(len(expected), 3 * 1003)
        for readers, trainers in self.SHAPES:
            with self.subTest(readers=readers, trainers=trainers):
                self.check(readers, trainers, settings, expected)

    def test_more_than_the_least(self):
        """Some rows stay, decoded or as stored."""
        settings = self.settings(self.documents())
        expected = self.digests(1, 1, settings)
        for cache, readers in (("off", 2), ("decoded", 3), ("stored", 2)):
            with self.subTest(cache=cache, readers=readers):
                more = {**settings, "delivery.trainers": readers, "readers.cache": cache}
                limit = {"readers.memory_limit": int(1.3 * self.least(readers, more))}
                self.assertEqual(self.digests(readers, readers, {**more, **limit}), expected)

    def test_padding_repeats_the_giant(self):
        """The last window is the giant alone: the last batch has it four times."""
        settings = self.settings(self.documents(samples=13, chunk=16, giant=12), order__shuffle="false",
                                 order__window_rows=1, samples__row_chunks=1, batch__last="pad", batch__global_size=8)
        expected = self.digests(1, 1, settings, ["--digest-padding"])
        self.assertEqual([line[3] for line in expected[8:16]], ["8", "9", "10", "11", "12", "12", "12", "12"])
        self.assertEqual(self.digests(2, 2, settings, ["--digest-padding"]), expected)

    @unittest.skipUnless(servers.nginx_program(), "needs nginx")
    def test_remote(self):
        """Rows are fetched ahead in memory for usual rows: the giant's other chunks are read by its worker."""
        uri = self.documents(chunk=64)
        expected = self.digests(1, 1, self.settings(uri))
        with contextlib.closing(servers.Nginx(self.datasets)) as server:
            settings = self.settings(f"{server.url}/{os.path.basename(uri)}", store__fetch_memory="1MiB")
            self.assertGreater(self.plan(2, {**settings, "delivery.trainers": 2})["memory"]["fetches"], 0)
            self.check(2, 2, settings, expected)

    def test_giant_sizes_no_other(self):
        """All rows stay in the memory of their items, and of the giant; not in that of as many giants."""
        settings = self.settings(self.documents(), delivery__trainers=1)
        memory = self.plan(1, settings)["memory"]
        items = GIANT + 2 * 30 * 1003
        self.assertLess(memory["pages"], 2 * 5 * items)

    def test_random(self):
        for i in range(RUNS):
            draw = random.Random(f"{SEED} {i}")
            shape = {"samples": draw.choice((90, 400, 1003)), "chunk": draw.choice((16, 256, 4096)),
                     "mean": draw.choice((0, 3, 100)), "seed": draw.randrange(3)}
            settings = self.settings(self.documents(**shape),
                                     batch__last=draw.choice(("drop", "pad", "partial")),
                                     batch__global_size=draw.choice((12, 36, 60)),
                                     order__window_rows=draw.choice((1, 2, 7, 30)),
                                     samples__row_chunks=draw.choice((1, 3, 20)),
                                     order__shuffle=draw.choice(("true", "false")),
                                     order__placement=draw.choice(("fixed", "local")),
                                     readers__cache=draw.choice(("off", "decoded", "stored")))
            readers, trainers = draw.choice((1, 2, 3, 4, 5)), draw.choice((1, 2, 3, 4))
            with self.subTest(i=i, readers=readers, trainers=trainers, **shape, **settings):
                self.check(readers, trainers, settings, self.digests(1, 1, settings))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + [word for word in sys.argv[1:] if word != "--long"])
