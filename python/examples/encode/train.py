"""Trains the autoencoder on the frames of a run, and saves it: train.py MODEL.pt|MODEL.onnx [--steps N]."""

import argparse

import penstock
import torch

from autoencoder import Autoencoder, pictures_of


def train(steps):
    torch.manual_seed(0)
    model = Autoencoder()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    with penstock.Loader() as loader:
        for step, batch in enumerate(loader):
            pictures = pictures_of(batch.torch("frames")[:, ::4])
            loss = torch.nn.functional.mse_loss(model(pictures), pictures)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 20 == 0 or step + 1 == steps:
                print(f"step {step}: loss {loss.item():.4f}", flush=True)
            if step + 1 == steps:
                break
    return model.eval()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    model = train(options.steps)
    if options.model.endswith(".onnx"):
        free = {axis: torch.export.Dim.AUTO for axis in (0, 2, 3)}  # pictures, height, width
        torch.onnx.export(model.encoder, (torch.zeros(2, 3, 64, 64),), options.model, input_names=["pictures"], output_names=["latents"],
                          dynamic_shapes=(free,), external_data=False, verbose=False)
    else:
        torch.save(model.state_dict(), options.model)


if __name__ == "__main__":
    main()
