"""Parquet files as one table: which files, which columns, and where each block of rows is.

A block is one row group of one file. Blocks are numbered in the order of the files' names, and so are rows. Hive folders (key=value in
a path) become columns.
"""

import bisect
import functools
import json
import os
import re
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


class BadSource(Exception):
    """The message says what is wrong, where, and what to do."""


class BadValue(BadSource):
    """A value that its array cannot hold: what was begun with these options is of no use."""


@dataclass(frozen=True)
class Column:
    """How a column is stored: items of `dtype` and `item_shape`; `ragged` says that a row has many. Its array, or its group, is `path`."""

    name: str
    dtype: str  # of NumPy
    item_shape: tuple = ()
    ragged: bool = False
    text: bool = False  # bytes of strings
    attributes: dict = field(default_factory=dict)
    rename: str = None

    @property
    def path(self):
        return self.name if self.rename is None else self.rename


@dataclass(frozen=True)
class Block:
    path: str
    row_group: int
    rows: int
    first_row: int
    row_in_file: int  # its first
    stored_bytes: int
    folders: tuple = ()  # (name, value) of Hive folders


def _natural(path):
    """So that part-10 comes behind part-9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path)]


def find_files(paths):
    files = []
    for path in paths:
        if os.path.isdir(path):
            found = []
            for folder, folders, names in os.walk(path):
                folders.sort(key=_natural)
                found += [os.path.join(folder, n) for n in names if n.endswith((".parquet", ".pq")) and n[0] not in "._"]
            if not found:
                raise BadSource(f"{path}: the folder has no file *.parquet")
            files += sorted(found, key=_natural)
        elif os.path.exists(path):
            files.append(path)
        else:
            raise BadSource(f"{path}: there is no such file or folder")
    return files


def _folders_of(path):
    pairs = [part.split("=", 1) for part in os.path.dirname(path).split(os.sep) if "=" in part]
    return tuple((name, value) for name, value in pairs)


@functools.lru_cache(maxsize=4)
def _open(path):
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise BadSource(f"{path}: not a Parquet file that pyarrow can read: {error}") from error


def _item_of(dtype, where):
    """NumPy's dtype of a fixed-size Arrow type, the shape of an item, and attributes."""
    shape = []
    while pa.types.is_fixed_size_list(dtype):
        shape.append(dtype.list_size)
        dtype = dtype.value_type
    attributes = {}
    if pa.types.is_timestamp(dtype):
        attributes = {"units": f"{_UNITS[dtype.unit]} since 1970-01-01"}
        dtype = pa.int64()
    elif pa.types.is_duration(dtype):
        attributes = {"units": _UNITS[dtype.unit]}
        dtype = pa.int64()
    elif pa.types.is_date32(dtype):
        attributes = {"units": "days since 1970-01-01"}
        dtype = pa.int32()
    if not (pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_boolean(dtype)):
        raise BadSource(
            f"{where}: values of type {dtype} have no array to go to: leave the column out with --exclude, or convert it beforehand"
        )
    return np.dtype(dtype.to_pandas_dtype()).name, tuple(shape), attributes


_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


# What has no offsets of its own is read as what has.
_VIEWS = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
_WIDE = {getattr(pa, name)(): wide for name, wide in _VIEWS.items() if hasattr(pa, name)}


def describe(name, dtype, where):
    """The Column of an Arrow field."""
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    dtype = _WIDE.get(dtype, dtype)
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype):
        is_text = pa.types.is_string(dtype) or pa.types.is_large_string(dtype)
        return Column(name, "uint8", ragged=True, text=True, attributes={"encoding": "utf-8" if is_text else "bytes"})
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        item, shape, attributes = _item_of(dtype.value_type, where)
        return Column(name, item, shape, ragged=True, attributes=attributes)
    item, shape, attributes = _item_of(dtype, where)
    return Column(name, item, shape, attributes=attributes)


class Source:
    """All files. `columns`: name -> Column, in the first file's order, Hive folders last. `lengths`: {name: how many items each list of
    the column has}."""

    def __init__(self, paths, columns=None, exclude=(), renames=None, lengths=None):
        self._lengths = lengths or {}
        self.files = find_files(paths)
        self.blocks = []
        self.columns = {}
        self.row_count = 0
        self._folder_types = self._type_folders()
        self._schema = self._choose(_open(self.files[0]).schema_arrow, self.files[0], columns, exclude)
        for name, path in (renames or {}).items():
            self.column(name, "--rename")
            self.columns[name] = replace(self.columns[name], rename=path)
        for path in self.files:
            self._add(path)
        if self.row_count == 0:
            raise BadSource(f"{self.files[0]}{' and others' if len(self.files) > 1 else ''}: no rows: name files that have some")

    def column(self, name, option):
        """The column that an option names."""
        if name not in self.columns:
            raise BadSource(f"{option} {name!r}: no such column; there are {', '.join(self.columns)}")
        return self.columns[name]

    def place(self, row):
        """For messages: where a row of all rows lies."""
        block = self.blocks[bisect.bisect_right([b.first_row for b in self.blocks], row) - 1]
        return place(block, row - block.first_row)

    def _type_folders(self):
        names = [name for name, _ in _folders_of(self.files[0])]
        values = {name: [] for name in names}
        for path in self.files:
            pairs = dict(_folders_of(path))
            if list(pairs) != names:
                raise BadSource(f"{path}: lies in folders {sorted(pairs)}, and {self.files[0]} in {sorted(names)}: import them one by one")
            for name, value in pairs.items():
                values[name].append(value)
        return {name: all(re.fullmatch(r"-?\d{1,18}", v) for v in found) for name, found in values.items()}

    def _choose(self, schema, path, wanted, exclude):
        names = list(schema.names) + [n for n in self._folder_types if n not in schema.names]
        for name in list(wanted or ()) + list(exclude):
            if name not in names:
                raise BadSource(f"{path}: no column '{name}'; there are {', '.join(names)}")
        names = [n for n in names if (not wanted or n in wanted) and n not in exclude]
        if not names:
            raise BadSource(f"{path}: --columns and --exclude leave no column")
        for name in names:
            if names.count(name) > 1:
                raise BadSource(f"{path}: {names.count(name)} columns have the name {name!r}: rename them in the file, or leave them out with --exclude")
            if name in schema.names:
                self.columns[name] = self._of_length(describe(name, schema.field(name).type, f"{path}: column '{name}'"))
            elif self._folder_types[name]:
                self.columns[name] = Column(name, "int64")
            else:
                self.columns[name] = Column(name, "uint8", ragged=True, text=True, attributes={"encoding": "utf-8"})
        return {name: schema.field(name).type for name in names if name in schema.names}

    def _of_length(self, column):
        if column.name in self._lengths and column.ragged and not column.text:
            return replace(column, ragged=False, item_shape=(self._lengths[column.name], *column.item_shape))
        return column

    def _add(self, path):
        file = _open(path)
        for name, dtype in self._schema.items():
            found = file.schema_arrow.names.count(name)
            if found != 1:
                raise BadSource(
                    f"{path}: {'several columns' if found else 'no column'} '{name}', which {self.files[0]} has once: give --columns or --exclude"
                )
            found = file.schema_arrow.field(name).type
            if found != dtype:
                raise BadSource(f"{path}: column '{name}' is {found}, and {dtype} in {self.files[0]}: import files of one schema")
        begin = self.row_count
        for group in range(file.num_row_groups):
            meta = file.metadata.row_group(group)
            if meta.num_rows:
                row = self.row_count
                self.blocks.append(Block(path, group, meta.num_rows, row, row - begin, meta.total_byte_size, _folders_of(path)))
            self.row_count += meta.num_rows

    def identity(self):
        """What a journal compares: a file that was written anew is another source."""
        files = [[os.path.abspath(p), os.stat(p).st_size, os.stat(p).st_mtime_ns] for p in self.files]
        columns = [[c.name, c.dtype, list(c.item_shape), c.ragged, c.text] for c in self.columns.values()]
        return json.dumps([files, columns])

    def read(self, block, names):
        """{name: pyarrow array} of a block's columns, without nulls, in one piece."""
        inside = [n for n in names if n in self._schema]
        try:
            table = _open(block.path).read_row_group(block.row_group, columns=inside, use_threads=False) if inside else None
        except (pa.ArrowException, OSError) as error:
            raise BadSource(f"{block.path}: row group {block.row_group} cannot be read: {error}") from error
        folders = dict(block.folders)
        arrays = {}
        for name in names:
            if name in self._schema:
                arrays[name] = self._whole(table.column(name), name, block)
            else:
                value = int(folders[name]) if self._folder_types[name] else folders[name]
                arrays[name] = pa.array([value] * block.rows, pa.int64() if self._folder_types[name] else pa.string())
        return arrays

    def _whole(self, chunked, name, block):
        array = chunked.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], chunked.type)
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if array.type in _WIDE:
            array = array.cast(_WIDE[array.type])
        nulls = array.null_count
        inner = array
        while not nulls and hasattr(inner, "flatten") and pa.types.is_nested(inner.type):
            inner = inner.flatten()
            nulls = inner.null_count
        if nulls:
            raise BadValue(
                f"{block.path}: column '{name}' has {nulls} null{'s' if nulls > 1 else ''} in row group {block.row_group} (rows from "
                f"{block.row_in_file} on): arrays have no nulls: fill them beforehand, or leave the column out with --exclude"
            )
        if name in self._lengths and (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
            others = np.flatnonzero(lengths_of(array) != self._lengths[name])
            if len(others):
                raise BadValue(f"{place(block, int(others[0]))}: column '{name}' has a list of {lengths_of(array)[others[0]]} items, not {self._lengths[name]}")
        return array


def place(block, row):
    """For messages: where a row of the block lies."""
    return f"{block.path}: row {block.row_in_file + row}"


def row_of(array, column, item):
    """Which row of a block has an item of items_of()."""
    if not column.ragged:
        return item
    offsets = _offsets(array)
    return int(np.searchsorted(offsets, offsets[0] + item, side="right")) - 1


def lengths_of(array):
    """Items of each row of a list, or bytes of each string: int64."""
    offsets = _offsets(array)
    return np.diff(offsets)


def _offsets(array):
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return np.asarray(array.offsets).astype(np.int64)
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    return np.frombuffer(array.buffers()[1], np.int64 if wide else np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)


def items_of(array, column):
    """The column's items, one row after another: [items, *item_shape]."""
    if column.text:
        offsets, data = _offsets(array), array.buffers()[2]
        whole = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
        return whole[offsets[0] : offsets[-1]] if len(offsets) else whole[:0]
    if column.ragged:
        array = array.flatten()
    for _ in column.item_shape:
        array = array.flatten()
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if pa.types.is_date32(array.type) else pa.int64())
    values = array.to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(values, column.dtype).reshape(-1, *column.item_shape)
