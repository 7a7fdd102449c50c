"""Trains an autoencoder on segments of videos: 8 x 8 pixels of 3 colours become 4 numbers, a frame of 256 x 256 pixels 4 x 32 x 32.

The first epoch finds the directions in which pieces of frames differ most (principal components), the second measures what the autoencoder
loses. NumPy alone. Writes segments.png, decoded.png and autoencoder.npz into the current folder.
"""

import struct
import zlib

import numpy as np
import penstock

PIECE, KEPT, SHOWN = 8, 4, 4


def write_png(path, picture):
    """A picture of [height, width, 3] bytes."""
    height, width, _ = picture.shape
    rows = b"".join(b"\0" + row.tobytes() for row in picture)

    def part(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b""))


def beside(rows):
    """One picture of rows of frames, at half their size."""
    return np.concatenate([np.concatenate([frame[::2, ::2] for frame in row], axis=1) for row in rows])


def pieces_of(frames):
    """[..., height, width, 3] as rows of 8 x 8 x 3 numbers in [-1, 1]."""
    *more, height, width, colours = frames.shape
    cut = frames.reshape(*more, height // PIECE, PIECE, width // PIECE, PIECE, colours)
    return np.moveaxis(cut, -4, -3).reshape(-1, PIECE * PIECE * colours).astype(np.float32) / 127.5 - 1


def frames_of(pieces, shape):
    *more, height, width, colours = shape
    cut = pieces.reshape(*more, height // PIECE, width // PIECE, PIECE, PIECE, colours)
    return np.clip((np.moveaxis(cut, -3, -4).reshape(shape) + 1) * 127.5, 0, 255).round().astype(np.uint8)


class Autoencoder:
    def __init__(self, mean, components):
        self.mean, self.components = mean, components

    def encode(self, frames):
        return (pieces_of(frames) - self.mean) @ self.components

    def decode(self, latents, shape):
        return frames_of(latents @ self.components.T + self.mean, shape)


def fit(count, total, products):
    mean = total / count
    _, vectors = np.linalg.eigh(products / count - np.outer(mean, mean))
    return Autoencoder(mean.astype(np.float32), vectors[:, :-KEPT - 1:-1].astype(np.float32))


def main():
    count, total, products = 0, 0.0, 0.0
    losses, model, shown = [], None, None
    with penstock.Loader() as loader:
        for batch in loader:
            frames = batch["frames"][:, ::4]
            if shown is None:
                shown = np.array(batch["frames"][:SHOWN, ::4])
            if batch.epoch == 0:
                pieces = pieces_of(frames)
                count, total, products = count + len(pieces), total + pieces.sum(0, np.float64), products + pieces.T @ pieces.astype(np.float64)
                continue
            model = model or fit(count, total, products)
            decoded = model.decode(model.encode(frames), frames.shape)
            losses.append(np.mean((decoded.astype(np.float32) - frames) ** 2))
            print(f"epoch {batch.epoch}, step {batch.step}: a loss of {losses[-1]:.1f}, {10 * np.log10(255 ** 2 / losses[-1]):.1f} dB", flush=True)
    np.savez("autoencoder.npz", mean=model.mean, components=model.components)
    write_png("segments.png", beside(shown))
    decoded = model.decode(model.encode(shown), shown.shape)
    write_png("decoded.png", beside([row for pair in zip(shown, decoded) for row in pair]))


if __name__ == "__main__":
    main()
