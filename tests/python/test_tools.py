"""penstock verify and rechunk against NumPy and zarr-python 3: digests by an independent implementation, datasets that
zarr-python writes with any dtype, chunks and codecs, and what rechunk makes of them, as zarr-python reads it.

    test_tools.py --penstock PROGRAM
"""

import argparse
import base64
import json
import os
import subprocess
import sys
import tempfile
import unittest
import warnings

try:
    import numpy
    import xxhash  # noqa: F401  (content_digest needs it)
    import zarr

    if zarr.__version__.startswith(("2.", "3.0.")):
        raise ImportError(f"zarr-python is {zarr.__version__}, not 3.1 or later")
    import zarr.codecs
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import content_digest  # noqa: E402

DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
          "float16", "float32", "float64", "complex64", "complex128"]
# Samples of 1 byte to more than one run of 64 KiB, and shapes that no chunk divides.
SHAPES = [((1000,), (64,)), ((37,), (10,)), ((45, 3), (7, 2)), ((5, 7, 11), (2, 3, 4)), ((3, 40, 1000), (2, 40, 300))]
ARGUMENTS = [
    ["--chunk", "3"],
    ["--chunk", "4", "--codec", "zstd+crc32c", "--shard", "12"],
    ["--chunk", "5,2", "--codec", "gzip", "--level", "1", "--threads", "3"],
    ["--codec", "none", "--shard", "9", "--chunk", "2"],
    ["--codec", "blosc-lz4", "--shuffle", "bitshuffle"],
]


def values(dtype, shape, random):
    if dtype == "bool":
        return random.random(shape) < 0.5
    if dtype.startswith("complex"):
        return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype)
    if dtype.startswith("float"):
        return random.standard_normal(shape).astype(dtype)
    return random.integers(0, 120, shape).astype(dtype)


def read(path):
    group = zarr.open_group(path, mode="r")
    return {name: array[...] for name, array in group.arrays()}


class Tools(unittest.TestCase):
    program = "penstock"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("OMPI_", "PMI", "SLURM_"))}

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_tool(self, *arguments):
        result = subprocess.run([self.program, *arguments], capture_output=True, text=True, timeout=120,
                                env=self.environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def digests(self, path):
        report = self.path("report.json")
        self.run_tool("verify", path, "--digest", "--json", report)
        with open(report, encoding="utf-8") as file:
            content = json.load(file)
        return {array["path"]: array["digest"] for array in content["arrays"]}, content["digest"]

    def check(self, path, arrays):
        """The digests are those of NumPy's arrays."""
        expected = {name: content_digest.array_digest(array) for name, array in arrays.items()}
        each, whole = self.digests(path)
        self.assertEqual(each, expected)
        self.assertEqual(whole, content_digest.dataset_digest(expected))

    def write(self, path, zarr_format, seed):
        random = numpy.random.default_rng(seed)
        group = zarr.open_group(path, mode="w", zarr_format=zarr_format, attributes={"seed": seed, "ok": True})
        arrays = {}
        for number, dtype in enumerate(DTYPES):
            shape, chunks = SHAPES[(number + seed) % len(SHAPES)]
            arrays[dtype] = values(dtype, shape, random)
            self.add(group, dtype, arrays[dtype], chunks=chunks, fill_value=7 if number % 2 else 0)
        for name, shape, chunks in (("scalar", (), ()), ("zero", (), ()), ("none", (0, 3), (4, 2)), ("no_column", (5, 0), (2, 1))):
            arrays[name] = numpy.asarray(values("float32", shape, random) * (name != "zero"), "float32")
            self.add(group, name, arrays[name], chunks=chunks)
        empty = group.create_array("missing", shape=(9, 5), dtype="float32", chunks=(2, 5), fill_value=numpy.nan)
        arrays["missing"] = numpy.full(empty.shape, numpy.nan, "float32")
        return arrays

    @staticmethod
    def add(group, name, content, **settings):
        if group.metadata.zarr_format == 3:
            settings["dimension_names"] = [f"d{i}" for i in range(content.ndim)]
        array = group.create_array(name, shape=content.shape, dtype=content.dtype, attributes={"units": name}, **settings)
        array[...] = content

    def test_digest_and_rechunk(self):
        for seed, arguments in enumerate(ARGUMENTS):
            for zarr_format in (2, 3):
                with self.subTest(arguments=arguments, zarr_format=zarr_format):
                    source, target = self.path(f"s{seed}{zarr_format}"), self.path(f"t{seed}{zarr_format}")
                    arrays = self.write(source, zarr_format, seed)
                    self.check(source, arrays)
                    self.run_tool("rechunk", source, target, *arguments)
                    self.check(target, arrays)
                    self.compare(target, arrays, zarr_format)

    def compare(self, path, arrays, zarr_format):
        """What zarr-python reads of it."""
        group = zarr.open_group(path, mode="r")
        self.assertEqual(group.metadata.zarr_format, 3)
        self.assertIsNotNone(group.metadata.consolidated_metadata)
        self.assertTrue(group.attrs["ok"])
        self.assertEqual(sorted(name for name, _ in group.arrays()), sorted(arrays))
        for name, expected in arrays.items():
            array = group[name]
            actual = array[...]
            self.assertEqual(actual.dtype, expected.dtype)
            self.assertEqual(actual.tobytes(), expected.tobytes(), name)
            if name == "missing":
                self.assertTrue(numpy.isnan(array.fill_value))
                continue
            self.assertEqual(dict(array.attrs), {"units": name})
            if zarr_format == 3:
                self.assertEqual(array.metadata.dimension_names or (), tuple(f"d{i}" for i in range(array.ndim)))

    def write_v2_table(self, path):
        """A structured array with a sub-array, by hand: zarr-python 3 does not write those. Its second chunk is
        missing."""
        record = numpy.dtype([("x", ">f4"), ("tag", "S3"), ("pos", "<i2", (2, 3)), ("when", "<M8[s]")])
        rows = numpy.frombuffer(numpy.random.default_rng(5).integers(1, 100, 4 * record.itemsize, "u1").tobytes(), record)
        fill = numpy.zeros(1, record)
        fill["x"], fill["tag"], fill["pos"], fill["when"] = -1.5, b"no", -7, 12
        os.makedirs(path)
        described = [["x", ">f4"], ["tag", "|S3"], ["pos", "<i2", [2, 3]], ["when", "<M8[s]"]]
        with open(os.path.join(path, ".zarray"), "w", encoding="ascii") as file:
            json.dump({"zarr_format": 2, "shape": [7], "chunks": [4], "dtype": described, "compressor": None,
                       "fill_value": base64.b64encode(fill.tobytes()).decode(), "order": "C", "filters": None}, file)
        with open(os.path.join(path, ".zattrs"), "w", encoding="ascii") as file:
            json.dump({"units": "table", "_ARRAY_DIMENSIONS": ["row"]}, file)
        rows.tofile(os.path.join(path, "0"))
        return numpy.concatenate([rows, numpy.repeat(fill, 3)])

    def test_what_xarray_writes(self):
        """Its encoding is shown and warned of, NaN is not, and its coordinates are no indices."""
        try:
            import xarray
        except ImportError as error:
            self.skipTest(f"{sys.executable}: {error}")
        data = xarray.Dataset(
            {"t2m": (("time", "lat"), numpy.full((37, 36), 280.0)), "rain": (("time", "lat"), numpy.ones((37, 36), "f4")),
             "mask": (("time", "lat"), numpy.ones((37, 36), "f4"))},
            {"time": numpy.arange("2020-01-01", "2020-02-07", dtype="M8[D]").astype("M8[ns]"), "lat": numpy.arange(36.0)})
        data.t2m.attrs["units"] = "K"
        encoding = {"t2m": {"dtype": "int16", "scale_factor": 0.01, "add_offset": 273.15, "_FillValue": -32767},
                    "mask": {"_FillValue": -9999.0}}  # rain gets NaN by itself
        for zarr_format in (2, 3):
            with self.subTest(zarr_format=zarr_format), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                path = self.path(f"xarray{zarr_format}")
                data.to_zarr(path, zarr_format=zarr_format, encoding=encoding, consolidated=zarr_format == 2)
                text = self.run_tool("inspect", path)
                self.assertNotIn("hint: with what", text)
                self.assertIn("warning: field 't2m': array 't2m' has scale_factor 0.01, add_offset 273.15, "
                              "_FillValue -32767 (as", text)
                self.assertIn("warning: field 'mask': array 'mask' has _FillValue -9999", text)
                self.assertNotIn("array 'rain' has", text)
                self.assertEqual(text.count("warning: field"), 2, text)
                report = json.loads(self.run_tool("inspect", path, "--json"))
                arrays = {array["path"]: array["attributes"] for array in report["arrays"]}
                self.assertEqual(arrays["t2m"]["units"], "K")
                self.assertIn("days since 2020-01-01", arrays["time"]["units"])

    def test_strings_dates_and_members(self):
        """They keep their types; members of structured arrays become arrays, a sub-array's axes a last one."""
        types = [("S5", b"ab"), ("U4", "a\u00e9\U0001f600"), ("V3", numpy.void(b"xyz")),
                 ("M8[ns]", numpy.datetime64("2020-01-02", "ns")), ("m8[25s]", numpy.timedelta64(3, "25s"))]
        for zarr_format in (2, 3):
            with self.subTest(zarr_format=zarr_format), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # no specification of these types yet
                source, target = self.path(f"types{zarr_format}"), self.path(f"types{zarr_format}to3")
                group = zarr.open_group(source, mode="w", zarr_format=zarr_format)
                expected = {}
                for name, fill in types:
                    items = numpy.random.default_rng(4).integers(1, 90, (11, numpy.dtype(name).itemsize), "u1")
                    if name[0] == "U":
                        items[:, 1::4] = items[:, 2::4] = items[:, 3::4] = 0
                    array = group.create_array(name[0], shape=(11,), chunks=(4,), dtype=name, fill_value=fill)
                    array[:8] = items.view(name)[:8, 0]  # the third chunk is missing
                    expected[name[0]] = array[:]
                if zarr_format == 2:
                    table = self.write_v2_table(os.path.join(source, "table"))
                    expected |= {"table.x": table["x"].astype("=f4"), "table.tag": table["tag"],
                                 "table.pos": table["pos"].reshape(-1, 6), "table.when": table["when"]}
                else:
                    record = numpy.dtype([("x", "<f4"), ("tag", "S3")])
                    rows = numpy.array([(i / 3, b"t%d" % i) for i in range(11)], record)
                    group.create_array("table", shape=(11,), chunks=(4,), dtype=record)[:] = rows
                    expected |= {"table.x": rows["x"], "table.tag": rows["tag"]}
                self.run_tool("rechunk", source, target, "--chunk", "3", "--shard", "6")
                self.assertEqual(self.digests(source), self.digests(target))
                group = zarr.open_group(target, mode="r")
                self.assertEqual(sorted(name for name, _ in group.arrays()), sorted(expected))
                for name, items in expected.items():
                    actual = group[name][...]
                    self.assertEqual(actual.dtype, items.dtype)
                    self.assertEqual(actual.tobytes(), items.tobytes(), name)
                if zarr_format == 2:
                    self.assertEqual(group["table.pos"].metadata.dimension_names, ("row", None))
                    self.assertEqual(dict(group["table.x"].attrs), {"units": "table"})

    def test_delta(self):
        """Integers as differences along an axis: zarr-python reads what rechunk writes, and rechunk what zarr-python
        writes. What has no such axis, or no integers, has no filter."""
        random = numpy.random.default_rng(8)
        arrays = {dtype: values(dtype, (11, 6, 5, 4), random) for dtype in ("int8", "uint8", ">i2", "uint32", "int64")}
        others = {"float16": values("float16", (11, 6, 5), random), "bool": values("bool", (11, 6, 5), random),
                  "short": values("int32", (11,), random), "unsampled": values("int32", (7, 6), random)}
        source = self.path("source")
        group = zarr.open_group(source, mode="w", zarr_format=2)
        for name, items in (arrays | others).items():
            group.create_array(name, shape=items.shape, dtype=items.dtype, chunks=(3,) * items.ndim)[...] = items
        for axis, more in ((1, ["--chunk", "4"]), (2, ["--chunk", "2,3,5,2", "--shard", "4", "--codec", "zstd+crc32c"]),
                           (3, ["--chunk", "11", "--codec", "none"])):
            with self.subTest(axis=axis):
                target, again = self.path(f"target{axis}"), self.path(f"again{axis}")
                self.run_tool("rechunk", source, target, "--delta", str(axis), *more)
                self.assertEqual(self.digests(source), self.digests(target))
                written = zarr.open_group(target, mode="r")
                for name, items in (arrays | others).items():
                    actual = written[name][...]
                    self.assertTrue(numpy.array_equal(actual, items), name)
                    with open(os.path.join(target, name, "zarr.json"), encoding="utf-8") as file:
                        text = file.read()
                    self.assertEqual("numcodecs.delta" in text, name in arrays, text)
                    self.assertEqual('"transpose"' in text, name in arrays and axis != 3, text)
                copy = zarr.open_group(again, mode="w")
                for name in arrays:
                    like = written[name]
                    filters = {} if like.shards else {"filters": like.filters}
                    copy.create_array(name, shape=like.shape, dtype=like.dtype, chunks=like.chunks, **filters)[...] = like[...]
                self.assertEqual(self.digests(again)[0], {name: self.digests(source)[0][name] for name in arrays})

    def test_bfloat16(self):
        """Arrays of ml_dtypes' bfloat16 that tensorstore writes, as v2 and as v3, with NaN and other fill values."""
        try:
            import ml_dtypes
            import tensorstore
        except ImportError as error:
            self.skipTest(f"{sys.executable}: {error}")
        bits = numpy.random.default_rng(3).integers(0, 1 << 16, (7, 5), "u2")
        for driver, fill in (("zarr", 1.5), ("zarr3", 1.5), ("zarr3", float("nan")), ("zarr3", float("-inf")), ("zarr", 0)):
            with self.subTest(driver=driver, fill=fill):
                source, target = self.path(f"{driver}{fill}"), self.path(f"{driver}{fill}to3")
                array = tensorstore.open({"driver": driver, "kvstore": f"file://{source}", "create": True},
                                         dtype=tensorstore.bfloat16, shape=bits.shape, fill_value=fill,
                                         chunk_layout=tensorstore.ChunkLayout(chunk_shape=[3, 5])).result()
                array[:6].write(bits[:6].view(ml_dtypes.bfloat16)).result()  # the third chunk is missing
                expected = array.read().result().view("u2")
                self.run_tool("rechunk", source, target, "--chunk", "2", "--shard", "6")
                self.assertEqual(self.digests(source), self.digests(target))
                with open(os.path.join(target, "zarr.json"), encoding="utf-8") as file:
                    self.assertEqual(json.load(file)["data_type"], "bfloat16")
                written = tensorstore.open({"driver": "zarr3", "kvstore": f"file://{target}"}).result()
                self.assertEqual(written.dtype, tensorstore.bfloat16)
                self.assertEqual(written.read().result().view("u2").tobytes(), expected.tobytes())
                self.check(target, {"": expected.view(ml_dtypes.bfloat16)})

    def test_digest_sees_changes(self):
        """One bit, two samples that are exchanged, a shape, a dtype."""
        data = numpy.arange(60000, dtype="uint16").reshape(6, 100, 100)
        flipped, swapped = data.copy(), data.copy()
        flipped[5, 99, 99] ^= 1
        swapped[[1, 4]] = data[[4, 1]]
        variants = [data, flipped, swapped, data.reshape(6, 50, 200), data.view("int16"), data.reshape(60, 10, 100)]
        seen = set()
        for number, variant in enumerate(variants):
            path = self.path(f"v{number}")
            zarr.open_group(path, mode="w").create_array("a", data=variant, chunks=(2, 33, variant.shape[2]))
            self.check(path, {"a": variant})
            seen.add(self.digests(path)[1])
        self.assertEqual(len(seen), len(variants))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--penstock", required=True)
    options, rest = parser.parse_known_args()
    Tools.program = options.penstock
    unittest.main(argv=[sys.argv[0], *rest])
