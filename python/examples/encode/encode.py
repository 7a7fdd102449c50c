"""The encoder of penstock derive and penstock ingest --encode: encode.py MODEL.pt|MODEL.onnx."""

import sys

import penstock
import torch

from autoencoder import Autoencoder, pictures_of


def load(path):
    """A function from pictures to latents."""
    if path.endswith(".onnx"):
        import onnxruntime

        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return lambda pictures: torch.from_numpy(session.run(None, {"pictures": pictures.numpy()})[0])
    model = Autoencoder()
    model.load_state_dict(torch.load(path, weights_only=True))
    return model.eval().encoder


def main():
    encode = load(sys.argv[1])
    torch.set_num_threads(1)  # the same sums in the same order on any number of encoders
    with penstock.Encoder() as encoder, torch.no_grad():
        for batch in encoder:
            frames = batch.torch("base_frames")  # uint8 [B, T, H, W, 3]
            latents = encode(pictures_of(frames))
            encoder.give(latents.unflatten(0, frames.shape[:2]).half())  # float16 [B, T, 4, H/8, W/8]


if __name__ == "__main__":
    main()
