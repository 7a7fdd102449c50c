"""A batch by the Arrow C data interface: structs that point into the batch's memory.

    ArrowBatch(batch).__arrow_c_array__()  ->  capsules of an ArrowSchema and an ArrowArray: a struct of the fields

A field of samples is its dtype, or lists of fixed size for its dimensions. A ragged field is a large list, with the
offsets of the batch; of a sequence a list of fixed size of large lists. One of strings (the attribute encoding is utf-8
or bytes) is large_utf8 or large_binary instead of a list. Nothing is copied. Arrow has no bool of whole
bytes, no bfloat16 and no complex numbers: these come as uint8, as uint16 (their bits), and as lists of two floats.

Each struct keeps what it points to until its release callback is called, from any thread. Whoever takes a struct may
move its children elsewhere, and release them alone.
"""

import codecs
import ctypes
import itertools
from dataclasses import replace
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p, py_object

from ._errors import Invalid
from ._ragged import own_items


class ArrowSchema(Structure):
    pass


class ArrowArray(Structure):
    pass


class ArrowArrayStream(Structure):
    pass


_RELEASE_SCHEMA = CFUNCTYPE(None, POINTER(ArrowSchema))
_RELEASE_ARRAY = CFUNCTYPE(None, POINTER(ArrowArray))
_RELEASE_STREAM = CFUNCTYPE(None, POINTER(ArrowArrayStream))
_GET_SCHEMA = CFUNCTYPE(c_int, POINTER(ArrowArrayStream), POINTER(ArrowSchema))
_GET_NEXT = CFUNCTYPE(c_int, POINTER(ArrowArrayStream), POINTER(ArrowArray))
_LAST_ERROR = CFUNCTYPE(c_void_p, POINTER(ArrowArrayStream))

ArrowSchema._fields_ = [
    ("format", c_char_p),
    ("name", c_char_p),
    ("metadata", c_void_p),
    ("flags", c_int64),
    ("n_children", c_int64),
    ("children", POINTER(POINTER(ArrowSchema))),
    ("dictionary", POINTER(ArrowSchema)),
    ("release", c_void_p),
    ("private_data", c_void_p),
]
ArrowArray._fields_ = [
    ("length", c_int64),
    ("null_count", c_int64),
    ("offset", c_int64),
    ("n_buffers", c_int64),
    ("n_children", c_int64),
    ("buffers", POINTER(c_void_p)),
    ("children", POINTER(POINTER(ArrowArray))),
    ("dictionary", POINTER(ArrowArray)),
    ("release", c_void_p),
    ("private_data", c_void_p),
]
ArrowArrayStream._fields_ = [
    ("get_schema", _GET_SCHEMA),
    ("get_next", _GET_NEXT),
    ("get_last_error", _LAST_ERROR),
    ("release", c_void_p),
    ("private_data", c_void_p),
]

_PRIMITIVES = {
    "int8": "c", "uint8": "C", "int16": "s", "uint16": "S", "int32": "i", "uint32": "I", "int64": "l", "uint64": "L",
    "float16": "e", "float32": "f", "float64": "g", "bool": "C", "bfloat16": "S",
}  # fmt: skip
_STRINGS = {"utf-8": "U", "bytes": "Z"}
_PARTS = {"complex64": "f", "complex128": "g"}

_alive = {}  # what structs that are not released yet keep, by their private_data
_numbers = itertools.count(1)


def _keep(struct, release, *things):
    """Fills release and private_data. The struct keeps `things` until it is released."""
    number = next(_numbers)
    _alive[number] = things
    struct.release = ctypes.cast(release, c_void_p)
    struct.private_data = number
    return struct


def _let_go(struct):
    """Releases the children that nobody has moved, and what the struct keeps."""
    for i in range(getattr(struct, "n_children", 0)):
        child = struct.children[i].contents
        if child.release:
            _RELEASES[type(child)](ctypes.byref(child))
    struct.release = None
    _alive.pop(struct.private_data, None)


_RELEASES = {
    ArrowSchema: _RELEASE_SCHEMA(lambda struct: _let_go(struct.contents)),
    ArrowArray: _RELEASE_ARRAY(lambda struct: _let_go(struct.contents)),
    ArrowArrayStream: _RELEASE_STREAM(lambda struct: _let_go(struct.contents)),
}


def _pointers(children):
    """An array of pointers to structs, which the array does not keep."""
    if not children:
        return None
    kind = type(children[0])
    return (POINTER(kind) * len(children))(*map(ctypes.pointer, children))


def _schema(form, name, children=()):
    children = list(children)
    pointers = _pointers(children)
    form, name = form.encode(), name.encode()
    schema = ArrowSchema(format=form, name=name, n_children=len(children))
    if pointers:
        schema.children = ctypes.cast(pointers, POINTER(POINTER(ArrowSchema)))
    return _keep(schema, _RELEASES[ArrowSchema], form, name, children, pointers)


def _array(length, buffers, children=(), owner=None):
    """`owner`: what keeps the buffers' memory."""
    children = list(children)
    pointers = _pointers(children)
    addresses = (c_void_p * len(buffers))(*buffers)
    array = ArrowArray(length=length, n_buffers=len(buffers), n_children=len(children))
    array.buffers = ctypes.cast(addresses, POINTER(c_void_p))
    if pointers:
        array.children = ctypes.cast(pointers, POINTER(POINTER(ArrowArray)))
    return _keep(array, _RELEASES[ArrowArray], addresses, children, pointers, owner)


def _dimensions(field):
    """Sizes of the lists around the numbers of a sample, or of an item; and the format of the numbers."""
    if field.dtype_name in _PARTS:
        return (*field.shape, 2), _PARTS[field.dtype_name]
    return field.shape, _PRIMITIVES[field.dtype_name]


def _string_form(field):
    """Of a ragged field whose items are the bytes of strings; else None."""
    encoding = field.attributes.get("encoding")
    is_bytes = field.most_items and field.dtype_name == "uint8" and not field.shape
    return _STRINGS.get(encoding) if is_bytes and isinstance(encoding, str) else None


def _check_strings(field, values, offsets):
    """Who takes strings from Arrow trusts that each is UTF-8. Decoding them one after another is right if each begins
    with the first byte of a character."""
    begins = offsets[:-1][offsets[:-1] < offsets[1:]]
    try:
        codecs.utf_8_decode(values, "strict", True)
        is_cut = bool((values[begins] & 0xC0 == 0x80).any())
    except UnicodeDecodeError:
        is_cut = True
    if is_cut:
        raise Invalid(f"field '{field.name}' has strings that are no UTF-8: take its bytes with batch.csr('{field.name}')")


def _schema_of(field):
    """Of the lists from the inside to the outside."""
    shape, form = _dimensions(field)
    forms = [form] + [f"+w:{size}" for size in reversed(shape)]
    if field.most_items:
        string = _string_form(field)
        forms = [string] if string else forms + ["+L"]
        forms += [f"+w:{field.steps}"] * (field.steps > 1)
    schema = None
    for number, form in enumerate(forms, 1):
        name = field.name if number == len(forms) else "item"
        schema = _schema(form, name, [schema] if schema else [])
    return schema


def _list_of(shape, values):
    """Numbers in lists of fixed sizes."""
    lengths = [len(values)]
    for size in shape:
        lengths.append(lengths[-1] * size)
    array = _array(lengths.pop(), [None, values.ctypes.data], owner=values)
    for length in reversed(lengths):
        array = _array(length, [None], [array])
    return array


def _array_of(field, values, offsets):
    """A field's array. `offsets`: NumPy array of a ragged field, else None."""
    shape, _ = _dimensions(field)
    if _string_form(field):
        array = _array(len(offsets) - 1, [None, offsets.ctypes.data, values.ctypes.data], owner=(values, offsets))
    else:
        array = _list_of(shape, values)
    if offsets is not None:
        if not _string_form(field):
            array = _array(len(offsets) - 1, [None, offsets.ctypes.data], [array], offsets)
        if field.steps > 1:
            array = _array((len(offsets) - 1) // field.steps, [None], [array])
    return array


class _Capsules:
    """PyCapsules of structs, by the interpreter's C API. A capsule that nobody has taken releases its struct."""

    def __init__(self):
        api = ctypes.pythonapi
        self._destructor = CFUNCTYPE(None, c_void_p)
        self._new = ctypes.PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", api))
        self._pointer = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", api))
        self._destructors = {}
        for kind, name in ((ArrowSchema, b"arrow_schema"), (ArrowArray, b"arrow_array"),
                           (ArrowArrayStream, b"arrow_array_stream")):
            self._destructors[kind] = (name, self._destructor(lambda capsule, k=kind, n=name: self._drop(capsule, k, n)))

    def _drop(self, capsule, kind, name):
        address = self._pointer(capsule, name)
        struct = kind.from_address(address)
        if struct.release:
            _RELEASES[kind](ctypes.byref(struct))
        _alive.pop(-address, None)

    def make(self, struct):
        name, destructor = self._destructors[type(struct)]
        address = ctypes.addressof(struct)
        _alive[-address] = struct
        return self._new(address, name, ctypes.cast(destructor, c_void_p))


_capsules = _Capsules()


class ArrowBatch:
    """The fields of a batch for whoever takes the Arrow PyCapsule interface: pyarrow.record_batch(), polars.DataFrame(),
    duckdb. Keeps the batch's memory, as every array does that is made of it."""

    def __init__(self, batch):
        self._batch = batch

    def _columns(self):
        """The fields that are columns: offsets are part of theirs. As long as this batch's are."""
        fields = [field for field in self._batch._fields if field.most_items or not field.steps]
        ragged = [field.most_items and not field.is_padded for field in fields]
        shapes = [self._batch[field.name].shape[1:] for field in fields]
        return [
            field if is_ragged else replace(field, shape=shape, most_items=0, offsets="")
            for field, is_ragged, shape in zip(fields, ragged, shapes)
        ]

    def _check(self):
        batch = self._batch
        for field in self._columns():
            if _string_form(field) == "U":
                _check_strings(field, batch[field.name], batch[field.offsets])

    def _own_offsets(self, field):
        return own_items(field.cuts, self._batch[field.offsets]) if field.offsets else None

    def _schema(self):
        return _schema("+s", "", map(_schema_of, self._columns()))

    def _array(self):
        batch = self._batch
        arrays = [_array_of(field, batch[field.name], self._own_offsets(field)) for field in self._columns()]
        return _array(batch.sample_count, [None], arrays)

    def __arrow_c_schema__(self):
        return _capsules.make(self._schema())

    def __arrow_c_array__(self, requested_schema=None):
        """Capsules of schema and array. No other schema than the batch's own is given. Strings that are no UTF-8 are
        Invalid."""
        self._check()
        return _capsules.make(self._schema()), _capsules.make(self._array())

    def __arrow_c_stream__(self, requested_schema=None):
        """A stream of one array, for those who take nothing else. Errors as of __arrow_c_array__."""
        self._check()
        left = [self._array]

        def get_schema(_, out):
            return _move(self._schema(), out)

        def get_next(_, out):
            if left:
                return _move(left.pop()(), out)
            out.contents.release = None
            return 0

        callbacks = _GET_SCHEMA(get_schema), _GET_NEXT(get_next), _LAST_ERROR(lambda _: None)
        return _capsules.make(_keep(ArrowArrayStream(*callbacks), _RELEASES[ArrowArrayStream], callbacks, left))


def _move(struct, out):
    """Gives a struct away. What it points to is kept by its private_data."""
    ctypes.memmove(out, ctypes.byref(struct), ctypes.sizeof(struct))
    return 0
