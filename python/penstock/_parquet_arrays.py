"""Which arrays the columns of Parquet files become: where samples begin, and how long arrays and chunks are."""

import math
from dataclasses import dataclass

import numpy as np

from ._parquet_source import BadSource, items_of, lengths_of, place

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Target:
    """An array of the dataset. `column` None: offsets, which the parent process writes from what the scan has found."""

    path: str
    dtype: str
    shape: tuple
    chunk: int  # along axis 0
    column: object = None
    attributes: object = None
    by_items: bool = False  # axis 0 are the items of a ragged column, else rows


def _runs(values):
    """Where runs of equal values begin."""
    return np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]])) if len(values) else np.empty(0, np.int64)


def _changes(block, name, key, row):
    return BadSource(f"{place(block, row)}: column '{name}' changes within the window {key}: leave it out of --per-window")


def scan_block(job):
    """Row mode: {column: items of each row}. Windows: the keys of runs, their lengths, and columns that a window has once."""
    source, block, window, per_window = job
    if not window:
        names = [c.name for c in source.columns.values() if c.ragged]
        return {name: lengths_of(array) for name, array in source.read(block, names).items()} if names else {}
    arrays = source.read(block, [window, *per_window])
    keys = _values(arrays[window], source.columns[window])
    begins = _runs(keys)
    found = {}
    for name in per_window:
        values = _values(arrays[name], source.columns[name])
        of_run = np.repeat(values[begins], np.diff(np.append(begins, len(keys))), axis=0)
        wrong = np.flatnonzero((values != of_run).reshape(len(values), -1).any(axis=1))
        if len(wrong):
            raise _changes(block, name, keys[wrong[0]], wrong[0])
        found[name] = values[begins]
    return keys[begins], np.diff(np.append(begins, len(keys))), found


def _values(array, column):
    """A value of each row; strings as objects."""
    return array.to_numpy(zero_copy_only=False) if column.text else items_of(array, column)


class Windows:
    """Runs of all blocks put together: `keys`, `counts`, and `values` of the columns that a window has once."""

    def __init__(self, source, window, per_window, scans):
        keys, counts, values = [], [], {name: [] for name in per_window}
        last = None
        for block, (block_keys, block_counts, found) in zip(source.blocks, scans):
            begin = 0
            if last is not None and block_keys[0] == last:
                counts[-1][-1] += block_counts[0]
                begin = 1
                for name in per_window:
                    if not np.array_equal(found[name][0], values[name][-1][-1]):
                        raise _changes(block, name, last, 0)
            if begin < len(block_keys):
                keys.append(block_keys[begin:])
                counts.append(block_counts[begin:].astype(np.int64))
                for name in per_window:
                    values[name].append(found[name][begin:])
            last = block_keys[-1]
        self.keys, self.counts = np.concatenate(keys), np.concatenate(counts)
        self.values = {name: np.concatenate(found) for name, found in values.items()}
        self._check(window)

    def _check(self, window):
        order = np.argsort(self.keys, kind="stable")
        again = np.flatnonzero(self.keys[order][1:] == self.keys[order][:-1])
        if len(again):
            key, later = self.keys[order[again[0]]], order[again[0] + 1]
            row = self.counts[:later].sum()
            raise BadSource(
                f"column '{window}': the key {key} comes back in row {row}: rows of a window follow one another: sort the files by '{window}'"
            )


def _chunk(rows_bytes, given, length):
    chunk = given or 1 << max(0, round(math.log2(CHUNK_BYTES / max(rows_bytes, 1))))
    return max(1, min(chunk, max(length, 1)))


def _item_bytes(column):
    return np.dtype(column.dtype).itemsize * math.prod(column.item_shape)


def _index(path, values, column=None):
    attributes = column.attributes if column else None
    return Target(path, str(values.dtype), values.shape, _chunk(_row_bytes(values), 0, len(values)), column, attributes), values


def _row_bytes(values):
    return values.dtype.itemsize * math.prod(values.shape[1:])


def offsets_of(lengths):
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _window_index(column, values):
    """Values that windows have, with the parent process: an array, or strings as a ragged array of bytes."""
    path = column.path
    if not column.text:
        return [_index(path, values, column)]
    encoded = [value if isinstance(value, bytes) else value.encode() for value in values]
    data = np.frombuffer(b"".join(encoded), np.uint8)
    return [_index(f"{path}/offsets", offsets_of([len(e) for e in encoded])), _index(f"{path}/values", data, column)]


def targets_of(source, options, scans):
    """The arrays that processes write, those that the parent writes with their values, and the rows of each window (None without windows)."""
    dense = [c for c in source.columns.values() if not c.ragged]
    if options.window:
        return _window_targets(source, options, Windows(source, options.window, options.per_window, scans))
    row_chunk = _chunk(max([_item_bytes(c) for c in dense], default=8), options.chunk_rows, source.row_count)
    targets = [Target(c.path, c.dtype, (source.row_count, *c.item_shape), row_chunk, c, c.attributes) for c in dense]
    indices = []
    for c in (c for c in source.columns.values() if c.ragged):
        offsets = offsets_of(np.concatenate([scan[c.name] for scan in scans]))
        chunk = _chunk(_item_bytes(c), options.chunk_items, int(offsets[-1]))
        targets.append(Target(f"{c.path}/values", c.dtype, (int(offsets[-1]), *c.item_shape), chunk, c, c.attributes, True))
        indices.append(_index(f"{c.path}/offsets", offsets))
    return targets, indices, None


def check_window(source, options):
    """Whether the columns fit --window and --per-window, before anything is read."""
    key = source.column(options.window, "--window")
    if (key.ragged and not key.text) or key.item_shape:
        raise BadSource(f"--window {key.name!r}: the column has lists: a window's key is a number or a string")
    for name in options.per_window:
        column = source.column(name, "--per-window")
        if column.ragged and not column.text:
            raise BadSource(f"--per-window {name!r}: the column has lists: only numbers and strings can be stored for each window")
        if name == options.window:
            raise BadSource(f"--per-window {name!r}: the windows' key is stored for each window anyway: leave it away here")
    if not _item_columns(source, options):
        raise BadSource(f"--window {options.window}: no other column is left for the windows' items")
    for c in _item_columns(source, options):
        if c.ragged:
            raise BadSource(f"column '{c.name}' has lists or strings, and its rows are items of windows: leave it out with --exclude")


def _item_columns(source, options):
    return [c for c in source.columns.values() if c.name not in (options.window, *options.per_window)]


def _window_targets(source, options, windows):
    columns = _item_columns(source, options)
    chunk = _chunk(max(_item_bytes(c) for c in columns), options.chunk_items, source.row_count)
    group = options.group
    targets = [Target(f"{group}/{c.path}", c.dtype, (source.row_count, *c.item_shape), chunk, c, c.attributes) for c in columns]
    indices = [_index(f"{group}/offsets", offsets_of(windows.counts))]
    for name, values in [(options.window, windows.keys), *windows.values.items()]:
        indices += _window_index(source.columns[name], values)
    return targets, indices, windows.counts
