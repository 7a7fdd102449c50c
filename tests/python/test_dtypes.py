"""Data types of Zarr v3 that NumPy has as something else, or ml_dtypes has: written here as documents and bytes.

    python test_dtypes.py --dump PATH/dump_array

Floats of a byte or less, and integers of less, come as their codes: each code is the fill value of an array. Members of 'struct' come one by
one. Dates come as numbers. Without NumPy it exits 77 (skipped); without ml_dtypes the floats are left out.
"""

import argparse
import json
import math
import pathlib
import sys
import tempfile
import zlib

from dumping import Dump

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {sys.executable}: {missing}")
    sys.exit(77)

SMALL_ITEMS = ["float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
                "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn", "int2", "int4", "uint2",
                "uint4"]


def document(shape, data_type, fill, chunk=None, endian="little"):
    codec = {"name": "bytes", "configuration": {"endian": endian}}
    grid = chunk or {"name": "regular", "configuration": {"chunk_shape": shape}}
    return {"zarr_format": 3, "node_type": "array", "shape": shape, "data_type": data_type, "chunk_grid": grid,
            "chunk_key_encoding": {"name": "v2"}, "fill_value": fill, "codecs": [codec], "attributes": {}}


class Tester:
    def __init__(self, dump, folder):
        self.dump, self.folder, self.stores, self.wrong = dump, folder, 0, 0

    def check(self, name, text, chunks, expected, array=""):
        self.stores += 1
        store = self.folder / f"{self.stores}.zarr"
        store.mkdir()
        (store / "zarr.json").write_text(json.dumps(text))
        for key, chunk in chunks.items():
            (store / key).write_bytes(chunk)
        data, message = self.dump.read(store, array)
        if data != expected:
            self.wrong += 1
            print(f"wrong: {name}: {message or data[:40]} instead of {expected[:40]}")


def number(value):
    """As JSON has it, in zarr-python's words."""
    if math.isnan(value):
        return "NaN"
    return ("-" if value < 0 else "") + "Infinity" if math.isinf(value) else value


def check_small_items(tester):
    try:
        import ml_dtypes
    except ImportError as missing:
        print(f"left out: {sys.executable}: {missing}")
        return
    for name in SMALL_ITEMS:
        dtype = np.dtype(getattr(ml_dtypes, name))
        of_integers = "int" in name
        count = 1 << (ml_dtypes.iinfo(dtype) if of_integers else ml_dtypes.finfo(dtype)).bits
        codes = {*range(0, count, 13), *(code % count for half in (0, count // 2) for code in range(half - 5, half + 2))}
        for code in sorted(codes):
            value = float(np.array([code], "u1").view(dtype)[0])
            expected = np.array([np.nan]).astype(dtype).view("u1")[0] if math.isnan(value) else code
            tester.check(f"{name} {value}", document([1], name, int(value) if of_integers else number(value)), {},
                         bytes([expected]))
        tester.check(f"{name} {code:#x}", document([1], name, f"{code:#04x}"), {}, bytes([code]))
        tester.check(name, document([4], name, 0), {"0": b"\x01\x02\x00\x03"}, b"\x01\x02\x00\x03")


def check_structs(tester):
    members = [("t", "<M8[s]", {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}, "NaT"),
               ("x", "<f4", "float32", "NaN"), ("n", "<i2", "int16", -5), ("b", "u1", "uint8", 7),
               ("s", "S3", {"name": "null_terminated_bytes", "configuration": {"length_bytes": 3}}, "YWI=")]
    fills = {"t": np.datetime64("NaT"), "x": np.float32("nan"), "n": -5, "b": 7, "s": b"ab"}
    rng = np.random.default_rng(3)
    grid = {"name": "regular", "configuration": {"chunk_shape": [2]}}
    fields = [{"name": name, "data_type": data_type} for name, _, data_type, _ in members]
    for endian, sign in (("little", "<"), ("big", ">")):
        stored = np.dtype([(name, np.dtype(text).newbyteorder(sign)) for name, text, _, _ in members])
        items = np.frombuffer(rng.integers(1, 120, 4 * stored.itemsize, "u1").tobytes(), stored)
        chunks = {"0": items[:2].tobytes(), "1": items[2:].tobytes()}
        fill = {name: fill for name, _, _, fill in members}
        text = document([6], {"name": "struct", "configuration": {"fields": fields}}, fill, grid, endian)
        for name, member, _, _ in members:
            expected = np.concatenate([items[name], np.array([fills[name]] * 2, member)])
            native = expected.astype(expected.dtype.newbyteorder("=")).tobytes()
            tester.check(f"struct, {endian}, {name}", text, chunks, native, name)


def check_dates(tester):
    for kind in ("datetime64", "timedelta64"):
        for unit, factor in (("ns", 1), ("s", 25), ("D", 1), ("generic", 1)):
            data_type = {"name": f"numpy.{kind}", "configuration": {"unit": unit, "scale_factor": factor}}
            items = np.array([-(2**63), 0, 12345, 2**40], ">i8")
            for fill in (-(2**63), "NaT"):
                text = document([6], data_type, fill, {"name": "regular", "configuration": {"chunk_shape": [4]}}, "big")
                expected = np.concatenate([items, [-(2**63)] * 2]).astype("=i8").tobytes()
                chunks = {"0": items.tobytes()}
                tester.check(f"{kind} {unit}", text, chunks, expected)


def check_grids(tester):
    """Rectilinear grids of equal chunks, but for the last one, which is stored as long as it is."""
    items = np.arange(70, dtype="i4").reshape(10, 7)
    padded = np.pad(items, ((0, 2), (0, 2)), constant_values=-1)
    gzip = {"name": "gzip", "configuration": {"level": 1}}
    turn = {"name": "transpose", "configuration": {"order": [1, 0]}}
    for shapes in ([4, 3], [[[4, 3]], [3, 3, 3]], [[4, 4, 2], [[3, 2], 1]], [[4, 4, 3], 7], [4, [4, 3]],
                   [[[4, 2], 2], [5, 2]], [[6, 5], [6, 2]]):
        grid = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": shapes}}
        starts = [[s * n for n in range(-(-length // s))] if isinstance(s, int) else np.cumsum([0, *runs(s)]).tolist()[:-1]
                  for s, length in zip(shapes, items.shape)]
        ends = [[start + s for start in begin] if isinstance(s, int) else np.cumsum(runs(s)).tolist()
                for s, begin in zip(shapes, starts)]
        for codecs in ([], [gzip], [turn], [turn, gzip]):
            text = document([10, 7], "int32", 0, grid)
            text["codecs"] = [c for c in codecs if c is turn] + text["codecs"] + [c for c in codecs if c is gzip]
            chunks = {}
            for i, (a, b) in enumerate(zip(starts[0], ends[0])):
                for j, (c, d) in enumerate(zip(starts[1], ends[1])):
                    part = padded[a:b, c:d].T if turn in codecs else padded[a:b, c:d]
                    data = np.ascontiguousarray(part).tobytes()
                    chunks[f"{i}.{j}"] = zlib.compress(data, wbits=31) if gzip in codecs else data
            tester.check(f"grid {shapes}", text, chunks, items.tobytes())


def runs(lengths):
    return [n for run in lengths for n in ([run[0]] * run[1] if isinstance(run, list) else [run])]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump", required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Dump(arguments.dump) as dump:
        tester = Tester(dump, pathlib.Path(folder))
        for check in (check_small_items, check_structs, check_dates, check_grids):
            check(tester)
    print(f"{tester.stores} arrays, {tester.wrong} wrong")
    return 1 if tester.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
