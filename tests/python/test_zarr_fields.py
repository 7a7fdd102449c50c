"""Slices of fields must be NumPy's, and read no chunk that holds nothing of them; so must normalised fields.

Writes arrays with zarr-python 3 (plain, compressed, sharded, transposed, with missing chunks; v2 and v3), gives fields
random slices and sample axes, reads them with the test tool dump_field, and compares the bytes and the number of chunks.

    python test_zarr_fields.py --dump PATH/dump_field [--cases N]

Without zarr-python 3 it exits 77 (skipped).
"""

import argparse
import pathlib
import random
import sys
import tempfile

SKIPPED = 77

try:
    import numpy as np
    import zarr
    from zarr.codecs import BloscCodec, TransposeCodec, ZstdCodec
except ImportError as error:
    print(f"skipped: {sys.executable}: {error}")
    sys.exit(SKIPPED)

from dumping import DumpField  # noqa: E402

DTYPES = ["uint8", "int16", "float32", "float64"]
ARRAYS = 24


def values(dice, shape, dtype):
    return (np.arange(np.prod(shape)).reshape(shape) * 7 + dice.randrange(100)).astype(dtype)


def write_array(dice, root, name):
    """An array of 2 to 4 axes; returns its items, chunk shape, and whether chunks are missing."""
    rank = dice.randint(2, 4)
    shape = [dice.randint(1, 12) for _ in range(rank)]
    chunks = [dice.randint(1, n + 1) for n in shape]
    data = values(dice, shape, dice.choice(DTYPES))
    kind = dice.choice(["v2", "plain", "zstd", "blosc", "sharded", "transposed"])
    options = {"chunks": chunks, "compressors": None, "fill_value": 3}
    if kind == "zstd":
        options["compressors"] = ZstdCodec(level=1)
    elif kind == "blosc":
        options["compressors"] = BloscCodec(cname="lz4", clevel=5)
    elif kind == "sharded":
        options["shards"] = [c * dice.randint(1, 3) for c in chunks]
    elif kind == "transposed":
        options["filters"] = TransposeCodec(order=dice.sample(range(rank), rank))
    array = zarr.create_array(
        store=str(root / name), shape=shape, dtype=data.dtype, zarr_format=2 if kind == "v2" else 3, **options
    )
    whole = all(dice.random() < 0.8 for _ in range(1))
    if whole:
        array[...] = data
    else:  # the rest is the fill value
        array[: max(1, shape[0] // 2)] = data[: max(1, shape[0] // 2)]
        data = array[...]
    return data, chunks, whole


def random_slice(dice, length):
    """A slice as text and as NumPy's index."""
    kind = dice.choice(["index", "range", "list", "mixed"])
    if kind == "index":
        index = dice.randrange(-length, length)
        return str(index), index % length
    begin = dice.randrange(length)
    end = dice.randint(begin + 1, length)
    if kind == "range":
        return f"{begin}:{end}", list(range(begin, end))
    if kind == "list":
        indices = dice.sample(range(length), dice.randint(1, length))
        return "[" + ",".join(str(dice.choice([i, i - length])) for i in indices) + "]", indices
    rest = dice.sample([i for i in range(length) if not begin <= i < end], (length - (end - begin)) // 2)
    return "[" + ",".join([f"{begin}:{end}"] + [str(i) for i in rest]) + "]", list(range(begin, end)) + rest


def pick(data, axis, slices):
    """The samples: the sample axis first, then slices of the other axes; axes of one index are left out."""
    drops = []
    for number, index in slices.items():
        data = np.take(data, [index] if isinstance(index, int) else index, axis=number)
        drops += [number] if isinstance(index, int) else []
    order = [axis] + [i for i in range(data.ndim) if i != axis and i not in drops]
    data = np.squeeze(np.transpose(data, order + drops), axis=tuple(range(len(order), data.ndim)))
    return np.ascontiguousarray(data)


def chunk_count(shape, chunks, slices):
    count = 1
    for axis, (length, chunk) in enumerate(zip(shape, chunks)):
        index = slices.get(axis, range(length))
        count *= len({i // chunk for i in ([index] if isinstance(index, int) else index)})
    return count


def check_slices(dice, dump, root, name):
    data, chunks, whole = write_array(dice, root, name)
    for _ in range(6):
        axis = dice.randrange(data.ndim)
        texts, slices = {}, {}
        for other in range(data.ndim):
            if other != axis and dice.random() < 0.7:
                texts[other], slices[other] = random_slice(dice, data.shape[other])
        settings = {f"dataset.fields.x.slice.{number}": text for number, text in texts.items()}
        got, read = dump(
            **{"dataset.uri": root / name, "dataset.fields.x": "/", "dataset.fields.x.sample_axis": axis}, **settings
        )
        expected = pick(data, axis, slices)
        if got != expected.tobytes():
            raise AssertionError(f"{name} {data.shape} {chunks} axis {axis} {texts}: other items")
        if whole and read != chunk_count(data.shape, chunks, slices):
            rows = chunk_count(data.shape, chunks, slices)
            raise AssertionError(f"{name} {data.shape} {chunks} axis {axis} {texts}: {read} chunks, not {rows}")


def work_type(dtype):
    return np.dtype("float64" if dtype.itemsize > 2 and dtype.kind in "iu" or dtype.itemsize == 8 else "float32")


def one_number(dice, root, group, name, number):
    """A number as text, or where it stands: an array without axes of this store or of another one."""
    kind = dice.choice(["number", "scalar", "elsewhere"])
    if kind == "number":
        return repr(number)
    holder = group if kind == "scalar" else zarr.create_group(store=str(root) + "." + name, zarr_format=dice.choice([2, 3]))
    holder.create_array(name, shape=(), dtype=dice.choice(["float64", "float32"]))[...] = number
    return name if kind == "scalar" else f"{root}.{name}::{name}"


def random_statistic(dice, root, group, name, shape):
    """An array of means, say; returns its items, as they broadcast against samples of that shape, and how a field names it."""
    kind = dice.choice(["array", "array", "elsewhere", "one", "list"])
    if kind == "one":
        number = dice.randint(1, 99) / 8
        return np.full([1] * len(shape), number), one_number(dice, root, group, name, number)
    if kind == "list":
        numbers = [dice.randint(1, 99) / 8 for _ in range(shape[0])]
        return np.array(numbers).reshape([-1] + [1] * (len(shape) - 1)), "[" + ",".join(map(repr, numbers)) + "]"
    path = name
    if kind == "elsewhere":
        group, path = zarr.create_group(store=str(root) + ".other." + name), f"{root}.other.{name}::/{name}"
    kept = dice.randrange(len(shape)) if dice.random() < 0.5 else None
    own = [n if dice.random() < 0.6 else 1 for n in shape] if kept is None else [n if i >= kept else 1 for i, n in enumerate(shape)]
    data = np.random.default_rng(dice.randrange(1000)).normal(3, 2, own).astype(dice.choice(["float32", "float64"]))
    data[data == 0] = 1
    cut = data.reshape(own[kept:]) if kept is not None else data
    if len(shape) > 1 and cut.ndim == 1 and cut.shape[0] in (shape[0], 1):
        cut = data  # one axis that is as long as the first one is the first one
    group.create_array(name, shape=cut.shape, dtype=cut.dtype, chunks=cut.shape)[...] = cut
    return data, path


def check_normals(dice, dump, root, name):
    rank = dice.randint(2, 4)
    shape = [dice.randint(1, 9)] + [dice.choice([2, 3, 5, 8, 70]) for _ in range(rank - 1)]
    chunks = [dice.randint(1, n) for n in shape]
    dtype = np.dtype(dice.choice(["uint8", "int16", "int32", "float32", "float64"]))
    group = zarr.create_group(store=str(root / name), zarr_format=dice.choice([2, 3]))
    data = values(dice, shape, dtype)
    cf = dice.random() < 0.5
    x = group.create_array("x", shape=shape, chunks=chunks, dtype=dtype, fill_value=0)
    x[...] = data
    if shape[0] > 2:  # some chunks are missing
        x[-1:] = 0
        x[-chunks[0] :] = 0
        data = x[...]
    settings = {"dataset.uri": root / name, "dataset.fields.x": "x", "errors.missing_chunk": "fill"}  # an offset of 0 has no chunk
    work = work_type(dtype)
    expected = data.astype(work)
    if cf:
        missing = data.flat[0].item()
        x.attrs.update({"scale_factor": 0.25, "add_offset": -3.5, "_FillValue": missing})
        settings["dataset.fields.x.cf"] = "true"
        expected = np.where(expected == work.type(missing), work.type(np.nan), expected)
        expected = expected * work.type(0.25) + work.type(-3.5)
    elif dice.random() < 0.5:
        scale, offset = dice.randint(1, 9) / 4, dice.randint(-9, 9) / 4
        settings["dataset.fields.x.scale"] = one_number(dice, root / name, group, "k", scale)
        settings["dataset.fields.x.offset"] = one_number(dice, root / name, group, "o", offset)
        expected = expected * work.type(scale) + work.type(offset)
    out = "float32" if not cf or dtype.kind != "f" else dtype.name
    if dice.random() < 0.8 or not cf:
        entries, settings["dataset.fields.x.mean"] = random_statistic(dice, root / name, group, "mean", shape[1:])
        expected = expected - entries.astype(work)
        out = "float32"
    if dice.random() < 0.7:
        entries, settings["dataset.fields.x.std"] = random_statistic(dice, root / name, group, "std", shape[1:])
        expected = expected / entries.astype(work)
        out = "float32"
    if dice.random() < 0.3:
        settings["dataset.fields.x.cast"] = out = dice.choice(["float16", "float64"])
    slices = {}
    for axis in range(1, rank):
        if dice.random() < 0.4:
            settings[f"dataset.fields.x.slice.{axis}"], slices[axis] = random_slice(dice, shape[axis])
    with np.errstate(over="ignore"):
        expected = pick(expected.astype(out), 0, slices)
    got, _ = dump(**settings)
    got = np.frombuffer(got, out).reshape(expected.shape)
    if not np.array_equal(got, expected, equal_nan=True):
        wrong = np.flatnonzero(~((got == expected) | (np.isnan(got) & np.isnan(expected))))[0]
        raise AssertionError(
            f"{name} {shape} {chunks} {dtype} {settings}: item {wrong} is {got.flat[wrong]}, not {expected.flat[wrong]}"
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump", required=True)
    parser.add_argument("--arrays", type=int, default=ARRAYS)
    arguments = parser.parse_args()
    dump = DumpField(arguments.dump)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.arrays):
            check_slices(random.Random(number), dump, pathlib.Path(folder), f"a{number}.zarr")
        for number in range(2 * arguments.arrays):
            check_normals(random.Random(1000 + number), dump, pathlib.Path(folder), f"n{number}.zarr")
    print(f"{arguments.arrays} arrays, {6 * arguments.arrays} slices, {2 * arguments.arrays} normalised fields")


if __name__ == "__main__":
    main()
