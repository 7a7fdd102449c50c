"""Sharded and transposed arrays must decode to what NumPy has.

Writes a matrix of arrays with zarr-python 3 and, where it is installed, with tensorstore: index at the start
and at the end, with and without checksum, nested shards, missing shards and inner chunks, edges that cut
shards, transposes that are not their own inverse, in shards and around them. Reads each with the test tool
dump_array, in steps of several lengths, and compares the bytes.

    python test_zarr_shards.py --dump PATH/dump_array

Without zarr-python 3 it exits 77 (skipped).
"""

import argparse
import itertools
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
try:
    import tensorstore
except ImportError as error:
    tensorstore = None

DTYPES = ["bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]

# (shape, shard, chunks of the levels below)
GRIDS = [
    ((37,), (20,), [(5,)]),
    ((37,), (40,), [(20,), (5,)]),
    ((12, 7), (4, 8), [(2, 4)]),
    ((13, 9), (8, 6), [(1, 6)]),
    ((13, 9), (8, 6), [(8, 1)]),
    ((6, 5, 4), (4, 6, 4), [(1, 3, 4)]),
    ((7, 10, 11), (4, 8, 8), [(2, 4, 4)]),
    ((7, 10, 11), (4, 8, 8), [(4, 8, 4), (2, 4, 1)]),
    ((9, 9, 9, 9), (4, 4, 4, 4), [(2, 2, 2, 2)]),
    ((9, 9, 17), (8, 8, 16), [(8, 8, 8), (4, 4, 4), (2, 2, 2)]),
]

COMPRESSORS = [
    [],
    [{"name": "zstd", "configuration": {"level": 1, "checksum": False}}],
    [{"name": "crc32c"}],
    [{"name": "gzip", "configuration": {"level": 1}}],
    [
        {
            "name": "blosc",
            "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0},
        }
    ],
]


def random_items(rng, shape, dtype):
    count = int(np.prod(shape))
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    noise = rng.integers(0, 256, (8, dtype.itemsize), dtype=np.uint8)
    noise[:, -1] &= 0x3F  # no NaNs: they do not compare with themselves
    return noise[rng.integers(0, 8, count)].reshape(-1).view(dtype).reshape(shape).astype(dtype)


def permute(box, order):
    return tuple(box[axis] for axis in order)


def orders_of(rank, number):
    """No transpose, or one whose inverse is another (1, 2, 0), or the reverse."""
    if rank == 1 or number % 3 == 0:
        return None
    return (*range(1, rank), 0) if number % 3 == 1 else tuple(reversed(range(rank)))


def codecs_of(chunks, number, endian):
    """The codecs of an array whose shards are divided into `chunks` of the first level, and so on."""
    rank = len(chunks[0])
    outer = orders_of(rank, number // 3) if number % 4 == 3 else None
    inner = orders_of(rank, number)
    codecs = [{"name": "bytes", "configuration": {"endian": endian}}, *COMPRESSORS[number % len(COMPRESSORS)]]
    if inner:
        codecs.insert(0, {"name": "transpose", "configuration": {"order": inner}})
    for level, chunk in enumerate(reversed(chunks)):
        shape = permute(chunk, outer) if outer else chunk
        index_codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
        if (number + level) % 3:
            index_codecs.append({"name": "crc32c"})
        codecs = [
            {
                "name": "sharding_indexed",
                "configuration": {
                    "chunk_shape": shape,
                    "codecs": codecs,
                    "index_codecs": index_codecs,
                    "index_location": ["end", "start"][(number + level) // 2 % 2],
                },
            }
        ]
    if outer:
        codecs.insert(0, {"name": "transpose", "configuration": {"order": outer}})
    return codecs


def fill_of(dtype):
    return {"b": True, "c": [1.5, -2.0]}.get(dtype.kind, 7)


def document(shape, shard, dtype, codecs):
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shard}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill_of(dtype),
        "codecs": codecs,
        "attributes": {},
        "dimension_names": [None if axis % 2 else f"d{axis}" for axis in range(len(shape))],
    }


def boxes(shape, chunk):
    for corner in itertools.product(*(range(0, n, c) for n, c in zip(shape, chunk))):
        yield tuple(slice(at, min(at + c, n)) for at, c, n in zip(corner, chunk, shape))


def fill_gaps(rng, items, shard, chunk, fill):
    """Puts the fill value into one inner chunk in four, and into one shard in five."""
    for box, likely in itertools.chain(
        ((box, 4) for box in boxes(items.shape, chunk)), ((box, 5) for box in boxes(items.shape, shard))
    ):
        if rng.integers(0, likely) == 0:
            items[box] = complex(*fill) if isinstance(fill, list) else fill


def write_with_zarr(folder, metadata, items):
    import json

    os.makedirs(folder)
    with open(os.path.join(folder, "zarr.json"), "w", encoding="utf-8") as file:
        json.dump(metadata, file)
    array = zarr.open_array(folder, mode="r+", zarr_format=3)
    array[...] = items
    assert np.array_equal(array[...], items)


def write_with_tensorstore(folder, metadata, items):
    context = {"driver": "zarr3", "kvstore": {"driver": "file", "path": folder}, "metadata": metadata}
    del metadata["zarr_format"], metadata["node_type"]
    array = tensorstore.open(context, create=True).result()
    array.write(items).result()
    assert np.array_equal(array.read().result(), items)


def cases():
    for number, (kind, grid) in enumerate(itertools.product(DTYPES, GRIDS)):
        yield number, np.dtype(kind), grid


def check(dump, folder, items, number):
    """Returns what differs, or None."""
    for step in [0, 1 + number % 5]:
        done = subprocess.run([dump, folder, "", str(step)], capture_output=True, check=False)
        if done.returncode != 0:
            return done.stderr.decode().strip()
        if done.stdout != items.tobytes():
            return f"differs when read {step} at a time"
    return None


def run(dump, root, name, write, failures):
    """Writes and compares the whole matrix. Returns (arrays read, arrays that the writer does not take)."""
    rng = np.random.default_rng(23)
    read, refused, reasons = 0, 0, set()
    for number, dtype, (shape, shard, chunks) in cases():
        items = random_items(rng, shape, dtype)
        metadata = document(shape, shard, dtype, codecs_of(chunks, number, ["little", "big"][number // 5 % 2]))
        fill_gaps(rng, items, shard, chunks[-1], metadata["fill_value"])
        folder = os.path.join(root, f"{name}-{number}")
        try:
            write(folder, metadata, items)
        except Exception as error:  # the writer's own limits are not what is tested
            refused += 1
            reasons.add(repr(error).splitlines()[0][:160])
            continue
        failure = check(dump, folder, items, number)
        if failure:
            failures.append(f"{name} {number} {dtype} {shape} {shard} {chunks}: {failure}")
        read += 1
    for reason in sorted(reasons):
        print(f"{name} does not write: {reason}")
    return read, refused


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump", required=True)
    arguments = parser.parse_args()
    if zarr.__version__.startswith(("2.", "3.0.")):
        print(f"skipped: zarr-python {zarr.__version__} writes no shards, or not all")
        return SKIPPED
    zarr.config.set({"array.write_empty_chunks": False})

    failures, total = [], 0
    writers = [("zarr-python", write_with_zarr)]
    if tensorstore:
        writers.append(("tensorstore", write_with_tensorstore))
    else:
        print("tensorstore is not installed: its arrays are not compared")
    with tempfile.TemporaryDirectory(prefix="penstock-shards-") as root:
        for name, write in writers:
            read, refused = run(arguments.dump, root, name, write, failures)
            print(f"{name}: {read} arrays read, {refused} not written")
            total += read
    for failure in failures:
        print(failure)
    print(f"{total} sharded arrays compared, {len(failures)} differ")
    return 1 if failures or total < LEAST_ARRAYS * len(writers) // 2 else 0


if __name__ == "__main__":
    sys.exit(main())
