"""What the service delivers, and what a connection has done: Info, Field and Stats."""

import ctypes
import functools
import json
import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Dict, Optional, Tuple

import numpy as np

from ._errors import Invalid


_ALL_ONES = 2**64 - 1


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
class Axis:
    """An axis of the mesh of trainers (delivery.mesh), and where this trainer is along the axis. `divides`: the batch is
    divided along this axis; else it repeats."""

    name: str
    size: int
    coordinate: int
    divides: bool


@dataclass(frozen=True)
class Cut:
    """Along axis `axis` of a sample this trainer has a part of a field: of `whole` indices those from `begin` on, and
    with order: zigzag half of them from there and half from `second` on; else `second` is None. `over`: the axes of the
    mesh whose ranks have the parts, the last one fastest. `is_torch_chunk`: all parts are those of torch.chunk()."""

    axis: int
    whole: int
    begin: int
    second: Optional[int]
    over: Tuple[str, ...]
    is_torch_chunk: bool


@dataclass(frozen=True)
class Field:
    """One named tensor of a sample. `shape` is the shape of one sample. `dtype_name` is the field's
    dtype as the service delivers it: "bfloat16" also where `dtype` is uint16. `attributes` are those of
    the field's array in the store ("units", "long_name"); one that is too large (4 KiB) is None.

    A ragged field (deliver: csr) has another number of items in each sample, `most_items` in a batch at most.
    `shape` is then the shape of one item. `offsets` is the name of the field of its offsets. `steps` is above 0
    for a ragged field and for its offsets: how many steps a sample has.

    A field with `is_padded` (deliver: {pad: bound}) has samples of [batch.bound, *shape], another bound in each step.

    Of a field whose steps differ from epoch to epoch shape[0] is the most: batches of other epochs have the first of these.

    Of a field that is cut among the ranks of a group (dataset.cuts) `shape` is that of this trainer's part, and `cuts` says
    which part it is. `global_shape` is the shape of a whole sample."""

    name: str
    dtype: np.dtype
    dtype_name: str
    shape: Tuple[int, ...]
    attributes: Dict[str, Any] = field(default_factory=dict)
    most_items: int = 0
    steps: int = 0
    offsets: str = ""
    is_padded: bool = False
    cuts: Tuple[Cut, ...] = ()

    @property
    def global_shape(self):
        shape = list(self.shape)
        for cut in () if self.most_items else self.cuts:
            shape[cut.axis] = cut.whole
        return tuple(shape)

    def positions(self, axis=0):
        """int64 [shape[axis]]: which indices of the whole sample this trainer has along an axis: for RoPE, or to find
        the coordinates of a grid's part. Of a ragged field batch.csr(name).positions() tells."""
        if self.most_items:
            raise Invalid(f"'{self.name}' is ragged: positions differ from batch to batch; take batch.csr('{self.name}').positions()")
        count = self.shape[axis]
        for cut in self.cuts:
            if cut.axis == axis and cut.second is not None:
                half = np.arange(count // 2)
                return np.concatenate([cut.begin + half, cut.second + half])
            if cut.axis == axis:
                return cut.begin + np.arange(count)
        return np.arange(count)


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
    mesh: Tuple[Axis, ...]  # outermost axis first; () without delivery.mesh
    group: int  # ranks of a group have the same batches; without a mesh each rank is a group
    group_count: int
    is_shared: bool  # ranks of a group share the memory of batches, which is read-only

    @property
    def coordinates(self):
        """Axis of the mesh -> this trainer's coordinate."""
        return {axis.name: axis.coordinate for axis in self.mesh}

    @functools.cached_property
    def _offsets(self):
        """Of each field: None if its arrays have its shape behind the samples; else which field has its offsets, or -1."""
        numbers = {field.name: i for i, field in enumerate(self.fields)}
        return tuple(numbers.get(f.offsets, -1) if f.most_items or f.steps or f.is_padded else None for f in self.fields)

    @functools.cached_property
    def _bfloat16(self):
        return frozenset(field.name for field in self.fields if field.dtype_name == "bfloat16")


def _field(library, raw):
    """Of a field, or of a constant."""
    dtype_name = library.penstock_dtype_name(raw.dtype).decode()
    shape = tuple(raw.shape[d] for d in range(raw.rank))
    name = raw.name.decode()
    return Field(name, _numpy_dtype(dtype_name, name), dtype_name, shape, json.loads(raw.attributes))


def _cut(raw, mesh):
    second = None if raw.second == _ALL_ONES else raw.second
    over = tuple(mesh[number].name for number in raw.over[: raw.over_count])
    return Cut(raw.axis, raw.whole, raw.begin, second, over, bool(raw.is_torch_chunk))


def _items(field, raw, fields, mesh):
    """`field` with what C says of a ragged one, or of one that is cut. `fields`: all of them, as C has them."""
    if raw.is_padded:
        return replace(field, is_padded=True)
    cuts = tuple(_cut(cut, mesh) for cut in raw.cuts[: raw.cut_count])
    offsets = fields[raw.offsets_field].name.decode() if raw.most_items else ""
    return replace(field, most_items=raw.most_items, steps=raw.steps, offsets=offsets, cuts=cuts)


def info_of(library, connection):
    raw = library.penstock_describe(connection).contents
    describe = functools.partial(_field, library)
    raw_fields = raw.fields[: raw.field_count]
    fields = tuple(map(describe, raw_fields))
    mesh = tuple(Axis(a.name.decode(), a.size, a.coordinate, bool(a.divides)) for a in raw.axes[: raw.axis_count])
    fields = tuple(_items(field, part, raw_fields, mesh) for field, part in zip(fields, raw_fields))
    constants = tuple(map(describe, raw.constants[: raw.constant_count]))
    rest = ("fields", "constants", "mesh", "is_shared")
    numbers = {n: getattr(raw, n) for n in Info.__dataclass_fields__ if n not in rest}
    return Info(fields=fields, constants=constants, mesh=mesh, is_shared=bool(raw.is_shared), **numbers)


def constants_of(library, connection, info):
    """Read-only arrays of copies, which outlive the connection. The copies are in memory that may be
    written to: torch warns of tensors of any other."""
    raw = library.penstock_describe(connection).contents
    arrays = {}
    for i, constant in enumerate(info.constants):
        data = bytearray(ctypes.string_at(raw.constants[i].data, raw.constants[i].bytes))
        arrays[constant.name] = np.frombuffer(data, constant.dtype).reshape(constant.shape)
        arrays[constant.name].flags.writeable = False
    return arrays
