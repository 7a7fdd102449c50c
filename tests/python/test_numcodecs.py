"""Chunks that numcodecs wrote must decode to the same bytes here.

    python test_numcodecs.py --dump PATH/dump_array --corpus
    python test_numcodecs.py --dump PATH/dump_array --matrix

--corpus takes the chunks that come with numcodecs (numcodecs_fixture.tar.zst in the folder that
PENSTOCK_CORPORA names): each codec's, with what they were made of as .npy. --matrix takes filters
and compressors, alone and together, over dtypes in both byte orders, and what numcodecs itself
decodes them to. Each chunk becomes an array of its own, read by the test tool dump_array. Without
NumPy, numcodecs (--matrix) or the corpus it exits 77 (skipped).
"""

import argparse
import json
import pathlib
import re
import sys
import tempfile

from corpora import skip, unpack
from dumping import Dump

try:
    import numpy as np
except ImportError as missing:
    skip(f"{sys.executable}: {missing}")


def document_v2(shape, dtype, order, codecs):
    """The .zarray of an array that is one chunk; the last codec is its compressor."""
    return {
        "zarr_format": 2,
        "shape": shape,
        "chunks": shape,
        "dtype": dtype,
        "order": order,
        "fill_value": None,
        "filters": codecs[:-1] or None,
        "compressor": codecs[-1] if codecs else None,
    }


def document_v3(shape, dtype, array_codecs, byte_codecs):
    """The same as zarr-python 3 writes it, with numcodecs' names."""

    def named(config):
        settings = {key: value for key, value in config.items() if key != "id"}
        return {"name": "numcodecs." + config["id"], "configuration": settings}

    endian = {"name": "bytes", "configuration": {"endian": "little"}}
    grid = {"name": "regular", "configuration": {"chunk_shape": shape}}
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": dtype,
        "chunk_grid": grid,
        "chunk_key_encoding": {"name": "v2"},
        "fill_value": False if dtype == "bool" else 0,
        "codecs": [*map(named, array_codecs), endian, *map(named, byte_codecs)],
        "attributes": {},
    }


class Reader:
    """Reads chunks through the test tool, and counts what came of it."""

    def __init__(self, dump, folder):
        self.dump = dump
        self.folder = pathlib.Path(folder)
        self.read = self.lossy = self.refused = self.wrong = self.stores = 0

    def fail(self, name, reason):
        self.wrong += 1
        print(f"wrong: {name}: {reason}")

    def load(self, document, chunk):
        """Bytes and message: one of them is None."""
        self.stores += 1
        store = self.folder / f"{self.stores}.zarr"
        store.mkdir()
        name = ".zarray" if document["zarr_format"] == 2 else "zarr.json"
        (store / name).write_text(json.dumps(document))
        (store / ".".join("0" for _ in document["shape"])).write_bytes(chunk)
        return self.dump.read(store)

    def check(self, name, document, chunk, expected, decimals=None):
        """`expected` in native byte order. Decimals: how many agree, of lossy codecs."""
        data, message = self.load(document, chunk)
        if data is None:
            self.fail(name, message)
            return
        if len(data) != expected.nbytes:
            self.fail(name, f"{len(data)} bytes, not {expected.nbytes}")
            return
        if decimals is None:
            same = data == expected.tobytes()
        else:
            got = np.frombuffer(data, expected.dtype).reshape(expected.shape)
            same = np.all(np.abs(got - expected) < 1.5 * 10.0**-decimals)
        if same and decimals is None:
            self.read += 1
        elif same:
            self.lossy += 1
        else:
            self.fail(name, "other values")

    def check_refused(self, name, document, chunk, reason):
        _, message = self.load(document, chunk)
        if message is not None and re.search(reason, message):
            self.refused += 1
        else:
            self.fail(name, f"expected {reason}, got {message or 'values'}")

    def report(self, what, least):
        print(
            f"{what}: {self.read} arrays read and equal, {self.lossy} read, of a codec that loses "
            f"digits, {self.refused} refused by name, {self.wrong} wrong"
        )
        sys.exit(self.wrong > 0 or self.read + self.lossy < least)


def native(items):
    return items.astype(items.dtype.newbyteorder("="))


# --- the corpus ---------------------------------------------------------------------------------

# Codecs that are refused, and as what: a codec may have had another name.
NOT_READ = {
    "base64": "base64",
    "categorize": "categorize",
    "json2": "json",
    "msgpack2": "msgpack",
    "pcodec": "pcodec",
    "pickle": "pickle",
    "vlen-array": "vlen-array",
    "vlen-bytes": "vlen-bytes",
    "vlen-utf8": "vlen-utf8",
}


def decimals_of(config):
    if config["id"] == "quantize":
        # stored as float16 some digits are lost besides
        return min(config["digits"], 1) if config["astype"] == "<f2" else config["digits"]
    if config["id"] == "fixedscaleoffset":
        return np.log10(config["scale"])
    return None


def check_fixture(reader, folder, config, number):
    name = f"{folder.name} of array {number}"
    source = folder.parent / f"array.{number}.npy"
    chunk = (folder / f"encoded.{number}.dat").read_bytes()
    # Objects need their pickles only to know how many there are.
    items = np.load(source, allow_pickle=True)
    fortran = items.flags.f_contiguous and not items.flags.c_contiguous
    order = "F" if fortran else "C"
    family = folder.parent.name
    name = f"{family}/{name}"
    codecs = [config, None] if items.dtype == object else [config]
    document = document_v2(list(items.shape), items.dtype.str, order, codecs)
    if family == "zfpy" and fortran:
        reader.check_refused(name, document, chunk, "in order F")
    elif family in NOT_READ:
        reader.check_refused(name, document, chunk, re.escape(NOT_READ[family]))
    else:
        reader.check(name, document, chunk, native(items), decimals_of(config))


def run_corpus(reader):
    target = reader.folder / "corpus"
    target.mkdir()
    unpack("numcodecs_fixture.tar.zst", target)
    for path in sorted(target.glob("fixture/*/codec.*/config.json")):
        config = json.loads(path.read_text())
        for chunk in sorted(path.parent.glob("encoded.*.dat")):
            check_fixture(reader, path.parent, config, chunk.name.split(".")[1])
    reader.report("numcodecs_fixture", 800)


# --- the matrix ---------------------------------------------------------------------------------

NUMBERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
COUNT = 2500  # more than two blocks of values, and not a multiple of one


def random_items(rng, dtype):
    """Any bits, but no floats that are not numbers, whose bits NumPy does not promise."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, COUNT).astype(dtype)
    if dtype.kind == "f":
        return (rng.standard_normal(COUNT) * 100).astype(dtype)
    return rng.integers(0, 256, COUNT * dtype.itemsize, dtype=np.uint8).view(dtype)


def small_items(rng, dtype):
    return rng.integers(10, 100, COUNT).astype(dtype)


def conversions(rng):
    """(codecs, items): every pair of types through each filter that converts."""
    for number, (to, stored) in enumerate((a, b) for a in NUMBERS for b in NUMBERS):
        to = "<>"[number % 2] + to
        stored = "<>"[number // 2 % 2] + stored
        fits = small_items(rng, to)
        yield [{"id": "astype", "encode_dtype": stored, "decode_dtype": to}], fits
        # NumPy adds uint64 to signed integers as floats, which loses what wraps around.
        if np.can_cast(stored, to, "same_kind") and not (stored[1:] == "u8" and to[1] == "i"):
            yield [{"id": "delta", "dtype": to, "astype": stored}], fits
        scaled = {"id": "fixedscaleoffset", "dtype": to, "astype": stored}
        yield [{**scaled, "scale": (1, 3, 0.5)[number % 3], "offset": (0, 7, 2.5)[number % 3]}], fits


def wrapping(rng):
    """Sums that overflow, at any number of bytes."""
    for number, dtype in enumerate(NUMBERS):
        dtype = "<>"[number % 2] + dtype
        yield [{"id": "delta", "dtype": dtype}], random_items(rng, dtype)


def bits(rng):
    for stored in ("<f2", ">f2", "<f4", ">f4", "<f8"):
        yield [{"id": "quantize", "digits": 2, "dtype": "<f8", "astype": stored}], random_items(
            rng, "<f8"
        )
    for dtype in ("<f2", "<f4", "<f8"):
        yield [{"id": "bitround", "keepbits": 5}], random_items(rng, dtype)
    yield [{"id": "packbits"}], random_items(rng, "|b1")
    for count in (1, 7, 8, 9, 16):
        yield [{"id": "packbits"}], random_items(rng, "|b1")[:count]


def bytewise(rng):
    filters = [
        *({"id": "shuffle", "elementsize": size} for size in (0, 1, 2, 3, 4, 5, 8, 16, 20)),
        *({"id": name} for name in ("crc32", "adler32", "crc32c", "fletcher32")),
        {"id": "crc32", "location": "end"},
        {"id": "crc32c", "location": "start"},
        {"id": "bz2", "level": 1},
        {"id": "bz2", "level": 9},
        {"id": "lzma"},
        {"id": "lzma", "format": 1, "check": 1, "preset": 9},
        {"id": "lzma", "format": 2, "preset": 1},
        {"id": "lzma", "format": 3, "check": -1, "filters": [{"id": 0x21, "preset": 6}]},
        {
            "id": "lzma",
            "format": 3,
            "filters": [{"id": 3, "dist": 4}, {"id": 0x4000000000000001, "lc": 2, "dict_size": 65536}],
        },
    ]
    for config in filters:
        yield [config], random_items(rng, "<i8")
        yield [config], small_items(rng, ">f4")
    odd = random_items(rng, "|u1")[:1001]
    for byte in (0, 255):
        yield [{"id": "fletcher32"}], np.full(2 * 65535, byte, "|u1")
    yield [{"id": "fletcher32"}], odd
    yield [{"id": "crc32"}, {"id": "zlib", "level": 1}], odd


def chains(rng):
    delta = {"id": "delta", "dtype": "<i8", "astype": ">i4"}
    scale = {"id": "fixedscaleoffset", "dtype": ">f8", "astype": "<i8", "scale": 10, "offset": 3}
    items = small_items(rng, ">f8")
    for last in ("zlib", "gzip", "bz2", "lzma", "zstd", "lz4", "blosc"):
        yield [scale, delta, {"id": "shuffle", "elementsize": 4}, {"id": last}], items
        yield [scale, delta, {"id": "crc32"}, {"id": last}, {"id": "fletcher32"}], items
    # behind a checksum in front, values of 8 bytes are not aligned
    yield [{"id": "delta", "dtype": "<f8"}, {"id": "crc32"}], small_items(rng, "<f8")


def encode(configs, items):
    """The chunk, and what numcodecs decodes it to, filter by filter."""
    from numcodecs import get_codec

    codecs = [get_codec(dict(config)) for config in configs]
    chunk = items
    for codec in codecs:
        chunk = codec.encode(chunk)
    chunk = bytes(np.asarray(memoryview(chunk)).view(np.uint8).data)
    data = chunk
    for codec in reversed(codecs):
        data = np.asarray(memoryview(codec.decode(data)))
        data = data.reshape(-1).view(np.uint8).tobytes()
    return chunk, np.frombuffer(data, items.dtype)


FILTERS = {"delta", "fixedscaleoffset", "quantize", "astype", "bitround", "packbits"}


def check_v3(reader, configs, items, chunk, expected):
    """The same chunk with v3 metadata, where that can say it."""
    text = json.dumps(configs)
    if items.dtype.byteorder == ">" or ">" in text:
        return
    count = sum(config["id"] in FILTERS for config in configs)
    document = document_v3([len(items)], items.dtype.name, configs[:count], configs[count:])
    reader.check(f"v3 {text} of {items.dtype}", document, chunk, expected)


def run_matrix(reader):
    try:
        import numcodecs
    except ImportError as missing:
        skip(f"{sys.executable}: {missing}")
    rng = np.random.default_rng(7)
    lacking = set()
    np.seterr(all="ignore")
    for source in (conversions, wrapping, bits, bytewise, chains):
        for configs, items in source(rng):
            names = {config["id"] for config in configs}
            try:
                chunk, expected = encode(configs, items)
            except (ValueError, TypeError, ImportError, RuntimeError, AssertionError) as error:
                lacking.add(f"{', '.join(sorted(names))}: {error}"[:100])
                continue
            document = document_v2([len(items)], items.dtype.str, "C", configs)
            name = f"{json.dumps(configs)} of {items.dtype.str}"
            reader.check(name, document, chunk, native(expected))
            check_v3(reader, configs, items, chunk, native(expected))
    for reason in sorted(lacking):
        print(f"not made: {reason}")
    reader.report(f"numcodecs {numcodecs.__version__}", 300)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dump", required=True, help="the test tool dump_array")
    parser.add_argument("--corpus", action="store_true")
    parser.add_argument("--matrix", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-numcodecs-") as folder:
        with Dump(options.dump) as dump:
            (run_corpus if options.corpus else run_matrix)(Reader(dump, folder))


main()
