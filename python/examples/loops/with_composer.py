"""Composer: a DataSpec of the loader.

    penstock-run -c run.yaml -- python3 with_composer.py
"""

import os

import composer
import torch
from torch import nn

import penstock.torch


class Regressor(composer.ComposerModel):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(512, 4)
        nn.init.zeros_(self.net.weight)
        nn.init.zeros_(self.net.bias)
        self.samples = 0

    def forward(self, batch):
        self.samples += len(batch["text"])
        return self.net(batch["text"].float())

    def loss(self, outputs, batch):
        return nn.functional.mse_loss(outputs, batch["latents"].float().mean((1, 3, 4)))


class Tell(composer.Callback):
    def epoch_end(self, state, logger):
        print(f"epoch {int(state.timestamp.epoch) - 1 + loader.info.start_epoch} rank {os.environ['RANK']}: {model.samples} samples", flush=True)
        model.samples = 0


os.environ.setdefault("NODE_RANK", os.environ.get("GROUP_RANK", "0"))
model = Regressor()
with penstock.torch.Loader() as loader:
    data = composer.DataSpec(loader, get_num_samples_in_batch=lambda batch: len(batch["text"]))
    trainer = composer.Trainer(
        model=model, train_dataloader=data,
        max_duration=loader.info.epochs - loader.info.start_epoch,  # a run that goes on has fewer to come
        optimizers=torch.optim.SGD(model.parameters(), lr=0.1),
        device="gpu" if torch.cuda.is_available() else "cpu", callbacks=[Tell()], progress_bar=False)
    trainer.fit()
if os.environ["RANK"] == "0":
    print(f"weights {sum(p.square().sum().item() for p in model.parameters()):.4e}", flush=True)
