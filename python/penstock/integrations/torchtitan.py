"""torchtitan (0.3): a data loader for its trainer, over tokens in Zarr.

    config.dataloader = penstock.integrations.torchtitan.DataLoader.Config()

The run has the fields input and labels, int32 [seq_len]; with `segments: true` input.position becomes torchtitan's positions. Its
mesh is torchtitan's, and its batch all samples of a step of the optimizer, or a microbatch's:

    batch: {global_size: 64}
    delivery:
      trainers: 8
      mesh: [pp: 1, dp_replicate: 1, dp_shard: 4, cp: 1, tp: 2]
      data: [dp_replicate, dp_shard]

torchtitan saves the state with its checkpoints, once for all ranks: a later run may have other numbers of ranks.
"""

from dataclasses import dataclass

from penstock import Invalid

from ._microbatches import Microbatches

try:
    from torchtitan.components.dataloader import BaseDataLoader, DataloaderExhaustedError
except ImportError as error:
    raise ImportError("penstock.integrations.torchtitan needs torchtitan 0.3, with torchtitan.components.dataloader: "
                      f"{error}") from error
if not hasattr(BaseDataLoader, "Config"):
    raise ImportError("penstock.integrations.torchtitan needs torchtitan 0.3, whose data loaders are named by a configuration; "
                      "this one is older")


class DataLoader(BaseDataLoader):
    """Batches of all epochs of the run; connects when the trainer asks for the first one, once a checkpoint is loaded."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        run_dir: str | None = None
        """Folder of the run (PENSTOCK_RUN_DIR)."""
        name: str = ""
        """Which run, of several (penstock-run --also)."""

    def __init__(self, config, *, dp_rank, dp_world_size, seq_len, local_batch_size, **_):
        self._place, self._seq_len = (dp_rank, dp_world_size), seq_len
        self.data = Microbatches(local_batch_size, self._make, self._check, run_dir=config.run_dir, name=config.name)

    def _check(self, info):
        shapes = {field.name: field.shape for field in info.fields}
        missing = [name for name in ("input", "labels") if shapes.get(name) != (self._seq_len,)]
        if missing:
            found = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
            raise Invalid(f"torchtitan trains on fields input and labels of training.seq_len = {self._seq_len} tokens, and the run "
                          f"has {found}: mend dataset.fields or seq_len")
        if (info.group, info.group_count) != self._place:
            raise Invalid(f"torchtitan counts this rank {self._place[0]} of {self._place[1]} that divide the batch, and the run "
                          f"{info.group} of {info.group_count}: delivery.mesh has to be [pp, dp_replicate, dp_shard, cp, tp] with "
                          "torchtitan's degrees, and delivery.data [dp_replicate, dp_shard]")

    @staticmethod
    def _make(batch):
        fields = {"input": batch["input"].long(), "labels": batch["labels"].long()}
        if "input.position" in batch:
            fields["positions"] = batch["input.position"].long()
        return fields

    def __iter__(self):
        for fields in self.data:
            yield fields, fields.pop("labels")
        raise DataloaderExhaustedError

    def state_dict(self):
        return {"penstock": self.data.state()}

    def load_state_dict(self, state):
        self.data.load(state.get("penstock"))
