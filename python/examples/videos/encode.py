"""Encodes frames by the autoencoder that train.py has left: float16 [samples, frames, 4, 32, 32]."""

import numpy as np
import penstock

from train import Autoencoder, PIECE

with np.load("autoencoder.npz") as saved:
    model = Autoencoder(saved["mean"], saved["components"])
with penstock.Encoder() as encoder:
    for batch in encoder:
        frames = batch["base_frames"]
        samples, count, height, width, _ = frames.shape
        latents = model.encode(frames).reshape(samples, count, height // PIECE, width // PIECE, -1)
        encoder.give(np.ascontiguousarray(np.moveaxis(latents, -1, 2)).astype(np.float16))
