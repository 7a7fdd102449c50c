"""Megatron-core (0.15 or newer): the data iterator of its training step, over tokens in Zarr.

    data_iterator = penstock.integrations.megatron.Batches(micro_batch_size=2, seq_length=4096, eod=tokenizer.eod)

Each next() is a microbatch, as GPTDataset has it, on every rank; nobody broadcasts, and nobody cuts along cp:

    fields:
      tokens: {array: tokens, steps: "0:4096", segments: true, cut: {0: seq}}
      labels: {array: tokens, steps: "1:4097", cut: {0: seq}}
    cuts: {seq: {over: cp, order: zigzag}}
    batch: {global_size: 64}                          # global_batch_size
    delivery:
      trainers: 8
      mesh: [pp: 1, dp: 2, cp: 2, tp: 2]              # Megatron's groups; the last axis is fastest
      data: [dp]

With `segments: true` position_ids begin anew in each document (reset_position_ids). `eod`: as eod_mask_loss. Fields that a
stage of a pipeline has not (`only: {pp: first}`) are None. state_dict() is common state of megatron.core.dist_checkpointing,
the same on all ranks, and good for other groups.
"""

import torch

from penstock import Invalid

from ._microbatches import Microbatches

try:
    from megatron.core import parallel_state
except ImportError as error:
    raise ImportError(f"penstock.integrations.megatron needs megatron-core, 0.15 or newer: {error}") from error

NAMES = ("tokens", "labels", "loss_mask", "position_ids")


class Batches:
    """parallel_state is initialised before. `connect`: of penstock.connect(), as name."""

    def __init__(self, *, micro_batch_size, seq_length, eod=None, **connect):
        if not parallel_state.model_parallel_is_initialized():
            raise Invalid("Megatron's groups are not there yet: call parallel_state.initialize_model_parallel() first")
        groups = {"pp": "pipeline_model", "dp": "data", "cp": "context", "tp": "tensor_model"}
        self._places = {axis: tuple(getattr(parallel_state, f"get_{group}_parallel_{what}")() for what in ("rank", "world_size"))
                        for axis, group in groups.items()}
        self._seq_length, self._eod = seq_length, eod
        connect["coordinates"] = {name: rank for name, (rank, _) in self._places.items()}
        self.data = Microbatches(micro_batch_size, self._make, self._check, **connect)
        self._batches = None

    def _check(self, info):
        sizes = {axis.name: axis.size for axis in info.mesh}
        wanted = {name: size for name, (_, size) in self._places.items()}
        if sizes != wanted:
            raise Invalid(f"Megatron's groups are {wanted}, and delivery.mesh is {sizes}: give Megatron's sizes, in the order "
                          "pp, dp, cp, tp")
        if [axis.name for axis in info.mesh if axis.divides] != ["dp"]:
            raise Invalid("delivery.data has to be [dp]: Megatron's other groups share samples")
        lengths = {field.name: field.global_shape for field in info.fields if field.name in NAMES}
        if not lengths and wanted["pp"] == 1 or any(shape != (self._seq_length,) for shape in lengths.values()):
            found = ", ".join(f"{field.name} {list(field.global_shape)}" for field in info.fields)
            raise Invalid(f"Megatron trains on fields tokens and labels of seq_length = {self._seq_length}, and the run has "
                          f"{found}: mend dataset.fields")
        self._positions = {field.name: torch.from_numpy(field.positions()) for field in info.fields if field.name == "tokens"}
        if wanted["cp"] > 1 and any(not field.cuts for field in info.fields if field.name in NAMES):
            raise Invalid("context parallelism needs its parts: give tokens and labels cut: {0: seq}, and dataset.cuts "
                          "{seq: {over: cp, order: zigzag}}")

    def _make(self, batch):
        fields = {name: batch[name].long() for name in ("tokens", "labels") if name in batch}
        if "tokens" in fields:
            position = batch["tokens.position"].long() if "tokens.position" in batch else self._positions["tokens"]
            fields["position_ids"] = position.expand(fields["tokens"].shape)
        if "labels" in fields:
            fields["loss_mask"] = torch.ones(fields["labels"].shape)
            if self._eod is not None:
                fields["loss_mask"][self._tokens_of(fields) == self._eod] = 0
        return fields

    @staticmethod
    def _tokens_of(fields):
        if "tokens" not in fields:
            raise Invalid("eod masks the loss at the end of a document, which tokens tell: leave `only` of tokens out, or eod")
        return fields["tokens"]

    def __iter__(self):
        return self

    def __next__(self):
        self._batches = self._batches or iter(self.data)
        return {**dict.fromkeys(NAMES), **next(self._batches)}

    def state_dict(self):
        """Of dist_checkpointing.save({..., "data": batches.state_dict()}, FOLDER)."""
        return {"penstock": self.data.state()}

    def load_state_dict(self, state):
        self.data.load(state["penstock"])
