"""penstock stats against NumPy: dtypes, axes, splits, steps, slices, missing values; threads, processes, kills; fields that are normalised by it.

    python test_stats.py --dump PATH/dump_field --penstock PATH/penstock
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import numpy as np
    import zarr
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

DUMP = PENSTOCK = None
QUANTILES = [0, 0.01, 0.25, 0.5, 0.9, 1]


def clean_environment(**more):
    return {key: value for key, value in os.environ.items() if not key.startswith(("OMPI_", "PMI_", "SLURM_", "PENSTOCK_"))} | more


def command(config, out, *arguments):
    quantiles = [] if "--quantiles" in arguments else ["--quantiles", ",".join(map(str, QUANTILES))]
    return [PENSTOCK, "stats", "-c", str(config), "-o", str(out), *quantiles, *map(str, arguments)]


def run(*words, **environment):
    return subprocess.run(words, capture_output=True, text=True, timeout=120, env=clean_environment(**environment))


def differences(a, b):
    return subprocess.run(["diff", "-r", a, b], capture_output=True, text=True).stdout


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="penstock-test-stats-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.rng = np.random.default_rng(7)
        self.root = zarr.create_group(store=str(self.folder / "data.zarr"), zarr_format=3)

    def put(self, name, data, chunk, names=None):
        array = self.root.create_array(name, shape=data.shape, chunks=(chunk, *data.shape[1:]), dtype=data.dtype, dimension_names=names,
                                       fill_value=0)
        array[...] = data

    def config(self, text, name="run.yaml"):
        path = self.folder / name
        path.write_text(f"dataset:\n  uri: {self.folder / 'data.zarr'}\n{text}\nbatch: {{global_size: 2}}\norder: {{seed: 1}}\n")
        return path

    def stats(self, config, *arguments, out="stats.zarr"):
        done = run(*command(config, self.folder / out, *arguments))
        self.told = done.stderr
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse((self.folder / out / ".penstock-stats").exists())
        return zarr.open_group(str(self.folder / out), mode="r")

    def check(self, stats, field, data, axes):
        """`axes`: those over which the statistics are; the first one is the frames'."""
        data = np.asarray(data, np.float64)
        wide = data.astype(np.longdouble)
        group = stats[field]
        shape = [1 if axis in axes else n for axis, n in enumerate(data.shape)][1:]
        np.testing.assert_array_equal(group["count"][...], np.sum(~np.isnan(data), axis=axes).reshape(shape))
        np.testing.assert_allclose(group["mean"][...], np.nanmean(wide, axis=axes).reshape(shape), rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(group["std"][...], np.nanstd(wide, axis=axes).reshape(shape), rtol=1e-11)
        np.testing.assert_array_equal(group["min"][...], np.nanmin(data, axis=axes).reshape(shape))
        np.testing.assert_array_equal(group["max"][...], np.nanmax(data, axis=axes).reshape(shape))
        expected = np.nanquantile(data, QUANTILES, axis=axes).reshape([len(QUANTILES), *shape])
        np.testing.assert_allclose(group["quantiles"][...], expected, rtol=2e-16 if data.size < 1e4 else 4e-16, atol=0)


class Values(Case):
    def test_dtypes_and_axes(self):
        for dtype in ("bool", "uint8", "int16", "int32", "int64", "uint64", "float16", "float32", "float64"):
            data = self.rng.normal(3, 40, (23, 3, 4, 5))
            data = np.abs(data).astype(dtype) if np.dtype(dtype).kind in "bu" else data.astype(dtype)
            if np.dtype(dtype).kind == "f":
                data[self.rng.random(data.shape) < 0.2] = np.nan
                data[:3, :, 1] = np.nan
                data[5, 0, 0, 0], data[6, 0, 0, 0] = -0.0, 0.0
            self.put(dtype, data, 4, ["time", "channel", "y", "x"])
        dtypes = list(self.root.array_keys())
        config = self.config("  fields: {" + ", ".join(f"{d}: {{array: {d}}}" for d in dtypes) + "}")
        for number, (by, axes) in enumerate(((["--by", "channel"], (0, 2, 3)), ([], (0, 2, 3)), (["--by", "y,3"], (0, 1)), (["--by", "int16=", "--by", "1"], (0, 2, 3)),
                                             (["--by", "channel", "--by", "x"], (0, 2)))):
            stats = self.stats(config, *by, out=f"{number}.zarr")
            for dtype in dtypes:
                with self.subTest(dtype=dtype, by=by):
                    self.check(stats, dtype, self.root[dtype][...], (0, 1, 2, 3) if "int16=" in by and dtype == "int16" else axes)

    def test_large_offsets_and_many_chunks(self):
        data = 1e9 + self.rng.normal(0, 1e-3, (5000, 2))
        self.put("x", data, 7)
        self.check(self.stats(self.config("  fields: {x: {array: x}}")), "x", data, (0,))

    def test_parts_slices_and_steps(self):
        x, y = self.rng.normal(size=(200, 6)).astype("float32"), self.rng.integers(-100, 100, (200, 4, 3)).astype("int16")
        self.put("x", x, 8)
        self.put("y", y, 11)
        ends = np.array([40, 41, 90, 200])
        self.put("ends", ends, 4)
        keep = self.rng.random(200) < 0.7
        self.put("keep", keep, 50)
        fields = "  fields:\n    x: {array: x, steps: '-2:1'}\n    y: {array: y, slice: {1: [3, 1]}, scale: 0.5, offset: 3, steps: [0, 5]}"
        for samples in ("samples: {episodes_ends: ends}", "samples: {episodes_ends: ends, where: keep}", "samples: {episodes_ends: ends, stride: 3, where: keep}",
                        "samples: {episodes_ends: ends, pad_before: 2, pad_after: 1}"):
            with self.subTest(samples=samples):
                shutil.rmtree(self.folder / "stats.zarr", ignore_errors=True)
                stats = self.stats(self.config(fields + "\n" + samples), "--by", "1")
                used = {"x": set(), "y": set()}
                begin = 0
                pad = (2, 1) if "pad" in samples else (0, 0)
                for end in ends:
                    for anchor in range(begin, end):
                        if "stride" in samples and (anchor - begin) % 3:
                            continue
                        missing = [sum(anchor + o < begin for o in (-2, -1, 0, 5)), sum(anchor + o >= end for o in (-2, -1, 0, 5))]
                        if missing[0] > pad[0] or missing[1] > pad[1] or ("where" in samples and not keep[anchor]):
                            continue
                        for field, steps in (("x", range(-2, 1)), ("y", (0, 5))):
                            used[field] |= {anchor + o for o in steps if begin <= anchor + o < end}
                    begin = end
                self.check(stats, "x", x[sorted(used["x"])], (0,))
                self.check(stats, "y", y[sorted(used["y"])][:, [3, 1]] * 0.5 + 3, (0, 2))

    def test_some_fields(self):
        """Statistics of some fields are those of the whole run; arrays of others are not even read, and what has no numbers is left out."""
        self.put("state", self.rng.normal(size=(60, 3)), 8)
        self.put("action", self.rng.normal(size=(60, 2)), 8)
        self.put("image", self.rng.integers(0, 255, (60, 4, 4)).astype("uint8"), 8)
        self.put("offsets", np.arange(0, 122, 2), 61)
        self.put("words", self.rng.integers(0, 99, 120), 50)
        self.put("ends", np.array([20, 60]), 2)
        text = np.array([f"text {i}" for i in range(60)], dtype=np.dtypes.StringDType())
        self.root.create_array("text", shape=(60,), chunks=(10,), dtype=str)[...] = text
        config = self.config("  fields:\n    state: state\n    action: {array: action, steps: '0:8'}\n    image: {array: image, steps: [-1, 0]}\n    text: text\n"
                             "    words: {ragged: {offsets: offsets, values: words}, deliver: csr}\n"
                             "samples: {episodes_ends: ends}\nerrors: {missing_chunk: fail}")
        whole = self.stats(config)
        self.assertEqual(self.told.count("left out"), 1)
        self.assertIn("left out, since ragged or without numbers: 'text', 'words'\n", self.told)
        self.assertEqual(sorted(whole.group_keys()), ["action", "image", "state"])
        frames = [anchor for begin, end in ((0, 20), (20, 60)) for anchor in range(begin + 1, end - 7)]
        self.check(whole, "state", self.root["state"][...][frames], (0,))
        for names, message in (("state,stat", "there is no field 'stat'; there are 'state', 'action', 'image', 'text', 'words'"),
                               ("state,text", "statistics are of numbers; ragged or without numbers: 'text'")):
            refused = run(*command(config, self.folder / "no.zarr", "--fields", names))
            self.assertEqual(refused.returncode, 4)
            self.assertIn(message, refused.stderr)
        for name in ("image", "words", "offsets", "text"): # as if it were not there
            shutil.rmtree(self.folder / "data.zarr" / name / "c")
        some = self.stats(config, "--fields", "state,action", out="some.zarr")
        self.assertEqual(sorted(some.group_keys()), ["action", "state"])
        for name in ("state", "action"):
            self.assertEqual(differences(self.folder / "stats.zarr" / name, self.folder / "some.zarr" / name), "")
        self.assertEqual(sorted(self.stats(self.config(""), "--fields", "state", out="default.zarr").group_keys()), ["state"])

    def test_split_and_join(self):
        x, index = self.rng.normal(size=(60, 3)), self.rng.integers(0, 9, 60)
        table = self.rng.normal(size=(9, 5))
        for name, data in (("x", x), ("index", index), ("table", table)):
            self.put(name, data, 5)
        config = self.config("  fields: {x: {array: x}, t: {array: table, index: index}}\nsamples: {split_range: '10:37'}")
        refused = run(*command(config, self.folder / "stats.zarr", "--memory", "6MiB")) # 4 MiB for a thread, and as much for the sums
        self.assertIn("held arrays and sums take 4.01 MiB", refused.stderr)
        stats = self.stats(config)
        self.assertIn("quantiles take up to 5 passes over the data", self.told)
        self.check(stats, "x", x[10:37], (0,))
        self.check(stats, "t", table[index[10:37]], (0,))

    def test_cf(self):
        data = self.rng.integers(0, 50, (40, 3)).astype("int16")
        self.put("x", data, 6)
        self.root["x"].attrs.update({"scale_factor": 0.25, "add_offset": -3.5, "missing_value": 7})
        values = np.where(data == 7, np.nan, data * 0.25 - 3.5)
        self.check(self.stats(self.config("  fields: {x: {array: x, cf: true}}")), "x", values, (0,))


class Work(Case):
    def setUp(self):
        super().setUp()
        self.data = self.rng.normal(5, 3, (3000, 16, 20)).astype("float32")
        self.put("x", self.data, 10)
        self.run_config = self.config("  fields: {x: {array: x}}")
        self.reference = self.stats(self.run_config, "--by", "1", "--threads", 1, out="reference.zarr")

    def test_threads_and_processes_give_the_same(self):
        self.check(self.reference, "x", self.data, (0, 2))
        self.stats(self.run_config, "--by", "1", "--threads", 5)
        self.assertEqual(differences(self.folder / "reference.zarr", self.folder / "stats.zarr"), "")
        out = self.folder / "parts.zarr"
        parts = [subprocess.Popen(command(self.run_config, out, "--by", "1", "--threads", 2), stderr=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL,
                                  env=clean_environment(OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE="3")) for rank in range(3)]
        errors = [part.communicate(timeout=120)[1] for part in parts]
        self.assertEqual([part.returncode for part in parts], [0, 0, 0], errors)
        self.assertEqual(differences(self.folder / "reference.zarr", out), "")

    def test_killed_and_resumed(self):
        out = self.folder / "stats.zarr"
        for delay in (0.02, 0.1, 0.2, 0.3):
            killed = subprocess.Popen(command(self.run_config, out, "--by", "1", "--threads", 2), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                      env=clean_environment())
            time.sleep(delay)
            killed.send_signal(signal.SIGKILL)
            killed.communicate()
        self.stats(self.run_config, "--by", "1")
        self.assertEqual(differences(self.folder / "reference.zarr", out), "")

    def test_what_is_refused(self):
        out = self.folder / "stats.zarr"
        for arguments, message in ((["--by", "y=1"], "--by y=1: no field has such a name and numbers; there are 'x' (ax"), (["--by", "x=7"], "has no axis '7'; a frame has ax"),
                                   (["--by", "1,lat"], "no field has an axis 'lat' in a frame; there are 'x' (ax"),
                                   (["--by", "x=0"], "is the sample axis"), (["--quantiles", "1.5"], "not a number from 0 to 1"), (["--memory", "1KiB"], "a thread takes")):
            done = run(*command(self.run_config, out, *arguments))
            self.assertIn(done.returncode, (1, 4), arguments)
            self.assertIn(message, done.stderr)
            shutil.rmtree(out, ignore_errors=True)
        for names, message in ((("quantile",), "field 'quantile': 'quantile' is another thing"), (("a/b", "a/b/mean"), "fields 'a/b' and 'a/b/mean'")):
            done = run(*command(self.config("  fields: {" + ", ".join(f"{name}: {{array: x}}" for name in names) + "}", "meet.yaml"), out))
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn(message, done.stderr)
            self.assertFalse(out.exists())
        done = run(*command(self.run_config, self.folder / "reference.zarr"))
        self.assertEqual(done.returncode, 1 if "IO" in done.stderr else 4, done.stderr)
        self.assertIn("is not empty", done.stderr)
        (out / ".penstock-stats" / "claim.0").mkdir(parents=True) # no block can be claimed
        (out / ".penstock-stats" / "plan").touch()
        done = run(*command(self.run_config, out))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("penstock-stats/claim.0': Is a directory", done.stderr)


class Fields(Case):
    def dump(self, **settings):
        line = "\t".join(f"{key}={value}" for key, value in {"dataset.uri": self.folder / "data.zarr", **settings}.items())
        done = subprocess.run([DUMP], input=(line + "\n").encode(), capture_output=True)
        head, _, rest = done.stdout.partition(b"\n")
        self.assertTrue(head.startswith(b"ok"), rest)
        return np.frombuffer(rest[:int(head.split()[1])], "float32")

    def test_are_normalised(self):
        x = self.rng.normal(5, 3, (50, 4, 4)).astype("float32")
        x[:, 2] = 3 # always the same
        self.put("x", x, 7)
        order = [2, 0, 3, 1] # a slice as long as the axis: statistics are of the slice
        config = self.config("  fields: {x: {array: x, slice: {1: [2, 0, 3, 1]}, stats: " + str(self.folder / "stats.zarr") + "}}")
        self.stats(config, "--by", "x=1")
        part = x[:, order]
        mean, std = part.mean((0, 2), np.float64, keepdims=True), part.std((0, 2), np.float64, keepdims=True)
        std[std < 1e-12] = 1
        least, greatest = part.min((0, 2), keepdims=True), part.max((0, 2), keepdims=True)
        settings = {"dataset.fields.x": "x", "dataset.fields.x.slice.1": "[2,0,3,1]", "dataset.fields.x.stats": self.folder / "stats.zarr"}
        np.testing.assert_allclose(self.dump(**settings).reshape(x.shape), (part - mean) / std, rtol=1e-5, atol=1e-6)
        got = self.dump(**settings, **{"dataset.fields.x.normalise": "min/max"}).reshape(x.shape)
        middle, half = (least + greatest) / 2, np.where(greatest > least, (greatest - least) / 2, 1)
        np.testing.assert_allclose(got, (part - middle) / half, rtol=1e-5, atol=1e-6)
        self.assertAlmostEqual(got.min(), -1, places=6)
        self.assertAlmostEqual(got.max(), 1, places=6)
        self.assertFalse(got[:, 0].any())
        for store, message in (("none.zarr", "no such directory"), ("stats.zarr", "there is no array 'a2/mean'")):
            done = run(PENSTOCK, "plan", "--set", f"dataset.uri={self.folder / 'data.zarr'}", "--set", "dataset.fields.a2=x", "--set",
                       f"dataset.fields.a2.stats={self.folder / store}")
            self.assertIn(message + ": 'penstock stats -c RUN.yaml -o STORE' writes statistics of each field", done.stderr)


def main():
    global DUMP, PENSTOCK
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump", required=True)
    parser.add_argument("--penstock", required=True)
    arguments, rest = parser.parse_known_args()
    DUMP, PENSTOCK = arguments.dump, arguments.penstock
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
