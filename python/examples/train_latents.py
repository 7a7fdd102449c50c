#!/usr/bin/env python3
"""A PyTorch training loop over Penstock: a tiny model learns to denoise latents given a text
embedding.

The service must deliver two fields: latents, float16 [20, 4, 32, 32], and text, float16 [512]. Then

    PENSTOCK_RUN_DIR=/tmp/penstock-run python3 train_latents.py

or, with everything started by one command and one process a GPU, which train together (DDP):

    penstock-run -c run.yaml --hosts n1,n2 -- python3 train_latents.py --checkpoint folder

There is no DataLoader and there are no worker processes: a batch is finished in shared memory when
it is handed out. Checkpoints are for penstock-run --resume folder/state.json, and a file folder/stop
asks for one before its time: see launch/slurm/preemptible.sbatch. Exits 77 where PyTorch is not
installed.
"""

import argparse
import glob
import json
import os
import sys
import time

import penstock

try:
    import torch
    import torch.distributed as dist
    from torch import nn
except ImportError as error:
    print(f"train_latents.py: PyTorch is needed ({error}); pip install torch", file=sys.stderr)
    sys.exit(77)


class Denoiser(nn.Module):
    """Frame by frame: two convolutions, shifted by a projection of the text."""

    def __init__(self, width=32):
        super().__init__()
        self.into = nn.Conv2d(4, width, 3, padding=1)
        self.text = nn.Linear(512, width)
        self.out = nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, noisy, text):
        samples, frames = noisy.shape[:2]
        hidden = self.into(noisy.flatten(0, 1)).unflatten(0, (samples, frames))
        hidden = torch.relu(hidden + self.text(text)[:, None, :, None, None])
        return self.out(hidden.flatten(0, 1)).unflatten(0, (samples, frames))


def noise_like(latents, keys):
    """Noise that depends on the sample and the epoch alone, so that a resumed run repeats it."""
    noise = torch.empty(latents.shape)
    for i, key in enumerate(keys):
        generator = torch.Generator().manual_seed(int(key) >> 1)
        noise[i] = torch.randn(latents.shape[1:], generator=generator)
    return noise.to(latents.device)


def train_step(model, optimizer, batch, device):
    # The copy to the device is the only one; float() makes it where the device is the CPU.
    latents = batch.torch("latents").to(device).float()
    text = batch.torch("text").to(device).float()
    weight = torch.from_numpy(batch.valid).to(device).float()[:, None, None, None, None]
    noise = noise_like(latents, batch.sample_keys)
    predicted = model(latents + noise, text)
    loss = (weight * (predicted - noise) ** 2).sum() / weight.expand_as(noise).sum().clamp(min=1)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.item()


def path_of(folder, cursor):
    return os.path.join(folder, f"epoch{cursor['epoch']}-step{cursor['step']}.pt")


def plain(model):
    """The model itself: what is saved does not depend on how many trainers there are."""
    return getattr(model, "module", model)


def save(folder, model, optimizer, state):
    """state.json is written last, in one piece: it says which checkpoint counts, to the readers
    (--resume) and, through them, to load()."""
    os.makedirs(folder, exist_ok=True)
    path = path_of(folder, state)
    torch.save({"model": plain(model).state_dict(), "optimizer": optimizer.state_dict()}, path)
    with open(os.path.join(folder, "state.json.part"), "w", encoding="ascii") as file:
        json.dump(state, file)
    os.replace(file.name, os.path.join(folder, "state.json"))
    for old in glob.glob(os.path.join(folder, "epoch*.pt")):
        if old != path:
            os.remove(old)


def load(folder, model, optimizer, info, device):
    """The checkpoint with which the service starts."""
    cursor = {"epoch": info.start_epoch, "step": info.start_step}
    saved = torch.load(path_of(folder, cursor), map_location=device, weights_only=True)
    plain(model).load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])


def train(args, loader, model, optimizer, device):
    """Returns whether it came to the end. Trainers leave early all after the same step."""
    def stop_wanted():
        wanted = torch.tensor(float(os.path.exists(os.path.join(args.checkpoint, "stop"))),
                              device=device)
        if dist.is_initialized():
            dist.all_reduce(wanted)
        return wanted.item() > 0

    for epoch in loader.epochs():
        started, losses, samples = time.monotonic(), [], 0
        for batch in epoch:
            losses.append(train_step(model, optimizer, batch, device))
            samples += int(batch.valid.sum())
            stop = args.checkpoint and stop_wanted()
            if args.checkpoint and (stop or (batch.step + 1) % args.save_every == 0):
                if loader.info.rank == 0:
                    save(args.checkpoint, model, optimizer, loader.state())
                if stop:
                    return False
        rate = samples / (time.monotonic() - started)
        mean = sum(losses) / max(1, len(losses))
        if loader.info.rank == 0:
            if epoch.complete:
                print(f"epoch {epoch.number}: loss {mean:.4f}, {rate:.1f} samples/s", flush=True)
            if args.checkpoint:
                save(args.checkpoint, model, optimizer, loader.state())
    return loader.complete  # False where the service was told to stop: the last state saved is where


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run-dir", help="the service's run directory (PENSTOCK_RUN_DIR)")
    parser.add_argument("--checkpoint", help="folder for model and data state, after every epoch")
    parser.add_argument("--save-every", type=int, default=1000, help="and after so many steps")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    args = parser.parse_args()

    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(0)
    model = Denoiser().to(device)
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)

    with penstock.connect(args.run_dir) as loader:
        if loader.info.start_epoch or loader.info.start_step:
            load(args.checkpoint, model, optimizer, loader.info, device)
        if not train(args, loader, model, optimizer, device) and loader.info.rank == 0:
            print(f"stopped at {loader.state()}", flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
