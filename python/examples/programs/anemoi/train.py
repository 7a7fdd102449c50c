"""A small forecaster on weather of data.py, by Lightning with anemoi-training's data module, task and strategy, and two processes.

    python3 -m torch.distributed.run --nproc-per-node 2 train.py FOLDER --loader own
    penstock-run -c FOLDER/run.yaml -- python3 train.py FOLDER --loader penstock

The model stands in for anemoi's graph transformers, and rolls out as they do. With `--share 2` both processes train on one sample,
each on half of the grid (num_gpus_per_model and dataloader.read_group_size).
"""

import argparse
import os
import pathlib
import signal
import sys
import warnings

import pytorch_lightning
import torch
import yaml
from anemoi.models.distributed.balanced_partition import get_balanced_partition_sizes
from anemoi.training.data.datamodule import AnemoiDatasetsDataModule
from anemoi.training.distributed.strategy import DDPGroupStrategy
from anemoi.training.tasks import Forecaster
from omegaconf import OmegaConf
from pytorch_lightning.callbacks import ModelCheckpoint

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from told import Told  # noqa: E402

warnings.filterwarnings("ignore")
WORKERS = 2


def config_of(folder, share, reads):
    run = yaml.safe_load((folder / "run.yaml").read_text(encoding="utf-8"))
    end = run["samples"]["split"]["range"][1:] + ":00:00"
    part = {"datasets": {"data": {"dataset_config": {"dataset": str(folder / reads)}, "start": None, "end": end}}}
    number = dict.fromkeys(("training", "validation", "test"), 1)
    return OmegaConf.create({"dataloader": {
        "training": part, "validation": part, "test": part, "pin_memory": False, "prefetch_factor": 2, "persistent_workers": True,
        "batch_size": {**number, "training": run["batch"]["global_size"] * share // 2}, "num_workers": {**number, "training": WORKERS}}})


class Model(pytorch_lightning.LightningModule):
    def __init__(self, task, datamodule, share, idle):
        super().__init__()
        self.task = task
        self.automatic_optimization = not idle
        _, variables, _, cells = datamodule.ds_train.data_readers["data"].data.shape
        self.shard_sizes = {"data": get_balanced_partition_sizes(cells, share)}
        statistics = datamodule.statistics["data"]
        self.register_buffer("mean", torch.tensor(statistics["mean"]).float())
        self.register_buffer("stdev", torch.tensor(statistics["stdev"]).float())
        self.net = torch.nn.Linear(2 * variables, variables)

    def set_model_comm_group(self, *_):
        """Tells groups, of which a model without exchange needs none."""

    set_reader_groups = set_model_comm_group

    def training_step(self, batch, _):
        if not self.automatic_optimization:
            return None
        states = (batch["data"] - self.mean) / self.stdev  # [samples, dates, members, cells, variables]
        before, now, loss = states[:, 0], states[:, 1], 0
        for coming in states[:, 2:].unbind(1):
            before, now = now, now + self.net(torch.cat([before, now], -1))
            loss = loss + (now - coming).square().mean()
        return loss

    def on_train_epoch_end(self):
        self.task.on_train_epoch_end(self.current_epoch)
        self.trainer.datamodule.set_epoch(self.current_epoch + 1)

    def on_save_checkpoint(self, checkpoint):
        checkpoint["task"] = self.task.training_runtime_state_dict()

    def on_load_checkpoint(self, checkpoint):
        self.task.load_training_runtime_state_dict(checkpoint["task"])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


class Tells(pytorch_lightning.Callback):
    def __init__(self, kill_at):
        self.told, self.kill_at = Told(), kill_at

    def on_train_batch_start(self, trainer, _module, batch, _index):
        if trainer.global_step == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.told.batch(trainer.global_step, batch["data"])

    def on_train_end(self, *_):
        self.told.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--loader", choices=("own", "penstock"), required=True)
    parser.add_argument("--steps", type=int, default=-1)
    parser.add_argument("--idle", action="store_true", help="take all batches, and train nothing")
    parser.add_argument("--rollout", type=int, default=1, help="steps of the forecast, from the second epoch on")
    parser.add_argument("--share", type=int, default=1, help="processes that train on one sample")
    parser.add_argument("--dataset", default="data.zarr", help="another one in FOLDER, for anemoi-training alone")
    parser.add_argument("--checkpoints", help="a folder that gets a checkpoint every two steps")
    parser.add_argument("--resume", help="one of them")
    parser.add_argument("--kill-at", type=int, help="the step at which this process dies")
    arguments = parser.parse_args()
    config = config_of(arguments.folder, arguments.share, arguments.dataset)
    task = Forecaster(2, 1, "6h", {"start": 1, "epoch_increment": int(arguments.rollout > 1), "maximum": arguments.rollout})
    if arguments.loader == "penstock":
        from penstock.integrations.anemoi import DataModule

        datamodule = DataModule(config, task)
    else:
        datamodule = AnemoiDatasetsDataModule(config, task)
    datamodule.val_dataloader = lambda: ()
    callbacks = [Tells(arguments.kill_at)]
    if arguments.checkpoints:
        callbacks.append(ModelCheckpoint(arguments.checkpoints, "{step}", every_n_train_steps=2, save_top_k=-1))
    trainer = pytorch_lightning.Trainer(
        accelerator="cpu", devices=2, max_epochs=3, max_steps=arguments.steps, use_distributed_sampler=False, callbacks=callbacks,
        strategy=DDPGroupStrategy(arguments.share, arguments.share, process_group_backend="gloo"), limit_val_batches=0,
        enable_checkpointing=bool(arguments.checkpoints), enable_progress_bar=False, enable_model_summary=False, logger=False)
    model = Model(task, datamodule, arguments.share, arguments.idle)
    trainer.fit(model, datamodule=datamodule, ckpt_path=arguments.resume, weights_only=False)


if __name__ == "__main__":
    main()
