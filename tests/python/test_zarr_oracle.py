"""Arrays written and read by zarr-python must decode to the same bytes here.

Writes a matrix of arrays with zarr-python (dtypes x shapes and chunk grids, with codecs, byte
orders, separators and fill values in turn), reads each with zarr-python and with the test tool
dump_array, and compares the bytes.

    python test_zarr_oracle.py --format 2|3 --dump PATH/dump_array

Format 2 takes zarr-python 2, format 3 takes zarr-python 3. Without the right one it exits 77
(skipped).
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile

SKIPPED = 77
LEAST_ARRAYS = 150

try:
    import numpy as np
    import zarr
except ImportError as error:
    print(f"skipped: {sys.executable}: {error}")
    sys.exit(SKIPPED)

DTYPES = ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]

# (shape, chunks): whole samples, split ones, ragged edges, too long chunks, ranks 1 to 8.
GRIDS = [
    ((37,), (10,)),
    ((5,), (9,)),
    ((12, 7), (1, 7)),
    ((12, 7), (8, 7)),
    ((13, 9), (4, 5)),
    ((6, 5, 4), (1, 5, 4)),
    ((6, 5, 4), (1, 2, 4)),
    ((6, 5, 4), (6, 5, 3)),
    ((9, 3, 4, 4), (4, 3, 2, 4)),
    ((8, 2, 2, 3, 3), (8, 1, 2, 3, 3)),
    ((4, 2, 3, 2, 3, 2), (2, 2, 2, 1, 3, 2)),
    ((3, 2, 2, 2, 2, 2, 2), (2, 1, 2, 2, 2, 1, 2)),
    ((3, 2, 2, 2, 1, 2, 2, 3), (1, 2, 1, 2, 1, 2, 2, 2)),
]


def fill_values(kind, dtype):
    """What an array of that kind may be filled with, None (v2's null) first."""
    if kind == "b":
        return [None, True, False]
    if kind in "iu":
        limits = np.iinfo(dtype)
        return [None, 0, limits.max, limits.min, 42]
    if kind == "f":
        return [None, 0.0, float("nan"), float("inf"), float("-inf"), 1.5, -0.1]
    # Finite only: zarr-python 2 reads (re, im) as re + 1j * im, which alters infinities and NaNs.
    return [None, complex(1.5, -2), complex(-0.1, 1e30), 0j]


def random_items(rng, shape, dtype):
    """Compressible noise: few distinct values, but in all bytes of an item."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    count = int(np.prod(shape))
    noise = rng.integers(0, 256, (8, dtype.itemsize), dtype=np.uint8)
    items = noise[rng.integers(0, 8, count)].reshape(-1).view(dtype.newbyteorder("="))
    return items.reshape(shape).astype(dtype)


def put_items(rng, array, items, chunks, leave_gaps):
    """Writes chunk by chunk; with gaps, leaves out one in three."""
    for corner in itertools.product(*(range(0, n, c) for n, c in zip(items.shape, chunks))):
        if leave_gaps and rng.integers(0, 3) == 0:
            continue
        box = tuple(slice(at, at + c) for at, c in zip(corner, chunks))
        array[box] = items[box]


def cases(consolidated):
    """(number, dtype text with byte order, shape, chunks); the byte order alternates.

    Two cases in five go to a store with consolidated metadata.
    """
    for number, (kind, (shape, chunks)) in enumerate(itertools.product(DTYPES, GRIDS)):
        if (number % 5 < 2) == consolidated:
            yield number, "<>"[number % 2] + kind, shape, chunks


def path_of(number):
    return ("" if number % 3 else "group/nested/") + f"a{number}"


def write_v2(root, rng, consolidated):
    import numcodecs

    codecs = [
        None,
        numcodecs.Blosc("lz4", 5, numcodecs.Blosc.SHUFFLE),
        numcodecs.Blosc("zstd", 3, numcodecs.Blosc.BITSHUFFLE),
        numcodecs.Blosc("blosclz", 9, numcodecs.Blosc.NOSHUFFLE),
        numcodecs.Blosc("zlib", 1, numcodecs.Blosc.AUTOSHUFFLE),
        numcodecs.Zstd(3),
        numcodecs.Zlib(1),
        numcodecs.GZip(5),
        numcodecs.LZ4(),
    ]
    for number, type_text, shape, chunks in cases(consolidated):
        dtype = np.dtype(type_text)
        fills = fill_values(dtype.kind, dtype)
        fill = fills[number % len(fills)]
        array = root.create_dataset(
            path_of(number),
            shape=shape,
            chunks=chunks,
            dtype=dtype,
            compressor=codecs[number % len(codecs)],
            fill_value=fill,
            dimension_separator="./"[number // 2 % 2],
        )
        # zarr-python leaves missing chunks of a null fill undefined, so those have none.
        put_items(rng, array, random_items(rng, shape, dtype), chunks, fill is not None)
        yield path_of(number)


def write_v3(root, rng, consolidated):
    from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ZstdCodec

    codecs = [
        [],
        [ZstdCodec(level=0)],
        [ZstdCodec(level=3, checksum=True)],
        [GzipCodec(level=5)],
        [BloscCodec(cname="lz4", shuffle="shuffle")],
        [BloscCodec(cname="zstd", shuffle="bitshuffle")],
        [BloscCodec(cname="zlib", shuffle="noshuffle")],
        [Crc32cCodec()],
        [ZstdCodec(level=1), Crc32cCodec()],
    ]
    keys = [("default", "/"), ("default", "."), ("v2", "."), ("v2", "/")]
    for number, type_text, shape, chunks in cases(consolidated):
        dtype = np.dtype(type_text).newbyteorder("=")
        fills = fill_values(dtype.kind, dtype)[1:]
        name, separator = keys[number % len(keys)]
        endian = {"<": "little", ">": "big"}[type_text[0]] if dtype.itemsize > 1 else None
        array = root.create_array(
            path_of(number),
            shape=shape,
            chunks=chunks,
            dtype=dtype,
            compressors=codecs[number % len(codecs)],
            serializer=BytesCodec(endian=endian),
            fill_value=fills[number % len(fills)],
            chunk_key_encoding={"name": name, "separator": separator},
        )
        put_items(rng, array, random_items(rng, shape, dtype), chunks, True)
        yield path_of(number)


def native_bytes(array):
    items = array[...]
    return np.ascontiguousarray(items.astype(items.dtype.newbyteorder("="))).tobytes()


def rename_to_bfloat16(folder, path):
    """zarr-python has no bfloat16: a uint16 array becomes one by name, its fill value in bits."""
    name = os.path.join(folder, path, "zarr.json")
    with open(name, encoding="utf-8") as file:
        document = json.load(file)
    document["data_type"] = "bfloat16"
    document["fill_value"] = "0x%04x" % document["fill_value"]
    with open(name, "w", encoding="utf-8") as file:
        json.dump(document, file)


def compare(dump, folder, path, expected, first_length, number):
    """Returns what differs, or None."""
    step = [0, 1, 2, 5][number % 4] if first_length > 1 else 0
    done = subprocess.run([dump, folder, path, str(step)], capture_output=True, check=False)
    if done.returncode != 0:
        return f"{path}: {done.stderr.decode().strip()}"
    if done.stdout != expected:
        return f"{path}: {len(done.stdout)} bytes differ from zarr-python's {len(expected)}"
    return None


def check_store(dump, folder, zarr_format, consolidated, failures):
    """Writes one hierarchy and compares all of it. Returns the number of arrays compared."""
    rng = np.random.default_rng(17 + consolidated)
    if zarr_format == 2:
        root = zarr.open_group(folder, mode="w")
        paths = list(write_v2(root, rng, consolidated))
    else:
        root = zarr.open_group(folder, mode="w", zarr_format=3)
        paths = list(write_v3(root, rng, consolidated))
    expected = {path: (native_bytes(root[path]), root[path].shape[0]) for path in paths}
    if consolidated:
        zarr.consolidate_metadata(folder)
    elif zarr_format == 3:
        for path in paths:
            if root[path].dtype == np.uint16:
                rename_to_bfloat16(folder, path)
    for number, path in enumerate(paths):
        failure = compare(dump, folder, path, *expected[path], number)
        if failure:
            failures.append(failure)
    return len(paths)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--format", type=int, choices=[2, 3], required=True)
    parser.add_argument("--dump", required=True)
    arguments = parser.parse_args()
    major = int(zarr.__version__.split(".")[0])
    if major != arguments.format or zarr.__version__.startswith("3.0."):
        print(f"skipped: zarr-python {zarr.__version__}; format {arguments.format} takes version "
              f"{'2.x' if arguments.format == 2 else '3.1 or later'}")
        return SKIPPED

    failures, count = [], 0
    for consolidated in [False, True]:
        with tempfile.TemporaryDirectory(prefix="penstock-oracle-") as folder:
            count += check_store(arguments.dump, folder, arguments.format, consolidated, failures)
    for failure in failures:
        print(failure)
    print(f"zarr v{arguments.format}: {count} arrays compared with zarr-python {zarr.__version__}, "
          f"{len(failures)} differ")
    if count < LEAST_ARRAYS:
        print(f"expected at least {LEAST_ARRAYS} arrays")
        return 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
