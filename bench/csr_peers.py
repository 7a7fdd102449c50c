#!/usr/bin/env python3
"""Rows of AnnData's CSR matrix in Zarr, as loaders of single-cell data give them: one loader.

    csr_peers.py anndata|scdataset|annbatch DATASET [--batch N] [--seconds S] [--workers N]

  anndata    anndata's sparse_dataset, random rows fetched for each batch, under PyTorch's DataLoader
  scdataset  scDataset over the same, with blocks of 16 rows and 256 batches fetched together, as its authors advise
  annbatch   annbatch's Loader over the same store, with chunks of 512 rows and 32 of them preloaded

The first two run without workers and with --workers of them, and the better figure counts. The clock runs from the first batch on.
Prints {"rows": rows/s}.
"""

import argparse
import json
import time

import anndata
import numpy
import zarr


def rate(batches, seconds):
    """Rows a second, from the first batch on; `batches` gives scipy matrices without an end."""
    next(batches)
    begin, rows = time.monotonic(), 0
    while time.monotonic() - begin < seconds:
        batch = next(batches)
        rows += batch.shape[0]
        batch.data[::1024].sum()
    return rows / (time.monotonic() - begin)


def open_matrix(path):
    return anndata.io.sparse_dataset(zarr.open_group(path, mode="r")["X"])


class Matrix:
    """A matrix in files, with a length."""

    def __init__(self, path):
        self.matrix = open_matrix(path)

    def __len__(self):
        return self.matrix.shape[0]

    def __getitem__(self, rows):
        return self.matrix[rows]


def anndata_batches(arguments, workers):
    import torch

    class Rows(torch.utils.data.Dataset):
        def __init__(self):
            self.matrix = None
            self.rows = open_matrix(arguments.dataset).shape[0]

        def __len__(self):
            return 1 << 30

        def __getitem__(self, number):
            if self.matrix is None:
                self.matrix = open_matrix(arguments.dataset)
            chosen = numpy.sort(numpy.random.default_rng(number).choice(self.rows, arguments.batch, replace=False))
            return self.matrix[chosen]

    return iter(
        torch.utils.data.DataLoader(
            Rows(),
            batch_size=None,
            num_workers=workers,
            collate_fn=lambda batch: batch,
            multiprocessing_context="fork" if workers else None,
        )
    )


def scdataset_batches(arguments, workers):
    import torch
    from scdataset import BlockShuffling, scDataset

    while True:
        dataset = scDataset(Matrix(arguments.dataset), BlockShuffling(block_size=16), batch_size=arguments.batch, fetch_factor=256)
        yield from torch.utils.data.DataLoader(
            dataset,
            batch_size=None,
            num_workers=workers,
            collate_fn=lambda batch: batch,
            multiprocessing_context="fork" if workers else None,
        )


def annbatch_batches(arguments, _):
    from annbatch import Loader

    while True:
        loader = Loader(batch_size=arguments.batch, chunk_size=512, preload_nchunks=32, shuffle=True)
        loader.add_dataset(open_matrix(arguments.dataset))
        for batch in loader:
            yield batch["X"] if isinstance(batch, dict) else batch[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=("anndata", "scdataset", "annbatch"))
    parser.add_argument("dataset")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    batches = {"anndata": anndata_batches, "scdataset": scdataset_batches, "annbatch": annbatch_batches}[arguments.peer]
    workers = [0] if arguments.peer == "annbatch" else sorted({0, arguments.workers})
    print(json.dumps({"rows": max(rate(batches(arguments, count), arguments.seconds) for count in workers)}))


if __name__ == "__main__":
    main()
