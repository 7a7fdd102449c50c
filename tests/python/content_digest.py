"""The content digest of docs/inside/layouts.md, computed with NumPy and xxhash alone.

content_digest.py FILE.npy... prints a digest for each; as a module, array_digest() and dataset_digest().
"""

import sys

import numpy
import xxhash

RUN_BYTES = 65536


def array_digest(array, dtype=None):
    """32 hexadecimal digits. `dtype` names what NumPy has no name for, such as bfloat16."""
    shape = "x".join(str(length) for length in array.shape)
    array = numpy.ascontiguousarray(array)
    name = dtype or array.dtype.name
    data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    unit = len(data) // array.shape[0] if len(data) else 16
    while unit < 16:
        unit *= 2
    total = 0
    for start in range(0, len(data), unit):
        for offset in range(start, min(start + unit, len(data)), RUN_BYTES):
            run = data[offset:min(offset + RUN_BYTES, start + unit)]
            total += xxhash.xxh3_128_intdigest(run, seed=offset)
    text = f"penstock-content-1 {name} {shape} {total % 2**128:032x}"
    return xxhash.xxh3_128_hexdigest(text.encode())


def dataset_digest(digests):
    """Of {path: digest of the array}."""
    lines = "".join(f"{path} {digests[path]}\n" for path in sorted(digests, key=str.encode))
    return xxhash.xxh3_128_hexdigest(lines.encode())


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(array_digest(numpy.load(name)), name)
