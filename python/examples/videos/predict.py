"""Trains on the latents that Penstock delivers: a frame's latents are predicted from those of the two frames before.

The model is linear in the 3 x 3 latents around a place, and is fitted to all batches so far (least squares). It begins as "nothing moves".
NumPy alone. Writes latents.png: for each of four segments a row of frames decoded from latents, above a row decoded from predictions.
"""

import numpy as np
import penstock

from train import PIECE, SHOWN, Autoencoder, beside, write_png

BEFORE, AROUND = 2, 3


def neighbours(latents):
    """[samples, frames, 4, height, width] as [samples, frames, height, width, 4 * 3 * 3], with zeros beyond the edges."""
    wide = np.pad(latents, ((0, 0), (0, 0), (0, 0), (1, 1), (1, 1)))
    near = np.lib.stride_tricks.sliding_window_view(wide, (AROUND, AROUND), axis=(3, 4))
    return np.moveaxis(near, 2, 4).reshape(*near.shape[:2], *near.shape[3:5], -1)


class Predictor:
    def __init__(self, kept):
        inputs = BEFORE * AROUND * AROUND * kept
        self.products, self.targets = np.eye(inputs), np.zeros((inputs, kept))
        self.weights = np.zeros((inputs, kept), np.float32)

    def inputs(self, latents):
        near = neighbours(latents)
        return np.concatenate([near[:, at:at - BEFORE] for at in range(BEFORE)], axis=-1)

    def predict(self, latents):
        """Of all frames but the first two: [samples, frames - 2, height, width, 4]."""
        still = np.moveaxis(latents[:, BEFORE - 1:-1], 2, -1)
        return still + self.inputs(latents) @ self.weights

    def learn(self, latents):
        inputs = self.inputs(latents).reshape(-1, len(self.weights)).astype(np.float64)
        moved = np.moveaxis(latents[:, BEFORE:] - latents[:, BEFORE - 1:-1], 2, -1)
        self.products += inputs.T @ inputs
        self.targets += inputs.T @ moved.reshape(len(inputs), -1)
        self.weights = np.linalg.solve(self.products, self.targets).astype(np.float32)


def decode(autoencoder, latents):
    samples, frames, down, across, kept = latents.shape
    return autoencoder.decode(latents.reshape(-1, kept), (samples, frames, PIECE * down, PIECE * across, 3))


def main():
    with np.load("autoencoder.npz") as saved:
        autoencoder = Autoencoder(saved["mean"], saved["components"])
    model = shown = None
    with penstock.Loader() as loader:
        for batch in loader:
            latents = batch["latents"].astype(np.float32)
            model = model or Predictor(latents.shape[2])
            if shown is None:
                shown = latents[:SHOWN]
            loss = np.mean((model.predict(latents) - np.moveaxis(latents[:, BEFORE:], 2, -1)) ** 2)
            still = np.mean((latents[:, BEFORE:] - latents[:, BEFORE - 1:-1]) ** 2)
            print(f"epoch {batch.epoch}, step {batch.step}: a loss of {loss:.3f}, {loss / still:.3f} of that of frames that do not change", flush=True)
            model.learn(latents)
    decoded = decode(autoencoder, np.moveaxis(shown[:, BEFORE::4], 2, -1))
    predicted = decode(autoencoder, model.predict(shown)[:, ::4])
    write_png("latents.png", beside([row for pair in zip(decoded, predicted) for row in pair]))


if __name__ == "__main__":
    main()
