"""Decodes the latents that Penstock delivers, and writes latents.png: a row of frames for each of four segments."""

import numpy as np
import penstock

from train import SHOWN, Autoencoder, beside, write_png

with np.load("autoencoder.npz") as saved:
    model = Autoencoder(saved["mean"], saved["components"])
with penstock.Loader() as loader:
    for batch in loader:
        latents = np.moveaxis(batch["latents"][:SHOWN, ::4], 2, -1).astype(np.float32)
        samples, count, down, across, kept = latents.shape
        pictures = model.decode(latents.reshape(-1, kept), (samples, count, 8 * down, 8 * across, 3))
        if batch.step == 0:
            write_png("latents.png", beside(pictures))
        print(f"step {batch.step}: latents {batch['latents'].shape}, {latents.std():.2f} around {latents.mean():.2f}", flush=True)
