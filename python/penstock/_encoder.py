"""Encoder: batches from penstock ingest or penstock derive, and what a program makes of them."""

import ctypes
import threading

import numpy as np

from . import _library
from ._errors import OK, Invalid, error_for
from ._loader import Loader

_NUMBERS = {
    name: number + 1
    for number, name in enumerate(
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 "
        "complex64 complex128".split()
    )
}


def _items_of(array):
    """The array in C order on the CPU, as (its owner, the dtype's name, shape, address)."""
    if hasattr(array, "detach"):  # a tensor of PyTorch
        tensor = array.detach().cpu().resolve_conj().resolve_neg().contiguous()
        return tensor, str(tensor.dtype).split(".")[-1], tuple(tensor.shape), tensor.data_ptr()
    items = np.asarray(array)
    shape = items.shape
    items = np.ascontiguousarray(items if items.dtype.isnative else items.astype(items.dtype.newbyteorder("=")))
    return items, items.dtype.name, shape, items.ctypes.data


class Encoder(Loader):
    """A Loader of a program that penstock ingest --encode or penstock derive has started:

        with penstock.Encoder() as encoder:
            for batch in encoder:
                encoder.give(model(batch["base_frames"]))

    Each batch has one result, which is given before the next batch is asked for."""

    def __init__(self, **options):
        """Options as of Loader; all come from the environment."""
        self._batch_raw = None
        super().__init__(**options)

    def _lease(self, timeout):
        batch = super()._lease(timeout)
        self._batch_raw = _library.CBatch.from_buffer_copy(self._memories[threading.get_ident()].raw)
        return batch

    def give(self, array):
        """Gives what was made of the last batch: a NumPy array, a tensor of PyTorch, or what np.asarray()
        takes, with a first axis of the batch's samples, and the same dtype and shape behind it for all
        batches. The array is copied. Raises Invalid where the array, or the moment, is wrong."""
        connection = self._connection
        if connection is None or not connection.retain():
            raise Invalid("the encoder is closed")
        try:
            if self._batch_raw is None:
                raise Invalid("give: there was no batch yet")
            owner, name, shape, address = _items_of(array)
            if name not in _NUMBERS:
                raise Invalid(f"give: an array of dtype {name}; there may be {', '.join(_NUMBERS)}")
            library, pointer = connection.library, connection.pointer
            status = library.penstock_give(
                pointer,
                ctypes.byref(self._batch_raw),
                _NUMBERS[name],
                len(shape),
                (ctypes.c_uint64 * max(len(shape), 1))(*shape),
                ctypes.c_void_p(address),
            )
            del owner
            if status != OK:
                raise error_for(status, library.penstock_last_error(pointer).decode(errors="replace"))
        finally:
            connection.let_go()
