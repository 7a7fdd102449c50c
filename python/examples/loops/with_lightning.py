"""Lightning: the loader is a train_dataloader as it is. Lightning saves its state with each checkpoint, and RESUME names one.

    penstock-run -c run.yaml -- python3 with_lightning.py

Lightning finds the other processes by the environment that readers (or torchrun) set.
"""

import os

import lightning
import torch
from torch import nn

import penstock.torch


class Regressor(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(512, 4)
        nn.init.zeros_(self.net.weight)
        nn.init.zeros_(self.net.bias)

    def training_step(self, batch, _):
        target = batch["latents"].float().mean((1, 3, 4))
        self.samples += len(target)
        return nn.functional.mse_loss(self.net(batch["text"].float()), target)

    def on_train_epoch_start(self):
        self.samples = 0

    def on_train_epoch_end(self):
        print(f"epoch {self.current_epoch} rank {self.global_rank}: {self.samples} samples", flush=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


model = Regressor()
with penstock.torch.Loader() as loader:  # Lightning moves batches to its device itself
    trainer = lightning.Trainer(
        max_epochs=loader.info.epochs, strategy="ddp", devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        num_nodes=int(os.environ["WORLD_SIZE"]) // int(os.environ["LOCAL_WORLD_SIZE"]),
        use_distributed_sampler=False,  # the service gives each process its share
        logger=False, enable_progress_bar=False, enable_model_summary=False,
        default_root_dir=os.environ.get("CHECKPOINTS", "checkpoints"))
    trainer.fit(model, loader, ckpt_path=os.environ.get("RESUME"))
if trainer.is_global_zero:
    print(f"weights {sum(p.square().sum().item() for p in model.parameters()):.4e}", flush=True)
