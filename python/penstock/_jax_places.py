"""Which block of a global jax.Array this process has: the rows of its group, and its parts of fields that are cut."""

import math
from dataclasses import dataclass
from typing import Dict

import jax

from ._errors import Invalid


@dataclass(frozen=True)
class Block:
    """Along an axis a global array has `count` blocks of equal lengths. `numbers`: process -> which of them it has, of this
    process and of all others of which that is known."""

    count: int
    numbers: Dict[int, int]

    @property
    def own(self):
        return self.numbers.get(jax.process_index(), 0)


@dataclass(frozen=True)
class Place:
    """Where a field lies: `blocks` of its array's axes that processes divide."""

    sharding: jax.sharding.Sharding
    blocks: Dict[int, Block]

    def put(self, local):
        """A global array, of which `local` is what this process has."""
        if self.sharding.is_fully_addressable:
            return jax.device_put(local, self.sharding)
        shape = self.shape_of(local.shape)

        def part(index):
            return local[tuple(self._within(local, shape, axis, of) for axis, of in enumerate(index))]

        dtype = {} if self.sharding.addressable_devices else {"dtype": local.dtype}
        return jax.make_array_from_callback(shape, self.sharding, part, **dtype)

    def shape_of(self, local_shape):
        return tuple(length * self.blocks[axis].count if axis in self.blocks else length for axis, length in enumerate(local_shape))

    def _within(self, local, shape, axis, of):
        if axis not in self.blocks:
            return of
        begin, end, _ = of.indices(shape[axis])
        first = self.blocks[axis].own * local.shape[axis]
        return slice(begin - first, end - first)


def rows_alone(sharding):
    """For an array that has a step's samples and no axis of a field: the first axis's part of the sharding."""
    if not isinstance(sharding, jax.sharding.NamedSharding):
        return sharding
    spec = jax.sharding.PartitionSpec(*sharding.spec[:1])
    return jax.sharding.NamedSharding(sharding.mesh, spec, memory_kind=sharding.memory_kind)


def words(sharding):
    if not isinstance(sharding, jax.sharding.NamedSharding):
        return str(sharding)
    axes = ", ".join(f"{name}: {size}" for name, size in sharding.mesh.shape.items())
    return f"{sharding.spec} over the mesh ({axes})"


def _coordinates(info, rank):
    out = {}
    for axis in reversed(info.mesh):
        rank, out[axis.name] = divmod(rank, axis.size)
    return out


def _number(info, names, rank):
    """A rank's number among those that differ along these axes of the mesh, the last one fastest."""
    at, number = _coordinates(info, rank), 0
    for axis in sorted((axis for axis in info.mesh if axis.name in names), key=lambda axis: names.index(axis.name)):
        number = number * axis.size + at[axis.name]
    return number


class Places:
    """Finds places, and refuses shardings that do not fit. Processes come to the same end here where they can, so that none
    waits for another one: by a mesh, process number i is taken for rank i, unless this one was told otherwise."""

    def __init__(self, loader):
        info = self._info = loader.info
        self._data = [axis.name for axis in info.mesh if axis.divides]
        self._knows_all = bool(info.mesh) and not loader._is_placed and info.rank == jax.process_index()

    def rows(self, sharding):
        """Of an array that has a step's samples alone."""
        return self._place("an array", sharding, (self._info.batch_size,), {0: self._rows(sharding)})

    def field(self, field, sharding):
        """Of a field that is not ragged."""
        blocks = {0: self._rows(sharding)}
        for cut in field.cuts:
            blocks[cut.axis + 1] = self._part(field, cut, sharding)
        bound = (1,) if field.is_padded else ()
        return self._place(f"field '{field.name}'", sharding, (self._info.batch_size, *bound, *field.shape), blocks)

    def divide_rows(self, rows):
        """Whether a step's samples are divided among devices. `rows`: of rows()."""
        indices = rows.sharding.devices_indices_map(rows.shape_of((self._info.batch_size,)))
        return len({(index[0].start, index[0].stop) for index in indices.values()}) > 1

    def _block(self, sharding, count, number, what):
        """Of `count` blocks, of which each rank has one. `number`: a rank's."""
        info, me = self._info, jax.process_index()
        processes = sorted({device.process_index for device in sharding.device_set})
        if len(processes) == info.world_size and not self._knows_all or processes == [me]:
            numbers = {me: number(info.rank)}
        elif len(processes) < info.world_size and info.rank != me:
            raise Invalid(
                f"the sharding, {words(sharding)}, has devices of {len(processes)} of {info.world_size} processes, and this one, "
                f"{me}, is trainer {info.rank}: make the mesh of jax.devices()"
            )
        else:
            numbers = {process: number(process) for process in processes}
        if len(processes) == info.world_size:
            return Block(count, numbers)
        there = sorted(set(numbers.values()))
        if len(there) not in (1, count):
            raise Invalid(
                f"the sharding, {words(sharding)}, has devices of {len(processes)} of {info.world_size} processes, which have "
                f"{len(there)} of {count} {what}: the others have no place. Make the mesh of jax.devices()"
            )
        return Block(len(there), {process: there.index(at) for process, at in numbers.items()})

    def _rows(self, sharding):
        info = self._info
        group = (lambda rank: _number(info, self._data, rank)) if info.mesh else (lambda rank: rank)
        return self._block(sharding, info.group_count, group, "groups' samples")

    def _part(self, field, cut, sharding):
        sizes = {axis.name: axis.size for axis in self._info.mesh}
        parts = math.prod(sizes[name] for name in cut.over)
        number = lambda rank: _number(self._info, cut.over, rank)
        block = self._block(sharding, parts, number, f"parts of field '{field.name}'")
        if block.count > 1 and (cut.whole % parts or not (cut.is_torch_chunk or cut.second is not None)):
            raise Invalid(
                f"field '{field.name}' is cut into {parts} parts of unequal lengths along axis {cut.axis}, and those of a "
                "jax.Array are equal: leave split out, or give batches() a sharding for the field whose devices are of this "
                "process alone (fields)"
            )
        return block

    def _place(self, what, sharding, local_shape, blocks):
        place = Place(sharding, blocks)
        shape = place.shape_of(local_shape)
        indices = self._indices(sharding, shape, what)
        for axis, block in blocks.items():
            for process in sorted({device.process_index for device in indices}) if block.count > 1 else ():
                runs = [index[axis].indices(shape[axis]) for device, index in indices.items() if device.process_index == process]
                begin, end = min(run[0] for run in runs), max(run[1] for run in runs)
                number = begin // local_shape[axis]
                if number != (end - 1) // local_shape[axis]:
                    self._refuse_several(what, sharding, axis, process, begin, end, shape)
                if number != block.numbers.get(process, number):
                    self._refuse_another(what, sharding, axis, process, begin, end, number)
        return place

    def _indices(self, sharding, shape, what):
        try:
            return sharding.devices_indices_map(shape)
        except (ValueError, TypeError, IndexError, NotImplementedError) as error:
            raise Invalid(
                f"{what} of shape {list(shape)}, of the samples of all processes, cannot lie as {words(sharding)} says: "
                f"{' '.join(str(error).split())}. Shard the first axis alone, by a number of devices that divides the "
                "samples (batch.global_size), and other axes in the jitted function: jax.lax.with_sharding_constraint(); "
                "or give batches() a sharding of its own for the field (fields)"
            ) from error

    def _refuse_several(self, what, sharding, axis, process, begin, end, shape):
        if axis == 0:
            owner = "Each group of processes" if self._info.mesh else "Each process"
            raise Invalid(
                f"with the sharding, {words(sharding)}, process {process} has rows {begin} to {end - 1} of the {shape[0]} "
                f"samples of a step. {owner} has {self._info.batch_size} samples of its own to give, which are consecutive "
                f"rows, and no other one has these. {self._advice(sharding)}"
            )
        raise Invalid(
            f"{what}: with the sharding, {words(sharding)}, process {process} has indices {begin} to {end - 1} of axis {axis} of "
            f"{shape[axis]}, which are those of several parts. The service cuts that axis (dataset.cuts): shard it over the "
            "processes that the parts are for, by a sharding of its own for the field (batches(fields=...))"
        )

    def _refuse_another(self, what, sharding, axis, process, begin, end, number):
        info = self._info
        who = "this process" if process == jax.process_index() else f"process {process}"
        order = "make the mesh of jax.devices() in the order of delivery.mesh, or tell connect() the coordinates of each process"
        if axis > 0:
            raise Invalid(
                f"{what}: with the sharding, {words(sharding)}, {who} has indices {begin} to {end - 1} of axis {axis}, "
                f"which are part {number}, and its trainer has another one: {order}"
            )
        if info.mesh:
            raise Invalid(
                f"with the sharding, {words(sharding)}, {who} has rows {begin} to {end - 1} of a step, which are those "
                f"of group {number}, and its trainer is of another group: {order}"
            )
        raise Invalid(
            f"with the sharding, {words(sharding)}, this process has rows {begin} to {end - 1} of a step, which are "
            f"those of rank {number}, and it is trainer {info.rank}: give connect() that rank (and "
            "world_size), or make the mesh of jax.devices() in their order"
        )

    def _advice(self, sharding):
        if not isinstance(sharding, jax.sharding.NamedSharding):
            return 'Write NamedSharding(Mesh(jax.devices(), "data"), PartitionSpec("data")).'
        if self._info.mesh:
            axes = ", ".join(f"{axis.name}: {axis.size}" for axis in self._info.mesh)
            return (
                "Give batches() a PartitionSpec whose first axis is divided as delivery.data says, "
                f"{self._data}, over a mesh of jax.devices() in the order of delivery.mesh, [{axes}]."
            )
        names = ", ".join(f"'{name}'" for name in sharding.mesh.axis_names)
        every = f"({names})" if len(sharding.mesh.axis_names) > 1 else names
        return (
            f"Give batches() PartitionSpec({every}) over a mesh of jax.devices() in their order. Where processes are to "
            "share samples (a model axis), say so in delivery.mesh, or have the jitted function do that: "
            "jax.lax.with_sharding_constraint(array, sharding), with the sharding above, gathers them."
        )
