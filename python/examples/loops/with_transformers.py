"""Hugging Face Trainer: get_train_dataloader() returns the loader.

    penstock-run -c run.yaml -- python3 with_transformers.py
"""

import os

import torch
import transformers
from torch import nn

import penstock.torch


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(512, 4)
        nn.init.zeros_(self.net.weight)
        nn.init.zeros_(self.net.bias)

    def forward(self, latents, text):
        target = latents.float().mean((1, 3, 4))
        return {"loss": nn.functional.mse_loss(self.net(text.float()), target)}


class Trainer(transformers.Trainer):
    samples = 0

    def get_train_dataloader(self):
        return loader

    def training_step(self, model, inputs, *more):
        self.samples += len(inputs["text"])
        return super().training_step(model, inputs, *more)


class Tell(transformers.TrainerCallback):
    def on_epoch_end(self, args, state, control, **_):
        print(f"epoch {round(state.epoch) - 1 + loader.info.start_epoch} rank {args.process_index}: {trainer.samples} samples", flush=True)
        trainer.samples = 0


with penstock.torch.Loader() as loader:
    arguments = transformers.TrainingArguments(
        os.environ.get("CHECKPOINTS", "checkpoints"), use_cpu=not torch.cuda.is_available(),
        num_train_epochs=loader.info.epochs - loader.info.start_epoch,  # a run that goes on has fewer to come
        learning_rate=0.1, lr_scheduler_type="constant", max_grad_norm=0,
        save_strategy="no", report_to="none", disable_tqdm=True)
    model = Regressor()
    trainer = Trainer(model, arguments, callbacks=[Tell()],
                      optimizers=(torch.optim.SGD(model.parameters(), lr=0.1), None))
    trainer.train()
if trainer.is_world_process_zero():
    print(f"weights {sum(p.square().sum().item() for p in model.parameters()):.4e}", flush=True)
