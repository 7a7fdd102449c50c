"""Arrays of values of variable length (strings, byte strings, arrays), as zarr-python 2 and 3 write them: what trainers get is
what zarr-python reads; and chunks that are damaged are named.

Run by a Python with NumPy and zarr: Zarr2 by one with zarr 2, Zarr3 by one with zarr 3.
"""

import glob
import json
import os
import random
import struct
import sys
import unittest
import warnings

from job import ALONE, JobTest, environment, program, run

try:
    import numcodecs
    import numpy as np
    import zarr
except ImportError as error:
    print(f"skipped: {sys.executable}: {error}")
    sys.exit(77)

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "samples_trainer.py")
PYTHON = os.path.join(os.path.dirname(SCRIPT), "..", "..", "python")
SAMPLES, TITLES = 37, 9
IS_ZARR3 = not zarr.__version__.startswith("2.")


def texts(seed):
    """Empty ones, others than ASCII, a long one, and one that no codec makes short."""
    rng = random.Random(seed)
    found = ["", "", "Grüße", "日本語", "x" * 90_000, "".join(chr(rng.randrange(32, 127)) for _ in range(3000))]
    while len(found) < SAMPLES:
        found.append("".join(rng.choice("ab cé日\n") for _ in range(rng.choice((0, 1, 7, 60)))))
    rng.shuffle(found)
    return found


class Values(JobTest):
    """Tests of both; see the classes below."""

    def write(self, seed=1, name="store.zarr"):
        """A store with a field of frames. Returns its path, and the items of each value by the array's name."""
        path = os.path.join(self.folder, name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            group = zarr.open_group(path, mode="w")
            self.write_frames(group, np.arange(SAMPLES * 3, dtype="f4").reshape(SAMPLES, 3))
            strings = texts(seed)
            self.write_values(group, strings)
            self.write_joined(group, texts(seed + 100)[:TITLES])
            group = zarr.open_group(path, mode="r")
            values = {"text": [np.frombuffer(text.encode(), np.uint8) for text in group["text"][:]],
                      "raw": [np.frombuffer(raw, np.uint8) for raw in group["raw"][:]]}
            self.assertEqual([bytes(value).decode() for value in values["text"]], strings)
            if "lists" in group:
                values["lists"] = list(group["lists"][:])
            titles, video = [np.frombuffer(text.encode(), np.uint8) for text in group["title"][:]], group["video"][:]
            self.assertLess(len(set(video.tolist())), TITLES)  # some have no sample, and some have several
            values["joined"] = [titles[entry] for entry in video]
            rows, starts = group["rows/data"][:], group["rows/indptr"][:]
            values["rows"] = [rows[starts[entry]:starts[entry + 1]] for entry in video]
            if "sharded" in group:
                values["sharded"] = [np.frombuffer(text.encode(), np.uint8) for text in group["sharded"][:]]
        return path, values

    def write_joined(self, group, titles):
        """Titles, and rows of numbers, of which each sample has one."""
        self.write_strings(group, "title", titles)
        rng = np.random.default_rng(len(titles[0]))
        video = rng.integers(0, TITLES, SAMPLES).astype("u1")
        video[video == 3] = TITLES - 1
        lengths = rng.integers(0, 9, TITLES) * (np.arange(TITLES) != 5)
        starts = np.concatenate(([0], np.cumsum(lengths))).astype("i4")
        data = rng.integers(0, 99, starts[-1]).astype("f4")
        for name, values in (("video", video), ("rows/indptr", starts), ("rows/indices", data.astype("i4")), ("rows/data", data)):
            self.write_numbers(group, name, values)

    def index_out_of_range(self):
        path, _ = self.write()
        for number, array, entries in ((TITLES, "title", f"array 'title' has {TITLES} values"),
                                       (255, "rows", f"array 'rows/indptr' has {TITLES} offsets but the last")):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                zarr.open_group(path, mode="r+")["video"][20] = number
            outcome = self.run_job(path, {"f": f"{{array: {array}, index: video}}"}, ALONE, 1)
            self.assertNotEqual(outcome.code, 0)
            self.assertIn(f"field 'f': array 'video' position 20: index {number} is out of range: {entries}", outcome.output)

    def configuration(self, uri, fields):
        path = os.path.join(self.folder, "run.yaml")
        lines = "".join(f"    {name}: {text}\n" for name, text in fields.items())
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"dataset:\n  uri: {uri}\n  fields:\n    x: {{array: x}}\n{lines}")
        return path

    def run_job(self, uri, fields, readers=2, trainers=2, **settings):
        path = self.configuration(uri, fields)
        settings = {"delivery.trainers": trainers, "batch.global_size": 6, "batch.last": "partial", "order.epochs": 1, **settings}
        return self.reader(readers, settings, (sys.executable, SCRIPT, self.folder), ["--config", path, "--quiet"],
                           env=environment(PYTHONPATH=PYTHON))

    def samples(self, uri, fields, *args, **settings):
        """Samples of one epoch as trainers get them: anchor -> (batch, place in the batch)."""
        for old in glob.glob(os.path.join(self.folder, "*.npz")):
            os.remove(old)
        outcome = self.run_job(uri, fields, *args, **settings)
        self.assertEqual(outcome.code, 0, outcome.output)
        found = {}
        for name in glob.glob(os.path.join(self.folder, "?.*.npz")):
            with np.load(name) as saved:
                batch = dict(saved)
            for i, index in enumerate(batch["indices"].tolist()):
                self.assertNotIn(index, found)
                found[index] = batch, i
        return found

    def check(self, uri, values):
        """A job has at most eight ragged fields."""
        forms = {name: f"{{array: {name}}}" for name in values}
        forms |= {"joined": "{array: title, index: video}", "rows": "{array: rows, index: video}",
                  "opening": "{array: title, index: video, deliver: {pad: 5, truncate: true}}",
                  "titles": '{array: title, index: video, steps: "-1:1"}',
                  "padded": "{array: text, deliver: {pad: 9, truncate: true}}", "pair": '{array: raw, steps: "-1:1"}'}
        self.check_fields(uri, values, {name: forms[name] for name in forms if name not in ("padded", "pair")}, 1, 1)
        self.check_fields(uri, values, {name: forms[name] for name in forms if name not in ("sharded", "lists", "text")}, 2, 2)

    def check_fields(self, uri, values, fields, readers, trainers):
        count = len(values["text"])
        found = self.samples(uri, fields, readers, trainers)
        self.assertEqual(len(found), count - count // SAMPLES)  # a step before needs a frame before
        for index, (batch, i) in found.items():
            np.testing.assert_array_equal(batch["x"][i], np.arange(3) + 3 * (index % SAMPLES))
            for name in values.keys() & fields:
                begin, end = batch[f"{name}.offsets"][i:i + 2]
                self.assertEqual(batch[name].dtype, values[name][index].dtype)
                np.testing.assert_array_equal(batch[name][begin:end], values[name][index])
            for name in {"pair", "titles"} & fields.keys():
                value = "raw" if name == "pair" else "joined"
                begin, end = batch[f"{name}.offsets"][2 * i], batch[f"{name}.offsets"][2 * i + 2]
                pair = np.concatenate((values[value][index - 1], values[value][index]))
                np.testing.assert_array_equal(batch[name][begin:end], pair)
            for name, value, most in (("padded", "text", 9), ("opening", "joined", 5)):
                if name in fields:
                    cut = values[value][index][:most]
                    self.assertEqual(batch[f"{name}.length"][i], len(cut))
                    np.testing.assert_array_equal(batch[name][i], np.pad(cut, (0, most - len(cut))))

    def one_store(self):
        path, values = self.write()
        self.check(path, values)
        with open(os.path.join(self.folder, "strings.json"), encoding="utf-8") as file:
            strings = {"text": "utf-8", "raw": "bytes", "joined": "utf-8", "titles": "utf-8"}
            self.assertEqual(json.load(file), strings | ({"sharded": "utf-8"} if IS_ZARR3 else {}))

    def several_stores(self):
        one, first = self.write(1, "a.zarr")
        two, second = self.write(2, "b.zarr")
        self.check(f"[{one}, {two}]", {name: first[name] + second[name] for name in first})

    def chunk(self, path, number):
        """The file of the array raw, whose chunks have no codec."""
        return os.path.join(path, "raw", *(("c", str(number)) if IS_ZARR3 else (str(number),)))

    def verify(self, path, code, *more):
        done = run([program("penstock"), "verify", path, *more])
        self.assertEqual(done.code, code, done.output)
        return done.output

    def damaged_chunks(self):
        path, values = self.write()
        self.assertRegex(self.verify(path, 0, "--memory", "3MiB"), r"raw +8 chunks")
        fields = {"raw": "{array: raw}"}
        victim = self.chunk(path, 2)
        with open(victim, "rb") as file:
            good = file.read()
        count, length = struct.unpack("<II", good[:8])
        for bad, message in ((good[:-1], "bytes are left of the chunk"),
                             (good[:2], "2 bytes are too few"),
                             (good[:4], "the chunk ends before value 0 of 5"),
                             (good + b"?", "1 bytes follow the last value"),
                             (struct.pack("<I", count + 1) + good[4:], "has 6 values of variable length"),
                             (struct.pack("<II", count, 1 << 31) + good[8:], "value 0 has 2147483648 bytes")):
            with open(victim, "wb") as file:
                file.write(bad)
            outcome = self.run_job(path, fields, ALONE, 1)
            self.assertNotEqual(outcome.code, 0)
            self.assertIn(message, outcome.output)
            self.assertEqual(outcome.output.count("array 'raw' chunk 2"), 1, outcome.output)
            told = self.verify(path, 2, "--digest")
            self.assertRegex(told, f"raw +8 chunks(, 1 missing)?, 1 BAD\n(.*\n)*bad: .*array 'raw' chunk 2: .*{message}")
            self.assertNotIn("\ndigest ", told)
        os.remove(victim)
        self.assertRegex(self.verify(path, 0), r"raw +8 chunks, \d missing\n")
        self.assertRegex(self.verify(path, 2, "--missing", "fail"), r"raw +8 chunks, (\d) missing, \1 BAD\n")
        self.assertIn("raise --memory", self.verify(path, 1, "text", "--memory", "64KiB", "--threads", "1"))
        refused = run([program("penstock"), "rechunk", path, path + ".new"])
        self.assertEqual(refused.code, 4)
        self.assertIn("name the others with --arrays", refused.output)
        self.assertIn("restore it", self.run_job(path, fields, ALONE, 1, **{"errors.missing_chunk": "fail"}).output)
        found = self.samples(path, fields)
        for index, (batch, i) in found.items():
            begin, end = batch["raw.offsets"][i:i + 2]
            wanted = b"" if 10 <= index < 15 else bytes(values["raw"][index])
            self.assertEqual(bytes(batch["raw"][begin:end]), wanted)

    def small_room(self):
        """Joined values are held, where the limit is what they take, and refused one byte below; others are read row by row. What
        looks at chunks needs room for one."""
        path, values = self.write()
        most = max(len(b"".join(map(bytes, values["raw"][i:i + 5]))) for i in range(0, SAMPLES, 5))
        most = 2 * (most + 4 * 6)  # as stored, and decoded
        fields, total = {"raw": "{array: raw, index: video}"}, sum(map(len, values["raw"]))
        plan = run([program("penstock"), "plan", "--config", self.configuration(path, fields), "--set", "batch.global_size=6"])
        self.assertRegex(plan.output, r"held arrays .* chunks of up to \d+.\d KiB on their way")
        for text, limit in (("{array: raw, index: video}", total), ("{array: raw}", 0)):
            found = self.samples(path, {"raw": text, "video": "video"}, **{"dataset.hold_limit": str(limit)})
            for index, (batch, i) in found.items():
                begin, end = batch["raw.offsets"][i:i + 2]
                entry = batch["video"][i] if limit else index
                self.assertEqual(bytes(batch["raw"][begin:end]), bytes(values["raw"][entry]))
        refused = self.run_job(path, fields, **{"dataset.hold_limit": str(total - 1)})
        self.assertNotEqual(refused.code, 0)
        self.assertIn("field 'raw': array 'raw' takes ", refused.output)
        self.assertIn("joined arrays are held whole: raise dataset.hold_limit", refused.output)
        self.verify(path, 0, "raw", "--memory", str(most), "--threads", "1")
        self.assertIn("raise --memory", self.verify(path, 1, "raw", "--memory", str(most - 1), "--threads", "1"))

    def refused(self):
        path, _ = self.write()
        for text, settings, message in (("{array: text, deliver: {dense: [9]}}", {}, "dense takes columns of indices"),
                                        ("{array: text, cast: float32}", {}, "cast, scale and offset are not for array 'text'"),
                                        ("{array: text, index: rows/data}", {}, "index array 'rows/data' must be one-dimensional and of integers"),
                                        ("{array: rows, index: video, deliver: dense}", {}, "joined fields are delivered as csr or padded"),
                                        ("{array: rows, index: video}", {"dataset.hold_limit": "64"}, "joined arrays are held whole: raise"),
                                        ("{array: text, deliver: {pad: 9}}", {}, "more than deliver.pad (9)"),
                                        ("{array: title, index: video}", {"dataset.hold_limit": "2KiB"}, "raise dataset.hold_limit (2.00 KiB)")):
            outcome = self.run_job(path, {"f": text}, ALONE, 1, **settings)
            self.assertNotEqual(outcome.code, 0)
            self.assertIn(message, outcome.output)


@unittest.skipIf(IS_ZARR3, "zarr 3 is installed")
class Zarr2(Values):
    def write_frames(self, group, frames):
        group.create_dataset("x", data=frames, chunks=(5, 3))

    def write_numbers(self, group, name, values):
        group.create_dataset(name, data=values, chunks=13)

    def write_strings(self, group, name, strings):
        group.create_dataset(name, shape=len(strings), chunks=4, dtype=object, object_codec=numcodecs.VLenUTF8())[:] = np.array(strings, object)

    def write_values(self, group, strings):
        more = {"shape": SAMPLES, "dtype": object}
        raw = np.array([text.encode() for text in strings], object)
        group.create_dataset("text", chunks=8, object_codec=numcodecs.VLenUTF8(), **more)[:] = np.array(strings, object)
        group.create_dataset("raw", chunks=5, object_codec=numcodecs.VLenBytes(), compressor=None, **more)[:] = raw
        lists = group.create_dataset("lists", chunks=6, object_codec=numcodecs.VLenArray("<i4"), compressor=numcodecs.Zlib(), **more)
        for i in range(SAMPLES):
            lists[i] = np.arange(i % 5, dtype="i4") * i

    test_one_store, test_several_stores = Values.one_store, Values.several_stores


class Zarr2Bad(Zarr2):
    """What is bad input in a store of zarr 3, too."""

    test_one_store = test_several_stores = None
    test_damaged_chunks, test_refused, test_small_room = Values.damaged_chunks, Values.refused, Values.small_room
    test_index_out_of_range = Values.index_out_of_range


@unittest.skipUnless(IS_ZARR3, "zarr 2 is installed")
class Zarr3(Values):
    def write_frames(self, group, frames):
        group.create_array("x", shape=frames.shape, chunks=(5, 3), dtype="f4")[:] = frames

    def write_numbers(self, group, name, values):
        group.create_array(name, shape=values.shape, chunks=(13,), dtype=values.dtype)[:] = values

    def write_strings(self, group, name, strings):
        group.create_array(name, shape=(len(strings),), chunks=(4,), dtype=str)[:] = np.array(strings, object)

    def write_values(self, group, strings):
        raw = np.array([text.encode() for text in strings], object)
        group.create_array("text", shape=(SAMPLES,), chunks=(8,), dtype=str)[:] = np.array(strings, object)
        group.create_array("raw", shape=(SAMPLES,), chunks=(5,), dtype="variable_length_bytes", compressors=None)[:] = raw
        sharded = group.create_array("sharded", shape=(SAMPLES,), chunks=(3,), shards=(12,), dtype=str)
        sharded[:] = np.array(strings[::-1], object)

    test_one_store, test_several_stores = Values.one_store, Values.several_stores
    test_damaged_chunks, test_refused, test_small_room = Values.damaged_chunks, Values.refused, Values.small_room
    test_index_out_of_range = Values.index_out_of_range


if __name__ == "__main__":
    unfit = ["Zarr2"] * IS_ZARR3 + ["Zarr3"] * (not IS_ZARR3 or zarr.__version__.startswith("3.0."))
    if any(word.startswith(tuple(unfit)) for word in sys.argv):
        print(f"skipped: {sys.executable} has zarr {zarr.__version__}")
        sys.exit(77)
    unittest.main()
