"""Batch: a slot of shared memory as NumPy arrays."""

import ctypes
import math
import sys

import numpy as np

from . import _library
from ._errors import Invalid
from ._ragged import Csr, csr_of, own_items, strings_of


def tensor(array, is_bfloat16):
    """A tensor on the CPU that shares the array's memory. torch.from_numpy() refuses bfloat16."""
    import torch

    if is_bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


class Memory:
    """A batch's slot, once penstock_next() has filled `raw`. Every array of the batch refers to this object. The
    slot is released when the last array is gone."""

    _connection = None  # an exception that a signal's handler raises may come anywhere

    def __init__(self, connection):
        self.raw = _library.CBatch()
        if not connection.retain():
            raise Invalid("the loader is closed")
        self._connection = connection

    def __del__(self, is_finalizing=sys.is_finalizing):
        if self._connection is not None and not is_finalizing():  # the process's end closes the connection anyway
            self._connection.give_back(self.raw)


class _Part:
    """The object behind arrays: NumPy keeps this object, and this object keeps the slot."""

    __slots__ = ("memory", "__array_interface__")

    def __init__(self, memory, address, count, typestr, is_shared):
        self.memory = memory
        self.__array_interface__ = {"version": 3, "data": (address, is_shared), "shape": (count,), "typestr": typestr}


def _array(memory, address, dtype, shape, is_shared=False):
    """An array of the slot that is a view of its own items alone: SciPy copies small parts of large arrays."""
    if 0 in shape:
        return np.empty(shape, dtype)
    typestr = (dtype if dtype.isbuiltin == 1 else np.dtype(f"u{dtype.itemsize}")).str
    return np.asarray(_Part(memory, address, math.prod(shape), typestr, is_shared)).view(dtype).reshape(shape)


def _unprotected(array):
    """The same memory as an array that NumPy takes for writable: torch knows no tensors that are not, and warns."""
    part = array
    while isinstance(part, np.ndarray):
        part = part.base
    if array.flags.writeable or not isinstance(part, _Part):
        return array
    return _array(part.memory, array.ctypes.data, array.dtype, array.shape)


def _whole_shape(raw, number, field, offsets):
    """The shape of a field's array in a batch. `offsets`: of a ragged field, which field has its offsets."""
    if raw.steps[number]:
        return (raw.sample_count, raw.steps[number], *field.shape[1:])
    if field.is_padded:
        return (raw.sample_count, raw.bound, *field.shape)
    if field.most_items:
        last = raw.data[offsets] + raw.sample_count * field.steps * 8
        return (own_items(field.cuts, ctypes.c_int64.from_address(last).value), *field.shape)
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
        matrix.indptr = self.own_offsets.astype(kind, copy=False)
        return matrix


class Fields(dict):
    """What batches of NumPy, PyTorch and JAX have in common: field name -> array."""

    __slots__ = ("epoch", "step", "bound", "first_position", "indices", "sample_keys", "valid", "_fields", "__weakref__")

    _csr = Csr  # what csr() makes

    def _describe(self, batch):
        """Takes the numbers of `batch`, which this one is made of."""
        self.epoch, self.step, self.bound, self.first_position = batch.epoch, batch.step, batch.bound, batch.first_position
        self._fields = batch._fields

    def __missing__(self, name):
        raise KeyError(f"no field '{name}'; there are {', '.join(self)}")

    @property
    def sample_count(self):
        return len(self.indices)

    @property
    def valid_of(self):
        """Field name -> bool [samples, steps]: False where a step lies outside the sample's episode."""
        suffix = ".valid"
        return {name[: -len(suffix)]: self[name] for name in self if name.endswith(suffix)}

    def csr(self, name):
        """A ragged field with its columns and offsets, without a copy: see Csr."""
        return csr_of(self, self._fields, name, self._csr)

    def strings(self, name):
        """A ragged field of strings or their UTF-8 bytes (deliver: csr): a list of str, one a step of a sample."""
        return strings_of(self.csr(name))


class Batch(Fields):
    """One trainer's samples of one step: field name -> array [samples, *field.shape]. An array is a view
    of shared memory, and may be written to, unless the ranks of a group share it (info.is_shared): copy_out() first.
    The memory goes back to the service when the batch and every view are gone. There is nothing to call.

    The array of a ragged field (deliver: csr) is [items, *field.shape], with the items of the batch's samples,
    one sample after another. csr() has the field's columns and offsets together.

    indices         uint64 [samples]: index of each sample (of its anchor, where samples have several steps)
                    along the sample axis, over all stores
    sample_keys     uint64 [samples]: random key of (seed, epoch, index), to seed augmentation with
    valid           bool [samples]: False where a sample only pads the last step, or could not be read and
                    is zero (errors.bad_sample: mask)
    epoch           int
    step            int: number of the step within the epoch
    bound           int: what the longest sample of the step counts as, over all trainers, with batches by budget;
                    else 0. Fields with deliver: {pad: bound} are [samples, bound, *field.shape]
    first_position  int: position of the first sample within the global batch
    valid_of        field name -> bool [samples, steps]: False where a step lies outside the sample's episode
                    (samples.pad). Fields that cannot lack steps are not in it
    """

    __slots__ = ("slot", "_bfloat16")

    _csr = NumPyCsr

    def __init__(self, info, memory):
        raw = memory.raw
        count, begin, places = raw.sample_count, raw.indices, []
        end = max(raw.keys + 8 * count, raw.valid + count)
        super().__init__()
        for number, (field, address, offsets) in enumerate(zip(info.fields, raw.data, info._offsets)):
            shape = (count, *field.shape)
            if offsets is not None or raw.steps[number]:
                shape = _whole_shape(raw, number, field, offsets)
            if offsets is not None:
                self[field.name] = _array(memory, address, field.dtype, shape, info.is_shared)
                continue
            size = math.prod(shape) * field.dtype.itemsize
            end = max(end, address + size) if size else end
            places.append((field.name, shape, field.dtype, address - begin if size else 0))
            self[field.name] = None  # in the order of the fields
        slot = np.asarray(_Part(memory, begin, end - begin, "|u1", info.is_shared))
        for name, shape, dtype, offset in places:  # parts of one array cost less than arrays of their own
            self[name] = np.ndarray(shape, dtype, slot, offset)
        self._fields = info.fields
        self._bfloat16 = info._bfloat16
        self.epoch = raw.epoch
        self.step = raw.step
        self.slot = raw.slot
        self.bound = raw.bound
        self.first_position = raw.first_position
        self.indices = np.ndarray(count, np.uint64, slot)
        self.sample_keys = np.ndarray(count, np.uint64, slot, raw.keys - begin)
        self.valid = np.ndarray(count, np.bool_, slot, raw.valid - begin)

    def copy_out(self):
        """Copies all arrays. The slot goes back when no view from before is left."""
        for name, array in self.items():
            self[name] = array.copy()
        self.indices, self.sample_keys, self.valid = (
            array.copy() for array in (self.indices, self.sample_keys, self.valid)
        )

    def torch(self, name):
        """The field as a tensor on the CPU that shares the field's memory. It works with bfloat16, too,
        which torch.from_numpy() refuses. torch knows no read-only tensors: one that the ranks of a group share
        (info.is_shared) is not to be written to, and a process that does gets SIGSEGV."""
        return tensor(_unprotected(self[name]), name in self._bfloat16)

    def arrow(self):
        """The fields by the Arrow C data interface, without a copy: see ArrowBatch in _arrow.py."""
        from ._arrow import ArrowBatch

        return ArrowBatch(self)
