"""penstock import parquet against pyarrow: random tables with windows, lists, strings and Hive folders; interrupted and resumed; bad files.

test_import_parquet.py --penstock PROGRAM
"""

import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    import zarr

    if int(zarr.__version__.split(".")[0]) < 3:
        raise ImportError(f"zarr-python is {zarr.__version__}, not 3")
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PYTHON = pathlib.Path(__file__).resolve().parents[2] / "python"
PROGRAM = None


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

    def refuses(self, message, *arguments, code=4):
        self.assertIn(message, self.run_import(*(arguments or (self.source, self.target)), code=code))
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
        self.refuses("no uint8: cast the column to another dtype", *arguments, "--cast", "y=uint8")
        self.refuses("begun from other files or with other options", *arguments, "--cast", "y=uint16")
        subprocess.run(["rm", "-r", self.target + ".importing"], check=True)
        self.run_import(*arguments, "--cast", "y=uint16,bin=uint8,window_id=int32")
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

    def test_bad_sources(self):
        table = pa.table({"k": [1, 1, 2, 1], "v": [1, 2, 3, 4], "w": [1, 2, 3, 4], "s": ["a"] * 4, "l": [[1], [], [2], [3]]})
        good = f"{self.source}/a.parquet"
        pq.write_table(table, good)
        self.refuses("the key 1 comes back in row 3", good, self.target, "--window", "k", "--columns", "k,v")
        self.refuses("'s' has lists or strings", good, self.target, "--window", "k")
        self.refuses("no column 'nokey'", good, self.target, "--window", "nokey")
        self.refuses("changes within the window 1", good, self.target, "--window", "k", "--columns", "k,v,w", "--per-window", "v")
        self.refuses("there is no such file", f"{self.source}/no.parquet", self.target)
        os.mkdir(self.dir + "/empty")
        self.refuses("has no file *.parquet", self.dir + "/empty", self.target)
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
            self.refuses(message, "--chunk-rows", "2", self.source, self.target)
            subprocess.run(["rm", "-rf", self.target + ".importing"], check=True)
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
        self.refuses("cannot be read")
        os.mkdir(self.target)
        self.assertIn("exists already", self.run_import(good, self.target, code=4))

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
        self.assertIn("pip install penstock[parquet]", result.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--penstock", required=True)
    options, rest = parser.parse_known_args()
    PROGRAM = os.path.abspath(options.penstock)
    unittest.main(argv=[sys.argv[0], *rest])
