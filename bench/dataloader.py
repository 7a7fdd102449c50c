#!/usr/bin/env python3
"""The other side of the comparison: a PyTorch DataLoader over zarr-python, written with care.

A sample is base_frames[i] and clip_emb[segment_to_video[i]]; the two small arrays are held in
memory. The clock runs from the first batch, when all workers are up, to the end of the epoch; what
workers have fetched ahead by then counts in the loader's favour. The consumer touches one byte a
page of every batch, as penstock-trainer --touch does.

Two things are tried besides the number of workers (--probe), for no setting is fastest everywhere:
  --access sample|batch   one request to zarr-python a sample, or one a batch (Dataset.__getitems__)
  --pipeline default|lean zarr-python's own concurrency, or one chunk at a time with one thread
"""
import argparse
import itertools
import json
import os
import sys
import time

import torch
import zarr
from numcodecs import blosc
from torch.utils.data import DataLoader, Dataset

PAGE_BYTES = 4096
PROBE_BATCHES = 10


def configure(pipeline):
    """Called in every process that reads."""
    if pipeline == "lean":
        blosc.set_nthreads(1)
        zarr.config.set({"async.concurrency": 1, "threading.max_workers": 1})


class Latents(Dataset):
    def __init__(self, path, pipeline):
        self.path = path
        self.pipeline = pipeline
        group = zarr.open_group(path, mode="r")
        self.text = torch.from_numpy(group["clip_emb"][:])
        self.video = torch.from_numpy(group["segment_to_video"][:])
        self.frames = None
        self.owner = None

    def __len__(self):
        return len(self.video)

    def open_frames(self):
        """Every process opens the array for itself: zarr-python's threads do not survive a fork."""
        if self.owner != os.getpid():
            configure(self.pipeline)
            self.frames = zarr.open_group(self.path, mode="r")["base_frames"]
            self.owner = os.getpid()
        return self.frames

    def __getitem__(self, index):
        return torch.from_numpy(self.open_frames()[index]), self.text[self.video[index]]


class LatentBatches(Latents):
    """One request for all chunks of a batch."""

    def __getitems__(self, indices):
        frames = self.open_frames().oindex[indices]
        return torch.from_numpy(frames), self.text[self.video[indices]]


def touch(batch):
    for tensor in batch:
        tensor.view(torch.uint8).flatten()[::PAGE_BYTES].sum()


def measure(arguments, workers, access, pipeline, limit=None):
    """Samples a second over one epoch, or over `limit` batches."""
    batched = access == "batch"
    dataset = (LatentBatches if batched else Latents)(arguments.dataset, pipeline)
    loader = DataLoader(
        dataset,
        batch_size=arguments.batch,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=False,
        **({"collate_fn": lambda batch: batch} if batched else {}),
    )
    samples = 0
    start = None
    for number, batch in enumerate(loader):
        touch(batch)
        if start is None:
            start = time.perf_counter()
        else:
            samples += len(batch[0])
        if number == limit:
            break
    if samples == 0:
        raise SystemExit("dataloader.py: an epoch has fewer than two batches")
    return samples / (time.perf_counter() - start)


def probe(arguments):
    """The fastest settings, as options for the next call; how all did, on standard error."""
    rates = {}
    for setting in itertools.product((0, 1, 2, 4), ("sample", "batch"), ("default", "lean")):
        # In a child of its own: settings of zarr-python and blosc stay with the process.
        rates[setting] = in_child(
            lambda chosen=setting: measure(arguments, *chosen, PROBE_BATCHES))
        print(*setting, f"{rates[setting]:,.0f} samples/s", file=sys.stderr)
    workers, access, pipeline = max(rates, key=rates.get)
    print(f"--workers {workers} --access {access} --pipeline {pipeline}")


def in_child(function):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.write(writer, json.dumps(function()).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    if not text:
        raise SystemExit("dataloader.py: a measurement failed")
    return json.loads(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--access", choices=("sample", "batch"), default="sample")
    parser.add_argument("--pipeline", choices=("default", "lean"), default="default")
    parser.add_argument("--probe", action="store_true", help="find the fastest settings")
    arguments = parser.parse_args()
    if arguments.probe:
        probe(arguments)
        return
    rate = measure(arguments, arguments.workers, arguments.access, arguments.pipeline)
    print(json.dumps({"samples_per_s": rate}))


if __name__ == "__main__":
    main()
