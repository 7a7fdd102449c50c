"""What fields may be made of, against NumPy and zarr-python: casts, scales, sample axes, groups,
joined stores, and the layouts that are found in the wild. Every sample of each run is compared, with
one reader and with three; and, where there is nginx, with two over HTTP.

Run by a Python with NumPy, xxhash and zarr; its major version (2 or 3) is the format that is tested.
"""

import json
import os
import sys
import warnings

import servers
from job import JobTest, run, program

try:
    import numpy as np
    import xxhash
    import zarr
except ImportError as error:
    print(f"skipped: {sys.executable}: {error}")
    sys.exit(77)

import unittest

EXIT_STOPPED_EARLY = 3
FORMAT = 3 if zarr.__version__.startswith("3") else 2


def write(path, arrays):
    """Writes {path in the group: (values, chunks)} or (values, chunks, {options}). Option `skip`:
    that many indices along axis 0 are not written, and so are the fill value."""
    root = zarr.open_group(path, mode="a")
    for name, (values, chunks, *options) in arrays.items():
        options = dict(options[0]) if options else {}
        skip = options.pop("skip", 0)
        group, _, leaf = name.rpartition("/")
        parent = root.require_group(group) if group else root
        create = getattr(parent, "create_array", None) or parent.create_dataset
        array = create(leaf, shape=values.shape, chunks=chunks, dtype=values.dtype, **options)
        array[skip:] = values[skip:]
    return path


def bfloat16(values):
    """float32 rounded to nearest even, as the high halves of its bits."""
    bits = np.ascontiguousarray(values, "f4").view("u4").astype("u8")
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("u2")
    return np.where(np.isnan(values), (bits >> 16 | 0x40).astype("u2"), rounded)


def converted(values, cast=None, scale=None, offset=None):
    """What docs/use/datasets.md says that a cast does."""
    wide = values.dtype.itemsize > 2 and values.dtype != np.float32
    work = np.float64 if wide else np.float32
    cast = cast or (values.dtype if values.dtype.kind == "f" else "float32")
    with np.errstate(over="ignore", invalid="ignore"):
        items = values.astype(work)
        if scale is not None or offset is not None:
            items = items * work(scale or 1) + work(offset or 0)
        return bfloat16(items.astype("f4")) if cast == "bfloat16" else items.astype(cast)


class FieldTest(JobTest):
    SEED = 5

    def settings(self, uri, fields, more):
        settings = {"dataset.uri": uri, "batch.global_size": 12, "batch.last": "partial",
                    "order.seed": self.SEED, "order.window_rows": 3, "readers.threads": 1, **more}
        for name, properties in (fields or {}).items():
            properties = {"array": properties} if isinstance(properties, str) else properties
            for key, value in properties.items():
                settings[f"dataset.fields.{name}.{key}"] = value
        return settings

    def expect_digests(self, lines, expected):
        """`expected`: {field: array whose index is the sample}."""
        for line in lines:
            sample = int(line[3])
            digest = xxhash.xxh3_64()
            for field in sorted(expected, key=lambda name: name.encode()):
                digest.update(np.ascontiguousarray(expected[field][sample]).tobytes())
            self.assertEqual(line[4], digest.hexdigest(), f"sample {sample}")

    def check(self, uri, fields, expected, resume_at=None, **more):
        settings = self.settings(uri, fields, {key.replace("__", "."): value
                                               for key, value in more.items()})
        whole = self.digests(1, 1, settings)
        count = len(next(iter(expected.values())))
        self.assertEqual(sorted(int(line[3]) for line in whole), list(range(count)))
        self.expect_digests(whole, expected)
        self.assertEqual(self.digests(3, 3, settings), whole)
        if servers.nginx_program():
            served = {**settings, "dataset.uri": self.serve(uri)}
            self.assertEqual(self.digests(2, 3, served), whole)
        if resume_at:
            state = os.path.join(self.folder, "state")
            head = self.digests(3, 2, settings, ["--steps", str(resume_at), "--state",
                                                 state + ".{rank}"], expect=EXIT_STOPPED_EARLY)
            tail = self.digests(1, 1, settings, options=["--resume", state + ".0"])
            self.assertEqual(head + tail, whole)

    def serve(self, uri):
        """The same over HTTP; of several stores all but the first."""
        self.server = servers.Nginx(self.folder)
        self.addCleanup(self.server.close)
        uris = uri.split(",")
        local, remote = uris[:-1][:1], uris[len(uris[:-1][:1]):]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # v3 has no consolidated metadata, officially
            for path in remote:
                zarr.consolidate_metadata(path)
        return ",".join(local + [self.server.url + path[len(self.folder):] for path in remote])

    def refused(self, uri, fields=None, **more):
        """What `penstock plan` says."""
        command = [program("penstock"), "plan"]
        more = {key.replace("__", "."): value for key, value in more.items()}
        for key, value in self.settings(uri, fields, more).items():
            command += ["--set", f"{key}={value}"]
        outcome = run(command)
        self.assertNotEqual(outcome.code, 0, outcome.output)
        return outcome.output

    def path(self, name):
        return os.path.join(self.folder, name)


class Casts(FieldTest):
    N = 75

    def test_casts(self):
        rng = np.random.default_rng(1)
        n = self.N
        wild = rng.standard_normal((n, 5, 9)) * 10.0 ** rng.integers(-44, 38, (n, 5, 9))
        wild[3, 0, :6] = [np.nan, np.inf, -np.inf, -0.0, 65519.9999, 65520]
        arrays = {
            "f4": (wild.astype("f4"), (8, 5, 9), {"fill_value": 7}),
            "f8": (wild, (4, 2, 9)),                 # nested, split
            "big": (wild.astype(">f4" if FORMAT == 2 else "f4"), (8, 3, 4)),
            "f2": (rng.standard_normal((n, 3)).astype("f2"), (20, 3)),  # held
            "u1": (rng.integers(0, 256, (n, 4, 4)).astype("u1"), (8, 4, 4), {"skip": 16}),
            "i2": (rng.integers(-32768, 32768, (n, 7)).astype("i2"), (8, 7)),
            "i8": (rng.integers(-2**62, 2**62, (n, 2)), (8, 2)),
            "b1": (rng.integers(0, 2, (n, 2)).astype(bool), (8, 2)),
            "same": (rng.standard_normal((n, 2)).astype("f4"), (8, 2)),
            "words": (rng.standard_normal((11, 6)).astype("f4"), (4, 6)),
            "index": (rng.integers(0, 11, n), (30,)),
        }
        uri = write(self.path("casts.zarr"), arrays)
        casts = {
            "f4_half": ("f4", {"cast": "float16"}),
            "f4_brain": ("f4", {"cast": "bfloat16"}),
            "f4_shifted": ("f4", {"offset": -5}),
            "f8_half": ("f8", {"cast": "float16"}),
            "f8_single": ("f8", {"cast": "float32", "scale": 0.1}),
            "big_brain": ("big", {"cast": "bfloat16", "scale": 3, "offset": 0.25}),
            "f2_single": ("f2", {"cast": "float32"}),
            "u1_unit": ("u1", {"scale": 1 / 255, "offset": -0.5}),
            "u1_half": ("u1", {"cast": "float16", "scale": 1 / 255}),
            "i2_double": ("i2", {"cast": "float64", "scale": 0.01, "offset": 273.15}),
            "i8_single": ("i8", {"cast": "float32"}),
            "b1_single": ("b1", {"cast": "float32"}),
            "same": ("same", {"cast": "float32"}),
            "text": ("words", {"cast": "float16", "index": "index"}),
        }
        values = {name: np.array(entry[0]) for name, entry in arrays.items()}
        values["u1"][:16] = 0
        expected = {}
        for name, (array, parts) in casts.items():
            source = values[array][values["index"]] if "index" in parts else values[array]
            parts = {part: value for part, value in parts.items() if part != "index"}
            expected[name] = converted(source, **parts)
        fields = {name: {"array": array, **parts} for name, (array, parts) in casts.items()}
        self.check(uri, fields, expected, resume_at=3, dataset__hold_limit="16KiB")
        self.check(uri, fields, expected, order__epochs=1, dataset__hold_limit="1GiB")

    def test_kept_rows_and_fill_values(self):
        """Later epochs, from rows kept decoded and as stored; chunks that are not there."""
        values = np.arange(40 * 6, dtype="f4").reshape(40, 6)
        options = {"skip": 12, "fill_value": 3.3}
        uri = write(self.path("kept.zarr"), {"x": (values, (4, 6), options)})
        values[:12] = 3.3
        expected = {"x": converted(values, "float16", 2, 1)}
        fields = {"x": {"cast": "float16", "scale": 2, "offset": 1}}
        for cache in ("decoded", "stored"):
            settings = self.settings(uri, fields, {"order.epochs": 3, "readers.cache": cache})
            lines = self.digests(2, 2, settings)
            self.assertEqual(len(lines), 120)
            self.expect_digests(lines, expected)

    def test_refused(self):
        uri = write(self.path("refused.zarr"), {"x": (np.zeros((4, 2), "c8"), (2, 2))})
        output = self.refused(uri, {"x": {"cast": "float16"}})
        self.assertIn("items of complex64 cannot become float16", output)

    def test_states_of_other_casts_are_refused(self):
        uri = write(self.path("state.zarr"), {"x": (np.ones((40, 2), "f4"), (2, 2))})
        state = self.path("state")
        self.digests(1, 1, self.settings(uri, {"x": {"scale": 2}}, {}),
                     ["--steps", "2", "--state", state], expect=EXIT_STOPPED_EARLY)
        for parts in ({"array": "x"}, {"scale": 3}, {"scale": 2, "cast": "float16"},
                      {"scale": 2, "offset": 1}):
            outcome = self.reader(1, self.settings(uri, {"x": parts}, {}), [],
                                  ["--resume", state])
            self.assertNotEqual(outcome.code, 0)
            self.assertIn("resume state: it is of dataset", outcome.output)


class Axes(FieldTest):
    N = 45

    def arrays(self):
        rng = np.random.default_rng(2)
        n = self.N
        return {
            "wind": (rng.standard_normal((3, n, 6, 5)).astype("f4"), (3, 4, 6, 5)),
            "split": (rng.standard_normal((3, n, 6)).astype("f4"), (2, 4, 4)),
            "last": (rng.integers(0, 99, (7, n)).astype("i4"), (3, 8)),
            "first": (rng.standard_normal((n, 2)), (4, 2)),
            "held": (rng.standard_normal((2, n)).astype("f2"), (2, 10)),
            "words": (rng.standard_normal((6, 11)).astype("f4"), (6, 2)),
            "index": (rng.integers(0, 11, n), (n,)),
        }

    def test_axes_of_fields(self):
        arrays = self.arrays()
        uri = write(self.path("axes.zarr"), arrays)
        values = {name: entry[0] for name, entry in arrays.items()}
        fields = {"wind": {"sample_axis": 1},
                  "split": {"sample_axis": 1, "cast": "float16"},
                  "last": {"sample_axis": 1},
                  "first": {"array": "first", "sample_axis": 0},
                  "held": {"sample_axis": 1},
                  "text": {"array": "words", "index": "index", "sample_axis": 1}}
        expected = {"wind": np.moveaxis(values["wind"], 1, 0),
                    "split": np.moveaxis(values["split"], 1, 0).astype("f2"),
                    "last": values["last"].T, "first": values["first"], "held": values["held"].T,
                    "text": values["words"].T[values["index"]]}
        self.check(uri, fields, expected, resume_at=2)
        self.check(uri, fields, expected, dataset__hold_limit="1KiB")

    @unittest.skipIf(FORMAT == 2, "shards are of v3")
    def test_axes_of_shards(self):
        data = np.random.default_rng(9).standard_normal((3, self.N, 6, 5)).astype("f4")
        uri = write(self.path("shards.zarr"), {
            "data": (data, (3, 4, 3, 5), {"shards": (3, 16, 6, 5)}),
            "late": (data, (1, 4, 6, 5), {"shards": (2, 8, 6, 10)})})
        turned = np.moveaxis(data, 1, 0)
        self.check(uri, {"plain": {"array": "data", "sample_axis": 1},
                         "half": {"array": "data", "sample_axis": 1, "cast": "float16"},
                         "late": {"sample_axis": 1, "scale": 2}},
                   {"plain": turned, "half": turned.astype("f2"), "late": turned * 2}, resume_at=2)
        self.check(uri, {"last": {"array": "data", "sample_axis": 3}},
                   {"last": np.moveaxis(data, 3, 0)}, batch__global_size=3)

    @unittest.skipIf(FORMAT == 2, "chunks are transposed in v3")
    def test_axes_of_transposed_chunks(self):
        data = np.random.default_rng(9).standard_normal((3, self.N, 6)).astype("f4")
        transpose = {"filters": [zarr.codecs.TransposeCodec(order=(2, 0, 1))]}
        uri = write(self.path("turned.zarr"), {"data": (data, (2, 4, 4), transpose)})
        turned = np.moveaxis(data, 1, 0)
        self.check(uri, {"first": {"array": "data", "sample_axis": 1},
                         "brain": {"array": "data", "sample_axis": 1, "cast": "bfloat16"}},
                   {"first": turned, "brain": bfloat16(turned)})

    @unittest.skipIf(FORMAT == 3, "column order and structured dtypes are of v2")
    def test_column_order_and_members(self):
        rng = np.random.default_rng(9)
        table = np.zeros(self.N, dtype=[("a", ">f4"), ("b", "<i2"), ("c", "u1")])
        table["a"], table["b"] = rng.standard_normal(self.N), rng.integers(-99, 99, self.N)
        columns = rng.standard_normal((3, self.N, 6)).astype("f4")
        uri = write(self.path("columns.zarr"), {
            "table": (table, (4,)), "columns": (columns, (3, 4, 4), {"order": "F"})})
        self.check(uri, {"half": {"array": "table.a", "cast": "float16"}, "a": "table.a",
                         "b": {"array": "table.b", "scale": 0.5},
                         "first": {"array": "columns", "sample_axis": 1},
                         "brain": {"array": "columns", "sample_axis": 1, "cast": "bfloat16"}},
                   {"half": table["a"].astype("f2"), "a": table["a"].astype("f4"),
                    "b": converted(table["b"], None, 0.5), "first": np.moveaxis(columns, 1, 0),
                    "brain": bfloat16(np.moveaxis(columns, 1, 0))})

    def test_one_array_along_both_axes(self):
        """Of chunks without codecs, one field wants all and the other a part."""
        square = np.random.default_rng(9).standard_normal((24, 24)).astype("f4")
        big = np.arange(24 * 50, dtype="f4").reshape(24, 50)
        raw = {"compressors": None} if FORMAT == 3 else {"compressor": None}
        uri = write(self.path("square.zarr"), {"square": (square, (24, 8), raw),
                                               "big": (big, (4, 50))})
        self.check(uri, {"a": {"array": "square", "sample_axis": 1, "cast": "float16"},
                         "b": {"array": "square", "sample_axis": 0, "cast": "float16"},
                         "big": "big"},
                   {"a": square.T.astype("f2"), "b": square.astype("f2"), "big": big},
                   dataset__hold_limit=1)

    def test_axis_of_the_dataset(self):
        """Default fields are the arrays that are as long along that axis."""
        arrays = self.arrays()
        uri = write(self.path("axis.zarr"), arrays)
        names = ("wind", "split", "last", "held")
        expected = {name: np.moveaxis(arrays[name][0], 1, 0) for name in names}
        self.check(uri, None, expected, dataset__sample_axis=1)
        output = self.refused(uri, {"wind": {"sample_axis": 4}})
        self.assertIn("array 'wind' has no axis '4'", output)

    def test_names_of_dimensions(self):
        """v3's, or those that xarray writes into v2's attributes; also from consolidated metadata."""
        n = self.N
        wind = np.arange(3 * n * 4, dtype="f4").reshape(3, n, 4)
        calm = np.arange(n * 5, dtype="f4").reshape(n, 5)
        arrays = {"wind": (wind, (3, 4, 4)), "calm": (calm, (4, 5)), "x": (np.zeros(5), (5,))}
        names = {"wind": ["level", "time", "x"], "calm": ["time", "x"], "x": ["x"]}
        if FORMAT == 3:
            arrays = {name: (*entry, {"dimension_names": names[name]}) for name, entry in arrays.items()}
        uri = write(self.path("names.zarr"), arrays)
        if FORMAT == 2:
            for name, value in names.items():
                zarr.open_group(uri)[name].attrs["_ARRAY_DIMENSIONS"] = value
        expected = {"wind": np.moveaxis(wind, 1, 0), "calm": calm}
        self.check(uri, None, expected, dataset__sample_axis="time")  # and served, consolidated
        output = self.refused(uri, {"wind": {"sample_axis": "tiem"}})
        self.assertIn("array 'wind' has no axis 'tiem'", output)
        self.assertIn("it has 3, from 0 on: 0 level, 1 time, 2 x", output)


class Stores(FieldTest):
    LENGTHS = (37, 5, 60)
    VIDEOS = (4, 9, 6)

    def stores(self, lengths=LENGTHS):
        """Three stores whose lengths are no multiples of the chunks'; their parts of each array."""
        rng = np.random.default_rng(3)
        uris, parts = [], []
        for i, (n, v) in enumerate(zip(lengths, self.VIDEOS)):
            arrays = {"frames": (rng.standard_normal((n, 3, 4)).astype("f4"), (8, 3, 4)),
                      "split": (rng.integers(0, 99, (n, 7)).astype("i2"), (4, 3)),
                      "label": (rng.integers(0, 99, (n, 2)), (11, 2)),
                      "text": (rng.standard_normal((v, 5)).astype("f4"), (2, 5)),
                      "index": (rng.integers(0, v, n).astype("i4"), (n,))}
            uris.append(write(self.path(f"part{i}.zarr"), arrays))
            parts.append({name: entry[0] for name, entry in arrays.items()})
        return uris, parts

    FIELDS = {"frames": {"array": "frames", "cast": "float16"}, "split": "split", "label": "label",
              "text": {"array": "text", "index": "index"}}

    def expected(self, parts):
        return {"frames": np.concatenate([part["frames"].astype("f2") for part in parts]),
                "split": np.concatenate([part["split"] for part in parts]),
                "label": np.concatenate([part["label"] for part in parts]),
                "text": np.concatenate([part["text"][part["index"]] for part in parts])}

    def test_joined(self):
        uris, parts = self.stores()
        expected = self.expected(parts)
        self.check(",".join(uris), self.FIELDS, expected, resume_at=4)
        self.check(",".join(uris), self.FIELDS, expected, dataset__hold_limit="2KiB")
        self.check(",".join(reversed(uris)), self.FIELDS, self.expected(parts[::-1]))

    def test_no_chunk_is_decoded_twice(self):
        """Rows end where stores do: chunks behind a store of uneven length lie within rows, too."""
        uris, parts = self.stores()
        fields = {"frames": "frames", "split": "split"}
        expected = {name: np.concatenate([part[name] for part in parts]) for name in fields}
        chunks = sum(-(-n // 8) + -(-n // 4) * 3 for n in self.LENGTHS)
        settings = self.settings(",".join(uris), fields, {"readers.cache": "off"})
        report = self.path("report.json")
        for readers, trainers in ((1, 1), (3, 3)):
            lines = self.digests(readers, trainers, settings, options=["--report", report])
            self.expect_digests(lines, expected)
            with open(report, encoding="ascii") as file:
                epochs = json.load(file)["epochs"]
            self.assertEqual([epoch["chunks"] for epoch in epochs], [chunks])

    def test_later_epochs_and_the_disk_cache(self):
        uris, parts = self.stores()
        settings = self.settings(",".join(uris), self.FIELDS,
                                 {"order.epochs": 3, "readers.cache": "stored",
                                  "readers.cache_dir": self.path("cache")})
        for _ in range(2):  # the second run reads from the disk cache
            lines = self.digests(2, 2, settings)
            self.assertEqual(len(lines), 3 * sum(self.LENGTHS))
            self.expect_digests(lines, self.expected(parts))

    def test_yaml_list(self):
        uris, parts = self.stores()
        config = self.path("run.yaml")
        with open(config, "w", encoding="ascii") as file:
            names = ", ".join(os.path.basename(uri) for uri in uris)
            file.write(f"dataset:\n  uri: [{names}]\n  exclude: [text, index]\n"
                       "batch: {global_size: 6, last: partial}\n")
        lines = self.digests(2, 1, {}, options=["-c", config])
        expected = {name: np.concatenate([part[name] for part in parts])
                    for name in ("frames", "split", "label")}
        self.assertEqual(len(lines), sum(self.LENGTHS))
        self.expect_digests(lines, expected)

    def test_masks_name_the_store(self):
        uris, parts = self.stores()
        key = "frames/c/1/0/0" if FORMAT == 3 else "frames/1.0.0"
        with open(os.path.join(uris[2], key), "wb") as file:
            file.write(b"nonsense")
        report = self.path("bad.jsonl")
        settings = self.settings(",".join(uris), self.FIELDS,
                                 {"errors.bad_sample": "mask", "errors.report": report})
        lines = self.digests(2, 1, settings)
        bad = range(42 + 8, 42 + 16)  # samples 8 to 15 of the third store
        self.assertEqual(sorted(int(line[3]) for line in lines),
                         [i for i in range(sum(self.LENGTHS)) if i not in bad])
        self.expect_digests(lines, self.expected(parts))
        with open(report, encoding="ascii") as file:
            found = [json.loads(line) for line in file]
        self.assertEqual({(entry["array"], entry["chunk"]) for entry in found},
                         {("part2.zarr/frames", "1.0.0")})
        self.assertEqual(sorted(i for entry in found for i in range(*entry["samples"])), list(bad))
        outcome = self.reader(1, self.settings(",".join(uris), self.FIELDS, {}), [])
        self.assertNotEqual(outcome.code, 0)
        self.assertIn("array 'part2.zarr/frames' chunk 1.0.0", outcome.output)

    def test_what_does_not_fit(self):
        uris, _ = self.stores()
        n = np.zeros
        for name, arrays, words in [
                ("dtype", {"x": (n((9, 2), "f8"), (4, 2))}, ["float32 items [N, 2]", "float64"]),
                ("shape", {"x": (n((9, 3), "f4"), (4, 3))}, ["[N, 2]", "[N, 3]"]),
                ("rank", {"x": (n((9, 2, 1), "f4"), (4, 2, 1))}, ["[N, 2]", "[N, 2, 1]"]),
                ("chunks", {"x": (n((9, 2), "f4"), (3, 2))}, ["chunks have 4 samples", "3 in"]),
                ("name", {"y": (n((9, 2), "f4"), (4, 2))}, ["has no array 'x'"])]:
            with self.subTest(name):
                first = write(self.path(f"{name}-a.zarr"), {"x": (n((9, 2), "f4"), (4, 2))})
                second = write(self.path(f"{name}-b.zarr"), arrays)
                output = self.refused(f"{first},{second}")
                for word in [first, second, *words]:
                    self.assertIn(word, output)
        self.assertIn("has an empty item", self.refused(f"{uris[0]},,{uris[1]}"))

    def test_same_names_in_different_folders(self):
        values = np.arange(30, dtype="f4").reshape(15, 2)
        uris = []
        for folder, part in (("a", values[:6]), ("b", values[6:])):
            os.mkdir(self.path(folder))
            uris.append(write(self.path(folder + "/data.zarr"), {"x": (part, (3, 2))}))
        self.check(",".join(uris), None, {"x": values})


class Layouts(FieldTest):
    """What facts are known of datasets that people train on, in small."""

    def test_groups(self):
        rng = np.random.default_rng(4)
        arrays = {"train/images": (rng.integers(0, 256, (30, 4)).astype("u1"), (5, 4)),
                  "train/deep/labels": (rng.integers(0, 9, 30), (10,)),
                  "test/images": (rng.integers(0, 256, (90, 4)).astype("u1"), (5, 4)),
                  "names": (np.arange(7.0), (7,))}
        uri = write(self.path("groups.zarr"), arrays)
        values = {name: entry[0] for name, entry in arrays.items()}
        self.check(uri, None, {"images": values["train/images"],
                               "deep/labels": values["train/deep/labels"]},
                   dataset__group="train/")
        self.check(uri, None, {"images": values["train/images"]}, dataset__group="train",
                   dataset__exclude="deep/*")
        self.check(uri, {"label": "deep/labels", "image": "/train/images"},
                   {"label": values["train/deep/labels"], "image": values["train/images"]},
                   dataset__group="/train")
        self.assertIn("'depe/*' fits no array in group train",
                      self.refused(uri, dataset__group="train", dataset__exclude="depe/*"))
        self.assertIn("there are no arrays with samples in group nothing",
                      self.refused(uri, dataset__group="nothing"))

    def test_video_latents(self):
        rng = np.random.default_rng(5)
        arrays = {"base_frames": (rng.standard_normal((26, 20, 4, 3, 3)).astype("f2"),
                                  (8, 20, 4, 3, 3)),
                  "clip_emb": (rng.standard_normal((5, 16)).astype("f2"), (5, 16)),
                  "segment_to_video": (rng.integers(0, 5, 26), (26,))}
        uri = write(self.path("latents.zarr"), arrays)
        values = {name: entry[0] for name, entry in arrays.items()}
        self.check(uri, {"latents": "base_frames",
                         "text": {"array": "clip_emb", "index": "segment_to_video"}},
                   {"latents": values["base_frames"],
                    "text": values["clip_emb"][values["segment_to_video"]]})

    def test_weather_variables_chunked_differently_in_time(self):
        rng = np.random.default_rng(6)
        t = 50
        arrays = {"temperature": (rng.standard_normal((t, 13, 9, 8)).astype("f4"), (1, 13, 9, 8)),
                  "geopotential": (rng.standard_normal((t, 13, 9, 8)).astype("f4"), (4, 13, 9, 8)),
                  "pressure": (rng.standard_normal((t, 9, 8)).astype("f4"), (24, 9, 8)),
                  "time": (np.arange(t), (t,)),
                  "level": (np.arange(13), (13,)),
                  "mask": (rng.standard_normal((9, 8)).astype("f4"), (9, 8))}
        uri = write(self.path("era5.zarr"), arrays)
        names = ("temperature", "geopotential", "pressure")
        values = {name: arrays[name][0] for name in names}
        self.check(uri, None, values, dataset__exclude="time", resume_at=2)
        fields = {name: {"cast": "bfloat16", "scale": 0.01, "offset": -3} for name in names}
        expected = {name: converted(values[name], "bfloat16", 0.01, -3) for name in names}
        self.check(uri, fields, expected)
        self.check(uri, fields, expected, dataset__hold_limit="1KiB")  # nothing is held

    def test_ranges_of_chunks_without_codecs(self):
        """Rows are shorter than the chunks of one array, of which each needs a part alone."""
        rng = np.random.default_rng(7)
        raw = {"compressors": None} if FORMAT == 3 else {"compressor": None}
        arrays = {"x": (rng.standard_normal((101, 40)).astype("f4"), (2, 40)),
                  "parts": (rng.standard_normal((101, 30)).astype("f4"), (24, 30), raw)}
        uri = write(self.path("raw.zarr"), arrays)
        self.check(uri, None, {name: entry[0] for name, entry in arrays.items()},
                   dataset__hold_limit="0", readers__cache="off")
        if servers.nginx_program():
            asked = [line for line in self.server.requests().splitlines()
                     if "GET /raw.zarr/parts/" in line and " 206 " in line]
            self.assertIn(len(asked), range(51, 60), "each range is asked for once, or was late")

    def test_anemoi(self):
        rng = np.random.default_rng(7)
        # dates, variables, ensembles, cells
        data = rng.standard_normal((21, 6, 2, 40)).astype("f4")
        uri = write(self.path("anemoi.zarr"), {
            "data": (data, (1, 6, 1, 40)),
            "dates": (np.arange(21), (21,)),
            "latitudes": (np.arange(40.0), (40,))})
        self.check(uri, {"data": {"cast": "float16"}}, {"data": data.astype("f2")},
                   order__shuffle="false")

    def test_slices_and_normalised_fields(self):
        """Some channels and a part of the grid, twice of one array; joined, masked, and cached."""
        values = (np.arange(23 * 6 * 5 * 4).reshape(23, 6, 5, 4) % 2003).astype("i2")
        mean, std = np.linspace(-3, 5, 6).astype("f4"), np.linspace(1, 2, 6).astype("f4")
        small = np.arange(7 * 6 * 3).reshape(7, 6, 3).astype("f4")
        index = (np.arange(23) * 3 % 7).astype("i4")
        options = {"shards": (4, 6, 5, 4)} if FORMAT == 3 else {}
        uri = write(self.path("sliced.zarr"), {
            "x": (values, (2, 1, 5, 4), options), "small": (small, (7, 2, 3)), "index": (index, (23,)),
            "stats/mean": (mean, (6,)), "stats/std": (std, (6,))})
        chosen = values[:, [4, 0, 5]][:, :, 1:4]
        fields = {"a": {"array": "x", "slice.1": "[4,0,5]", "slice.2": "1:4"},
                  "b": {"array": "x", "slice.1": "[4,0,5]", "slice.2": "1:4", "mean": "stats/mean", "std": "stats/std"},
                  "c": {"array": "x", "slice.1": "-1", "cast": "float64"},
                  "d": {"array": "small", "index": "index", "slice.1": "2:4", "mean": "stats/mean"}}
        normal = (chosen.astype("f4") - mean[[4, 0, 5], None, None]) / std[[4, 0, 5], None, None]
        expected = {"a": chosen, "b": normal, "c": values[:, 5].astype("f8"), "d": (small[:, 2:4] - mean[2:4, None])[index]}
        self.check(uri, fields, expected, resume_at=1)
        self.check(uri, fields, expected, **{"errors.bad_sample": "mask", "readers.cache_dir": self.path("cache")})
        self.assertIn("'6' is out of range", self.refused(uri, {"a": {"array": "x", "slice.1": "6"}}))

    def test_episodes(self):
        rng = np.random.default_rng(8)
        arrays = {"data/img": (rng.random((64, 6, 6, 3)).astype("f4"), (16, 6, 6, 3)),
                  "data/state": (rng.random((64, 5)).astype("f4"), (64, 5)),
                  "data/action": (rng.random((64, 2)).astype("f4"), (40, 2)),
                  "meta/episode_ends": (np.array([20, 41, 64]), (3,))}
        uri = write(self.path("pusht.zarr"), arrays)
        expected = {name.split("/")[1]: entry[0] for name, entry in arrays.items()
                    if name.startswith("data/")}
        self.check(uri, None, expected, dataset__group="data")

    def test_ensemble_members_as_samples(self):
        """(variables, members, cells): samples along axis 1, chunks across it."""
        data = np.arange(3 * 20 * 7, dtype="f4").reshape(3, 20, 7)
        uri = write(self.path("members.zarr"), {"data": (data, (1, 20, 7))})
        self.check(uri, {"data": {"sample_axis": 1}}, {"data": np.moveaxis(data, 1, 0)})


if __name__ == "__main__":
    unittest.main()
