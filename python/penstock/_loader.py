"""Loader and Batch: libpenstock's connection and batches as Python knows them."""

import ctypes
import functools
import gc
import json
import math
import sys
import threading
import traceback
import warnings
import weakref
from dataclasses import dataclass, field, replace
from typing import Any, Dict, Tuple

import numpy as np

from . import _library
from ._errors import OK, Ended, Error, Invalid, Timeout, error_for
from ._ragged import Csr, csr_of

# penstock_next() blocks in C. Returning this often lets Python handle signals such as Ctrl-C.
_SLICE_MS = 200


def _numpy_dtype(name, field):
    """The dtype of a field's arrays. NumPy has no bfloat16 of its own. With ml_dtypes a bfloat16 field
    has that package's dtype. Without, the field comes as bits, in uint16, and a warning says so."""
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        warnings.warn(
            f"field '{field}' is bfloat16, which NumPy has by the package ml_dtypes alone: without "
            f"it the field comes as bits, in uint16. batch.torch('{field}') is right in any case",
            stacklevel=6,  # whoever calls connect()
        )
        return np.dtype(np.uint16)
    return np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True)
class Field:
    """One named tensor of a sample. `shape` is the shape of one sample. `dtype_name` is the field's
    dtype as the service delivers it: "bfloat16" also where `dtype` is uint16. `attributes` are those of
    the field's array in the store ("units", "long_name"); one that is too large (4 KiB) is None.

    A ragged field (deliver: csr) has another number of items in each sample, `most_items` in a batch at most.
    `shape` is then the shape of one item. `offsets` is the name of the field of its offsets. `steps` is above 0
    for a ragged field and for its offsets: how many steps a sample has."""

    name: str
    dtype: np.dtype
    dtype_name: str
    shape: Tuple[int, ...]
    attributes: Dict[str, Any] = field(default_factory=dict)
    most_items: int = 0
    steps: int = 0
    offsets: str = ""


@dataclass(frozen=True)
class Stats:
    """What a connection has done so far, and where it stands. See struct penstock_stats."""

    batches: int
    samples: int
    bytes: int
    waits: int
    wait_ns: int
    reconnects: int
    ready: int
    leased: int


@dataclass(frozen=True)
class Info:
    """What the service delivers. It is constant for a connection. See struct penstock_info."""

    fields: Tuple[Field, ...]
    slot_count: int
    batch_size: int
    rank: int
    world_size: int
    global_batch_size: int
    dataset_samples: int
    steps_per_epoch: int
    epochs: int
    start_epoch: int
    start_step: int
    seed: int
    fingerprint: int
    order_id: int
    constants: Tuple[Field, ...]  # dataset.constants; loader.constants has their arrays


def _field(library, raw):
    """Of a field, or of a constant."""
    dtype_name = library.penstock_dtype_name(raw.dtype).decode()
    shape = tuple(raw.shape[d] for d in range(raw.rank))
    name = raw.name.decode()
    return Field(name, _numpy_dtype(dtype_name, name), dtype_name, shape, json.loads(raw.attributes))


def _items(field, raw, fields):
    """`field` with what C says of a ragged one. `fields`: all of them, as C has them."""
    offsets = fields[raw.offsets_field].name.decode() if raw.most_items else ""
    return replace(field, most_items=raw.most_items, steps=raw.steps, offsets=offsets)


def _info(library, connection):
    raw = library.penstock_describe(connection).contents
    describe = functools.partial(_field, library)
    raw_fields = raw.fields[: raw.field_count]
    fields = tuple(map(describe, raw_fields))
    fields = tuple(_items(field, part, raw_fields) for field, part in zip(fields, raw_fields))
    constants = tuple(map(describe, raw.constants[: raw.constant_count]))
    numbers = {n: getattr(raw, n) for n in Info.__dataclass_fields__ if n not in ("fields", "constants")}
    return Info(fields=fields, constants=constants, **numbers)


def _constants(library, connection, info):
    """Read-only arrays of copies, which outlive the connection. The copies are in memory that may be
    written to: torch warns of tensors of any other."""
    raw = library.penstock_describe(connection).contents
    arrays = {}
    for i, constant in enumerate(info.constants):
        data = bytearray(ctypes.string_at(raw.constants[i].data, raw.constants[i].bytes))
        arrays[constant.name] = np.frombuffer(data, constant.dtype).reshape(constant.shape)
        arrays[constant.name].flags.writeable = False
    return arrays


def _tensor(array, is_bfloat16):
    """A tensor on the CPU that shares the array's memory. torch.from_numpy() refuses bfloat16."""
    import torch

    if is_bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _words(error):
    """An exception's text as the interpreter's last line has it, in one line, for the C library."""
    line = " ".join("".join(traceback.format_exception_only(type(error), error)).split())
    return line.encode(errors="replace")  # a file's name may have what is no character


def _leave_at_exit(library, pointer):
    """The process ends, and the connection was not closed. If the interpreter has kept an exception
    that nobody caught, the trainer has failed. Else it leaves."""
    error = getattr(sys, "last_value", None)
    if error is None or hasattr(sys, "ps1"):
        library.penstock_leave(pointer)
    else:
        library.penstock_fail(pointer, _words(error))


def _ring(pointer):
    ring = pointer.contents
    return ring.base, ring.bytes, ring.generation


class _Connection:
    """Owns the connection. The ring is unmapped when the loader is closed and the last view of a
    batch is gone, so that a view never points to memory that is not there any more. The goodbye goes
    out at the same time, or earlier, when no more batches can come or the process ends. After the
    goodbye the service may overwrite leased slots."""

    def __init__(self, library, pointer):
        self.library = library
        self.pointer = pointer
        self._kept = []  # what the library calls back until it frees the connection
        self._lock = threading.RLock()  # reentrant: a finalizer may run anywhere
        self._users = 0  # batches, and calls under way
        self._wanted = True
        self._at_exit = weakref.finalize(self, _leave_at_exit, library, pointer)

    def retain(self):
        """Keeps the connection for a batch, or for a call under way. False: the connection is gone."""
        with self._lock:
            if self._users == 0 and not self._wanted:
                return False
            self._users += 1
            return True

    def let_go(self):
        with self._lock:
            self._users -= 1
            last = self._users == 0 and not self._wanted
        if last:
            self._free()

    def watch_rings(self, attached, detaching):
        """Calls attached(base, bytes, generation) and detaching(generation): see penstock_watch_rings()."""
        watch = _library.RingWatch(
            _library.RING_FUNCTION(lambda _, ring: attached(*_ring(ring))),
            _library.RING_FUNCTION(lambda _, ring: detaching(_ring(ring)[2])),
            None,
        )
        self._kept.append(watch)
        status = self.library.penstock_watch_rings(self.pointer, ctypes.byref(watch))
        if status != OK:
            raise error_for(status, "rings can be watched once, and before the first batch")

    def give_back(self, raw):
        """Runs when the last reference to a batch's memory goes, in the thread that drops it."""
        self.library.penstock_release(self.pointer, ctypes.byref(raw))
        self.let_go()

    def fail(self, error):
        self.library.penstock_fail(self.pointer, _words(error))

    def close(self, ended):
        with self._lock:
            self._wanted = False
            last = self._users == 0
        if last:
            self._free()
        elif ended:
            self.library.penstock_leave(self.pointer)

    def _free(self):
        self._at_exit.detach()
        self.library.penstock_close(self.pointer)


class _Memory:
    """A batch's slot. Every array of the batch refers to this object. The slot is released when the
    last array is gone."""

    def __init__(self, connection, raw):
        connection.retain()
        self._finalizer = weakref.finalize(self, connection.give_back, raw)
        self._finalizer.atexit = False  # the process's end closes the connection anyway


class _Part:
    """The object behind an array: NumPy keeps this object, and this object keeps the slot."""

    def __init__(self, memory, address, dtype, shape):
        self._memory = memory
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": (math.prod(shape),),
            "typestr": (dtype if dtype.isbuiltin == 1 else np.dtype(f"u{dtype.itemsize}")).str,
        }


def _array(memory, address, dtype, shape):
    if 0 in shape:
        return np.empty(shape, dtype)
    flat = np.asarray(_Part(memory, address, dtype, shape))
    return flat.view(dtype).reshape(shape)


def _whole_shape(raw, field, offsets):
    """The shape of a field's array in a batch. `offsets`: of a ragged field, which field has its offsets."""
    if field.most_items:
        last = raw.data[offsets] + raw.sample_count * field.steps * 8
        return (ctypes.c_int64.from_address(last).value, *field.shape)
    if field.steps:
        return (raw.sample_count * field.steps + 1,)
    return (raw.sample_count, *field.shape)


class NumPyCsr(Csr):
    """A ragged field as NumPy arrays."""

    __slots__ = ()

    def to_scipy(self, width):
        """A scipy.sparse.csr_array [samples * steps, width], of a field with values and one column of indices.
        Values are not copied, nor are indices of int32 or int64. Offsets are where indices are not int64: SciPy
        wants one dtype."""
        import scipy.sparse

        index = self.matrix_indices("SciPy")
        small = np.can_cast(index.dtype, np.int32) and len(index) <= np.iinfo(np.int32).max
        kind = np.int32 if small else np.int64
        matrix = scipy.sparse.csr_array((len(self.offsets) - 1, width), dtype=self.values.dtype)
        matrix.data = self.values
        matrix.indices = index.astype(kind, copy=False)
        matrix.indptr = self.offsets.astype(kind, copy=False)
        return matrix


class Batch(dict):
    """One trainer's samples of one step: field name -> array [samples, *field.shape]. An array is a view
    of shared memory, and may be written to. The memory goes back to the service when the batch and
    every view are gone. There is nothing to call.

    The array of a ragged field (deliver: csr) is [items, *field.shape], with the items of the batch's samples,
    one sample after another. csr() has the field's columns and offsets together.

    indices  uint64 [samples]: index of each sample (of its anchor, where samples have several steps)
             along the sample axis, over all stores
    keys     uint64 [samples]: random key of (seed, epoch, index), to seed augmentation with
    valid    bool [samples]: False where a sample only pads the last step, or could not be read and
             is zero (errors.bad_sample: mask)
    epoch    int
    step     int: number of the step within the epoch
    first_position  int: position of the first sample within the global batch
    valid_of field name -> bool [samples, steps]: False where a step lies outside the sample's episode
             (samples.pad). Fields that cannot lack steps are not in it
    """

    __slots__ = ("epoch", "step", "first_position", "indices", "keys", "valid", "slot", "_bfloat16", "_fields")

    def __init__(self, info, memory, raw):
        count = raw.sample_count
        numbers = {field.name: i for i, field in enumerate(info.fields)}
        shapes = (_whole_shape(raw, field, numbers.get(field.offsets)) for field in info.fields)
        super().__init__(
            (field.name, _array(memory, raw.data[i], field.dtype, shape))
            for i, (field, shape) in enumerate(zip(info.fields, shapes))
        )
        self._fields = info.fields
        self._bfloat16 = {field.name for field in info.fields if field.dtype_name == "bfloat16"}
        self.epoch = raw.epoch
        self.step = raw.step
        self.slot = raw.slot
        self.first_position = raw.first_position
        self.indices = _array(memory, raw.indices, np.dtype(np.uint64), (count,))
        self.keys = _array(memory, raw.keys, np.dtype(np.uint64), (count,))
        self.valid = _array(memory, raw.valid, np.dtype(np.bool_), (count,))

    def torch(self, name):
        """The field as a tensor on the CPU that shares the field's memory. It works with bfloat16, too,
        which torch.from_numpy() refuses."""
        return _tensor(self[name], name in self._bfloat16)

    def csr(self, name):
        """A ragged field with its columns and offsets, without a copy: see Csr."""
        return csr_of(self, self._fields, name, NumPyCsr)

    def arrow(self):
        """The fields by the Arrow C data interface, without a copy: see ArrowBatch in _arrow.py."""
        from ._arrow import ArrowBatch

        return ArrowBatch(self)

    @property
    def sample_count(self):
        return len(self.indices)

    @property
    def valid_of(self):
        suffix = ".valid"
        return {name[: -len(suffix)]: self[name] for name in self if name.endswith(suffix)}


def _milliseconds(seconds):
    return int(min(seconds * 1000, 2**63 - 1))


def _json(state):
    return state if isinstance(state, str) else json.dumps(state)


class Loader:
    """A connection to the service. Iterating gives batches until all epochs are consumed. epochs()
    gives the batches epoch by epoch. One thread at a time iterates. Any thread may close.

    info       what the service delivers: see Info
    constants  dict: path of an array in dataset.constants -> the array, read-only. It outlives the loader
    fields     dict: name -> Field, with its dtype, shape and attributes
    """

    def __init__(
        self,
        run_dir=None,
        rank=None,
        world_size=None,
        timeout=60.0,
        state=None,
        wait_for_release=False,
    ):
        """Connects, and waits for the service to start.

        run_dir, rank, world_size: None: from the environment.
        timeout: seconds to wait for the service. None, or less than 0: without limit.
        state: where to go on: the value that state() gave, as a dict or as JSON text. None: the
        value of PENSTOCK_STATE, if set.
        wait_for_release: with all slots leased, next() waits until a batch is released (by another
        thread, or by JAX) instead of raising Invalid.
        """
        self._connection = None
        self._ended = False
        if (rank is None) != (world_size is None):
            raise Invalid("give rank and world_size together, or neither")
        if world_size is not None and world_size < 1:
            raise Invalid(f"world_size is {world_size}; there is at least this trainer")
        options = _library.Options(
            run_dir=None if run_dir is None else str(run_dir).encode(),
            rank=rank or 0,
            world_size=world_size or 0,
            timeout_ms=-1 if timeout is None or timeout < 0 else max(1, _milliseconds(timeout)),
            state=None if state is None else _json(state).encode(),
            wait_for_release=bool(wait_for_release),
        )
        library = _library.load()
        pointer = ctypes.c_void_p()
        message = ctypes.create_string_buffer(_library.MESSAGE_BYTES)
        status = library.penstock_connect(ctypes.byref(options), ctypes.byref(pointer), message)
        if status != OK:
            raise error_for(status, message.value.decode(errors="replace"))
        self._connection = _Connection(library, pointer)
        self.info = _info(library, pointer)
        self.constants = _constants(library, pointer, self.info)
        self._cursor = (self.info.start_epoch, self.info.start_step)  # of the next batch

    def __enter__(self):
        return self

    def __exit__(self, _, error, __):
        """An exception that comes through is why this trainer ends. The service is told the exception,
        names it, and does as when a trainer dies. SystemExit with code 0, and Ended, are a goodbye."""
        orderly = isinstance(error, Ended) or (isinstance(error, SystemExit) and not error.code)
        try:
            if error is not None and not orderly and self._connection is not None:
                self._connection.fail(error)
        finally:
            self.close()

    def __del__(self):
        self.close()

    def close(self):
        """Leaves the service. A view of a batch stays valid as long as anything refers to the view."""
        if self._connection is not None:
            self._connection.close(self._ended)
            self._connection = None

    @property
    def fields(self):
        return {field.name: field for field in self.info.fields}

    def __len__(self):
        """Steps of one epoch, which is also its number of batches."""
        return self.info.steps_per_epoch

    def next(self, timeout=None):
        """The next batch. Waits up to `timeout` seconds (None, or less than 0: without limit). Raises
        Timeout, Ended, or the error for which the service stopped."""
        connection = self._connection
        if connection is None or not connection.retain():
            raise Invalid("the loader is closed")
        try:
            return self._next(connection, timeout)
        finally:
            connection.let_go()

    def _next(self, connection, timeout):
        library, pointer = connection.library, connection.pointer
        raw = _library.CBatch()
        left_ms = None if timeout is None or timeout < 0 else _milliseconds(timeout)
        collected = False
        while True:
            if self._connection is None:
                raise Ended("the loader was closed by another thread")
            slice_ms = _SLICE_MS if left_ms is None else min(_SLICE_MS, left_ms)
            status = library.penstock_next(pointer, ctypes.byref(raw), slice_ms)
            if status == OK:
                return self._batch(connection, raw)
            if status == Invalid.status and not collected:
                collected = gc.collect() >= 0  # batches caught in reference cycles lease slots
                continue
            if left_ms is not None:
                left_ms -= slice_ms
            if status != Timeout.status or left_ms == 0:
                self._ended = status == Ended.status
                reason = library.penstock_last_error(pointer).decode(errors="replace")
                raise error_for(status, reason)

    def _batch(self, connection, raw):
        last = raw.step + 1 == self.info.steps_per_epoch
        self._cursor = (raw.epoch + 1, 0) if last else (raw.epoch, raw.step + 1)
        return Batch(self.info, _Memory(connection, raw), raw)

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return self.next()
        except Ended:
            raise StopIteration from None

    def skip(self, epoch, step=0):
        """Goes on at a later step, and passes over the batches before. Where all trainers skip, readers
        leave these batches out. Raises Invalid for a step that is over, or behind the last epoch."""
        connection = self._connection
        if connection is None or not connection.retain():
            raise Invalid("the loader is closed")
        try:
            library, pointer = connection.library, connection.pointer
            status = library.penstock_skip(pointer, epoch, step)
            if status != OK:
                raise error_for(status, library.penstock_last_error(pointer).decode(errors="replace"))
            self._cursor = (epoch, step)
        finally:
            connection.let_go()

    def epochs(self):
        """Epochs. Each is an iterable of its batches with an attribute `number`. Asking for the next
        epoch skips the batches that are left of the one before."""
        while not self._ended and self._cursor[0] < self.info.epochs:
            epoch = Epoch(self, self._cursor[0])
            yield epoch
            if self._cursor[0] == epoch.number and not self._ended and self._connection is not None:
                self.skip(epoch.number + 1)
        if self._connection is not None and not self._ended:
            self._await_end()

    @property
    def complete(self):
        """Whether all batches of all epochs were handed out. False after the last batch means that the
        service was told to stop (a signal, preemption): save state(), and go on from there."""
        return self._cursor[0] >= self.info.epochs

    def _await_end(self):
        """Waits until all trainers have their last batch: if the service has to start again, the others
        need this trainer, too. A failure meanwhile does not matter to this trainer, which has all of
        its batches."""
        try:
            self.next()
        except Error:
            pass

    def stats(self):
        """Statistics of the connection: see Stats."""
        connection = self._connection
        if connection is None or not connection.retain():
            raise Invalid("the loader is closed; take the statistics before")
        try:
            raw = _library.CStats()
            connection.library.penstock_stats(connection.pointer, ctypes.byref(raw), ctypes.sizeof(raw))
        finally:
            connection.let_go()
        return Stats(**{name: getattr(raw, name) for name in Stats.__dataclass_fields__})

    def state(self):
        """The state behind the last batch that was handed out: a dict to save with the checkpoint.
        Written as JSON, it is what penstock-reader --resume reads."""
        if self._connection is None:
            raise Invalid("the loader is closed; take the state before")
        text = ctypes.create_string_buffer(_library.STATE_BYTES)
        status = self._connection.library.penstock_state(
            self._connection.pointer, text, _library.STATE_BYTES
        )
        if status != OK:
            raise error_for(status, "the state does not fit its buffer")
        return json.loads(text.value)


class Epoch:
    """The batches of one epoch. It can be iterated once."""

    def __init__(self, loader, number):
        self._loader = loader
        self.number = number

    def __len__(self):
        """Batches of a whole epoch. After a resume, the first epoch has fewer."""
        return len(self._loader)

    def __iter__(self):
        return self

    def __next__(self):
        if self._loader._cursor[0] != self.number:
            raise StopIteration
        return next(self._loader)


def connect(run_dir=None, **options):
    """Connects to the service of this node, and waits until the service delivers. See Loader for the
    options: rank, world_size, timeout, state, wait_for_release."""
    return Loader(run_dir, **options)
