"""transform: a function that changes samples beside the readers, before trainers get them (delivery.transform)."""

import ast
import ctypes
import inspect
import os
import tokenize
import traceback
from concurrent.futures import ThreadPoolExecutor, wait
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_uint32, c_uint64, c_void_p

import numpy as np

from . import _library
from ._batch import Fields
from ._encoder import _NUMBERS
from ._errors import OK, Ended, Invalid, error_for
from ._info import _field, _items, _numpy_dtype
from ._ragged import Csr

_VARIABLE = "PENSTOCK_TRANSFORM"
_DTYPES = tuple(_NUMBERS)  # number n is the n-th, from 1
_TEXT_BYTES = 3000


class COutput(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("dtype", c_int),
        ("rank", c_int32),
        ("shape", c_uint64 * _library.MAX_RANK),
        ("most_items", c_uint64),
        ("same_as", c_int32),
    ]


class CTransformBatch(Structure):
    _fields_ = [
        ("epoch", c_uint64),
        ("step", c_uint64),
        ("sample_count", c_uint32),
        ("is_trial", c_uint32),
        ("bound", c_uint64),
        ("indices", c_void_p),
        ("keys", c_void_p),
        ("valid", c_void_p),
        ("input_count", c_uint32),
        ("output_count", c_uint32),
        ("fields", POINTER(_library.CField)),
        ("outputs", POINTER(COutput)),
        ("data", c_void_p * _library.MAX_FIELDS),
        ("results", c_void_p * _library.MAX_FIELDS),
        ("result_offsets", c_void_p * _library.MAX_FIELDS),
    ]


_FUNCTIONS = {
    "penstock_transform_open": (c_int, [POINTER(c_void_p), c_char_p]),
    "penstock_transform_next": (c_int, [c_void_p, POINTER(CTransformBatch)]),
    "penstock_transform_tell": (c_int, [c_void_p, POINTER(COutput), c_uint32]),
    "penstock_transform_done": (c_int, [c_void_p]),
    "penstock_transform_mask": (c_int, [c_void_p, c_uint32, c_char_p]),
    "penstock_transform_fail": (c_int, [c_void_p, c_int64, c_char_p]),
    "penstock_transform_error": (c_char_p, [c_void_p]),
    "penstock_transform_close": (None, [c_void_p]),
}


def _philox(keys, high, lows):
    """uint64 [samples, numbers]: Philox 4x32-10 (random_u64() of docs/inside/order.md) of each key at (high, lows)."""
    mask, multiplier = np.uint64(0xFFFFFFFF), (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
    half = np.uint64(32)
    lows = np.asarray(lows, np.uint64)
    words = [lows & mask, lows >> half, np.uint64(high) & mask, np.uint64(high) >> half]
    words = [np.broadcast_to(word, (len(keys), lows.size)) for word in words]
    key = [(keys & mask)[:, None], (keys >> half)[:, None]]
    for _ in range(10):
        products = words[0] * multiplier[0], words[2] * multiplier[1]
        words = [
            (products[1] >> half) ^ words[1] ^ key[0],
            products[1] & mask,
            (products[0] >> half) ^ words[3] ^ key[1],
            products[0] & mask,
        ]
        key = [(key[0] + np.uint64(0x9E3779B9)) & mask, (key[1] + np.uint64(0xBB67AE85)) & mask]
    return words[0] | words[1] << half


class Rng:
    """Random numbers for each sample of a batch, from its key: what a sample gets does not depend on the batch, the process or
    the number of processes, and is other in each epoch. Each call gives new numbers, along a first axis of the samples.

    rng[i] is the numpy.random.Generator of sample i alone, for all other distributions and for many numbers."""

    def __init__(self, keys):
        self.keys = np.array(keys, np.uint64)
        self._calls = 0
        self._generators = {}

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, sample):
        number = range(len(self))[sample]
        if number not in self._generators:
            self._generators[number] = np.random.Generator(np.random.Philox(key=int(self.keys[number])))
        return self._generators[number]

    def _bits(self, shape):
        self._calls += 1
        bits = _philox(self.keys, self._calls, np.arange(int(np.prod(shape))))
        return bits.reshape(len(self.keys), *shape)

    def random(self, *shape):
        """float64 [samples, *shape] in [0, 1)."""
        return (self._bits(shape) >> np.uint64(11)) * 2.0**-53

    def uniform(self, low, high, *shape):
        """float64 [samples, *shape] in [low, high)."""
        return low + (high - low) * self.random(*shape)

    def integers(self, low, high=None, *shape):
        """int64 [samples, *shape] in [low, high), or in [0, low): at most 2^32 numbers."""
        low, high = (0, low) if high is None else (low, high)
        if not 0 < high - low <= 2**32:
            raise Invalid(f"integers from {low} on and below {high}: there may be 1 to 2^32")
        scaled = (self._bits(shape) >> np.uint64(32)) * np.uint64(high - low) >> np.uint64(32)
        return low + scaled.astype(np.int64)

    def normal(self, mean=0.0, deviation=1.0, *shape):
        """float64 [samples, *shape] (Box and Muller)."""
        radius, angle = np.sqrt(-2 * np.log1p(-self.random(*shape))), 2 * np.pi * self.random(*shape)
        return mean + deviation * radius * np.cos(angle)


class TransformBatch(Fields):
    """What a transform gets: field name -> array [samples, ...], not to be written to. A ragged field (deliver: csr) has the
    items of all samples; csr() and strings() as of penstock.Batch. Also indices, sample_keys (uint64 [samples]), valid (bool
    [samples]), epoch, step, bound."""

    _csr = Csr

    def _cut(self, begin, end):
        """The batch of some of the samples."""
        part = TransformBatch()
        for field in self._fields:
            array = self[field.name]
            if field.offsets:
                offsets = self[field.offsets]
                array = array[offsets[begin * field.steps] : offsets[end * field.steps]]
            elif field.steps:
                array = array[begin * field.steps : end * field.steps + 1]
                array = array - array[0]
            else:
                array = array[begin:end]
            part[field.name] = _unwritable(array)
        part.indices, part.sample_keys = self.indices[begin:end], self.sample_keys[begin:end]
        part.valid = self.valid[begin:end]
        part.epoch, part.step, part.bound, part._fields = self.epoch, self.step, self.bound, self._fields
        return part


def _unwritable(array):
    array = array.view()
    array.flags.writeable = False
    return array


def _view(address, dtype, shape):
    """An array of memory that the batch has."""
    size = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer((ctypes.c_ubyte * size).from_address(address or 0), dtype).reshape(shape) if size else np.empty(shape, dtype)


def _fields_of(library, raw):
    """The inputs, as Fields know them."""
    fields = [_field(library, raw.fields[i]) for i in range(raw.input_count)]
    return tuple(_items(field, raw.fields[i], raw.fields, ()) for i, field in enumerate(fields))


def _batch_of(library, raw):
    count, batch = raw.sample_count, TransformBatch()
    batch._fields = _fields_of(library, raw)
    numbers = {field.name: i for i, field in enumerate(batch._fields)}
    for i, field in enumerate(batch._fields):
        if field.steps and not field.offsets:
            offsets = _view(raw.data[i], field.dtype, (count * field.steps + 1,))
            batch[field.name] = _unwritable(offsets - offsets[0])
        elif not field.offsets:
            shape = (count, raw.bound, *field.shape) if field.is_padded else (count, *field.shape)
            batch[field.name] = _unwritable(_view(raw.data[i], field.dtype, shape))
    for i, field in enumerate(batch._fields):
        if field.offsets:
            number = numbers[field.offsets]
            ends = _view(raw.data[number], np.dtype(np.int64), (count * field.steps + 1,))[[0, -1]]
            begin = (raw.data[i] or 0) + int(ends[0]) * raw.fields[i].sample_bytes
            batch[field.name] = _unwritable(_view(begin, field.dtype, (int(ends[1] - ends[0]), *field.shape)))
    batch.indices, batch.sample_keys = (_unwritable(_view(at, np.dtype(np.uint64), (count,))) for at in (raw.indices, raw.keys))
    batch.valid = _unwritable(_view(raw.valid, np.dtype(np.bool_), (count,)))
    batch.epoch, batch.step, batch.bound = raw.epoch, raw.step, raw.bound
    return batch


def _show(error):
    """The whole of it, on standard error."""
    traceback.print_exception(type(error), error, error.__traceback__)


def _said(error):
    """An exception in a line: what it says, and the lines that led there."""
    here = os.path.dirname(os.path.abspath(__file__))
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not os.path.abspath(f.filename).startswith(here)]
    lines = ", from ".join(f"{frame.filename}:{frame.lineno} ({frame.name})" for frame in reversed(frames[-3:]))
    return f"{type(error).__name__}: {error}" + (f"; at {lines}" if lines else "")


class _SampleFailed(Exception):
    """Sample number `sample` of the batch."""

    def __init__(self, sample, text):
        super().__init__(text)
        self.sample, self.text = sample, text


def _array(name, value):
    if hasattr(value, "detach"):  # a tensor of PyTorch
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":  # NumPy takes its bits
            import torch

            value = value.contiguous().view(torch.int16).numpy().view(_numpy_dtype("bfloat16", name))
    array = np.asarray(value)
    if array.dtype.name not in _DTYPES:
        raise Invalid(f"output '{name}' has dtype {array.dtype}; there may be {', '.join(_DTYPES)}")
    return array


def _rows(name, value, count, most, begin=0):
    """The items of each sample of a ragged output: a list of arrays, one a sample, as (all items, how many of each). `most`: of a
    sample; `begin`: the first sample's number in the batch."""
    rows = [_array(name, row) for row in value]
    if len(rows) != count:
        raise Invalid(f"output '{name}' has {len(rows)} samples; the batch has {count}")
    full = [row for row in rows if len(row)] or rows  # NumPy has a dtype of its own for []
    lengths = np.array([len(row) for row in rows], np.int64)
    if lengths.max(initial=0) > most:
        sample = int(lengths.argmax())
        raise _SampleFailed(begin + sample, f"output '{name}' has {lengths[sample]} items; the decorator's ragged allows {most}")
    return np.concatenate(full), lengths


def _decorators(node):
    """Those of a function, but for their arguments, that may be this one."""
    names = (ast.unparse(part.func if isinstance(part, ast.Call) else part) for part in node.decorator_list)
    return {name for name in names if name.split(".")[-1] == "transform"}


def _refuse_another(function):
    """A second function with the decorator would never be called: the first one's ends the process."""
    try:
        with tokenize.open(inspect.getsourcefile(function)) as file:
            functions = [node for node in ast.parse(file.read()).body if isinstance(node, ast.FunctionDef)]
    except (OSError, SyntaxError, TypeError):  # of no file
        return
    ours = set().union(*(_decorators(node) for node in functions if node.name == function.__name__))
    others = [node for node in functions if node.name != function.__name__ and _decorators(node) & ours]
    if others:
        raise Invalid(
            f"a file has one transform, and this one has '{function.__name__}' and, in line {others[0].lineno}, "
            f"'{others[0].name}': call one in the other, or take one decorator away"
        )


class _Worker:
    """The loop of a process that a reader has started."""

    def __init__(self, function, ragged, threads):
        self._library = _library.load()
        for name, (result, arguments) in _FUNCTIONS.items():
            getattr(self._library, name).restype, getattr(self._library, name).argtypes = result, arguments
        self._takes_rng = len(inspect.signature(function).parameters) > 1
        self._function, self._ragged, self._threads = function, ragged, threads
        self._pool = ThreadPoolExecutor(threads)
        self._pointer, message = c_void_p(), ctypes.create_string_buffer(_library.MESSAGE_BYTES)
        status = self._library.penstock_transform_open(ctypes.byref(self._pointer), message)
        if status != OK:
            raise error_for(status, message.value.decode(errors="replace"))

    def _call(self, name, *arguments):
        status = getattr(self._library, "penstock_transform_" + name)(self._pointer, *arguments)
        if status != OK:
            raise error_for(status, self._library.penstock_transform_error(self._pointer).decode(errors="replace"))

    def run(self):
        raw = CTransformBatch()
        try:
            while True:
                self._call("next", ctypes.byref(raw))
                batch = _batch_of(self._library, raw)
                try:
                    if raw.is_trial:
                        _refuse_another(self._function)
                        made = self._make(batch)
                        self._try_apart(batch, made)
                        self._tell(batch, made)
                    else:
                        self._do(raw, batch)
                        self._call("done")
                except _SampleFailed as failed:
                    self._call("fail", failed.sample, failed.text.encode())
                except Exception as error:  # whatever the function raises
                    _show(error)
                    self._call("fail", -1, _said(error)[:_TEXT_BYTES].encode())
        except Ended:
            pass
        finally:
            self._library.penstock_transform_close(self._pointer)

    def _make(self, batch):
        outputs = self._function(batch, Rng(batch.sample_keys)) if self._takes_rng else self._function(batch)
        if not isinstance(outputs, dict):
            raise Invalid(f"a transform returns a dict of field name -> array, not {type(outputs).__name__}")
        return outputs

    def _try_apart(self, batch, whole):
        """Each sample of the trial by itself has to come to the same: but for rounding, since libraries may add up numbers
        in another order."""
        count = len(batch.indices)
        for name, value in whole.items():
            if name not in self._ragged and value is not batch.get(name) and _array(name, value).shape[:1] != (count,):
                raise Invalid(f"output '{name}' has shape {_array(name, value).shape}; its first axis is that of the {count} samples")
        for i in range(count):
            one = batch._cut(i, i + 1)
            for name, value in self._make(one).items():
                if name not in whole or whole[name] is batch.get(name):
                    continue
                alone, together = _array(name, value[0]), _array(name, whole[name][i])
                same = alone.shape == together.shape and (alone.dtype == together.dtype or alone.size == 0)
                if alone.dtype.kind in "biu":
                    same = same and np.array_equal(alone, together)
                elif same and not np.allclose(
                    alone.astype(np.complex128), together.astype(np.complex128), rtol=1e-3, atol=1e-6, equal_nan=True
                ):
                    same = False
                if not same:
                    raise Invalid(
                        f"output '{name}' of a sample is another one when the sample comes alone, or a second time: what is "
                        "made of a sample depends on that sample and its rng alone; random numbers come from rng"
                    )

    def _tell(self, batch, outputs):
        """Answers the trial."""
        count, names = len(batch.indices), [field.name for field in batch._fields]
        told = (COutput * max(len(outputs), 1))()
        for c_output, (name, value) in zip(told, outputs.items()):
            c_output.name, c_output.same_as = name.encode(), -1
            if name in batch and value is batch[name]:
                c_output.same_as = names.index(name)
                continue
            if name in self._ragged:
                c_output.most_items = self._ragged[name]
                array, _ = _rows(name, value, count, c_output.most_items)
            else:
                array = _array(name, value)
            c_output.dtype, c_output.rank = _NUMBERS[array.dtype.name], array.ndim - 1
            c_output.shape[: array.ndim - 1] = array.shape[1:]
        self._call("tell", told, len(outputs))

    def _do(self, raw, batch):
        """Fills the results of a batch. Where the function fails, it gets samples one by one."""
        count = raw.sample_count
        places = {raw.outputs[o].name.decode(): o for o in range(raw.output_count)}
        if count == 0:
            for place in places.values():
                if raw.result_offsets[place]:
                    _view(raw.result_offsets[place], np.dtype(np.int64), (1,))[0] = 0
            return
        try:
            self._do_parts(raw, places, batch, count)
            return
        except Invalid:  # outputs that are not those of the trial: no sample's fault
            raise
        except Exception as error:  # whatever the function raises
            failed = error
        if sum(self._try_one(batch, i, raw, places) for i in range(count)) == count and batch.valid.all():
            raise failed  # which sample it was nobody can say

    def _do_parts(self, raw, places, batch, count):
        """With threads, each makes a part of the batch. Items of ragged outputs come one part after another."""
        parts = min(self._threads, count)
        ends = [count * k // parts for k in range(parts + 1)]
        waits = any(raw.result_offsets[place] for place in places.values())

        def do(begin, end):
            part = batch if parts == 1 else batch._cut(begin, end)
            made = self._make(part)
            if waits:
                return part, made, begin, end - begin
            self._put(raw, places, part, made, begin, end - begin)
            return None

        if parts > 1:
            futures = [self._pool.submit(do, *span) for span in zip(ends, ends[1:])]
            wait(futures)  # also where one fails: nobody writes to results after this
            all_made = [future.result() for future in futures]
        else:
            all_made = [do(0, count)]
        for made in all_made if waits else ():
            self._put(raw, places, *made)

    def _try_one(self, batch, i, raw, places):
        """Whether sample i can be made. Nobody trains on one that is not valid: zeros will do."""
        try:
            one = batch._cut(i, i + 1)
            self._put(raw, places, one, self._make(one), i, 1)
            return True
        except Invalid:
            raise
        except Exception as error:
            if batch.valid[i]:
                self._mask(i, error)
            for place in places.values():
                if raw.result_offsets[place]:
                    offsets = _view(raw.result_offsets[place], np.dtype(np.int64), (i + 2,))
                    offsets[0], offsets[i + 1] = 0, offsets[i] if i else 0
                elif raw.results[place]:
                    self._result(raw, place, i, 1)[:] = 0
            return False

    def _mask(self, i, error):
        """errors.bad_sample says what becomes of sample i."""
        text = error.text if isinstance(error, _SampleFailed) else _said(error)[:_TEXT_BYTES]
        try:
            self._call("mask", i, text.encode())
        except Invalid:
            if not isinstance(error, _SampleFailed):
                _show(error)
            raise _SampleFailed(i, text) from error

    @staticmethod
    def _result(raw, place, begin, count):
        output = raw.outputs[place]
        dtype, shape = _numpy_dtype(_DTYPES[output.dtype - 1], output.name.decode()), output.shape[: output.rank]
        row = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return _view(raw.results[place] + begin * row, dtype, (count, *shape))

    def _put(self, raw, places, batch, made, begin, count):
        """Puts what was made of samples [begin, begin + count) in its place."""
        if set(made) != set(places):
            raise Invalid(f"the transform returned {sorted(made)}, and in its trial {sorted(places)}")
        for name, place in places.items():
            output, value = raw.outputs[place], made[name]
            if output.same_as >= 0:
                if value is not batch[name]:
                    raise Invalid(f"output '{name}' was the input itself in the trial, and now is not: return a copy always")
            elif raw.result_offsets[place]:
                self._put_rows(raw, place, name, value, begin, count)
            else:
                array, target = _array(name, value), self._result(raw, place, begin, count)
                if array.shape != target.shape or array.dtype != target.dtype:
                    raise Invalid(
                        f"output '{name}' is {array.dtype} {array.shape}, and after its trial should be "
                        f"{target.dtype} {target.shape}"
                    )
                np.copyto(target, array)

    def _put_rows(self, raw, place, name, value, begin, count):
        output = raw.outputs[place]
        items, lengths = _rows(name, value, count, output.most_items, begin)
        offsets = _view(raw.result_offsets[place], np.dtype(np.int64), (begin + count + 1,))
        if begin == 0:
            offsets[0] = 0
        offsets[begin + 1 :] = offsets[begin] + np.cumsum(lengths)
        dtype, shape = _numpy_dtype(_DTYPES[output.dtype - 1], name), tuple(output.shape[: output.rank])
        if len(items) and (items.dtype != dtype or items.shape[1:] != shape):
            raise Invalid(f"output '{name}' has items {items.dtype} {items.shape[1:]}, and after its trial should have {dtype} {shape}")
        target = _view(raw.results[place], dtype, (int(offsets[-1]), *shape))
        if len(items):
            target[offsets[begin] :] = items


def transform(function=None, *, ragged=None, threads=1):
    """Makes a function the transform of a run (delivery.transform). Put it last in the program: in a process that a reader has
    started the decorator calls the function for each batch, and then ends the process. Elsewhere nothing happens, so that
    tests can call the function.

        @penstock.transform
        def augment(batch, rng):
            return {"image": flip(batch["image"], rng.random() < 0.5)}

    function  (batch, rng), or (batch): gets a TransformBatch and an Rng, and returns a dict of field name -> array with a
              first axis of the batch's samples. These take the place of the fields that it gets. A value that is the batch's
              array itself is delivered as it is. What is made of a sample may depend on that sample and its rng alone
    ragged    dict: name of an output -> most items of a sample. Its value is a list of arrays, one a sample
    threads   so many call the function at once, each with a part of the batch: for free-threaded Python, with
              delivery.transform.processes: 1
    """
    if function is None:
        return lambda decorated: transform(decorated, ragged=ragged, threads=threads)
    if _VARIABLE not in os.environ:
        return function
    try:
        _Worker(function, dict(ragged or {}), threads).run()
    except Ended:  # before it began
        pass
    raise SystemExit(0)
