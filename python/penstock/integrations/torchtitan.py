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

import json
from dataclasses import dataclass

from penstock import Invalid
from penstock.torch import Loader

try:
    from torchtitan.components.dataloader import BaseDataLoader, DataloaderExhaustedError
except ImportError as error:
    raise ImportError(f"penstock.integrations.torchtitan needs torchtitan 0.3, with torchtitan.components.dataloader: {error}") from error
if not hasattr(BaseDataLoader, "Config"):
    raise ImportError("penstock.integrations.torchtitan needs torchtitan 0.3, whose data loaders are named by a configuration; this one is older")


class DataLoader(BaseDataLoader):
    """Batches of all epochs of the run; connects when the trainer asks for the first one, once a checkpoint is loaded."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        run_dir: str | None = None
        """Folder of the run (PENSTOCK_RUN_DIR)."""
        name: str = ""
        """Which run, of several (penstock-run --also)."""

    def __init__(self, config, *, dp_rank, dp_world_size, seq_len, local_batch_size, **_):
        self.loader = Loader(run_dir=config.run_dir, name=config.name)
        self._place, self._seq_len, self._rows = (dp_rank, dp_world_size), seq_len, local_batch_size
        self._state, self._left = "", 0

    def _check(self, info):
        shapes = {field.name: field.shape for field in info.fields}
        missing = [name for name in ("input", "labels") if shapes.get(name) != (self._seq_len,)]
        if missing:
            raise Invalid(f"torchtitan trains on fields input and labels of training.seq_len = {self._seq_len} tokens, and the run has "
                          f"{', '.join(f'{name} {list(shape)}' for name, shape in shapes.items())}: mend dataset.fields or seq_len")
        if (info.group, info.group_count) != self._place:
            raise Invalid(f"torchtitan counts this rank {self._place[0]} of {self._place[1]} that divide the batch, and the run {info.group} of "
                          f"{info.group_count}: delivery.mesh has to be [pp, dp_replicate, dp_shard, cp, tp] with torchtitan's degrees, "
                          "and delivery.data [dp_replicate, dp_shard]")
        if info.global_batch_size % (self._rows * info.group_count):
            raise Invalid(f"torchtitan takes {self._rows} samples at once on each of {info.group_count} ranks, and batch.global_size is "
                          f"{info.global_batch_size}: it has to be a multiple of {self._rows * info.group_count}")

    def __iter__(self):
        self._check(self.loader.info)
        for epoch in self.loader.epochs():
            for batch in epoch:
                tokens = {"input": batch["input"].long(), "labels": batch["labels"].long()}
                if "input.position" in batch:
                    tokens["positions"] = batch["input.position"].long()
                del batch
                for self._left in range(len(tokens["input"]) - self._rows, -1, -self._rows):
                    first = len(tokens["input"]) - self._left - self._rows
                    rows = {name: of[first:first + self._rows] for name, of in tokens.items()}
                    yield rows, rows.pop("labels")
        raise DataloaderExhaustedError

    def state_dict(self):
        if self.loader._loader is None:
            return {"penstock": self._state}
        if self._left:
            raise Invalid(f"torchtitan saves within a batch of the run, {self._left} of its samples before the end: batch.global_size has to "
                          "be the samples of one step of the optimizer (training.global_batch_size), or divide it")
        return {"penstock": json.dumps(self.loader.state_dict())}

    def load_state_dict(self, state):
        if not state or not state["penstock"]:
            return
        self._state = state["penstock"]
        self.loader.load_state_dict(json.loads(self._state))
