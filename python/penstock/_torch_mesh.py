"""Where a process is in torch's DeviceMesh, and fields of a batch as DTensor."""

import math

from ._errors import Invalid


def _words(sizes):
    return "[" + ", ".join(f"{name}: {size}" for name, size in sizes) + "]"


def _named(mesh):
    """Names and sizes of the axes of a DeviceMesh."""
    if not mesh.mesh_dim_names:
        raise Invalid("the DeviceMesh has no names: give init_device_mesh() mesh_dim_names, those of delivery.mesh")
    return dict(zip(mesh.mesh_dim_names, mesh.shape))


def coordinates_of(mesh):
    """Name of an axis -> (this process's coordinate, size), as penstock.connect() takes them."""
    sizes, at = _named(mesh), mesh.get_coordinate()
    if at is None:
        raise Invalid(f"this process is not in the DeviceMesh {_words(sizes.items())}: connect where it is")
    return {name: (here, size) for (name, size), here in zip(sizes.items(), at)}


class Place:
    """Knows of what a batch's fields are parts: what the service says of its mesh, and a DeviceMesh, or None."""

    def __init__(self, loader, mesh):
        self._info, self._mesh = loader.info, mesh
        self._axes = {axis.name: axis for axis in self._info.mesh}
        self._is_partial = loader.state()["last"] == "partial"

    def check(self):
        """Compares the DeviceMesh with a service that was not told its coordinates. Raises Invalid."""
        told = {name: at for name, at in coordinates_of(self._mesh).items() if at[1] > 1}
        known = {name: (axis.coordinate, axis.size) for name, axis in self._axes.items()}
        if any(known.get(name) != at for name, at in told.items()):
            raise Invalid(
                f"by the DeviceMesh this process is at {told} (coordinate and size of each axis), and by delivery.mesh it "
                f"is at {known}: give Loader() the mesh before it connects, or name and size the axes alike"
            )

    def dtensor(self, batch, name, mesh=None):
        """See torch.Batch.dtensor()."""
        from torch.distributed.tensor import DTensor, Replicate, Shard

        mesh, local = mesh or self._mesh, batch[name]
        if mesh is None:
            raise Invalid("a DTensor lies on a DeviceMesh: give Loader() or dtensor() mesh")
        if mesh.device_type != local.device.type:
            raise Invalid(
                f"field '{name}' is on {local.device.type}, and the DeviceMesh is of {mesh.device_type}: torch would copy, "
                "and wait for it. Give Loader() the device, or the mesh of another device type"
            )
        field = next(field for field in self._info.fields if field.name == name)
        sizes, shape = _named(mesh), list(local.shape)
        divided = dict.fromkeys(sizes)  # axis of the mesh -> axis of the tensor, or None
        self._divide_rows(batch, field, sizes, divided, shape)
        for cut in field.cuts:
            self._divide_axis(field, cut, sizes, divided, shape)
        placements = [Replicate() if axis is None else Shard(axis) for axis in divided.values()]
        strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
        return DTensor.from_local(local, mesh, placements, run_check=False, shape=tuple(shape), stride=strides)

    def _divide_rows(self, batch, field, sizes, divided, shape):
        unknown = {name: size for name, size in sizes.items() if size > 1 and name not in self._axes}
        known = [(axis.name, axis.size) for axis in self._info.mesh]
        if unknown or any(size != sizes.get(name, size) for name, size in known):
            raise Invalid(f"the DeviceMesh is {_words(sizes.items())}, and delivery.mesh {_words(known)}")
        data = [name for name in sizes if name in self._axes and self._axes[name].divides]
        groups = math.prod(sizes[name] for name in data)
        if groups > 1 and field.steps:
            raise Invalid(f"field '{field.name}' is ragged: groups have unequal numbers of items, and DTensor has none of these")
        if groups > 1 and not self._is_even(batch):
            raise Invalid(
                f"epoch {batch.epoch} step {batch.step} has a number of samples that need not divide among "
                f"{self._info.group_count} groups: set batch.global_size to a multiple of these, batch.last to drop or pad, and "
                "leave the budget out"
            )
        divided.update(dict.fromkeys(data, 0))
        shape[0] *= groups

    def _is_even(self, batch):
        """Whether all groups have equally many samples of the step."""
        info = self._info
        if not self._is_partial:
            return info.global_batch_size % info.group_count == 0
        left = info.dataset_samples - batch.step * info.global_batch_size
        return batch.bound == 0 and min(left, info.global_batch_size) % info.group_count == 0

    def _divide_axis(self, field, cut, sizes, divided, shape):
        over = [name for name in cut.over if self._axes[name].size > 1]
        inside = [name for name in sizes if name in over]
        if not inside:
            return  # the ranks of the mesh have one and the same part
        parts = math.prod(sizes[name] for name in inside)
        instead = (
            f"batch['{field.name}'] is this rank's part, and the positions({cut.axis}) of its Field say which indices it has"
        )
        if inside != over:
            reason = f"it is cut over {cut.over}, and the DeviceMesh has {tuple(inside)}"
        elif cut.second is not None:
            reason = "it is cut in zigzag"
        elif not cut.is_torch_chunk:
            reason = "its parts are not those of torch.chunk(); split: chunk makes such"
        elif len(inside) > 1 and cut.whole % parts:
            reason = f"{cut.whole} indices are no multiple of {parts} parts"
        elif any(divided[name] is not None for name in inside):
            reason = f"it is cut twice over {tuple(inside)}"
        else:
            divided.update(dict.fromkeys(inside, cut.axis + 1))
            shape[cut.axis + 1] = cut.whole
            return
        raise Invalid(f"DTensor cannot express field '{field.name}' along axis {cut.axis}: {reason}. {instead}")
