#!/usr/bin/env python3
"""Dense windows from Parquet, as a DataLoader makes them; and that Parquet.

    events_peers.py write SYNTH.zarr FILE.parquet
    events_peers.py pyarrow|polars FILE.parquet [--batch N] [--seconds S] [--workers N]

`write` gives each window a row group, which suits a loader best: a window is one read. A loader reads the window's columns, and adds its
events to a dense uint8 array [20, 360, 640] by NumPy (bincount, which is several times as fast as numpy.add.at). All go through
PyTorch's DataLoader, without workers and with --workers of them, and the better figure counts. The clock runs from the first batch on.
Prints {"batches": batches/s}.
"""

import argparse
import json
import time

import numpy
import torch

SHAPE = (20, 360, 640)
COLUMNS = ["bin", "y", "x", "count"]


def write(source, target):
    import pyarrow
    import pyarrow.parquet
    import zarr

    group = zarr.open_group(source, mode="r")
    offsets, labels = group["events/offsets"][:], group["label"][:]
    arrays = {name: group[f"events/{name}"] for name in COLUMNS}
    writer = None
    for first in range(0, len(labels), 64):
        last = min(first + 64, len(labels))
        values = {name: array[offsets[first] : offsets[last]] for name, array in arrays.items()}
        for window in range(first, last):
            begin, end = offsets[window] - offsets[first], offsets[window + 1] - offsets[first]
            if begin == end:
                continue
            columns = {"window_id": numpy.full(end - begin, window), "label": numpy.full(end - begin, labels[window])}
            table = pyarrow.table({**columns, **{name: column[begin:end] for name, column in values.items()}})
            writer = writer or pyarrow.parquet.ParquetWriter(target + ".part", table.schema, compression="zstd")
            writer.write_table(table)
    writer.close()


class Windows(torch.utils.data.Dataset):
    def __init__(self, path, library):
        import pyarrow.parquet

        self.path, self.library, self.file = path, library, None
        metadata = pyarrow.parquet.ParquetFile(path).metadata
        self.rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        self.firsts = numpy.concatenate([[0], numpy.cumsum(self.rows)])

    def __len__(self):
        return len(self.rows)

    def read(self, number):
        if self.library == "polars":
            import polars

            frame = polars.scan_parquet(self.path).slice(int(self.firsts[number]), self.rows[number]).select(COLUMNS).collect()
            return [frame[name].to_numpy() for name in COLUMNS]
        if self.file is None:
            import pyarrow.parquet

            self.file = pyarrow.parquet.ParquetFile(self.path)
        table = self.file.read_row_group(number, columns=COLUMNS, use_threads=False)
        return [table[name].to_numpy() for name in COLUMNS]

    def __getitem__(self, number):
        bins, y, x, count = self.read(number)
        cells = (bins.astype(numpy.int64) * SHAPE[1] + y) * SHAPE[2] + x
        dense = numpy.bincount(cells, weights=count, minlength=SHAPE[0] * SHAPE[1] * SHAPE[2])
        return torch.from_numpy(dense.astype(numpy.uint8).reshape(SHAPE))


def rate(dataset, workers, arguments):
    sampler = torch.utils.data.RandomSampler(dataset, replacement=True, num_samples=1 << 30, generator=torch.Generator().manual_seed(17))
    batches = iter(
        torch.utils.data.DataLoader(
            dataset, arguments.batch, sampler=sampler, num_workers=workers, multiprocessing_context="spawn" if workers else None
        )
    )
    next(batches)
    begin, count = time.monotonic(), 0
    while count == 0 or time.monotonic() - begin < arguments.seconds:
        next(batches).view(-1)[::4096].sum()
        count += 1
    return count / (time.monotonic() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("write", "pyarrow", "polars"))
    parser.add_argument("path")
    parser.add_argument("target", nargs="?")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.what == "write":
        import os

        write(arguments.path, arguments.target)
        os.rename(arguments.target + ".part", arguments.target)
        return
    found = [rate(Windows(arguments.path, arguments.what), workers, arguments) for workers in sorted({0, arguments.workers})]
    print(json.dumps({"batches": max(found)}))


if __name__ == "__main__":
    main()
