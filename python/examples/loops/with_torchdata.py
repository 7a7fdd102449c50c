"""torchdata's StatefulDataLoader, for programs that save the state of a DataLoader.

    penstock-run -c run.yaml -- python3 with_torchdata.py data.pt       # trains half of the first epoch, and saves
    penstock-run -c run.yaml -- python3 with_torchdata.py data.pt       # goes on from there
"""

import os
import sys

import torch
from torchdata.stateful_dataloader import StatefulDataLoader

import penstock.torch

rank = int(os.environ["RANK"])
path = f"{sys.argv[1]}.{rank}"
first = not os.path.exists(path)
dataset = penstock.torch.Dataset()
loader = StatefulDataLoader(dataset, batch_size=None)  # no workers: the readers are the workers
if not first:
    loader.load_state_dict(torch.load(path))
epoch, epochs = 0, 1 if first else dataset.loader.info.epochs
while epoch < epochs:
    samples = 0
    for steps, batch in enumerate(loader, 1):
        samples += len(batch.indices)
        if first and 2 * steps >= len(loader):
            torch.save(loader.state_dict(), path)
            break
    print(f"epoch {batch.epoch} rank {rank}: {samples} samples", flush=True)
    epoch = batch.epoch + 1
dataset.loader.close()
