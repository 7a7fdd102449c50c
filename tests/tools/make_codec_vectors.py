"""Prints tests/unit/codec_vectors.h: small chunks that numcodecs made, and what they decode to.

    python tests/tools/make_codec_vectors.py > tests/unit/codec_vectors.h

The second table is what numcodecs encodes items to, for codecs that need not give back what they took.

Takes numcodecs 0.13 or later. Run by hand when a vector is added.
"""

import json

import numpy as np
from numcodecs import get_codec

FLOATS = np.array([0, 1.5, -2.25, 1000.125, 65504, 1e-7], "<f8")
BOOLS = np.array([1, 0, 0, 1, 1, 1, 0, 1, 0, 1, 1], "|b1")
BYTES = np.arange(24, dtype="|u1") * 11

VECTORS = [
    ([{"id": "delta", "dtype": "<i4", "astype": "|i1"}], np.array([100, 98, 90, 200, -50], "<i4")),
    ([{"id": "delta", "dtype": ">u2"}], np.array([65535, 3, 40000, 1, 0], ">u2")),
    ([{"id": "delta", "dtype": "|i1"}], np.array([127, -128, 5, -100], "|i1")),
    ([{"id": "delta", "dtype": "<f4", "astype": "<f4"}], np.array([0.1, 0.2, -7, 1e9, 3], "<f4")),
    ([{"id": "delta", "dtype": "<f2"}], np.array([0.1, 0.2, -7, 600, 3], "<f2")),
    ([{"id": "delta", "dtype": "<f2"}], np.array([-0.0, 0], "<f2")),
    ([{"id": "delta", "dtype": ">f8", "astype": "<f4"}], np.array([-0.0, -0.0], ">f8")),
    ([{"id": "delta", "dtype": "<i2"}], np.array([-0.0, 0.1, -7, 65504, -65504], "<f2")),
    (
        [{"id": "fixedscaleoffset", "dtype": "<f8", "astype": "|u1", "scale": 10, "offset": 1000}],
        np.linspace(1000, 1001, 7),
    ),
    (
        [{"id": "fixedscaleoffset", "dtype": "<f4", "astype": ">i2", "scale": 3, "offset": -1.5}],
        np.linspace(-1, 1, 7, dtype="<f4"),
    ),
    (
        [{"id": "fixedscaleoffset", "dtype": "<i4", "astype": "<f2", "scale": 0.5, "offset": 7}],
        np.arange(0, 70, 10, dtype="<i4"),
    ),
    ([{"id": "quantize", "digits": 1, "dtype": "<f8", "astype": "<f2"}], FLOATS),
    ([{"id": "quantize", "digits": 2, "dtype": "<f8"}], FLOATS),
    ([{"id": "bitround", "keepbits": 3}], FLOATS.astype("<f4")),
    ([{"id": "astype", "encode_dtype": ">i2", "decode_dtype": "<f8"}], np.arange(-3.0, 3)),
    ([{"id": "astype", "encode_dtype": "<f4", "decode_dtype": "<f2"}], FLOATS.astype("<f2")),
    ([{"id": "astype", "encode_dtype": "|u1", "decode_dtype": "|b1"}], BOOLS),
    ([{"id": "packbits"}], BOOLS),
    ([{"id": "packbits"}], BOOLS[:8]),
    ([{"id": "shuffle", "elementsize": 2}], BYTES),
    ([{"id": "shuffle", "elementsize": 8}], BYTES),
    ([{"id": "shuffle", "elementsize": 3}], BYTES),
    ([{"id": "crc32"}], BYTES),
    ([{"id": "adler32"}], BYTES),
    ([{"id": "crc32c"}], BYTES),
    ([{"id": "crc32c", "location": "start"}], BYTES),
    ([{"id": "fletcher32"}], BYTES),
    ([{"id": "fletcher32"}], BYTES[:7]),
    ([{"id": "fletcher32"}], np.full(6, 255, "|u1")),
    ([{"id": "bz2", "level": 1}], BYTES),
    ([{"id": "lzma"}], BYTES),
    ([{"id": "lzma", "format": 2}], BYTES),
    ([{"id": "lzma", "format": 3, "filters": [{"id": 33, "preset": 1}]}], BYTES),
    (
        [
            {"id": "delta", "dtype": "<i8", "astype": ">i4"},
            {"id": "crc32"},
            {"id": "shuffle", "elementsize": 4},
            {"id": "bz2", "level": 1},
            {"id": "fletcher32"},
        ],
        np.arange(6, dtype="<i8") ** 5,
    ),
]

F2 = np.array([-0.0, 0.1, 0.2, -7, 600, 65504, -65504, np.inf, 3, 2**-24], "<f2")

ENCODED = [
    ({"id": "delta", "dtype": "<i4", "astype": "|i1"}, np.array([100, 98, 90, 200, -50], "<i4")),
    ({"id": "delta", "dtype": "|u1"}, np.array([255, 3, 0, 128, 1], "|u1")),
    ({"id": "delta", "dtype": "|u1", "astype": "<i2"}, np.array([255, 3, 0, 128, 1], "|u1")),
    ({"id": "delta", "dtype": "|i1", "astype": "<i4"}, np.array([127, -128, 5, -100], "|i1")),
    ({"id": "delta", "dtype": ">u2"}, np.array([65535, 3, 40000, 1, 0], ">u2")),
    ({"id": "delta", "dtype": "<i8", "astype": ">i4"}, np.arange(6, dtype="<i8") ** 7 * 12345),
    ({"id": "delta", "dtype": "<u8", "astype": "<u8"}, np.array([2**64 - 1, 0, 2**63, 7], "<u8")),
    ({"id": "delta", "dtype": "<i2"}, F2),  # of bits
    ({"id": "delta", "dtype": "<f2"}, F2),
    ({"id": "delta", "dtype": "<f2", "astype": "<f4"}, F2),
    ({"id": "delta", "dtype": "<f4"}, np.array([-0.0, 0.1, 0.2, -7, 1e9, 3, 1e38, -3e38], "<f4")),
    ({"id": "delta", "dtype": "<f4", "astype": ">f2"}, np.array([0.1, 0.2, -7, 1e9, 3], "<f4")),
    ({"id": "delta", "dtype": ">f8", "astype": "<f4"}, np.array([0.1, 0.2, -7, 1e300, 3], ">f8")),
    ({"id": "delta", "dtype": "<f8", "astype": "<i2"}, np.array([1.75, -0.5, 30, -7.9], "<f8")),
]


def as_bytes(data):
    return np.asarray(memoryview(data)).reshape(-1).view("u1").tobytes()


def c_hex(data):
    lines = [data[i : i + 45].hex() for i in range(0, len(data), 45)]
    return "\n   ".join(f'"{line}"' for line in lines)


def main():
    print("/* Made by tests/tools/make_codec_vectors.py: do not edit. */")
    print("// clang-format off")
    print("static const struct {")
    print("    const char *codecs;           /* v2's */")
    print("    const char *stored, *decoded; /* in hexadecimal digits */")
    print("} vectors[] = {")
    for configs, items in VECTORS:
        codecs = [get_codec(dict(config)) for config in configs]
        chunk = items
        for codec in codecs:
            chunk = codec.encode(chunk)
        stored = data = as_bytes(chunk)
        for codec in reversed(codecs):
            data = as_bytes(codec.decode(data))
        text = json.dumps(configs).replace('"', "'")
        print(f'  {{"{text}",\n   {c_hex(stored)},\n   {c_hex(data)}}},')
    print("};\n")
    print("static const struct {")
    print("    const char *codec;           /* v2's */")
    print("    const char *items, *stored;  /* in hexadecimal digits */")
    print("} encoded_vectors[] = {")
    for config, items in ENCODED:
        stored = get_codec(dict(config)).encode(items)
        print(f'  {{"{json.dumps([config])}",'.replace('"', "'").replace("{'[", '{"[').replace("]',", ']",'))
        print(f"   {c_hex(as_bytes(items))},\n   {c_hex(as_bytes(stored))}}},")
    print("};\n// clang-format on")


np.seterr(all="ignore")
main()
