#!/usr/bin/env python3
"""A PyTorch training loop over Penstock: a tiny model learns to denoise latents given a text
embedding.

The service must deliver two fields: latents, float16 [20, 4, 32, 32], and text, float16 [512]. Then

    PENSTOCK_RUN_DIR=/tmp/penstock-run python3 train_latents.py

or, with everything started by one command and one process a GPU:

    mpirun -n 2 penstock-reader -c run.yaml -- python3 train_latents.py --checkpoint run.pt

There is no DataLoader and there are no worker processes: a batch is finished in shared memory when
it is handed out. Exits 77 where PyTorch is not installed.
"""

import argparse
import os
import sys
import time

import penstock

try:
    import torch
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
    latents = torch.from_numpy(batch["latents"]).to(device).float()
    text = torch.from_numpy(batch["text"]).to(device).float()
    weight = torch.from_numpy(batch.valid).to(device).float()[:, None, None, None, None]
    noise = noise_like(latents, batch.keys)
    predicted = model(latents + noise, text)
    loss = (weight * (predicted - noise) ** 2).sum() / weight.expand_as(noise).sum().clamp(min=1)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.item()


def save(path, model, optimizer, state):
    parts = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "data": state}
    torch.save(parts, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run-dir", help="the service's run directory (PENSTOCK_RUN_DIR)")
    parser.add_argument("--checkpoint", help="write model and data state here after every epoch")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    args = parser.parse_args()

    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(0)
    model = Denoiser().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)

    with penstock.connect(args.run_dir) as loader:
        for epoch in loader.epochs():
            started, losses, samples = time.monotonic(), [], 0
            for batch in epoch:
                losses.append(train_step(model, optimizer, batch, device))
                samples += int(batch.valid.sum())
            rate = samples / (time.monotonic() - started)
            mean = sum(losses) / max(1, len(losses))
            if loader.info.rank == 0:
                print(f"epoch {epoch.number}: loss {mean:.4f}, {rate:.1f} samples/s", flush=True)
                if args.checkpoint:
                    save(args.checkpoint, model, optimizer, loader.state())


if __name__ == "__main__":
    main()
