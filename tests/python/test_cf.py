"""cf: true must give what xarray gives, and a copy by `penstock rechunk` must mean the same to xarray.

Writes arrays with many sets of CF attributes with zarr-python 3 (v2 and v3), each as a group of its own. xarray decodes each
group, from the store and from its copy. Where xarray gives values, Penstock gives the same ones or refuses: never others.

    python test_cf.py --dump PATH/dump_field --penstock PATH/penstock

Without zarr-python 3 and xarray it exits 77 (skipped).
"""

import argparse
import base64
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import warnings

SKIPPED = 77

try:
    import numpy as np
    import xarray
    import zarr
except ImportError as error:
    print(f"skipped: {sys.executable}: {error}")
    sys.exit(SKIPPED)

from dumping import DumpField  # noqa: E402

warnings.filterwarnings("ignore")
SETS = 160
REFUSED_MOST = 60  # more would be a fault of Penstock: the sets that are to be refused are fewer


def real64(number):
    return base64.standard_b64encode(struct.pack("<d", number)).decode()


NAN = float("nan")
INTEGER, UNSIGNED, FLOAT = ["i1", "i2", "i4", "i8"], ["u1", "u2", "u4"], ["f2", "f4", "f8"]

# dtypes, format (0: both), fill_value, attributes, and whether a refusal is right
SETS_BY_HAND = [
    (INTEGER, 0, 0, {"missing_value": [-9, -3], "scale_factor": 0.5}, False),
    (INTEGER + FLOAT, 0, 5, {"missing_value": [-9.0, -3.0, NAN], "add_offset": 2.0}, False),
    (INTEGER + UNSIGNED, 3, 0, {"_FillValue": 3, "missing_value": 7}, False),
    (INTEGER, 2, -9, {"missing_value": -3}, False),
    (INTEGER + FLOAT, 2, None, {"_FillValue": -9, "missing_value": -3}, False),
    (INTEGER + FLOAT, 2, None, {"_FillValue": [-9, 3]}, False),
    (INTEGER + FLOAT, 2, -9, {"_FillValue": -9}, False),
    (INTEGER + FLOAT, 2, 0, {"_FillValue": -9}, True),
    (INTEGER + UNSIGNED + FLOAT, 2, 0, {}, False),
    (FLOAT, 2, NAN, {"missing_value": -9.0}, False),
    (FLOAT, 2, NAN, {"_FillValue": -9.0}, True),
    (FLOAT, 3, 0, {"_FillValue": real64(-9.0), "missing_value": -3}, False),
    (FLOAT, 3, 0, {"_FillValue": real64(NAN), "missing_value": [3]}, False),
    (FLOAT, 3, 0, {"_FillValue": -9.0}, False),
    (FLOAT, 3, 0, {"_FillValue": "NaN"}, False),
    (["f4"], 0, 1.5, {"missing_value": 1e20}, True),
    (["f4"], 0, 1.5, {"missing_value": float(np.float32(1e20))}, False),
    (["f2"], 0, 1.5, {"missing_value": 0.1}, True),
    (["i2", "u1"], 0, 1, {"missing_value": [3.5, 1e9, -1e9, 3.0000000001]}, False),
    (INTEGER, 3, 0, {"_Unsigned": "true", "_FillValue": -1, "scale_factor": 0.25}, False),
    (INTEGER, 2, -1, {"_Unsigned": "true"}, False),
    (INTEGER, 0, 9, {"_Unsigned": "true"}, False),
    (INTEGER, 0, 9, {"_Unsigned": "false", "missing_value": -9}, False),
    (UNSIGNED, 0, 9, {"_Unsigned": "true", "missing_value": 7}, False),
    (UNSIGNED, 0, 9, {"_Unsigned": "false", "add_offset": 1.0}, False),
    (UNSIGNED, 3, 9, {"_Unsigned": "false", "_FillValue": 7}, False),
    (FLOAT, 0, 9, {"_Unsigned": "true", "missing_value": -9}, False),
    (["i1"], 0, 9, {"_Unsigned": "True"}, True),
    (["i1"], 0, 9, {"_Unsigned": "true", "missing_value": -1}, True),
    (["i2", "f4"], 0, 9, {"valid_min": 0}, True),
    (["i2", "f4"], 0, 9, {"valid_max": [4]}, True),
    (["i2", "f8"], 0, 9, {"valid_range": [-3, 7]}, True),
    (["u1"], 0, 9, {"valid_range": [0, 255]}, False),
    (["i2"], 0, 9, {"valid_min": -32767, "missing_value": [-32768, -32768]}, False),
    (["i2"], 0, 9, {"valid_min": -32766, "missing_value": [-32768, -32768]}, True),
    (["i2", "f4"], 0, 9, {"missing_value": "-9"}, True),
    (["f4"], 0, 9, {"missing_value": "NaN"}, False),
    (["i2", "f4"], 0, 9, {"scale_factor": [0.5], "add_offset": [1.0]}, False),
    (["i2", "f4"], 0, 9, {"scale_factor": [0.5, 2.0]}, True),
    (["i2", "f4"], 0, 9, {"scale_factor": True}, True),
    (["i2", "f4"], 0, 9, {"scale_factor": 1e300}, True),
    (["i2", "f4"], 0, 9, {"scale_factor": 1e-60}, True),
    (["i4", "f8"], 0, 9, {"scale_factor": 1e300, "add_offset": 1e290}, False),
    (["i2", "f4"], 0, 9, {"add_offset": NAN}, True),
    (["i2", "i8"], 0, 9, {"units": "days since 2020-01-01", "calendar": "standard", "missing_value": -9}, False),
    (["i2", "f4"], 0, 9, {"units": "hours", "scale_factor": 0.5}, False),
    (["?"], 0, False, {}, False),
    (["i1"], 0, 9, {"dtype": "bool"}, True),
]


# What cf refuses and rechunk copies: dtype, format, items, fill_value, attributes
COPIES = [
    ("c8", 2, [1 + 2j, 3j, 0], 1 + 2j, {}),
    ("c16", 2, [1 + 2j, 3j, 0], 3j, {}),
    ("M8[s]", 2, [0, 1, 2], 1, {"_FillValue": 1}),
    ("m8[s]", 2, [0, 1, 2], 1, {}),
    ("S3", 2, [b"abc", b"a", b"b"], None, {"_FillValue": "abc"}),
    ("U3", 2, ["abc", "a", "b"], None, {"note": "a text"}),
    ("?", 2, [True, False, True], True, {}),
    ("i8", 2, [0, 2**40, -(2**63)], -(2**63), {"coordinates": "lat lon", "grid_mapping": "crs"}),
    ("u8", 3, [0, 2**40, 2**64 - 1], 0, {"_FillValue": 2**64 - 1}),
]


def random_set(dice):
    dtype = dice.choice(INTEGER + UNSIGNED + FLOAT)
    zarr_format = dice.choice([2, 3])
    low = 0 if dtype[0] == "u" else -9
    number = lambda: dice.choice([NAN, dice.randint(low, 9), float(dice.randint(low, 9)), 0])  # noqa: E731
    attributes = {}
    if dice.random() < 0.5:
        attributes["scale_factor"] = dice.choice([0.5, 0.25, -2.0])
    if dice.random() < 0.4:
        attributes["add_offset"] = dice.choice([-3.5, 100.0])
    if dice.random() < 0.6:
        attributes["missing_value"] = dice.choice([number(), [number() for _ in range(dice.randint(0, 4))]])
    if zarr_format == 3 and dice.random() < 0.6:
        fill = dice.randint(low, 9)
        attributes["_FillValue"] = real64(fill) if dtype[0] == "f" else fill
    if dice.random() < 0.3:
        attributes["_Unsigned"] = dice.choice(["true", "false"])
        if dtype[0] != "f" and dice.random() < 0.9:
            attributes.pop("missing_value", None)
    fill = None if zarr_format == 2 and dice.random() < 0.2 else dice.randint(low, 9)
    return dtype, zarr_format, fill, attributes, None


def all_sets():
    for dtypes, zarr_format, fill, attributes, refused in SETS_BY_HAND:
        for dtype in dtypes:
            for one in [2, 3] if zarr_format == 0 else [zarr_format]:
                yield dtype, one, fill, attributes, refused
    for number in range(SETS):
        yield random_set(random.Random(number))


def write(root, name, dtype, zarr_format, fill, attributes):
    items = np.array([-9, -3, -1, 0, 1, 3, 5, 7, 9, 100, -128, 127])
    items = (items != 0) if dtype == "?" else items.astype(dtype)
    if dtype == "f4":
        items[9] = 1e20
    if dtype == "f2":
        items[9] = 0.1
    if dtype == "i2":
        items[10] = -32768
    group = zarr.open_group(str(root / f"v{zarr_format}"), mode="a", zarr_format=zarr_format).create_group(name)
    array = group.create_array(
        "x", shape=(6, 2), chunks=(2, 2), dtype=items.dtype, fill_value=fill, compressors=None,
        dimension_names=["t", "c"] if zarr_format == 3 else None,
    )  # fmt: skip
    array[:] = items.reshape(6, 2)
    if zarr_format == 2 and fill is None:  # zarr-python writes 0
        document = root / "v2" / name / "x" / ".zarray"
        document.write_text(json.dumps(json.loads(document.read_text()) | {"fill_value": None}))
    array.attrs.update(attributes | ({"_ARRAY_DIMENSIONS": ["t", "c"]} if zarr_format == 2 else {}))


def write_copied(root, number, dtype, zarr_format, items, fill, attributes):
    group = zarr.open_group(str(root / f"v{zarr_format}"), mode="a", zarr_format=zarr_format)
    array = group.create_group(f"copied{number}").create_array(
        "x", shape=(3,), chunks=(1,), dtype=dtype, fill_value=fill, compressors=None,
        dimension_names=["t"] if zarr_format == 3 else None,
    )  # fmt: skip
    array[:] = np.array(items, dtype)
    array.attrs.update(attributes | ({"_ARRAY_DIMENSIONS": ["t"]} if zarr_format == 2 else {}))


def open_by_xarray(store, group):
    """The variable, or None where xarray cannot read it."""
    try:
        return xarray.open_zarr(store, group=group, decode_times=False, consolidated=False)["x"].load()
    except Exception:
        return None


def meaning(variable):
    """What a copy has to keep. xarray decodes no dates, and so leaves their _FillValue, which v3 cannot have, in place. Byte
    strings of v2, of which some may be missing, are objects."""
    attributes = {key: value for key, value in variable.attrs.items() if key != "_FillValue"}
    return variable.dims, attributes, variable.dtype.kind.replace("S", "O"), variable.values.tolist()


def same(a, b, rounding):
    """But for the rounding of float32, in which small items are scaled."""
    with np.errstate(all="ignore"):
        return np.array_equal(np.isnan(a), np.isnan(b)) and np.allclose(a, b, equal_nan=True, rtol=rounding, atol=0)


def check(dump, store, number, cases, tally):
    dtype, zarr_format, fill, attributes, refusal = cases[number]
    what = f"{dtype} of v{zarr_format}, fill_value {fill}, {attributes}"
    variable = open_by_xarray(store, f"g{number}")
    expected = None if variable is None else variable.values.astype("f8")
    data, said, _ = dump.ask(**{
        "dataset.uri": store, "dataset.fields.x": f"g{number}/x", "dataset.fields.x.cf": "true",
        "dataset.fields.x.cast": "float64",
    })  # fmt: skip
    tally["read by xarray"] += expected is not None
    if data is None:
        tally["refused"] += 1
        if refusal is False:
            raise AssertionError(f"{what}: refused: {said}")
        if "array" not in said and "scale" not in said:
            raise AssertionError(f"{what}: the refusal names nothing: {said}")
        return
    if refusal is True:
        raise AssertionError(f"{what}: not refused")
    got = np.frombuffer(data, "f8").reshape(6, 2)
    if expected is not None and not same(got, expected, 1e-3 if dtype == "f2" else 1e-6):
        raise AssertionError(f"{what}: {got.ravel()}, xarray {expected.ravel()}")
    tally["same"] += expected is not None


def check_copy(source, copy, group, what, tally):
    before, after = open_by_xarray(source, group), open_by_xarray(copy, group)
    if before is not None and (after is None or repr(meaning(after)) != repr(meaning(before))):
        raise AssertionError(f"the copy of {what}: {after}, not {before}")
    tally["copied"] += before is not None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump", required=True)
    parser.add_argument("--penstock", required=True)
    arguments = parser.parse_args()
    dump, cases = DumpField(arguments.dump), list(all_sets())
    tally = dict.fromkeys(["read by xarray", "same", "refused", "copied"], 0)
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for number, (dtype, zarr_format, fill, attributes, _) in enumerate(cases):
            write(root, f"g{number}", dtype, zarr_format, fill, attributes)
        for number, copied in enumerate(COPIES):
            write_copied(root, number, *copied)
        for zarr_format in (2, 3):
            subprocess.run(
                [arguments.penstock, "rechunk", root / f"v{zarr_format}", root / f"copy{zarr_format}", "--chunk", "3"],
                check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        for number, case in enumerate(cases):
            check(dump, str(root / f"v{case[1]}"), number, cases, tally)
            check_copy(str(root / f"v{case[1]}"), str(root / f"copy{case[1]}"), f"g{number}", case, tally)
        for number, case in enumerate(COPIES):
            check_copy(str(root / f"v{case[1]}"), str(root / f"copy{case[1]}"), f"copied{number}", case, tally)
    print(f"{len(cases)} sets of attributes: {tally}")
    if tally["same"] < len(cases) - REFUSED_MOST - 40 or tally["copied"] < tally["same"]:
        raise AssertionError(f"too few sets are compared: {tally}")


if __name__ == "__main__":
    main()
