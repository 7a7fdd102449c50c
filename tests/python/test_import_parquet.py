"""penstock import parquet against pyarrow: random tables with windows, lists, strings and Hive folders; interrupted and resumed; bad files.

test_import_parquet.py --penstock PROGRAM
"""

import argparse
import contextlib
import fractions
import io
import itertools
import math
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

try:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    import zarr

    if zarr.__version__.startswith(("2.", "3.0.")):
        raise ImportError(f"zarr-python is {zarr.__version__}, not 3.1 or later")
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PYTHON = pathlib.Path(__file__).resolve().parents[2] / "python"
PROGRAM = None
sys.path.insert(0, str(PYTHON))

from penstock import _parquet_source, import_parquet  # noqa: E402
from penstock._parquet_cast import DTYPES, convert  # noqa: E402
from penstock._parquet_source import BadValue  # noqa: E402


def windows_table(rng, windows, most):
    counts = rng.integers(1, most, windows)
    keys = np.repeat(rng.permutation(windows * 3)[:windows], counts)
    rows = len(keys)
    return pa.table(
        {
            "window_id": keys,
            "label": (keys % 7).astype("int16"),
            "bin": rng.integers(0, 20, rows),
            "y": rng.integers(0, 360, rows),
            "count": rng.integers(1, 5, rows).astype("int32"),
            "xyz": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(rows * 3, "float32")), 3),
        }
    )


def documents_table(rng, rows):
    tokens = [rng.integers(0, 50000, rng.integers(0, 40)).tolist() for _ in range(rows)]
    return pa.table(
        {
            "id": pa.array(np.arange(rows)),
            "tokens": pa.array(tokens, pa.list_(pa.int32())),
            "title": [f"dök {i}" * (i % 4) for i in range(rows)],
            "raw": [bytes([i % 256, 255]) * (i % 3) for i in range(rows)],
            "kind": pa.array([("a", "bb")[i % 2] for i in range(rows)]).dictionary_encode(),
            "seen": pa.array(np.arange(rows), pa.timestamp("ms")),
            "good": pa.array((np.arange(rows) % 3 == 0).tolist()),
        }
    )


def write_files(table, folder, files, row_group):
    for i in range(files):
        begin, end = i * len(table) // files, (i + 1) * len(table) // files
        pq.write_table(table.slice(begin, end - begin), f"{folder}/part-{i}.parquet", row_group_size=row_group)


def ragged(group, name, convert=np.asarray):
    offsets, values = group[f"{name}/offsets"][:], group[f"{name}/values"][:]
    return [convert(values[a:b]) for a, b in zip(offsets[:-1], offsets[1:])]


class Import(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="penstock-test-import-")
        self.addCleanup(temporary.cleanup)
        self.dir = temporary.name
        self.source, self.target = f"{self.dir}/source", f"{self.dir}/target.zarr"
        os.mkdir(self.source)

    def start(self, *arguments, **options):
        environment = {**os.environ, "PENSTOCK_PYTHON": sys.executable, "PYTHONPATH": str(PYTHON), "PYTHONWARNINGS": "ignore"}
        return subprocess.Popen(
            [PROGRAM, "import", "parquet", *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def run_import(self, *arguments, code=0):
        if "--processes" not in arguments:
            arguments = (*arguments, "--processes", "1")
        process = self.start(*arguments)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, code, err)
        self.assertNotIn("Traceback", err)
        return out if code == 0 else err

    def refuses(self, message, *arguments):
        self.assertIn(message, self.run_import(*arguments, code=4))
        self.assertFalse(os.path.exists(self.target))

    def check_windows(self, table, group="items"):
        stored = zarr.open_group(self.target, mode="r")
        offsets = stored[f"{group}/offsets"][:]
        keys = table["window_id"].to_numpy()
        np.testing.assert_array_equal(np.repeat(stored["window_id"][:], np.diff(offsets)), keys)
        for name in table.column_names:
            if name == "label" and "label" in stored:
                np.testing.assert_array_equal(np.repeat(stored[name][:], np.diff(offsets)), table[name].to_numpy())
            elif name != "window_id":
                np.testing.assert_array_equal(stored[f"{group}/{name}"][:], np.array(table[name].to_pylist()))

    def test_windows(self):
        for seed in range(4):
            rng = np.random.default_rng(seed)
            table = windows_table(rng, int(rng.integers(1, 60)), 300)
            with tempfile.TemporaryDirectory(dir=self.dir) as folder:
                self.target = f"{folder}/t.zarr"
                write_files(table, folder, int(rng.integers(1, 4)), int(rng.integers(1, 900)))
                self.run_import(
                    folder,
                    self.target,
                    "--window",
                    "window_id",
                    "--per-window",
                    "label",
                    "--processes",
                    str(1 + seed // 3),
                    "--chunk-items",
                    str(rng.integers(1, 2000)),
                )
                self.check_windows(table)

    def test_rows(self):
        table = documents_table(np.random.default_rng(7), 2000)
        write_files(table, self.source, 3, 150)
        out = self.run_import(self.source, self.target, "--chunk-rows", "64", "--chunk-items", "777")
        stored = zarr.open_group(self.target, mode="r")
        np.testing.assert_array_equal(stored["id"][:], np.arange(2000))
        np.testing.assert_array_equal(stored["good"][:], table["good"].to_numpy())
        np.testing.assert_array_equal(stored["seen"][:], np.arange(2000))
        self.assertEqual(stored["seen"].attrs["units"], "milliseconds since 1970-01-01")
        self.assertEqual([v.tolist() for v in ragged(stored, "tokens")], table["tokens"].to_pylist())
        for name in ("title", "kind"):
            self.assertEqual(ragged(stored, name, lambda v: v.tobytes().decode()), table[name].to_pylist())
            self.assertEqual(stored[f"{name}/values"].attrs["encoding"], "utf-8")
        self.assertEqual(ragged(stored, "raw", lambda v: v.tobytes()), table["raw"].to_pylist())
        self.assertEqual(stored["raw/values"].attrs["encoding"], "bytes")
        self.assertIn("tokens: {ragged: {offsets: tokens/offsets, values: tokens/values}}", out)
        self.assertEqual(subprocess.run([PROGRAM, "verify", self.target], stdout=subprocess.DEVNULL).returncode, 0)

    def test_string_views(self):
        titles = [f"dök {i}" * (i % 4) for i in range(50)]
        table = pa.table({"title": pa.array(titles, pa.string_view()), "raw": pa.array([t.encode() for t in titles], pa.binary_view())})
        write_files(table, self.source, 2, 7)
        self.assertEqual(pq.read_schema(f"{self.source}/part-0.parquet").types, [pa.string_view(), pa.binary_view()])
        self.run_import(self.source, self.target)
        stored = zarr.open_group(self.target, mode="r")
        self.assertEqual(ragged(stored, "title", lambda v: v.tobytes().decode()), titles)
        self.assertEqual(ragged(stored, "raw", lambda v: v.tobytes().decode()), titles)
        self.assertEqual([stored[f"{name}/values"].attrs["encoding"] for name in ("title", "raw")], ["utf-8", "bytes"])

    def test_strings_of_windows(self):
        """Keys and columns of --per-window that are strings; some windows go across files and row groups."""
        table = windows_table(np.random.default_rng(8), 40, 30)
        keys = table["window_id"].to_pylist()
        table = table.set_column(0, "window_id", [[f"ключ {key}" for key in keys]])
        table = table.append_column("name", [[f"é{k}" * (k % 3) for k in keys]])
        table = table.append_column("raw", [[bytes([255]) * (k % 4) for k in keys]])
        write_files(table, self.source, 3, 17)
        arguments = (self.source, self.target, "--window", "window_id", "--per-window", "name,raw,label")
        out = self.run_import(*arguments)
        self.assertIn("name: {ragged: {offsets: name/offsets, values: name/values}}", out)
        stored = zarr.open_group(self.target, mode="r")
        counts = np.diff(stored["items/offsets"][:])
        for name, decode in (("window_id", bytes.decode), ("name", bytes.decode), ("raw", bytes)):
            strings = np.array(ragged(stored, name, lambda v, decode=decode: decode(v.tobytes())), object)
            self.assertEqual(np.repeat(strings, counts).tolist(), table[name].to_pylist())
        self.assertEqual([stored[f"{name}/values"].attrs["encoding"] for name in ("window_id", "name", "raw")], ["utf-8", "utf-8", "bytes"])
        np.testing.assert_array_equal(np.repeat(stored["label"][:], counts), table["label"].to_numpy())
        names = table["name"].to_pylist()
        names[1 if keys[1] == keys[0] else keys.index(keys[-1]) + 1] = "?"
        bad = f"{self.dir}/bad.parquet"
        pq.write_table(table.set_column(table.column_names.index("name"), "name", [names]), bad)
        self.target += ".2"
        self.refuses("column 'name' changes within the window", bad, self.target, *arguments[2:])

    def test_hive_folders(self):
        table = windows_table(np.random.default_rng(3), 9, 50)
        for key in table["window_id"].unique().to_pylist():
            os.makedirs(f"{self.source}/window_id={key}")
            part = table.filter(pa.compute.equal(table["window_id"], key)).drop_columns(["window_id"])
            pq.write_table(part, f"{self.source}/window_id={key}/p.parquet")
        self.run_import(self.source, self.target, "--window", "window_id", "--group", "events")
        order = sorted(table["window_id"].unique().to_pylist())
        self.check_windows(pa.concat_tables([table.filter(pa.compute.equal(table["window_id"], k)) for k in order]), "events")

    def test_cast(self):
        table = windows_table(np.random.default_rng(4), 20, 50)
        write_files(table, self.source, 1, 100)
        arguments = (self.source, self.target, "--window", "window_id")
        row = int(np.flatnonzero(table["y"].to_numpy() > 255)[0])
        message = f"part-0.parquet: row {row}, column 'y': {table['y'][row].as_py()} is no uint8: give --cast"
        self.refuses(message, *arguments, "--cast", "y=uint8", "--chunk-items", "50")
        self.assertFalse(os.path.exists(self.target + ".importing"))  # which another --cast would find
        row = int(np.flatnonzero(table["window_id"].to_numpy() > 1)[0])
        key = table["window_id"][row].as_py()
        self.refuses(f"row {row}, column 'window_id': {key} is no bool", *arguments, "--cast", "window_id=bool")
        self.run_import(*arguments, "--cast", "y=uint16", "--cast", "bin=uint8,window_id=int32")
        stored = zarr.open_group(self.target, mode="r")
        self.assertEqual([str(stored[n].dtype) for n in ("items/y", "items/bin", "window_id")], ["uint16", "uint8", "int32"])
        self.check_windows(table)

    def test_killed_and_resumed(self):
        table = windows_table(np.random.default_rng(5), 1500, 200)
        write_files(table, self.source, 2, 3000)
        arguments = (self.source, self.target, "--window", "window_id", "--processes", "2", "--chunk-items", "500")
        rest = random.Random(1)
        for _ in range(2):
            process = self.start(*arguments, start_new_session=True)
            until = time.monotonic() + 30
            before = self.parts_done()
            while self.parts_done() <= before and time.monotonic() < until and process.poll() is None:
                time.sleep(0.01 + 0.02 * rest.random())
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            _, err = process.communicate()
            self.assertEqual(process.returncode, -signal.SIGKILL, err)
            self.assertFalse(os.path.exists(self.target))
        done = self.parts_done()
        self.assertGreaterEqual(done, 1)
        self.damage_a_part()
        out = self.run_import(*arguments)
        self.assertIn(f"; {done} of ", out)
        self.check_windows(table)
        self.assertFalse(os.path.exists(self.target + ".importing"))

    def test_no_process_is_left(self):
        write_files(windows_table(np.random.default_rng(6), 1500, 200), self.source, 1, 3000)
        process = self.start(self.source, self.target, "--window", "window_id", "--processes", "2", "--chunk-items", "500")
        until = time.monotonic() + 30
        while self.parts_done() == 0 and time.monotonic() < until:
            time.sleep(0.02)
        process.kill()  # not its children
        process.communicate(timeout=60)  # ends when all who have the pipes open are gone

    def parts_done(self):
        journal = self.target + ".importing/.journal"
        return sum(name.startswith("done.") and not name.endswith(".new") for name in os.listdir(journal)) if os.path.isdir(journal) else 0

    def damage_a_part(self):
        """A chunk of a part that is done goes: the journal's checksum finds it."""
        os.remove(f"{self.target}.importing/items/y/c/0")

    def test_wrong_usage(self):
        self.assertIn("--per-window goes with --window", self.run_import("a", "b", "--per-window", "x", code=4))
        self.assertIn("--processes", self.run_import("a", "b", "--processes", "0", code=4))
        self.assertIn("write COLUMN=DTYPE", self.run_import("a", "b", "--cast", "x:int8", code=4))
        for format, message in (("csv", "the format 'csv' is not known"), ("--help", None)):
            result = subprocess.run([PROGRAM, "import", format], capture_output=True, text=True)
            self.assertEqual(result.returncode, 4 if message else 0)
            self.assertIn(message or "penstock import parquet", result.stderr if message else result.stdout)
        result = subprocess.run(
            [PROGRAM, "import", "parquet", "a", "b"],
            capture_output=True,
            text=True,
            env={**os.environ, "PENSTOCK_PYTHON": "/nonexistent/python"},
        )
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertIn("/nonexistent/python", result.stderr)
        result = subprocess.run(
            [PROGRAM, "import", "parquet", "a", "b"],
            capture_output=True,
            text=True,
            cwd="/",
            env={"PATH": os.environ["PATH"], "PENSTOCK_PYTHON": sys.executable, "PYTHONPATH": self.dir},
        )
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertIn("pip install pyarrow zarr", result.stderr)


class InProcess(unittest.TestCase):
    """What starts no process: each call takes some milliseconds."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="penstock-test-import-")
        self.addCleanup(temporary.cleanup)
        self.dir = temporary.name
        self.source, self.target = f"{self.dir}/source", f"{self.dir}/target.zarr"
        os.mkdir(self.source)

    def main(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        _parquet_source._open.cache_clear()  # a file of the same name was another one
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = import_parquet.main([self.source, self.target, "--processes", "1", *arguments])
            except SystemExit as end:
                code = end.code
        return code, out.getvalue(), err.getvalue()

    def refuses(self, message, *arguments):
        code, _, err = self.main(*arguments)
        self.assertEqual(code, 4, err)
        self.assertIn(message, err)
        self.assertEqual([name for name in os.listdir(self.dir) if name.startswith("target")], [])

    def imports(self, *arguments):
        """The dataset, which is gone when the next one is made; self.out: what the command prints."""
        shutil.rmtree(self.target, ignore_errors=True)
        code, self.out, err = self.main(*arguments)
        self.assertEqual(code, 0, err)
        return zarr.open_group(self.target, mode="r")

    def test_casts_keep_values(self):
        """Every pair of dtypes, at the edges of each, against exact arithmetic."""
        edges = {0, 1, 2, -1, 0.5, -0.0, -1.5, 1e300, 1e39, 65504, 65520, float("nan"), float("inf"), float("-inf")}
        edges |= {sign * (1 << bits) + by for bits in (7, 8, 11, 15, 16, 24, 31, 32, 53, 63, 64) for by in (-1, 0, 1) for sign in (-1, 1)}
        for source, target in itertools.product(DTYPES, DTYPES):
            kind = np.dtype(source).kind
            for edge in edges:
                if not self.holds(edge, source) and kind != "f":
                    continue
                with np.errstate(over="ignore"):
                    values = np.array([[1, edge]]).astype(source) if kind == "f" else np.array([[1, int(edge)]], source)
                value = values[0, 1].item()
                wanted = math.isinf(value) or self.fits(value, target) if kind == np.dtype(target).kind == "f" else self.holds(value, target)
                try:
                    converted = convert(values, target, "{}".format)
                    self.assertTrue(wanted, (value, source, target))
                    if np.dtype(target).kind != "f":
                        self.assertEqual(converted[0, 1].item(), value)
                except BadValue:
                    self.assertFalse(wanted, (value, source, target))

    @staticmethod
    def fits(value, dtype):
        with np.errstate(over="ignore"):
            return math.isnan(value) or math.isfinite(float(np.float64(value).astype(dtype)))

    @staticmethod
    def holds(value, dtype):
        """Whether a dtype has exactly this value."""
        kind = np.dtype(dtype).kind
        if not math.isfinite(value):
            return kind == "f"
        if kind == "f":
            try:
                with np.errstate(over="ignore"):
                    there = float(np.float64(value).astype(dtype))
            except OverflowError:
                return False
            return math.isfinite(there) and fractions.Fraction(there) == fractions.Fraction(value)
        low, high = (0, 1) if kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return value == int(value) and low <= value <= high

    def test_values_that_a_cast_changes(self):
        fixed = pa.FixedSizeListArray.from_arrays(pa.array([1, 2, 3, 4, 5, 2**53 + 1, 0, 0]), 2)
        table = pa.table(
            {
                "signed": pa.array([5, 6, 7, -1]),
                "big": pa.array([1, 2, 3, 2**63], pa.uint64()),
                "byte": pa.array([1, 200, 3, 4], pa.uint8()),
                "float": [1.0, 2.0, 2.5, 3.0],
                "nan": [1.0, float("nan"), float("inf"), 1e300],
                "lists": [[1], [], [], [2, -3]],
                "fixed": fixed,
                "deep": pa.array([[[1, 2]], [], [[3, 4], [5, 400]], []], pa.list_(pa.list_(pa.int64(), 2))),
                "seen": pa.array([1, 2, 2**40, 4], pa.timestamp("ns")),
                "good": [True, False, True, True],
            }
        )
        pq.write_table(table.slice(0, 1), f"{self.source}/a.parquet")
        pq.write_table(table.slice(1), f"{self.source}/b.parquet", row_group_size=2)
        for cast, where in {
            "signed=uint64": "b.parquet: row 2, column 'signed': -1 is no uint64",
            "big=int64": "row 2, column 'big': 9223372036854775808 is no int64",
            "byte=int8": "row 0, column 'byte': 200 is no int8",
            "float=int32": "row 1, column 'float': 2.5 is no int32",
            "nan=int64": "row 0, column 'nan': nan is no int64",
            "nan=float32": "row 2, column 'nan': 1e+300 is no float32",
            "lists=uint8": "row 2, column 'lists': -3 is no uint8",
            "fixed=float64": "row 1, column 'fixed': 9007199254740993 is no float64",
            "deep=uint8": "row 1, column 'deep': 400 is no uint8",
            "seen=int32": "row 1, column 'seen': 1099511627776 is no int32",
            "byte=bool": "row 0, column 'byte': 200 is no bool",
        }.items():
            with self.subTest(cast):
                self.refuses(where, "--cast", cast)
        stored = self.imports("--cast", "lists=int8,fixed=int64,good=uint8,nan=float64,signed=float32,byte=int16")
        self.assertEqual(stored["signed"][:].tolist() + stored["lists/values"][:].tolist(), [5, 6, 7, -1, 1, 2, -3])

    def test_names(self):
        """What becomes one path, a path within an array, or no path, is refused before anything is written; --rename gives another."""
        lists, one = pa.array([[1], [2, 3]]), pa.array([7, 8])
        long = "x" * 256
        for columns, message, rename in (
            ({"g": lists, "g/values": one}, "column 'g' and column 'g/values' would both be array 'g/values'", "g/values=h"),
            ({"g/offsets": one, "g": lists}, "column 'g/offsets' and column 'g' (its offsets) would both be array 'g/offsets'", "g=h"),
            ({"a": one, "a/b": one}, "column 'a/b' would be array 'a/b' within array 'a' of column 'a'", "a=h"),
            ({"a/b/values": lists, "a/b": one}, "would be array 'a/b/values/values' within array 'a/b' of column 'a/b'", "a/b=h"),
            ({"": one}, "column '' would be array '', and a part of it is empty", "=h"),
            ({"/a": one}, "would be array '/a', and a part of it is empty", "/a=h"),
            ({"a//b": lists}, "would be array 'a//b/values', and a part of it is empty", "a//b=h"),
            ({"../../evil": one}, "'..' is no name", "../../evil=h"),
            ({".journal/plan": one}, "'.journal' is no name", ".journal/plan=h"),
            ({"a/.zattrs": one}, "'.zattrs' is no name", "a/.zattrs=h"),
            ({"zarr.json": one}, "'zarr.json' is no name", "zarr.json=h"),
            ({"a\tb": one}, "'a\\tb', and it has a control character", "a\tb=h"),
            ({"a,b=c\\/": one}, "a part of it is empty: --rename 'a\\,b\\=c\\\\/=NAME'", "a\\,b\\=c\\\\/=h"),
            ({long: one}, "names of files have 255 bytes", f"{long}=h"),
            ({"/".join("abcdefgh" * 8 for _ in range(8)): one}, "paths of arrays have 511 bytes", "/".join("abcdefgh" * 8 for _ in range(8)) + "=h"),
        ):
            with self.subTest(message):
                pq.write_table(pa.table(columns), f"{self.source}/a.parquet")
                self.refuses(message)
                stored = self.imports("--rename", rename)
                self.assertEqual((stored["h/values"][:].tolist()) if "h/values" in stored else stored["h"][:].tolist(), [1, 2, 3] if "h/values" in stored else [7, 8])
                shutil.rmtree(self.target)
        pq.write_table(pa.table({"k": [1, 1], "offsets": [1, 2], "items": [5, 5]}), f"{self.source}/a.parquet")
        self.refuses("column 'offsets' and the offsets of windows would both be array 'items/offsets'", "--window", "k")
        self.refuses("within array 'items' of column 'items'", "--window", "k", "--per-window", "items", "--rename", "offsets=o")
        self.refuses("array '../x/o', and '..' is no name", "--window", "k", "--rename", "offsets=o", "--group", "../x")
        stored = self.imports("--window", "k", "--rename", "offsets=o,k=keys", "--per-window", "items", "--group", "g", "--cast", "k=int8")
        self.assertEqual((stored["g/o"][:].tolist(), stored["keys"][:].tolist(), str(stored["keys"].dtype)), ([1, 2], [1], "int8"))

    def test_case(self):
        """Upper and lower case are two names, but for a file system that makes them one."""
        pq.write_table(pa.table({"T": [1], "t": [2], "c": [3]}), f"{self.source}/a.parquet")
        stored = self.imports()
        self.assertEqual([stored[name][0] for name in "Ttc"], [1, 2, 3])
        shutil.rmtree(self.target)
        exists = os.path.exists
        with unittest.mock.patch.object(os.path, "exists", lambda path: exists(os.path.join(os.path.dirname(path), os.path.basename(path).lower()))):
            self.refuses("column 'T' and column 't' would both be 'T' and 't', which are one name here: --rename 't=NAME'")

    def test_columns_of_one_name(self):
        one = pa.array([1, 2])
        pq.write_table(pa.table([one, one, one], names=["a", "a", "b"]), f"{self.source}/a.parquet")
        self.refuses("a.parquet: 2 columns have the name 'a'")
        self.assertEqual(list(self.imports("--exclude", "a")), ["b"])
        shutil.rmtree(self.target)
        pq.write_table(pa.table([one, one], names=["a", "b"]), f"{self.source}/Z.parquet")
        self.refuses("a.parquet: several columns 'a', which")

    def test_printed_fields(self):
        """Those of any names are a configuration that finds the arrays."""
        columns = {"a/b": [1, 2], "a/c": [[1], [2, 3]], "x: {y}": [1, 2], "no": [3, 4], "ключ, [1]": ["a", "b"], "c": [1, 2], "n" * 90: [5, 6], "7": [1, 1]}
        pq.write_table(pa.table(columns), f"{self.source}/a.parquet")
        self.imports()
        self.assertIn("    a/b: {array: a/b}\n    a/c: {ragged: {offsets: a/c/offsets, values: a/c/values}}\n", self.out)
        self.check_fields(len(columns))
        pq.write_table(pa.table({"k": [1, 1], "a/b": [1, 2], "x, y": [3, 4], "l": [5, 5]}), f"{self.source}/a.parquet")
        self.imports("--window", "k", "--per-window", "l", "--group", "my group")
        self.check_fields(3)

    def check_fields(self, count):
        lines = self.out.splitlines()
        with open(f"{self.dir}/fields.yaml", "w", encoding="utf-8") as file:
            file.write("\n".join(lines[lines.index("dataset:") :]) + "\nbatch: {global_size: 1}\ndelivery: {trainers: 1}\n")
        result = subprocess.run([PROGRAM, "plan", "--json", "-c", file.name], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        result = subprocess.run([PROGRAM, "samples", "-c", file.name, "--index", "0"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_options_that_come_again(self):
        """Lists add up, and what is in them twice is refused; so is a second value of the other options. No usage is a traceback."""
        pq.write_table(pa.table({"a": [1, 2], "b": [1, 2], "c": [1, 2], "d,e": [1, 2]}), f"{self.source}/a.parquet")
        stored = self.imports("--cast", "a=int8", "--cast", "b=int16", "--columns", "a,b", "--columns", "d\\,e", "--level", "9")
        self.assertEqual({name: str(stored[name].dtype) for name in stored}, {"a": "int8", "b": "int16", "d,e": "int64"})
        shutil.rmtree(self.target)
        for arguments, message in (
            ("--cast a=int8 --cast a=int16", "--cast: column 'a' is named twice"),
            ("--rename a=x,a=y", "--rename: column 'a' is named twice"),
            ("--exclude a --exclude a", "--exclude: column 'a' is named twice"),
            ("--level 3 --level 4", "--level: given twice"),
            ("--codec zstd --codec zstd", "--codec: given twice"),
            ("--level 99", "--level 99: blosc-zstd has levels from 0 to 9"),
            ("--codec zstd --level 23", "levels from -131072 to 22"),
            ("--codec none --level 3", "--codec none has no level"),
            ("--level x", "--level"),
            ("--processes -1", "'-1': not a whole number from 1 on"),
            ("--cast a", "'a': write COLUMN=DTYPE"),
            ("--cast a=int7", "'a=int7': write COLUMN=DTYPE"),
            ("--rename a", "'a': write COLUMN=NAME"),
            ("--rename z=y", "--rename 'z': no such column; there are a, b, c, d,e"),
            ("--window z", "--window 'z': no such column"),
        ):
            with self.subTest(arguments):
                self.refuses(message, *arguments.split())
        self.target = ""
        self.refuses("DST is '': name a folder")

    def test_bad_sources(self):
        table = pa.table({"k": [1, 1, 2, 1], "v": [1, 2, 3, 4], "w": [1, 2, 3, 4], "s": ["a"] * 4, "l": [[1], [], [2], [3]]})
        good = f"{self.source}/a.parquet"
        pq.write_table(table, good)
        self.refuses("the key 1 comes back in row 3", "--window", "k", "--columns", "k,v")
        self.refuses("'s' has lists or strings", "--window", "k")
        self.refuses("--window 'nokey': no such column; there are k, v, w, s, l", "--window", "nokey")
        self.refuses("changes within the window 1", "--window", "k", "--columns", "k,v,w", "--per-window", "v")
        other = f"{self.source}/b.parquet"
        for bad, message in (
            (pa.table({"k": [1], "v": [1.5], "w": [1], "s": ["a"], "l": [[1]]}), "column 'v' is double, and int64"),
            (pa.table({"k": [1], "w": [1], "s": ["a"], "l": [[1]]}), "no column 'v'"),
            (
                pa.table({"k": [None, 3], "v": [1, 2], "w": [1, 2], "s": ["a", "b"], "l": [[1], [2]]}),
                "column 'k' has 1 null in row group 0",
            ),
            (
                pa.table({"k": [1, 3], "v": [1, 2], "w": [1, 2], "s": ["a", "b"], "l": [[1], [None]]}, schema=table.schema),
                "column 'l' has 1 null",
            ),
        ):
            pq.write_table(bad, other)
            self.refuses(message, "--chunk-rows", "2")
        pq.write_table(table.slice(0, 0), good)
        os.remove(other)
        self.refuses("no rows: name files that have some")
        pq.write_table(pa.table({"m": pa.array([{"a": 1}])}), good)
        self.refuses("type struct<a: int64> have no array to go to")
        pathlib.Path(good).write_bytes(b"PAR1 not really PAR1")
        self.refuses("not a Parquet file that pyarrow can read")
        pq.write_table(table, good, compression="none")
        data = bytearray(pathlib.Path(good).read_bytes())
        data[4:60] = b"\xff" * 56
        pathlib.Path(good).write_bytes(data)
        self.assertIn("cannot be read", self.main()[2])
        shutil.rmtree(self.target + ".importing")  # the disk may be well again
        for self.source, message in ((f"{self.source}/no.parquet", "there is no such file"), (self.dir, "has no file *.parquet")):
            os.path.exists(good) and os.remove(good)
            self.refuses(message)
        os.mkdir(self.target)
        self.assertIn("exists already", self.main()[2])

    def test_keys_of_windows(self):
        """Keys that are times or truth values are stored as such columns are; lists are no keys."""
        pq.write_table(
            pa.table({"t": pa.array([5, 5, 6], pa.timestamp("ms")), "l": [[1], [1], [2]], "f": pa.FixedSizeListArray.from_arrays(pa.array([1, 1, 2]), 1), "x": [1, 2, 3]}),
            f"{self.source}/a.parquet",
        )
        for name in "lf":
            self.refuses(f"--window '{name}': the column has lists", "--window", name)
        stored = self.imports("--window", "t", "--columns", "t,x")
        self.assertEqual((str(stored["t"].dtype), stored["t"][:].tolist()), ("int64", [5, 6]))
        self.assertEqual(stored["t"].attrs["units"], "milliseconds since 1970-01-01")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--penstock", required=True)
    options, rest = parser.parse_known_args()
    PROGRAM = os.path.abspath(options.penstock)
    unittest.main(argv=[sys.argv[0], *rest])
