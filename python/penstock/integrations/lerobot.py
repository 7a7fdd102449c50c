"""LeRobot: batches for its policies, of a dataset that `penstock import lerobot` wrote.

    loader = penstock.integrations.lerobot.Loader(dataset_metadata, delta_timestamps)
    for epoch in loader.epochs():
        for batch in epoch:
            loss, _ = policy.forward(preprocessor(batch))

A batch is what a DataLoader makes of LeRobotDataset(delta_timestamps=...): tensors by the features' names, KEY_is_pad for each key of
delta_timestamps, and `task`, a list of texts. Nothing else is copied. Steps of the run's fields are delta_timestamps times the frames a
second, so that -0.1 s to 0 s are "-1:1" at 10; pictures have `mean: 0, std: 255`.
"""

import penstock.torch
from penstock import Invalid

TASKS = "meta/tasks"


class Batch(penstock.torch.Batch):
    __slots__ = ()

    def copy_out(self):
        task = self.pop("task")
        super().copy_out()
        self["task"] = task


class Loader(penstock.torch.Loader):
    """penstock.torch.Loader, with LeRobot's names. `metadata`: a LeRobotDatasetMetadata, of LeRobot 0.4; the other arguments are
    those of penstock.torch.Loader."""

    def __init__(self, metadata, delta_timestamps=None, **more):
        super().__init__(all_valid=True, **more)
        self._shapes = {name: self._shape(feature, (delta_timestamps or {}).get(name)) for name, feature in metadata.features.items()}
        self._padded = list(delta_timestamps or {})
        self._tasks = None

    @staticmethod
    def _shape(feature, steps):
        """Of a sample."""
        shape = tuple(feature["shape"])
        if feature["dtype"] in ("video", "image"):
            shape = (shape[2], *shape[:2])
        return (*([] if steps is None else [len(steps)]), *(() if shape == (1,) else shape))

    def _begin(self, loader):
        found = {field.name: field.shape for field in loader.info.fields}
        for name, shape in self._shapes.items():
            if found.get(name) != shape:
                what = f"samples of {list(found[name])}" if name in found else "no such field"
                raise Invalid(f"LeRobot's feature '{name}' with its delta_timestamps has samples of {list(shape)}, and the run has {what}: mend "
                              "dataset.fields, whose steps are delta_timestamps times the frames a second")
        if TASKS not in loader.constants:
            raise Invalid(f"the run has no texts of tasks: write dataset.constants: [{TASKS}]")
        super()._begin(loader)
        self._tasks = [bytes(text).rstrip(b"\0").decode() for text in loader.constants[TASKS]]

    def _next(self):
        batch = super()._next()
        if batch is None:
            return None
        batch.__class__ = Batch
        valid = batch.valid_of
        for name in self._padded:
            batch[f"{name}_is_pad"] = ~valid[name] if name in valid else batch[name].new_zeros(batch[name].shape[:2], dtype=bool)
        for name in list(valid):
            batch.pop(f"{name}.valid", None)
        batch["task"] = [self._tasks[number] for number in batch["task_index"].tolist()]
        return batch
