"""Volumes with labels for train.py: images of OME-Zarr, written by ome-zarr.

    python3 data.py FOLDER [--scale N]

FOLDER/run.yaml is Penstock's configuration: a sample is a crop of a volume, at another place in each epoch.
"""

import argparse
import pathlib

import numpy as np
import zarr
from ome_zarr.writer import write_image, write_labels

RUN = """dataset:
  uri: [{volumes}]
  multiscale: 0
  sample_axis: t
  fields:
    image: {{array: /, crop: {{z: {crop}, y: {crop}, x: {crop}, at: random}}, cast: float32, scale: {scale}}}
    label: {{array: labels/cells, crop: {{z: {crop}, y: {crop}, x: {crop}, at: random}}, cast: float32}}
batch: {{global_size: 4, last: drop}}
order: {{seed: 1, epochs: {epochs}}}
delivery: {{trainers: 2, connect_timeout: 600}}
"""


def volume(side, rng):
    """Balls in noise, and where they are: uint16 and uint8 [t, c, z, y, x]."""
    at = np.indices((side, side, side))
    inside = np.zeros(at.shape[1:], bool)
    for center in rng.integers(0, side, (4, 3)):
        inside |= ((at - center.reshape(3, 1, 1, 1)) ** 2).sum(0) < (side // 5) ** 2
    values = rng.integers(0, 400, inside.shape) + 300 * inside
    return values.astype("u2")[None, None], inside.astype("u1")[None, None]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--scale", type=int, default=1)
    arguments = parser.parse_args()
    scale, rng = arguments.scale, np.random.default_rng(0)
    names = [f"volume-{number}.zarr" for number in range(8 * scale)]
    for name in names:
        image, label = volume(32 + 24 * scale, rng)
        group = zarr.open_group(arguments.folder / name, mode="w")
        write_image(image, group, axes="tczyx")
        write_labels(label, group, "cells", axes="tczyx")
    run = RUN.format(volumes=", ".join(names), crop=16 * scale, scale=1 / 512, epochs=2 if scale == 1 else 40)
    (arguments.folder / "run.yaml").write_text(run, encoding="utf-8")


if __name__ == "__main__":
    main()
