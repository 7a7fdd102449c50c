"""Chunks that are images must decode to what imagecodecs decodes them to.

    python test_images.py --dump PATH/dump_array --corpus
    python test_images.py --dump PATH/dump_array --matrix

--corpus takes arrays that zarr-python and imagecodecs wrote (img/ in catalogues.tar.zst in the folder that
PENSTOCK_CORPORA names). --matrix takes shapes, dtypes and settings, as v2, as v3, behind a transpose, and in shards,
with what imagecodecs itself decodes. Without NumPy, imagecodecs (--matrix) or the corpus it exits 77 (skipped).
"""

import argparse
import json
import pathlib
import sys
import tempfile
import zlib

from corpora import skip, unpack
from dumping import Dump

try:
    import numpy as np
except ImportError as missing:
    skip(f"{sys.executable}: {missing}")


class Count:
    def __init__(self):
        self.equal = self.lossy = self.refused = self.left_out = self.wrong = 0

    def fail(self, name, reason):
        self.wrong += 1
        print(f"wrong: {name}: {reason}")

    def check(self, name, data, message, expected, tolerance=0):
        """`expected` None: the array must be refused."""
        if message is not None and "was left out" in message:
            self.left_out += 1
        elif expected is None and message is not None and "images have their samples last" in message:
            self.refused += 1
        elif expected is None:
            self.fail(name, f"not refused: {message or 'values'}")
        elif data is None or len(data) != expected.nbytes:
            self.fail(name, message or f"{len(data)} bytes, not {expected.nbytes}")
        elif data == expected.tobytes():
            self.equal += 1
        elif tolerance and self.near(data, expected) <= tolerance:
            self.lossy += 1
        else:
            self.fail(name, f"other values, by {self.near(data, expected)}")

    @staticmethod
    def near(data, expected):
        got = np.frombuffer(data, expected.dtype).reshape(expected.shape)
        return np.abs(got.astype("f8") - expected.astype("f8")).max()

    def report(self, what, least):
        print(
            f"{what}: {self.equal} arrays read and equal, {self.lossy} near, of a codec that loses digits, "
            f"{self.refused} refused by name, {self.left_out} of codecs that were left out, {self.wrong} wrong"
        )
        sys.exit(self.wrong > 0 or self.equal + self.lossy + self.left_out < least)


# --- the corpus ---------------------------------------------------------------------------------

# CRC-32 of each array's items as imagecodecs 2026.3.6 decodes them. Those of which no chunk was written, because the
# codec refused, hold the fill value. JPEG 2000 of (3, H, W) is read back in another order than it was written in.
ITEMS = {
    "jpeg-2x64x48x3": 0x13B09164,
    "jpeg-4x3x64x48": 0x0660D54C,
    "jpeg-4x64x48": 0xE0EC603C,
    "jpeg-4x64x48x1": 0xE0EC603C,
    "jpeg-64x48x3": 0x011B5C28,
    "jpeg-65x49x3": 0x5517D941,
    "jpeg2k-2x64x48x3": 0x0FC90344,
    "jpeg2k-4x64x48": 0x4E7A5201,
    "jpeg2k-4x64x48x1": 0x4E7A5201,
    "jpeg2k-64x48x3": 0xE6F6BFC5,
    "jpeg2k-65x49x3": 0xDDFC9689,
    "jpegxl-2x64x48x3": 0x0FC90344,
    "jpegxl-4x3x64x48": 0xCBA70CEF,
    "jpegxl-4x64x48": 0x4E7A5201,
    "jpegxl-4x64x48x1": 0x4E7A5201,
    "jpegxl-64x48x3": 0xE6F6BFC5,
    "jpegxl-65x49x3": 0xDDFC9689,
    "png-2x64x48x3": 0x0FC90344,
    "png-4x3x64x48": 0x0660D54C,
    "png-4x64x48": 0x4E7A5201,
    "png-4x64x48x1": 0x4E7A5201,
    "png-64x48x3": 0xE6F6BFC5,
    "png-65x49x3": 0xDDFC9689,
    "webp-2x64x48x3": 0x0FC90344,
    "webp-4x3x64x48": 0x0660D54C,
    "webp-4x64x48": 0x8A258AEC,
    "webp-4x64x48x1": 0x8A258AEC,
    "webp-64x48x3": 0xE6F6BFC5,
    "webp-65x49x3": 0xDDFC9689,
    "jpeg2k-4x3x64x48": None,
}


def run_corpus(dump, folder):
    unpack("catalogues.tar.zst", folder)
    count = Count()
    for name, items in ITEMS.items():
        data, message = dump.read(folder / "img" / name)
        if items is None or data is None:
            count.check(name, data, message, None if items is None else np.zeros(1))
        elif zlib.crc32(data) == items:
            count.equal += 1
        else:
            count.fail(name, "other values")
    count.report("catalogues, img/", 29)


# --- the matrix ---------------------------------------------------------------------------------

PLAIN = [(64, 48), (1, 64, 48), (1, 64, 48, 1), (1, 1, 37, 21), (64, 48, 3), (1, 64, 48, 3), (1, 1, 30, 3), (1, 5)]
ALPHA = [(24, 20, 4), (1, 24, 20, 2)]
FRAMES = [(3, 24, 20), (1, 3, 24, 20), (4, 24, 20, 3)]


def cases():
    """(codec, settings, dtype, shape of a chunk, tolerance)"""
    for shape in PLAIN + [(20, 24, 4)]:
        for settings in ({}, {"level": 100}, {"level": 30, "optimize": True}):
            yield "jpeg", settings, "u1", shape, 0
    for subsampling in ("444", "422", "420", "411", "440"):
        yield "jpeg", {"level": 80, "subsampling": subsampling}, "u1", (1, 61, 47, 3), 0
    for shape in PLAIN + ALPHA:
        for dtype in ("u1", "u2"):
            for level in (None, 1, 9):
                yield "png", {"level": level}, dtype, shape, 0
    for shape in [(64, 48, 3), (1, 61, 47, 3), (2, 2, 3), (24, 20, 4)]:
        for settings in ({"lossless": True}, {"lossless": False, "level": 80}, {"level": 50, "method": 6}):
            yield "webp", settings, "u1", shape, 0
    for shape in PLAIN + ALPHA + FRAMES:
        for dtype in ("u1", "u2", "f4"):
            for settings in ({}, {"effort": 3}, {"usecontainer": True}):
                yield "jpegxl", settings, dtype, shape, 0
        # What loses digits is decoded by libjxl of another release.
        yield "jpegxl", {"lossless": False, "distance": 1.0}, "u1", shape, 4
    for shape in PLAIN + ALPHA + FRAMES[:2]:
        for dtype in ("u1", "u2", "i1", "i2"):
            for settings in (
                {"reversible": True},
                {"reversible": True, "codecformat": "jp2"},
                {"reversible": True, "codecformat": "j2k", "mct": False},
                {"level": 40},
            ):
                yield "jpeg2k", settings, dtype, shape, 1 if "level" in settings else 0
    yield "jpeg2k", {"reversible": True, "tile": (32, 32)}, "u1", (100, 90, 3), 0
    for shape in [(1,), (1000,), (37, 21), (1, 5, 9), (12, 13, 14), (3, 5, 6, 7), (1, 1, 1, 9)]:
        for dtype in ("i4", "i8", "f4", "f8"):
            for settings in ({}, {"mode": "R"}, {"mode": "p", "level": 20}, {"mode": "a", "level": 1e-3}, {"mode": "r", "level": 9}):
                yield "zfp", settings, dtype, shape, 0


def smooth(rng, dtype, shape):
    """Noise on a slope, so that images are compressed, and differ along each axis."""
    axes = range(len(shape))
    slope = sum(np.arange(shape[a]).reshape([-1 if i == a else 1 for i in axes]) * (3 + a) for a in axes)
    items = (slope + rng.integers(0, 6, shape)) % 120
    if dtype[0] == "f":
        return (items / 120).astype(dtype)
    return (items * (1 if dtype[1] == "1" else 311 if dtype[0] == "u" else 131)).astype(dtype)


def document_v2(shape, dtype, codec, settings):
    return {
        "zarr_format": 2,
        "shape": shape,
        "chunks": shape,
        "dtype": np.dtype(dtype).str,
        "order": "C",
        "fill_value": 0,
        "filters": None,
        "compressor": {"id": f"imagecodecs_{codec}", "squeeze": None, **settings},
    }


def document_v3(shape, dtype, codecs):
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": np.dtype(dtype).name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
        "chunk_key_encoding": {"name": "v2"},
        "fill_value": 0,
        "codecs": codecs,
        "attributes": {},
    }


def shard_of(shape, chunk, image):
    """A shard of two chunks along axis 0, of which the second one is missing."""
    shard = chunk + np.array([0, len(chunk), 2**64 - 1, 2**64 - 1], "<u8").tobytes()
    index = {"name": "bytes", "configuration": {"endian": "little"}}
    inner = {"chunk_shape": shape, "codecs": [image, {"name": "crc32c"}], "index_codecs": [index]}
    return [2 * shape[0], *shape[1:]], shard, [{"name": "sharding_indexed", "configuration": inner}]


def crc32c(data):
    from numcodecs.checksum32 import CRC32C

    return bytes(CRC32C(location="end").encode(data))


class Writer:
    def __init__(self, dump, folder):
        self.dump, self.folder, self.count, self.stores = dump, folder, Count(), 0

    def check(self, name, document, chunk, expected, tolerance):
        self.stores += 1
        store = self.folder / f"{self.stores}.zarr"
        store.mkdir()
        (store / (".zarray" if document["zarr_format"] == 2 else "zarr.json")).write_text(json.dumps(document))
        (store / ".".join("0" for _ in document["shape"])).write_bytes(chunk)
        self.count.check(name, *self.dump.read(store), expected, tolerance)

    def check_all(self, name, codec, settings, chunk, expected, shape, dtype, tolerance):
        self.check(f"v2 {name}", document_v2(list(shape), dtype, codec, settings), chunk, expected, tolerance)
        image = {"name": f"imagecodecs_{codec}", "configuration": settings}
        self.check(f"v3 {name}", document_v3(list(shape), dtype, [image]), chunk, expected, tolerance)
        named = {"name": "numcodecs.zfpy" if codec == "zfp" else codec, "configuration": settings}
        whole, shard, codecs = shard_of(list(shape), crc32c(chunk), named)
        both = None if expected is None else np.concatenate([expected, np.zeros_like(expected)])
        self.check(f"shard {name}", document_v3(whole, dtype, codecs), shard, both, tolerance)
        if len(shape) == 3 and expected is not None:
            turned = np.ascontiguousarray(expected.transpose(2, 0, 1))
            first = {"name": "transpose", "configuration": {"order": [1, 2, 0]}}
            document = document_v3(list(turned.shape), dtype, [first, image])
            self.check(f"transposed {name}", document, chunk, turned, tolerance)


def run_matrix(dump, folder):
    try:
        import imagecodecs.numcodecs as peers
    except ImportError as missing:
        skip(f"{sys.executable}: {missing}")
    writer, rng = Writer(dump, folder), np.random.default_rng(11)
    for codec, settings, dtype, shape, tolerance in cases():
        items = smooth(rng, dtype, shape)
        peer = getattr(peers, codec.capitalize())(**settings)
        try:
            chunk = bytes(peer.encode(items))
        except Exception:  # a shape or a dtype that it has not
            continue
        decoded = np.asarray(peer.decode(chunk))
        name = f"{codec} {settings} {dtype} {shape}"
        same_axes = [n for n in decoded.shape if n > 1] == [n for n in shape if n > 1]
        expected = decoded.reshape(shape) if same_axes else None
        writer.check_all(name, codec, settings, chunk, expected, shape, dtype, tolerance)
    writer.count.report(f"imagecodecs {peers.imagecodecs.__version__}", 500)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump", required=True)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--corpus", dest="run", action="store_const", const=run_corpus)
    mode.add_argument("--matrix", dest="run", action="store_const", const=run_matrix)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Dump(arguments.dump) as dump:
        arguments.run(dump, pathlib.Path(folder))


main()
