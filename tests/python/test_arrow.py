"""Batches by the Arrow C data interface: the structs themselves, and what pyarrow, polars and duckdb make of them."""

import ctypes
import gc
import importlib.util
import subprocess
import sys
import unittest

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import penstock
from demo import Demo, connect
from penstock import _arrow

KINDS = {b"arrow_schema": _arrow.ArrowSchema, b"arrow_array": _arrow.ArrowArray,
         b"arrow_array_stream": _arrow.ArrowArrayStream}
NUMBERS = {b"C": np.uint8, b"S": np.uint16, b"i": np.int32, b"l": np.int64, b"f": np.float32}


def struct_of(capsule, name):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return KINDS[name].from_address(get(capsule, name))


def take(source):
    """Moves the struct out of a capsule or a parent, as a consumer does."""
    struct = type(source)()
    ctypes.memmove(ctypes.byref(struct), ctypes.byref(source), ctypes.sizeof(struct))
    source.release = None
    return struct


def release(struct):
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(struct.release)(ctypes.addressof(struct))
    assert not struct.release


def buffer(address, dtype, count):
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address), dtype, count) if size else np.empty(0, dtype)


def lists(schema, array):
    """A column as nested lists of Python: an Arrow reader of its own."""
    assert array.null_count == 0 and array.offset == 0 and array.buffers[0] is None
    if schema.format in (b"U", b"Z"):
        assert (array.n_buffers, array.n_children) == (3, 0)
        offsets = buffer(array.buffers[1], np.int64, array.length + 1).tolist()
        data = buffer(array.buffers[2], np.uint8, offsets[-1]).tobytes()
        parts = [data[begin:end] for begin, end in zip(offsets, offsets[1:])]
        return [part.decode() for part in parts] if schema.format == b"U" else parts
    if schema.format in NUMBERS:
        assert (array.n_buffers, array.n_children) == (2, 0)
        return buffer(array.buffers[1], NUMBERS[schema.format], array.length).tolist()
    assert schema.n_children == array.n_children == 1
    items = lists(schema.children[0].contents, array.children[0].contents)
    if schema.format == b"+L":
        assert array.n_buffers == 2
        offsets = buffer(array.buffers[1], np.int64, array.length + 1).tolist()
        assert offsets[-1] == len(items)
        return [items[begin:end] for begin, end in zip(offsets, offsets[1:])]
    form, size = schema.format.split(b":")
    size = int(size)
    assert form == b"+w" and array.n_buffers == 1 and array.length * size == len(items)
    return [items[i : i + size] for i in range(0, len(items), size)]


def bits(array):
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def expected(batch, name):
    """A column as nested lists, from the batch's arrays."""
    field = next(field for field in batch._fields if field.name == name)
    items = bits(batch[name]).tolist()
    if not field.offsets:
        return items
    offsets = batch[field.offsets].tolist()
    rows = [items[begin:end] for begin, end in zip(offsets, offsets[1:])]
    encoding = field.attributes.get("encoding")
    rows = [bytes(row) for row in rows] if encoding else rows
    rows = [row.decode() for row in rows] if encoding == "utf-8" else rows
    return rows if field.steps == 1 else [rows[i : i + field.steps] for i in range(0, len(rows), field.steps)]


FORMATS = {
    "small": {"bits": b"+w:4", "image": b"+w:2", "label": b"l"},
    "ragged": {"events": b"+L", "events.x": b"+L", "label": b"l", "points": b"+L"},
    "sequences": {"events": b"+w:3", "events.x": b"+w:3", "label": b"l", "points": b"+L"},
    "strings": {"label": b"l", "name": b"U", "raw": b"Z"},
}


def batches(name, **settings):
    """The batches of a run, one after another."""
    with Demo(fields=name, samples=17, epochs=1, slots=4, **settings) as demo, connect(demo) as loader:
        yield from loader


class Structs(unittest.TestCase):
    """With nothing but ctypes."""

    def test_contents(self):
        for name, formats in FORMATS.items():
            for batch in batches(name, last="partial"):
                capsules = batch.arrow().__arrow_c_array__()
                schema, array = (struct_of(capsule, kind) for capsule, kind in zip(capsules, KINDS))
                self.assertEqual((schema.format, array.length, array.n_buffers), (b"+s", batch.sample_count, 1))
                self.assertEqual((schema.n_children, array.n_children), (len(formats), len(formats)))
                for i, (column, form) in enumerate(formats.items()):
                    part, values = schema.children[i].contents, array.children[i].contents
                    self.assertEqual((part.name.decode(), part.format, values.length), (column, form, batch.sample_count))
                    self.assertEqual(lists(part, values), expected(batch, column))

    def test_nothing_is_copied(self):
        for batch in batches("sequences"):
            capsules = batch.arrow().__arrow_c_array__()
            events = struct_of(capsules[1], b"arrow_array").children[0].contents.children[0].contents
            self.assertEqual(events.buffers[1], batch["events.offsets"].ctypes.data)
            if len(batch["events"]):
                self.assertEqual(events.children[0].contents.buffers[1], batch["events"].ctypes.data)
            del capsules, events

    def test_strings_are_known(self):
        """From what the demo server says of them, and not from the batch."""
        for batch in batches("strings", last="partial"):
            names = ["s" + i % 7 * "é" if i % 5 else "" for i in batch["label"].tolist()]
            self.assertEqual(expected(batch, "name"), names)
            self.assertEqual(batch.strings("name"), names)
            self.assertEqual(expected(batch, "raw"), [i % 3 * b"\xff" for i in batch["label"].tolist()])

    def test_strings_that_are_no_utf_8(self):
        """A byte of its own, and a character whose bytes belong to two strings."""
        for batch in batches("strings"):
            offsets, name = batch["name.offsets"], batch["name"]
            if len(name) == 0 or offsets[1] < 3:
                continue
            good = name.tobytes(), offsets.tolist()
            name[1] = 0xFF
            for take_it in ("__arrow_c_array__", "__arrow_c_stream__"):
                with self.assertRaisesRegex(penstock.Invalid, "'name' has strings that are no UTF-8"):
                    getattr(batch.arrow(), take_it)()
            name[:] = np.frombuffer(good[0], np.uint8)
            offsets[1] -= 1
            with self.assertRaisesRegex(penstock.Invalid, "no UTF-8"):
                batch.arrow().__arrow_c_array__()
            offsets[:] = good[1]
            batch.arrow().__arrow_c_array__()
            return
        self.fail("no batch had such a string")

    def test_a_capsule_that_nobody_takes_is_released(self):
        with Demo(fields="ragged") as demo, connect(demo) as loader:
            batch = loader.next()
            arrow = batch.arrow()
            capsules = arrow.__arrow_c_array__(), arrow.__arrow_c_schema__(), arrow.__arrow_c_stream__()
            self.assertGreater(len(_arrow._alive), 0)
            del batch, arrow
            gc.collect()
            self.assertEqual(loader.stats().leased, 1)
            del capsules
            self.assertEqual(_arrow._alive, {})
            gc.collect()
            self.assertEqual(loader.stats().leased, 0)

    def test_released_parts_give_the_slot_back(self):
        """A child that was moved outlives its parent, and the loader."""
        with Demo(fields="sequences", samples=17, epochs=1) as demo:
            loader = connect(demo)
            loader.next()
            batch = loader.next()
            wanted = expected(batch, "events.x")
            capsules = batch.arrow().__arrow_c_array__()
            schema, array = (take(struct_of(capsule, kind)) for capsule, kind in zip(capsules, KINDS))
            del batch, capsules
            child, part = take(array.children[1].contents), take(schema.children[1].contents)
            release(array)
            release(schema)
            gc.collect()
            self.assertEqual(loader.stats().leased, 1)
            self.assertEqual(lists(part, child), wanted)
            loader.close()
            self.assertEqual(lists(part, child), wanted)
            release(part)
            release(child)
            self.assertEqual(_arrow._alive, {})
            self.assertEqual(demo.process.wait(60), 0)

    def test_stream(self):
        for batch in batches("ragged"):
            capsule = batch.arrow().__arrow_c_stream__()
            stream = take(struct_of(capsule, b"arrow_array_stream"))
            schema, array, end = _arrow.ArrowSchema(), _arrow.ArrowArray(), _arrow.ArrowArray()
            self.assertEqual(stream.get_schema(ctypes.byref(stream), ctypes.byref(schema)), 0)
            self.assertEqual(stream.get_next(ctypes.byref(stream), ctypes.byref(array)), 0)
            self.assertEqual(stream.get_next(ctypes.byref(stream), ctypes.byref(end)), 0)
            self.assertFalse(end.release)
            release(stream)
            del capsule
            self.assertEqual(lists(schema.children[0].contents, array.children[0].contents), expected(batch, "events"))
            release(schema)
            release(array)
        self.assertEqual(_arrow._alive, {})


def needs(*modules):
    missing = [module for module in modules if not importlib.util.find_spec(module)]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


class Consumers(unittest.TestCase):
    @needs("pyarrow")
    def test_pyarrow(self):
        import pyarrow

        for name, formats in FORMATS.items():
            for batch in batches(name, last="partial"):
                table = pyarrow.record_batch(batch.arrow())
                table.validate(full=True)
                self.assertEqual(table.schema.names, list(formats))
                for column in formats:
                    self.assertEqual(table[column].to_pylist(), expected(batch, column))
            self.assertEqual(table["label"].buffers()[1].address, batch["label"].ctypes.data)
        self.assertEqual([str(table[name].type) for name in ("name", "raw")], ["large_string", "large_binary"])

    @needs("pyarrow")
    def test_pyarrow_keeps_the_slot(self):
        import pyarrow

        with Demo(fields="ragged", samples=400, slots=3) as demo, connect(demo) as loader:
            column = pyarrow.record_batch(loader.next().arrow())["events.x"]
            before = column.to_pylist()
            self.assertGreater(len(before), 0)
            with self.assertRaisesRegex(penstock.Invalid, "epoch 0 step 0"):
                for _ in range(10):
                    next(loader)
            self.assertEqual(column.to_pylist(), before)
            del column
            self.assertEqual(loader.next().step, 3)

    @needs("pyarrow")
    def test_a_process_may_end_with_arrays(self):
        program = (
            "import sys, penstock, pyarrow\n"
            "loader = penstock.connect(sys.argv[1], rank=0, world_size=1)\n"
            "kept = [pyarrow.record_batch(loader.next().arrow()) for _ in range(2)]\n"
            "capsules = loader.next().arrow().__arrow_c_array__()\n"
        )
        with Demo(fields="ragged", slots=4) as demo:
            ended = subprocess.run([sys.executable, "-c", program, demo.run_dir], capture_output=True, text=True)
            self.assertEqual((ended.returncode, ended.stderr), (0, ""))
            self.assertEqual(demo.process.wait(60), 0)

    @needs("polars")
    def test_polars(self):
        import polars

        for name, formats in FORMATS.items():
            for batch in batches(name, last="partial"):
                frame = polars.DataFrame(batch.arrow())
                self.assertEqual(frame.columns, list(formats))
                for column in formats:
                    self.assertEqual(frame[column].to_list(), expected(batch, column))

    @needs("duckdb")
    def test_duckdb(self):
        import duckdb

        for batch in batches("strings"):
            arrow = batch.arrow()
            rows = duckdb.sql("SELECT label, name, raw FROM arrow WHERE length(name) > 2").fetchall()
            names = dict(zip(batch["label"].tolist(), zip(expected(batch, "name"), expected(batch, "raw"))))
            self.assertEqual(rows, [(label, *pair) for label, pair in names.items() if len(pair[0]) > 2])
            del arrow
        for batch in batches("ragged"):
            arrow = batch.arrow()
            rows = duckdb.sql("SELECT label, len(events), list_sum(events) FROM arrow").fetchall()
            self.assertEqual([row[0] for row in rows], batch["label"].tolist())
            offsets = batch["events.offsets"]
            self.assertEqual([row[1] for row in rows], np.diff(offsets).tolist())
            sums = [float(batch["events"][begin:end].sum(dtype=np.float64)) for begin, end in zip(offsets, offsets[1:])]
            self.assertEqual([row[2] or 0 for row in rows], sums)
            del arrow


if __name__ == "__main__":
    unittest.main()
