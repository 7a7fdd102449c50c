"""PyTorch with DistributedDataParallel: text embeddings predict the mean of each latent channel.

    penstock-run -c run.yaml -- python3 plain_torch.py

The other files of this folder are the same training in other frameworks. The service delivers two fields:
latents, float16 [20, 4, 32, 32], and text, float16 [512].
"""

import os

import torch
import torch.distributed as dist
from torch import nn

import penstock.torch

dist.init_process_group("gloo" if not torch.cuda.is_available() else "nccl")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else None
net = nn.Linear(512, 4)
nn.init.zeros_(net.weight)
nn.init.zeros_(net.bias)
model = nn.parallel.DistributedDataParallel(net.to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

with penstock.torch.Loader(device=device) as loader:
    for epoch in loader.epochs():
        samples = 0
        for batch in epoch:
            target = batch["latents"].float().mean((1, 3, 4))
            loss = nn.functional.mse_loss(model(batch["text"].float()), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            samples += len(target)
        if epoch.complete:  # the run was not told to stop
            print(f"epoch {epoch.number} rank {dist.get_rank()}: {samples} samples", flush=True)
if dist.get_rank() == 0:
    print(f"weights {sum(p.square().sum().item() for p in model.parameters()):.4e}", flush=True)
dist.destroy_process_group()
