"""PhysicsNeMo (2.2 or newer): its DataLoader, with batches of Penstock.

    dataset = Dataset(ZarrReader("data.zarr", fields=["input", "target"]))    # of physicsnemo.datapipes
    loader = DataLoader(penstock.integrations.physicsnemo.Dataset(dataset))

Batches are the TensorDicts that DataLoader(dataset) makes. The run has the reader's fields, by their names, and says batch size
and order. The dataset's transforms are applied to each sample, and its device, if that is a GPU, gets the batches.

Domain parallelism: with the mesh of DistributedManager.initialize_mesh() a field that is cut (dataset.cuts) is a ShardTensor over
the axes that cut it, whose local tensor is all that this rank gets. The run then normalises (mean, std), and no transform.
"""

import penstock.torch
import torch
import torch.distributed
from penstock import Invalid

try:
    from physicsnemo.datapipes import IterableDatasetBase
    from physicsnemo.distributed import DistributedManager
    from physicsnemo.domain_parallel import ShardTensor
    from tensordict import TensorDict
    from torch.distributed.tensor import Shard
except ImportError as error:
    raise ImportError("penstock.integrations.physicsnemo needs PhysicsNeMo 2.2 or newer, with datapipes.IterableDatasetBase: "
                      f"{error}") from error


class _Parts:
    """Of a field that is cut: the mesh that its parts lie on, where they lie, and how large they are."""

    def __init__(self, field, mesh):
        axes = {name: cut.axis for cut in field.cuts for name in cut.over if name in mesh.mesh_dim_names}
        if len(axes) < len(field.cuts) or any(cut.second is not None or len(cut.over) > 1 for cut in field.cuts):
            raise Invalid(f"ShardTensor cannot express the parts of field '{field.name}', which is cut over "
                          f"{[cut.over for cut in field.cuts]}: cut an axis contiguously, over one axis of the mesh, and "
                          "another axis over another one")
        names = tuple(name for name in mesh.mesh_dim_names if name in axes)
        self.mesh = mesh[names]
        self.placements = [Shard(axes[name] + 1) for name in names]
        self._sizes = []  # of all parts along each axis of the mesh
        for number, placement in enumerate(self.placements):
            sizes = [None] * self.mesh.size(number)
            torch.distributed.all_gather_object(sizes, field.shape[placement.dim - 1], group=self.mesh.get_group(number))
            self._sizes.append(sizes)

    def tensor(self, local):
        """A ShardTensor, without communication."""
        shapes = {number: [(*local.shape[:placement.dim], size, *local.shape[placement.dim + 1:]) for size in sizes]
                  for number, (placement, sizes) in enumerate(zip(self.placements, self._sizes))}
        return ShardTensor.from_local(local, self.mesh, self.placements, sharding_shapes=shapes)


class Dataset(IterableDatasetBase):
    """For physicsnemo.datapipes.DataLoader, in the place of `dataset`, whose reader says which fields there are. `mesh`: the
    global mesh. Other arguments are those of penstock.torch.Loader. It connects when the first batch is asked for."""

    yields_batches = True

    def __init__(self, dataset, *, mesh=None, **connect):
        device = dataset.target_device
        if device is not None and device.type != "cpu":
            connect.setdefault("device", device)
        if mesh is None and DistributedManager.is_initialized():
            manager = DistributedManager()
            connect = {"rank": manager.rank, "world_size": manager.world_size, **connect}
        self.dataset, self.loader = dataset, penstock.torch.Loader(mesh=mesh, all_valid=True, **connect)
        self._mesh, self._parts = mesh, None  # parts: field -> _Parts, or None

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        if self._parts is None:
            self._parts = self._checked()
        return map(self._as_physicsnemo, self.loader)

    def _checked(self):
        info, (sample, _) = self.loader.info, self.dataset.reader[0]
        fields = {field.name: field for field in info.fields}
        for name, own in sample.items():
            found = fields[name].global_shape if name in fields else None
            if found != tuple(own.shape):
                what = "no such field" if found is None else f"samples of {list(found)}"
                raise Invalid(f"the reader's field '{name}' has samples of {list(own.shape)}, and the run has {what}: mend "
                              "dataset.fields. The store is a group whose arrays have all samples, not a group for each sample")
        if info.mesh and self._mesh is None:
            raise Invalid(f"by delivery.mesh ranks share samples, {dict(info.coordinates)} here: give Dataset() the mesh of "
                          "DistributedManager.initialize_mesh()")
        cut = [name for name in sample.keys() if fields[name].cuts]
        if cut and self.dataset.transforms is not None:
            raise Invalid(f"the dataset's transforms would get parts of {', '.join(cut)}: let the run normalise (mean, std), and "
                          "give Dataset() one without transforms")
        return {name: _Parts(fields[name], self._mesh) if name in cut else None for name in sample.keys()}

    def _as_physicsnemo(self, batch):
        if self.loader.info.is_shared and batch.valid.device.type == "cpu":
            batch.copy_out()  # a program may write to its batch
        data = TensorDict({name: parts.tensor(batch[name]) if parts else batch[name] for name, parts in self._parts.items()},
                          batch_size=batch.valid.shape, device=batch.valid.device)
        transforms = self.dataset.transforms
        return data if transforms is None else torch.stack([transforms(sample) for sample in data.unbind(0)])

    def set_generator(self, generator):
        self.dataset.set_generator(generator)

    def set_epoch(self, epoch):
        self.dataset.set_epoch(epoch)
        self.loader.set_epoch(epoch)

    def state_dict(self):
        return self.loader.state_dict()

    def load_state_dict(self, state):
        self.loader.load_state_dict(state)

    def close(self):
        self.loader.close()
