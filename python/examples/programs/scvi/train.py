"""scvi-tools' SCVI on cells of data.py, by model.train() with two processes.

    python3 -m torch.distributed.run --nproc-per-node 2 train.py FOLDER --loader own
    penstock-run -c FOLDER/run.yaml -- python3 train.py FOLDER --loader penstock

The own loader is annbatch's, which scvi-tools advises for cells on disk. Its data module gives every process all cells: here each
gets its share, by annbatch's DistributedSampler. `--loader anndata` is scvi-tools' AnnDataLoader, of all cells in memory.
"""

import argparse
import os
import pathlib
import signal
import sys
import warnings

import anndata
import lightning
import scvi
import torch
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from told import Told  # noqa: E402

warnings.filterwarnings("ignore")


def batch_of(folder):
    return yaml.safe_load((folder / "run.yaml").read_text(encoding="utf-8"))["batch"]["global_size"] // 2


def own(folder):
    from annbatch.samplers import DistributedSampler

    datamodule = scvi.model.SCVI.setup_annbatch(str(folder / "cells.zarr"), batch_key="donor", labels_key="kind", rebuild=False,
                                                batch_size=batch_of(folder), preload_to_gpu=False, shuffle=True)
    whole = datamodule.train_dataloader

    def share():
        loader = whole()
        loader._batch_sampler = DistributedSampler(loader._batch_sampler, dist_info="torch")
        return loader

    datamodule.train_dataloader = share
    return datamodule


def penstock(folder):
    from penstock.integrations.scvi import DataModule

    return DataModule(folder / "cells.zarr/dataset_0", batch_key="donor", labels_key="kind")


class Tells(lightning.Callback):
    def __init__(self, checkpoints, kill_at):
        self.told, self.checkpoints, self.kill_at = Told(), checkpoints, kill_at

    def on_train_batch_start(self, trainer, _module, batch, _index):
        if trainer.global_step == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.told.batch(trainer.global_step, batch["X"], batch["batch"], batch["labels"])

    def on_train_batch_end(self, trainer, *_):
        if self.checkpoints and trainer.global_step % 2 == 0:
            trainer.save_checkpoint(f"{self.checkpoints}/{trainer.global_step}.ckpt")

    def on_train_end(self, *_):
        self.told.end()


def idle(datamodule):
    torch.distributed.init_process_group("gloo")
    told = Told()
    for _ in range(2):
        for step, batch in enumerate(datamodule.train_dataloader()):
            batch = datamodule.on_before_batch_transfer(batch, 0)
            told.batch(step, batch["X"], batch["batch"], batch["labels"])
    told.end()
    torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--loader", choices=("own", "anndata", "penstock"), required=True)
    parser.add_argument("--steps", type=int, default=-1)
    parser.add_argument("--devices", type=int, default=2, help="processes that train together (%(default)s)")
    parser.add_argument("--checkpoints", help="a folder that gets a checkpoint every two steps")
    parser.add_argument("--resume", help="one of them")
    parser.add_argument("--kill-at", type=int, help="the step at which this process dies")
    parser.add_argument("--save", help="a folder that gets the model")
    parser.add_argument("--idle", action="store_true", help="take two epochs of batches, and train nothing; not with anndata")
    arguments = parser.parse_args()
    tiny = {"n_hidden": 16, "n_latent": 4, "gene_likelihood": "poisson"}
    if arguments.loader == "anndata":
        cells = anndata.read_h5ad(arguments.folder / "cells.h5ad")
        scvi.model.SCVI.setup_anndata(cells, batch_key="donor", labels_key="kind")
        model, data = scvi.model.SCVI(cells, **tiny), {"batch_size": batch_of(arguments.folder)}
    else:
        datamodule = (own if arguments.loader == "own" else penstock)(arguments.folder)
        model, data = scvi.model.SCVI(registry=datamodule.registry, **tiny), {"datamodule": datamodule}
    if arguments.idle:
        idle(datamodule)
        return
    strategy = "ddp_find_unused_parameters_true" if arguments.devices > 1 else "auto"
    model.train(max_epochs=2, max_steps=arguments.steps, train_size=1.0, accelerator="cpu", devices=arguments.devices,
                strategy=strategy, callbacks=[Tells(arguments.checkpoints, arguments.kill_at)], ckpt_path=arguments.resume,
                enable_progress_bar=False, logger=False, **data)
    if arguments.save and model.trainer.is_global_zero:
        model.save(arguments.save, **({} if arguments.loader == "anndata" else data))


if __name__ == "__main__":
    main()
