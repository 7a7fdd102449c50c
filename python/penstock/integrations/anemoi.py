"""anemoi-training (0.17.1): its data module, with training batches of Penstock.

    class Trainer(AnemoiTrainer):
        @functools.cached_property
        def datamodule(self):
            return DataModule(self.config, self.task)

Statistics, indices of variables and validation stay anemoi's, and the model normalises. The run has a field for each dataset, of its
name, with the task's steps (from the epoch on in which the rollout grows, more of them), and the dates of these steps:

    fields:
      data: {array: data, steps: {0: "-1:2", 1: "-1:3"}}
      dates: {array: dates, steps: {0: "-1:2", 1: "-1:3"}}

Ranks that share a model, or a part of it (num_gpus_per_model, num_gpus_per_ensemble), are a group of the run. With
dataloader.read_group_size the grid is cut over the mesh, `split: even`.
"""

import numpy as np

import penstock
import penstock.torch

try:
    from anemoi.training.data.datamodule import AnemoiDatasetsDataModule
    from anemoi.training.data.relative_time_indices import compute_relative_date_indices
except ImportError as error:
    raise ImportError(f"penstock.integrations.anemoi was made for anemoi-training 0.17.1: {error}") from error

LAYOUT = (0, 1, 3, 4, 2)  # samples, dates, variables, members, cells of a run -> samples, dates, members, cells, variables


class _Loader(penstock.torch.Loader):
    """What Lightning iterates. anemoi's strategies tell `dataset` who this rank is."""

    def __init__(self, module, **connect):
        super().__init__(all_valid=True, **connect)
        self.dataset, self._module = self, module
        self._groups, self._parts = None, {}

    def set_comm_group_info(self, _rank, group, _group_rank, groups, reader_rank, _reader_ranks, shard_sizes):
        self._groups = group, groups
        self._parts = {name: (sum(sizes[:reader_rank]), sum(sizes[:reader_rank + 1]))
                       for name, sizes in (shard_sizes or {}).items() if sizes is not None}

    def set_ens_comm_group_info(self, group, _group_rank, groups):
        self._groups = group, groups

    def __iter__(self):
        self._is_first = True
        return map(self._as_anemoi, super().__iter__())

    def _as_anemoi(self, batch):
        """{dataset: [samples, dates, members, cells, variables]}: views of the batch, with the dates of the task's rollout."""
        offsets = self._module.offsets()
        if self._is_first:  # by now the strategy has told the groups
            self._is_first = False
            self._check()
            self._check_dates(batch["dates"], offsets)
            for name in offsets:
                self._check_values(name, batch)
        if self.info.is_shared and self._device is None:
            batch.copy_out()  # the model normalises in place
        return {name: batch[name][:, :len(steps)].permute(LAYOUT) for name, steps in offsets.items()}

    def _check(self):
        """That the run's fields, groups and parts are those that anemoi-training has told."""
        fields, readers, info = {field.name: field for field in self.info.fields}, self._module.ds_train.data_readers, self.info
        missing = [name for name in (*readers, "dates") if name not in fields]
        if missing:
            raise penstock.Invalid(f"the run has no field {', '.join(missing)}, but {', '.join(fields)}: dataset.fields needs one for each "
                                   "dataset of dataloader.training, and dates, all with the task's steps")
        if self._groups not in (None, (info.group, info.group_count)):
            raise penstock.Invalid(f"anemoi-training's rank is in group {self._groups[0]} of {self._groups[1]} that get samples of their "
                                   f"own, and the run's in group {info.group} of {info.group_count}: let delivery.trainers be the number of "
                                   "processes, and the axes in delivery.mesh that are not in delivery.data as long as "
                                   "system.hardware.num_gpus_per_model (of ensembles num_gpus_per_ensemble)")
        size = self._module.config.dataloader.batch_size.training
        if info.global_batch_size != size * info.group_count:
            raise penstock.Invalid(f"dataloader.batch_size.training is {size} for each of {info.group_count} groups of ranks, and "
                                   f"batch.global_size is {info.global_batch_size}: it has to be {size * info.group_count}")
        for name, reader in readers.items():
            self._check_field(fields[name], reader)

    def _check_field(self, field, reader):
        _, variables, members, cells = reader.data.shape
        begin, end = self._parts.get(field.name, (0, cells))
        if len(field.shape) != 4 or field.global_shape[1:] != (variables, members, cells):
            raise penstock.Invalid(f"samples of the field '{field.name}' are {list(field.global_shape)}, and anemoi-training's dataset of that "
                                   f"name has [dates, {variables}, {members}, {cells}] (variables, members, cells): read the same dataset, "
                                   "and select variables by a slice of the field")
        if not np.array_equal(field.positions(3), np.arange(begin, end)):
            raise penstock.Invalid(f"this rank's part of '{field.name}' is {field.shape[3]} of {cells} cells, and anemoi-training's is "
                                   f"{begin} to {end}: cut the grid with split: even over an axis of dataloader.read_group_size ranks")

    def _check_dates(self, dates, offsets):
        for name, steps in offsets.items():
            reader = self._module.ds_train.data_readers[name]
            known = reader.data.dates.astype("M8[s]").astype(np.int64)
            wanted = (np.array(steps) - steps[0]) * int(reader.frequency.total_seconds())
            have = dates[:, :len(steps)].cpu().numpy()
            if have.shape[1] < len(steps) or (have - have[:, :1] != wanted).any():
                raise penstock.Invalid(f"a sample of the run has the dates {have[0].astype('M8[s]').tolist()}, and in this epoch "
                                       f"anemoi-training's task takes the steps {list(steps)} of '{name}': these are the field's steps, and "
                                       "those of dates. A rollout that grows needs steps by epoch")
            if have.min() < known[0] or have.max() > known[-1]:
                raise penstock.Invalid(f"a sample of the run has dates from {np.datetime64(have.min(), 's')} to "
                                       f"{np.datetime64(have.max(), 's')}, and dataloader.training has {reader.data.dates[0]} to "
                                       f"{reader.data.dates[-1]}: give the run the same range (samples.split.range)")


    def _check_values(self, name, batch):
        """That variables are in the order of anemoi-training's: the first date of a sample, up to what a cast leaves."""
        data, own = self._module.ds_train.data_readers[name].data, batch[name][0, 0].float().cpu().numpy()
        begin, end = self._parts.get(name, (0, data.shape[3]))
        row = int(np.searchsorted(data.dates.astype("M8[s]").astype(np.int64), int(batch["dates"][0, 0])))
        same = np.isclose(own, data[row][..., begin:end], rtol=0.02, equal_nan=True).all(axis=(1, 2))
        if not same.all():
            wrong = ", ".join(np.array(data.variables)[~same])
            raise penstock.Invalid(f"{wrong} of the field '{name}' are not what anemoi-training's dataset has at {data.dates[row]}: read the "
                                   "same dataset, and let a slice of the field name variables in the dataset's order")


class DataModule(AnemoiDatasetsDataModule):
    """As AnemoiDatasetsDataModule. `connect`: as of penstock.torch.Loader, such as device="cuda"."""

    def __init__(self, config, task, **connect):
        super().__init__(config, task)
        self.loader = _Loader(self, **connect)

    def offsets(self):
        """{dataset: its steps in the current rollout}."""
        return compute_relative_date_indices(self.task, self.ds_train.data_readers, mode="training")

    def train_dataloader(self):
        return self.loader
