"""Tables of byte strings that are larger than memory: the strings are read with their rows. What trainers get is what was
written, whoever reads; memory is that of the plan; and offsets that do not fit are refused."""

import contextlib
import gzip
import itertools
import json
import os
import random
import struct
import sys
import unittest

import servers
from job import ALONE, SANITIZED, JobTest, program

MIB = 1 << 20
SAMPLES, CHUNK, MEAN = 1500, 16, 24_000
GZIP = {"name": "gzip", "configuration": {"level": 1}}
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}


def strings():
    """Of unequal lengths, some of them empty; as hard to compress as images."""
    draw = random.Random(1)
    return [draw.randbytes(0 if i % 41 == 7 else draw.randrange(2 * MEAN)) for i in range(SAMPLES)]


def write_array(path, kind, count, chunk, codecs, chunks, fill):
    """Chunks by their key, of an array of Zarr's version 3."""
    os.makedirs(os.path.join(path, "c"))
    grid = {"name": "regular", "configuration": {"chunk_shape": [chunk]}}
    with open(os.path.join(path, "zarr.json"), "w", encoding="ascii") as file:
        json.dump({"zarr_format": 3, "node_type": "array", "shape": [count], "data_type": kind, "chunk_grid": grid, "fill_value": fill,
                   "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "codecs": codecs}, file)
    for number, data in enumerate(chunks):
        with open(os.path.join(path, "c", str(number)), "wb") as file:
            file.write(data)


def write_numbers(path, values, chunk, code, kind):
    padded = values + [0] * (-len(values) % chunk)
    chunks = (struct.pack(f"<{chunk}{code}", *padded[i:i + chunk]) for i in range(0, len(padded), chunk))
    write_array(path, kind, len(values), chunk, [LITTLE], chunks, 0)


def encode(values, chunk):
    """A chunk of vlen-bytes."""
    values = values + [b""] * (chunk - len(values))
    return gzip.compress(struct.pack("<I", chunk) + b"".join(struct.pack("<I", len(value)) + value for value in values), 1)


def pieces(items):
    return (items[i:i + MIB].ljust(MIB, b"\0") for i in range(0, len(items), MIB))


def write_strings(path, values, chunk, shard=0):
    """`shard`: chunks of a shard."""
    codecs, inner = [{"name": "vlen-bytes"}, GZIP], [encode(values[i:i + chunk], chunk) for i in range(0, len(values), chunk)]
    if not shard:
        write_array(path, "bytes", len(values), chunk, codecs, inner, "")
        return
    outer = []
    for i in range(0, len(inner), shard):
        ends = list(itertools.accumulate(map(len, inner[i:i + shard]), initial=0))
        index = [(begin, end - begin) for begin, end in zip(ends, ends[1:])] + [(2**64 - 1, 2**64 - 1)] * (shard - len(ends) + 1)
        outer.append(b"".join(inner[i:i + shard]) + struct.pack(f"<{2 * shard}Q", *itertools.chain(*index)))
    sharding = {"name": "sharding_indexed", "configuration": {"chunk_shape": [chunk], "codecs": codecs, "index_codecs": [LITTLE],
                                                              "index_location": "end"}}
    write_array(path, "bytes", len(values), chunk * shard, [sharding], outer, "")


class Table(JobTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.uri, values = os.path.join(cls.datasets, "table"), strings()
        os.makedirs(cls.uri)
        with open(os.path.join(cls.uri, "zarr.json"), "w", encoding="ascii") as file:
            json.dump({"zarr_format": 3, "node_type": "group", "attributes": {}}, file)
        cls.bytes = sum(map(len, values))
        write_strings(os.path.join(cls.uri, "image"), values, CHUNK)
        write_strings(os.path.join(cls.uri, "sharded"), values, CHUNK, 4)
        write_numbers(os.path.join(cls.uri, "offsets"), list(itertools.accumulate(map(len, values), initial=0)), 512, "q", "int64")
        write_array(os.path.join(cls.uri, "items"), "uint8", cls.bytes, MIB, [LITTLE], pieces(b"".join(values)), 0)
        write_numbers(os.path.join(cls.uri, "label"), list(range(SAMPLES)), CHUNK, "q", "int64")

    def settings(self, uri=None, array="image", **more):
        return {"dataset.uri": uri or self.uri, "dataset.fields.label.array": "label", "dataset.fields.image.array": array,
                "batch.global_size": 12, "batch.last": "partial", "order.epochs": 2, "order.seed": 3, "order.window_rows": 4,
                "delivery.slots": 2, "dataset.hold_limit": "1MiB", "readers.threads": 1,
                **{key.replace("__", "."): value for key, value in more.items()}}

    def given(self, **more):
        """With offsets, so that nothing is read for the lengths."""
        settings = self.settings(dataset__fields__image__ragged__offsets="offsets", dataset__fields__image__ragged__values="image", **more)
        return {key: settings[key] for key in settings if key != "dataset.fields.image.array"}

    def limited(self, readers, settings, share=3):
        """The run takes a third of the strings at most."""
        least = self.plan(readers, settings)["memory"]["least"]
        self.assertLess(share * least, self.bytes)
        return {**settings, "readers.memory_limit": least}

    def test_values(self):
        """In the order of storage, the same samples as those of items and offsets."""
        plain = {"order.shuffle": "false", "order.epochs": 1}
        items = {**self.given(), **plain, "dataset.fields.image.ragged.values": "items"}
        expected = self.digests(1, 1, items)
        self.assertEqual(len(expected), SAMPLES)
        for settings in (self.settings(), self.settings(array="sharded"), self.given(), self.settings(samples__row_chunks=3)):
            self.assertEqual(self.digests(1, 1, {**settings, **plain}), expected)

    def test_little_memory(self):
        expected = self.digests(1, 1, self.settings())
        self.assertEqual(len(expected), 2 * SAMPLES)
        for readers, trainers, array in ((1, 2, "image"), (2, 2, "sharded"), (3, 3, "image")):
            with self.subTest(readers=readers, array=array):
                settings = self.settings(array=array, delivery__trainers=trainers)
                self.assertEqual(self.digests(readers, trainers, self.limited(readers, settings)), expected)
        settings = self.given(delivery__trainers=2)
        self.assertEqual(self.digests(2, 2, self.limited(2, settings)), expected)

    def test_rows_are_kept(self):
        """Decoded or as stored, some or all."""
        expected = self.digests(1, 1, self.settings())
        for cache, limit in (("decoded", "24MiB"), ("stored", "24MiB"), ("stored", "256MiB")):
            with self.subTest(cache=cache, limit=limit):
                settings = self.settings(readers__cache=cache, readers__memory_limit=limit)
                self.assertEqual(self.digests(2, 2, settings), expected)

    def test_strings_alone(self):
        """Their own chunks are the rows."""
        settings = {key: value for key, value in self.settings().items() if "label" not in key}
        self.assertEqual(self.digests(3, 2, settings), self.digests(1, 1, settings))

    @unittest.skipUnless(servers.nginx_program(), "needs nginx")
    def test_remote(self):
        expected = self.digests(1, 1, self.settings())
        with contextlib.closing(servers.Nginx(self.datasets)) as server:
            for array, room in (("image", "4MiB"), ("sharded", "4MiB"), ("image", "1MiB")):
                with self.subTest(array=array, room=room):
                    settings = self.settings(f"{server.url}/table", array, delivery__trainers=2, store__fetch_memory=room)
                    self.assertGreater(self.plan(2, settings)["memory"]["fetches"], 0)
                    self.assertEqual(self.digests(2, 2, self.limited(2, settings, 1)), expected)

    def peak(self, settings):
        """The most bytes that a reader alone had resident."""
        path = os.path.join(self.folder, "peak")
        watch = f'"$@" && grep VmHWM /proc/$PPID/status > {path}'
        outcome = self.reader(ALONE, settings, ("sh", "-c", watch, "sh", program("penstock-trainer")), ["--quiet"])
        self.assertEqual(outcome.code, 0, outcome.output)
        with open(path, encoding="ascii") as file:
            return int(file.read().split()[1]) * 1024

    @unittest.skipIf(SANITIZED, "sanitizers have memory of their own")
    def test_resident(self):
        """A reader's memory is what the plan says, and that of the program: with room for all strings so much more."""
        for settings in (self.settings(delivery__trainers=1), self.given(delivery__trainers=1)):
            limited = self.limited(1, settings)
            little, much = self.peak(limited), self.peak({**settings, "readers.memory_limit": "256MiB"})
            self.assertLess(little, limited["readers.memory_limit"] + 64 * MIB)
            self.assertLess(little + self.bytes // 2, much)

    def test_one_bad_chunk(self):
        """Behind the start, where nothing looked for lengths: the run ends, or samples are masked."""
        victim, good = os.path.join(self.uri, "image", "c", "3"), {**self.given(), "order.epochs": 1}
        masked = {**good, "errors.bad_sample": "mask"}
        expected = {int(line[3]): line[4] for line in self.digests(1, 1, good)}
        with open(victim, "rb") as file:
            stored = file.read()
        with open(victim, "wb") as file:
            file.write(stored[:-100])
        try:
            outcome = self.reader(2, {**good, "delivery.trainers": 2}, [])
            self.assertNotEqual(outcome.code, 0)
            self.assertIn("array 'image' chunk 3: gzip: ", outcome.output)
            self.assertIn("bytes by the array's offsets", outcome.output)
            found = {int(line[3]): line[4] for line in self.digests(2, 2, masked)}
        finally:
            with open(victim, "wb") as file:
                file.write(stored)
        lost = [i for i in range(3 * CHUNK, 4 * CHUNK) if i % 41 != 7]  # the others have no byte in the chunk
        self.assertEqual(found, {i: digest for i, digest in expected.items() if i not in lost})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + [word for word in sys.argv[1:] if word != "--long"])
