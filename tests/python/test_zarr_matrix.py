"""Arrays of every writer must decode to what NumPy has.

One matrix for all writers: dtypes x codecs, with byte orders, memory orders (v2's F, v3's
transpose), edge shapes, fill values, filters, shards and missing chunks in turn.

    python test_zarr_matrix.py --writer WRITER --dump PATH/dump_array

WRITER is who writes, and which format: zarr2-v2 (zarr-python 2), zarr3-v2, zarr3-v3 (zarr-python
3), tensorstore-v2 or tensorstore-v3. Prints how many arrays were read and equal, refused and wrong;
all must be equal. What a writer does not write is counted apart, and a tenth at most. Without the
writer it exits 77 (skipped).
"""

import argparse
import itertools
import os
import subprocess
import sys
import tempfile

SKIPPED = 77

try:
    import numpy as np
except ImportError as error:
    print(f"skipped: {sys.executable}: {error}")
    sys.exit(SKIPPED)

DTYPES = ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]

# (shape, chunk, shard): whole chunks and ragged edges, chunks longer than the array, one item.
GRIDS = [
    ((37,), (10,), (20,)),
    ((12, 7), (4, 7), (8, 7)),
    ((13, 9), (4, 5), (8, 10)),
    ((5, 3), (9, 4), (18, 8)),
    ((6, 5, 4), (1, 5, 4), (4, 5, 4)),
    ((7, 5, 6), (3, 2, 4), (6, 4, 8)),
    ((5, 3, 4, 3), (2, 3, 3, 1), (4, 3, 6, 3)),
    ((1,), (1,), (1,)),
    ((3, 2, 3, 2, 2), (2, 1, 2, 2, 1), (2, 2, 2, 2, 2)),
]

CODECS = [
    "none",
    "blosc-lz4",
    "blosc-zstd",
    "blosc-zlib",
    "zstd",
    "zlib",
    "gzip",
    "lz4",
    "bz2",
    "lzma",
]
FILTERS = ["none", "delta", "shuffle", "crc32", "astype"]


class Case:
    """One array: everything about it follows from its number."""

    def __init__(self, number, kind, codec):
        self.number = number
        self.dtype = np.dtype("<>"[number // 3 % 2] + kind)
        self.codec = codec
        self.shape, self.chunk, self.shard = GRIDS[number % len(GRIDS)]
        self.fortran = number // 2 % 2 == 1
        self.filter = FILTERS[number // 4 % len(FILTERS)]
        self.sharded = number % 5 in (1, 3)
        fills = fill_values(self.dtype)
        self.fill = fills[number // 7 % len(fills)]
        self.separator = "./"[number // 5 % 2]

    def __str__(self):
        return (
            f"{self.number}: {self.dtype.str} {self.codec} {self.shape} {self.chunk} fill "
            f"{self.fill} filter {self.filter}{' F' if self.fortran else ''}"
            f"{' sharded' if self.sharded else ''}"
        )

    def order(self):
        """The transpose of v3: one whose inverse is another, or the reverse."""
        axes = range(len(self.shape))
        return (*axes[1:], 0) if self.number % 3 else tuple(reversed(axes))


def fill_values(dtype):
    if dtype.kind == "b":
        return [False, True]
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return [0, limits.max, limits.min, 42]
    if dtype.kind == "f":
        return [0.0, float("nan"), float("inf"), float("-inf"), 1.5, -0.1]
    return [0j, complex(1.5, -2)]


def cases():
    for number, (codec, kind) in enumerate(itertools.product(CODECS, DTYPES)):
        yield Case(number, kind, codec)


def random_items(rng, case):
    """Few distinct values, but in all bytes of an item; no NaNs, whose bits a writer may change.
    Whole numbers from 0 to 99 where a filter stores them as such."""
    native = case.dtype.newbyteorder("=")
    if native.kind == "b":
        return rng.integers(0, 2, case.shape).astype(native)
    if case.filter == "astype" and native.kind in "iuf":
        return rng.integers(0, 100, case.shape).astype(native)
    noise = rng.integers(0, 256, (8, native.itemsize), dtype=np.uint8)
    noise[:, native.itemsize // 2 - 1 if native.kind == "c" else -1] &= 0x3F
    noise[:, -1] &= 0x3F
    return (
        noise[rng.integers(0, 8, int(np.prod(case.shape)))]
        .reshape(-1)
        .view(native)
        .reshape(case.shape)
    )


def put_items(rng, case, array, items):
    """Writes chunk by chunk (or shard by shard), and leaves out one in four. Returns what is to be
    read."""
    unit = case.shard if case.sharded else case.chunk
    expected = np.full(items.shape, case.fill, items.dtype)
    for corner in itertools.product(*(range(0, n, c) for n, c in zip(items.shape, unit))):
        if rng.integers(0, 4) == 0:
            continue
        box = tuple(slice(at, min(at + c, n)) for at, c, n in zip(corner, unit, items.shape))
        if case.sharded and rng.integers(0, 2) == 0:
            # the first inner chunk has nothing but the fill value: writers leave it out
            inner = tuple(slice(s.start, min(s.start + c, s.stop)) for s, c in zip(box, case.chunk))
            items[inner] = np.array(case.fill).astype(items.dtype)
        expected[box] = items[box]
        array[box] = items[box]
    return expected


# --- writers: each opens a new array, and returns something to assign boxes to ------------------


def numcodecs_filters(case):
    """Of v2, and only such as keep what they are given."""
    kind, size = case.dtype.kind, case.dtype.itemsize
    if case.filter == "delta" and kind in "iu":
        return [{"id": "delta", "dtype": case.dtype.str}]
    if case.filter == "shuffle":
        return [{"id": "shuffle", "elementsize": size}]
    if case.filter == "crc32":
        return [{"id": ["crc32", "adler32"][case.number % 2]}]
    if case.filter == "astype" and kind in "iuf" and abs(case.fill) < 100:
        return [{"id": "astype", "encode_dtype": "<i2", "decode_dtype": case.dtype.str}]
    if case.filter == "astype" and kind == "b":
        return [{"id": "packbits"}]
    return []


COMPRESSORS_V2 = {
    "none": None,
    "blosc-lz4": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    "blosc-zstd": {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2, "blocksize": 0},
    "blosc-zlib": {"id": "blosc", "cname": "zlib", "clevel": 1, "shuffle": 0, "blocksize": 0},
    "zstd": {"id": "zstd", "level": 3},
    "zlib": {"id": "zlib", "level": 1},
    "gzip": {"id": "gzip", "level": 5},
    "lz4": {"id": "lz4", "acceleration": 1},
    "bz2": {"id": "bz2", "level": 1},
    "lzma": {"id": "lzma", "format": 1, "check": -1, "preset": 1, "filters": None},
}


def zarr_v2(folder, case):
    import numcodecs
    import zarr

    case.sharded = False
    settings = COMPRESSORS_V2[case.codec]
    compressor = settings and numcodecs.get_codec(dict(settings))
    filters = [numcodecs.get_codec(config) for config in numcodecs_filters(case)] or None
    order = "F" if case.fortran else "C"
    if zarr.__version__.startswith("2."):
        return zarr.open_array(
            folder,
            mode="w",
            shape=case.shape,
            chunks=case.chunk,
            dtype=case.dtype,
            compressor=compressor,
            filters=filters,
            order=order,
            fill_value=case.fill,
            dimension_separator=case.separator,
        )
    return zarr.create_array(
        store=folder,
        zarr_format=2,
        shape=case.shape,
        chunks=case.chunk,
        dtype=case.dtype,
        compressors=compressor,
        filters=filters,
        order=order,
        fill_value=case.fill,
        chunk_key_encoding={"name": "v2", "separator": case.separator},
    )


def codec_v3(name, number):
    if name == "none":
        return [{"name": "crc32c"}] if number % 2 else []
    if name.startswith("blosc-"):
        shuffle = ["shuffle", "bitshuffle", "noshuffle"][number % 3]
        return [
            {
                "name": "blosc",
                "configuration": {
                    "cname": name[6:],
                    "clevel": 5,
                    "shuffle": shuffle,
                    "typesize": 4,
                    "blocksize": 0,
                },
            }
        ]
    if name == "zstd":
        return [{"name": "zstd", "configuration": {"level": 1, "checksum": number % 2 == 1}}]
    if name == "gzip":
        return [{"name": "gzip", "configuration": {"level": 5}}]
    return [{"name": f"numcodecs.{name}", "configuration": {} if name == "lzma" else {"level": 1}}]


def fill_json(case):
    if case.dtype.kind == "c":
        return [case.fill.real, case.fill.imag]
    if case.dtype.kind == "f" and not np.isfinite(case.fill):
        return "NaN" if np.isnan(case.fill) else "Infinity" if case.fill > 0 else "-Infinity"
    return case.fill


def document_v3(case):
    """What v3 can say of a case; bare lz4 is not among it everywhere."""
    codecs = codec_v3("blosc-lz4hc" if case.codec == "lz4" else case.codec, case.number)
    endian = "big" if case.dtype.byteorder == ">" else "little"
    codecs = [{"name": "bytes", "configuration": {"endian": endian}}, *codecs]
    if case.fortran:
        codecs.insert(0, {"name": "transpose", "configuration": {"order": case.order()}})
    if case.sharded:
        index_codecs = [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "crc32c"},
        ]
        codecs = [
            {
                "name": "sharding_indexed",
                "configuration": {
                    "chunk_shape": case.chunk,
                    "codecs": codecs,
                    "index_codecs": index_codecs[: 1 + case.number % 2],
                    "index_location": ["end", "start"][case.number // 2 % 2],
                },
            }
        ]
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": case.shape,
        "data_type": case.dtype.name,
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": case.shard if case.sharded else case.chunk},
        },
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": case.separator}},
        "fill_value": fill_json(case),
        "codecs": codecs,
        "attributes": {},
    }


def zarr_v3(folder, case):
    import json

    import zarr

    os.makedirs(folder)
    with open(os.path.join(folder, "zarr.json"), "w", encoding="utf-8") as file:
        json.dump(document_v3(case), file)
    return zarr.open_array(folder, mode="r+", zarr_format=3)


class TensorStore:
    """tensorstore's arrays, written at once as zarr-python's are."""

    def __init__(self, driver, folder, metadata):
        import tensorstore

        self.array = tensorstore.open(
            {"driver": driver, "kvstore": {"driver": "file", "path": folder}, "metadata": metadata},
            create=True,
        ).result()

    def __setitem__(self, box, items):
        self.array[box].write(items).result()


def tensorstore_v2(folder, case):
    case.sharded = False
    others = {"lz4": "blosc-lz4", "gzip": "zlib", "lzma": "zstd"}  # for what it does not have
    compressor = COMPRESSORS_V2[others.get(case.codec, case.codec)]
    metadata = {
        "shape": case.shape,
        "chunks": case.chunk,
        "dtype": case.dtype.str,
        "order": "F" if case.fortran and len(case.shape) > 1 else "C",
        "compressor": compressor,
        "filters": None,
        "fill_value": fill_json(case),
        "dimension_separator": case.separator,
    }
    return TensorStore("zarr", folder, metadata)


def tensorstore_v3(folder, case):
    others = {"zlib": "gzip", "lz4": "blosc-zlib", "bz2": "gzip", "lzma": "zstd"}
    case.codec = others.get(case.codec, case.codec)
    metadata = document_v3(case)
    del metadata["zarr_format"], metadata["node_type"]
    return TensorStore("zarr3", folder, metadata)


# Name: (module, its major version, function)
WRITERS = {
    "zarr2-v2": ("zarr", 2, zarr_v2),
    "zarr3-v2": ("zarr", 3, zarr_v2),
    "zarr3-v3": ("zarr", 3, zarr_v3),
    "tensorstore-v2": ("tensorstore", None, tensorstore_v2),
    "tensorstore-v3": ("tensorstore", None, tensorstore_v3),
}


def missing(module, major):
    """Why a writer cannot write here, or None."""
    try:
        version = getattr(__import__(module), "__version__", "")
    except ImportError as error:
        return f"{sys.executable}: {error}"
    if major and int(version.split(".")[0]) != major:
        return f"{sys.executable} has {module} {version}, not {major}"
    return None


def compare(dump, folder, expected, step):
    """("equal", "refused" or "wrong", what the tool said)"""
    done = subprocess.run([dump, folder, "", str(step)], capture_output=True, check=False)
    if done.returncode != 0:
        message = done.stderr.decode().strip()
        return (
            "refused" if "not supported" in message or "unsupported" in message else "wrong"
        ), message
    if done.stdout != expected.tobytes():
        return "wrong", f"{len(done.stdout)} bytes, other than NumPy's {expected.nbytes}"
    return "equal", ""


def run(dump, open_array, root):
    counts = {"equal": 0, "refused": 0, "wrong": 0, "not written": 0}
    rng = np.random.default_rng(31)
    for case in cases():
        folder = os.path.join(root, str(case.number))
        items = random_items(rng, case)
        try:
            expected = put_items(rng, case, open_array(folder, case), items)
        except Exception as error:  # the writer's own limits are not what is tested
            counts["not written"] += 1
            print(f"not written: {case}: {str(error).splitlines()[0][:200]}")
            continue
        outcome, message = compare(
            dump, folder, expected, case.number % 4 if case.shape[0] > 1 else 0
        )
        counts[outcome] += 1
        if outcome != "equal":
            print(f"{outcome}: {case}: {message}")
    return counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--writer", choices=sorted(WRITERS), required=True)
    parser.add_argument("--dump", required=True)
    arguments = parser.parse_args()
    module, major, open_array = WRITERS[arguments.writer]
    reason = missing(module, major)
    if reason:
        print(f"skipped: {reason}")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="penstock-matrix-") as root:
        counts = run(arguments.dump, open_array, root)
    total = counts["equal"] + counts["refused"] + counts["wrong"]
    print(
        f"{arguments.writer}: {total} arrays: {counts['equal']} read and equal, "
        f"{counts['refused']} refused, {counts['wrong']} wrong; {counts['not written']} that the "
        f"writer does not write"
    )
    return 1 if counts["wrong"] or counts["refused"] or counts["not written"] > total // 10 else 0


if __name__ == "__main__":
    sys.exit(main())
