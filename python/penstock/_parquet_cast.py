"""What --cast does to values: each is the same value afterwards, or the import is refused.

Between dtypes of floats values are rounded; a finite one that would become infinite is refused.
"""

import numpy as np

from ._parquet_source import BadValue

DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")


def _within(values, dtype):
    """Which floats lie where casting to whole numbers of `dtype` is defined."""
    low, high = (float(limit) for limit in ((0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)))
    return (values >= low) & (values < high + 1)  # 2^63 - 1 is 2^63 as a float


def _kept(values, converted):
    """Which values are themselves when they are cast back."""
    before, after = values.dtype, converted.dtype
    if before.kind == "f" and after.kind == "f":
        return np.isfinite(converted) | ~np.isfinite(values)
    if before.kind == "f":
        return _within(values.astype(np.float64), after) & (converted.astype(before) == values)
    if after.kind == "f":
        wide = converted.astype(np.float64)
        inside = _within(wide, before)
        return inside & (np.where(inside, wide, 0).astype(before) == values)
    return (converted.astype(before) == values) & ((converted < 0) == (values < 0))


def convert(values, dtype, place):
    """Values as the dtype that --cast may have given. place(index along axis 0): where that one comes from, for a message."""
    if str(values.dtype) == dtype:
        return values
    if np.can_cast(values.dtype, dtype, "safe") and np.dtype(dtype).kind in ("f" if values.dtype.kind == "f" else "biu"):
        return values.astype(dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        converted = values.astype(dtype)
        wrong = np.flatnonzero(~_kept(values, converted))
    if len(wrong):
        at = np.unravel_index(wrong[0], values.shape)
        raise BadValue(f"{place(int(at[0]))}: {values[at]} is no {dtype}: give --cast a dtype that has this value, or leave it away ({values.dtype})")
    return converted
