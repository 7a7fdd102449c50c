"""PhysicsNeMo's Pix2Pix on fields of data.py, with its datapipes and its checkpoints, and two processes.

    python3 -m torch.distributed.run --nproc-per-node 2 train.py FOLDER --loader own
    penstock-run -c FOLDER/run.yaml -- python3 train.py FOLDER --loader penstock

With `--domain` both processes train on one sample, each on half of its rows, as ShardTensors (FOLDER/domain.yaml). The own loader
then reads whole samples in both.
"""

import argparse
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import told  # noqa: E402
import torch  # noqa: E402
import vision  # noqa: E402, F401, I001
import yaml  # noqa: E402
from physicsnemo.datapipes import DataLoader, Dataset, Normalize, ZarrReader  # noqa: E402
from physicsnemo.distributed import DistributedManager  # noqa: E402
from physicsnemo.domain_parallel import ShardTensor, register_custom_ops  # noqa: E402
from physicsnemo.models.pix2pix import Pix2Pix  # noqa: E402
from physicsnemo.utils import load_checkpoint, save_checkpoint  # noqa: E402
from torch.distributed.tensor import Shard  # noqa: E402

FIELDS = ["input", "target"]
ROWS = 2  # axis of a batch


def mesh_of(domain):
    """PhysicsNeMo's mesh of all processes."""
    try:
        DistributedManager.initialize()
    except ValueError:  # without GPUs it stops here (its issue 1936), with all but the process group in place
        torch.distributed.init_process_group("gloo")
    register_custom_ops()  # convolutions of ShardTensor; PhysicsNeMo does it itself where there is a GPU
    return DistributedManager().initialize_mesh((-1, domain), ("ddp", "domain"))


class Halves:
    """The own loader with domain parallelism: whole samples are read, of which each process keeps its rows."""

    def __init__(self, loader, mesh):
        self.loader, self.mesh = loader, mesh

    def set_epoch(self, epoch):
        self.loader.set_epoch(epoch)

    def __iter__(self):
        return ({name: self.half(batch[name]) for name in FIELDS} for batch in self.loader)

    def half(self, whole):
        rows = whole.chunk(self.mesh.size(), ROWS)[self.mesh.get_local_rank()]
        return ShardTensor.from_local(rows.contiguous(), self.mesh, [Shard(ROWS)], "chunk", whole.shape)


def own(dataset, mesh, size):
    data, domain = mesh["ddp"], mesh["domain"]
    sampler = torch.utils.data.DistributedSampler(dataset, data.size(), data.get_local_rank(), seed=1, drop_last=True)
    loader = DataLoader(dataset, batch_size=size // data.size(), sampler=sampler, drop_last=True)
    return loader if domain.size() == 1 else Halves(loader, domain)


def local(tensor):
    return tensor.to_local() if isinstance(tensor, ShardTensor) else tensor


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--loader", choices=("own", "penstock"), required=True)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--workers", type=int, default=2, help="threads of the own loader")
    parser.add_argument("--domain", action="store_true", help="both processes train on one sample")
    parser.add_argument("--normalise", action="store_true", help="with PhysicsNeMo's transform")
    parser.add_argument("--idle", action="store_true", help="take all batches, and train nothing")
    parser.add_argument("--checkpoints", help="a folder that gets a checkpoint every --interval steps")
    parser.add_argument("--interval", type=int, default=2)
    parser.add_argument("--resume", action="store_true", help="from the last one there")
    parser.add_argument("--kill-at", type=int, help="the step at which this process dies")
    arguments = parser.parse_args()
    run = yaml.safe_load((arguments.folder / "run.yaml").read_text(encoding="utf-8"))
    mesh = mesh_of(1 + arguments.domain)
    transforms = Normalize(FIELDS, method="mean_std", means=0.5, stds=2.0) if arguments.normalise else None
    reader = ZarrReader(arguments.folder / "data.zarr", fields=FIELDS)
    dataset = Dataset(reader, transforms=transforms, num_workers=arguments.workers)
    if arguments.loader == "penstock":
        from penstock.integrations import physicsnemo

        dataset = physicsnemo.Dataset(dataset, mesh=mesh if arguments.domain else None)
        loader = DataLoader(dataset)
    else:
        loader = own(dataset, mesh, run["batch"]["global_size"])

    torch.manual_seed(0)
    net = Pix2Pix(3, 3, dimension=2, conv_layer_size=8, n_downsampling=0, n_upsampling=0, n_blocks=1, padding_type="zero")
    optimizer = torch.optim.Adam(net.parameters())
    step, saved = 0, {"epoch": 0}
    if arguments.resume:
        step = load_checkpoint(arguments.checkpoints, net, optimizer, metadata_dict=saved)
    if "loader" in saved:
        dataset.load_state_dict(saved["loader"])
        saved["epoch"] = saved["loader"]["epoch"]
    model = net if arguments.domain else torch.nn.parallel.DistributedDataParallel(net)

    def train(batch):
        loss = (model(batch["input"]) - batch["target"]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    tell = told.Told()
    for epoch in range(saved["epoch"], run["order"]["epochs"]):
        loader.set_epoch(epoch)
        for batch in loader:
            if step == arguments.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            tell.batch(step, *(local(batch[name]) for name in FIELDS))
            if not arguments.idle:
                train(batch)
            step += 1
            if arguments.checkpoints and step % arguments.interval == 0 and DistributedManager().rank == 0:
                metadata = {"epoch": epoch, **({"loader": dataset.state_dict()} if arguments.loader == "penstock" else {})}
                save_checkpoint(arguments.checkpoints, net, optimizer, epoch=step, metadata=metadata)
            if step == arguments.steps:
                break
        if step == arguments.steps:
            break
    tell.end()


if __name__ == "__main__":
    main()
    torch.distributed.destroy_process_group()
