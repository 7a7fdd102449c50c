"""Lightning with validation: a second run beside the one that it trains on. Each validation is an epoch of "val", and the
sanity check before training takes two batches of an epoch of its own.

    penstock-run -c train.yaml --also val=val.yaml -- python3 with_validation.py
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
        self.seen = 0

    def loss(self, batch):
        return nn.functional.mse_loss(self.net(batch["text"].float()), batch["latents"].float().mean((1, 3, 4)))

    def on_train_epoch_start(self):
        val.set_epoch(self.current_epoch + 1)  # the sanity check had epoch 0; after a resume validations go on, too

    def training_step(self, batch, _):
        return self.loss(batch)

    def validation_step(self, batch, _):
        self.seen += len(batch["text"])
        self.log("val_loss", self.loss(batch), sync_dist=True, batch_size=len(batch["text"]))

    def on_validation_epoch_end(self):
        kind = "sanity check" if self.trainer.sanity_checking else "validation"
        if self.trainer.sanity_checking or not train.state_dict()["step"]:  # else the run was told to stop in an epoch
            print(f"{kind} rank {self.global_rank}: {self.seen} samples", flush=True)
        self.seen = 0

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


with penstock.torch.Loader() as train, penstock.torch.Loader(name="val") as val:
    trainer = lightning.Trainer(
        max_epochs=train.info.epochs, strategy="ddp", devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        num_nodes=int(os.environ["WORLD_SIZE"]) // int(os.environ["LOCAL_WORLD_SIZE"]),
        use_distributed_sampler=False,  # the service gives each process its share
        logger=False, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False)
    trainer.fit(Regressor(), train, val)
