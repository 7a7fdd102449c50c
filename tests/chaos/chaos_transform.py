"""The transform of chaos.py --transform: numbers that depend on each sample and its key."""

import penstock


@penstock.transform
def change(batch, rng):
    latents = batch["base_frames"]
    shift = rng.integers(0, 7, *[1] * (latents.ndim - 1)).astype(latents.dtype)
    return {"base_frames": latents + shift, "shift": shift.reshape(len(latents))}
