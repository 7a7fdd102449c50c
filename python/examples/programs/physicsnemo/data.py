"""Fields for train.py in the layout of PhysicsNeMo's ZarrReader: one group, whose arrays have samples along their first axis.

    python3 data.py FOLDER [--scale N]

FOLDER/data.zarr is the dataset: smooth fields of three variables, and what a step of diffusion makes of them. FOLDER/run.yaml is
Penstock's configuration, FOLDER/domain.yaml that of two processes that share samples, each with half of the rows.
"""

import argparse
import pathlib

import numpy as np
import zarr

RUN = """dataset:
  uri: data.zarr
  fields:
    input: {array: input}
    target: {array: target}
batch: {global_size: 4, last: drop}
order: {seed: 1, epochs: EPOCHS}
delivery: {trainers: 2, connect_timeout: 600}    # PhysicsNeMo takes its time to import
"""
HALVES = (("  fields:", "  cuts: {rows: {over: domain}}\n  fields:"), ("array: input", "array: input, cut: {1: rows}"),
          ("array: target", "array: target, cut: {1: rows}"),
          ("{trainers: 2,", "{trainers: 2, mesh: [ddp: 1, domain: 2], data: [ddp],"))
SAMPLES, VARIABLES, SIDE = 32, 3, 32


def diffused(fields):
    return sum(np.roll(fields, shift, axis) for axis in (2, 3) for shift in (-1, 1)) / 4


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--scale", type=int, default=1)
    arguments = parser.parse_args()
    scale, rng = arguments.scale, np.random.default_rng(0)
    fields = rng.standard_normal((SAMPLES * scale, VARIABLES, SIDE * scale, SIDE * scale), np.float32)
    for _ in range(4):
        fields = diffused(fields)
    fields = np.round(fields / fields.std() * 256) / np.float32(256)  # compresses as measured fields do
    group = zarr.open_group(arguments.folder / "data.zarr", mode="w")
    for name, values in (("input", fields), ("target", diffused(fields))):
        group.create_array(name, data=values.astype(np.float32), chunks=(1, *fields.shape[1:]))
    run = RUN.replace("EPOCHS", str(2 if scale == 1 else 8))
    (arguments.folder / "run.yaml").write_text(run, encoding="utf-8")
    for before, after in HALVES:
        run = run.replace(before, after)
    (arguments.folder / "domain.yaml").write_text(run, encoding="utf-8")


if __name__ == "__main__":
    main()
