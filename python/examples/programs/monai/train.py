"""MONAI's SupervisedTrainer on crops of volumes of data.py, with two processes.

    python3 -m torch.distributed.run --nproc-per-node 2 train.py FOLDER --loader own
    penstock-run -c FOLDER/run.yaml -- python3 train.py FOLDER --loader penstock

The own loader is CacheDataset, in which MONAI keeps volumes in memory, with RandSpatialCropd. MONAI has no reader of Zarr:
Volumes is one.
"""

import argparse
import os
import pathlib
import signal
import sys

import ignite.engine
import monai
import torch
import yaml
import zarr
from monai.handlers import CheckpointLoader, CheckpointSaver

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from told import Told  # noqa: E402

KEYS = ("image", "label")


class Volumes(monai.transforms.Transform):
    """The whole first levels of a volume's image and label, [channel, z, y, x]."""

    def __call__(self, path):
        group = zarr.open_group(path, mode="r")
        image, label = (group[level][0].astype("f4") for level in ("s0", "labels/cells/s0"))
        return {"image": image / 512, "label": label}


def own(folder, run):
    crop = run["dataset"]["fields"]["image"]["crop"]["z"]
    crops = monai.transforms.RandSpatialCropd(KEYS, (crop, crop, crop), random_size=False)
    volumes = monai.data.CacheDataset([folder / name for name in run["dataset"]["uri"]],
                                      monai.transforms.Compose([Volumes(), crops]), num_workers=2, progress=False)
    sampler = monai.data.DistributedSampler(volumes, shuffle=True)
    return monai.data.DataLoader(volumes, batch_size=run["batch"]["global_size"] // 2, sampler=sampler, num_workers=2,
                                 persistent_workers=True)


def penstock(*_):
    import penstock.torch

    return penstock.torch.Loader(all_valid=True)


def idle(loader, run):
    told, step = Told(), 0
    for epoch in range(run["order"]["epochs"]):
        if hasattr(loader, "sampler"):
            loader.sampler.set_epoch(epoch)
        for batch in loader:
            told.batch(step, *(batch[key] for key in KEYS))
            step += 1
    told.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--loader", choices=("own", "penstock"), required=True)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--idle", action="store_true", help="take all batches, and train nothing")
    parser.add_argument("--checkpoints", help="a folder that gets a checkpoint at each step")
    parser.add_argument("--resume", help="one of them")
    parser.add_argument("--kill-at", type=int, help="the step at which this process dies")
    arguments = parser.parse_args()
    run = yaml.safe_load((arguments.folder / "run.yaml").read_text(encoding="utf-8"))
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    loader = (own if arguments.loader == "own" else penstock)(arguments.folder, run)
    if arguments.idle:
        idle(loader, run)
        return
    network = torch.nn.parallel.DistributedDataParallel(torch.nn.Conv3d(1, 1, 3, padding=1))
    trainer = monai.engines.SupervisedTrainer(
        device=torch.device("cpu"), max_epochs=run["order"]["epochs"], train_data_loader=loader, network=network,
        optimizer=(optimizer := torch.optim.SGD(network.parameters(), lr=0.1)), loss_function=monai.losses.DiceLoss(sigmoid=True))
    state = {"network": network, "optimizer": optimizer, "trainer": trainer, "loader": loader}
    if arguments.resume:
        CheckpointLoader(arguments.resume, state, map_location="cpu").attach(trainer)
    if arguments.checkpoints:
        CheckpointSaver(arguments.checkpoints, state, save_interval=1, epoch_level=False).attach(trainer)
    told = Told()

    @trainer.on(ignite.engine.Events.EPOCH_STARTED)
    def shuffle():
        if arguments.loader == "own":
            loader.sampler.set_epoch(trainer.state.epoch)

    @trainer.on(ignite.engine.Events.ITERATION_STARTED)
    def tell():
        step = trainer.state.iteration - 1
        if step == arguments.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        told.batch(step, *(trainer.state.batch[key] for key in KEYS))

    @trainer.on(ignite.engine.Events.ITERATION_COMPLETED)
    def end():
        if trainer.state.iteration == arguments.steps:
            trainer.terminate()

    trainer.run()
    told.end()


if __name__ == "__main__":
    main()
    torch.distributed.destroy_process_group()
