"""Hugging Face Accelerate: prepare the model and the optimizer, and leave the loader as it is.

    penstock-run -c run.yaml -- python3 with_accelerate.py

accelerator.prepare() of a DataLoader would have process 0 read for all and broadcast: not needed here, where
each process has its share in its own node's memory. penstock.torch.Dataset refuses it.
"""

import torch
from accelerate import Accelerator
from torch import nn

import penstock.torch

accelerator = Accelerator(cpu=not torch.cuda.is_available())  # or, without a GPU, each process trains alone
model = nn.Linear(512, 4)
nn.init.zeros_(model.weight)
nn.init.zeros_(model.bias)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
device = accelerator.device if accelerator.device.type == "cuda" else None

with penstock.torch.Loader(device=device) as loader:
    for epoch in loader.epochs():
        samples = 0
        for batch in epoch:
            target = batch["latents"].float().mean((1, 3, 4))
            loss = nn.functional.mse_loss(model(batch["text"].float()), target)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            samples += len(target)
        if epoch.complete:  # the run was not told to stop
            print(f"epoch {epoch.number} rank {accelerator.process_index}: {samples} samples", flush=True)
if accelerator.is_main_process:
    print(f"weights {sum(p.square().sum().item() for p in model.parameters()):.4e}", flush=True)
accelerator.end_training()
