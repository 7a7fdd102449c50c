#!/usr/bin/env python3
"""A training loop in Python that only touches its batches, over one loader: see transform.py.

    transform_loop.py penstock|dataloader|grain|spdl|litdata --what flip|tokens --dataset DIR --batch B --workers N --epochs E --result FILE

FILE gets {"samples", "seconds", "cpu_seconds", "own_cpu_seconds"} of all epochs but the first: CPU time of this process and its
workers, and of this process alone. Of penstock the workers' time is that of the readers, which transform.py adds.
  dataloader  a PyTorch DataLoader over tensorstore, which keeps decoded chunks, with `workers` processes that call the function
              for whole batches
  grain       grain's MapDataset over the same, with mp_prefetch and as many processes
  spdl        SPDL's pipeline over the same, with as many threads of this process: its own way
  litdata     LitData's StreamingDataLoader over files of its own format, with as many processes, and the function in collate_fn
"""
import argparse
import json
import os
import pathlib
import resource
import sys
import time

import numpy

BENCH = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(BENCH), str(BENCH.parent / "python")]
import transform_step  # noqa: E402

PAGE_BYTES = 4096


class Reader:
    """Opens the array and makes the function in the process that uses them."""

    def __init__(self, arguments):
        self.arguments, self.owner = arguments, None

    def open(self):
        if self.owner == os.getpid():
            return
        import tensorstore

        context = tensorstore.Context({"cache_pool": {"total_bytes_limit": 4 << 30}, "data_copy_concurrency": {"limit": 1}})
        self.array = tensorstore.open({"driver": "zarr", "kvstore": {"driver": "file", "path": f"{self.arguments.dataset}/data/"},
                                       "recheck_cached_data": False}, context=context, read=True).result()
        self.made = transform_step.tokenizer() if self.arguments.what == "tokens" else None
        self.owner = os.getpid()

    def batch(self, indices):
        self.open()
        return self.step(numpy.asarray(self.array.oindex[list(indices)].read().result()), int(indices[0]))

    def collate(self, samples):
        self.open()
        return self.step(numpy.stack(samples), int(samples[0].reshape(-1)[0]))

    def step(self, rows, seed):
        if self.made:
            return transform_step.tokens(self.made, rows)
        rng = numpy.random.default_rng(seed)
        origins = rng.integers(0, transform_step.SIDE - transform_step.CUT + 1, (len(rows), 2))
        return transform_step.flip(rows, rng.random(len(rows)) < 0.5, origins[:, 0], origins[:, 1])

    def __getitem__(self, indices):
        return self.batch(indices)

    def __len__(self):
        return self.arguments.samples


def dataloader(arguments):
    import torch
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler

    torch.set_num_threads(1)
    reader = Reader(arguments)
    sampler = BatchSampler(RandomSampler(range(arguments.samples)), arguments.batch, drop_last=True)
    loader = DataLoader(reader, batch_size=None, sampler=sampler, num_workers=arguments.workers, prefetch_factor=4,
                        persistent_workers=True, collate_fn=torch.from_numpy, multiprocessing_context="spawn")
    return lambda number: loader


def grain(arguments):
    import absl.flags
    import grain as library

    absl.flags.FLAGS.mark_as_parsed()
    reader = Reader(arguments)

    def epoch(number):
        share = library.MapDataset.range(arguments.samples).shuffle(seed=number).batch(arguments.batch, drop_remainder=True)
        return share.map(reader.batch).to_iter_dataset(library.ReadOptions(num_threads=1)).mp_prefetch(
            library.MultiprocessingOptions(num_workers=arguments.workers, per_worker_buffer_size=4))

    return epoch


def spdl(arguments):
    from spdl.pipeline import PipelineBuilder

    reader = Reader(arguments)
    reader.open()

    def epoch(number):
        order = numpy.random.default_rng(number).permutation(arguments.samples)[: arguments.samples // arguments.batch * arguments.batch]
        steps = PipelineBuilder().add_source(order.reshape(-1, arguments.batch)).pipe(reader.batch, concurrency=arguments.workers)
        pipeline = steps.add_sink(4).build(num_threads=arguments.workers)
        with pipeline.auto_stop():
            yield from pipeline

    return epoch


def litdata(arguments):
    import litdata as library

    reader = Reader(arguments)
    folder = pathlib.Path(f"{arguments.dataset}.litdata")
    if not (folder / "index.json").exists():
        import tensorstore

        whole = tensorstore.open({"driver": "zarr", "kvstore": {"driver": "file", "path": f"{arguments.dataset}/data/"}}, read=True).result()
        rows = whole.read().result()
        library.optimize(rows.__getitem__, list(range(arguments.samples)), str(folder), chunk_bytes="64MB", num_workers=1, verbose=False)
    dataset = library.StreamingDataset(str(folder), shuffle=True, drop_last=True)
    loader = library.StreamingDataLoader(dataset, batch_size=arguments.batch, num_workers=arguments.workers, prefetch_factor=4,
                                         shuffle=True, drop_last=True, persistent_workers=True, collate_fn=reader.collate)
    return lambda number: loader


PEERS = {"dataloader": dataloader, "grain": grain, "spdl": spdl, "litdata": litdata}


def cpu(who):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def worker_cpu():
    """CPU time of all processes below this one, of those that live and those that have ended."""
    total, parents = cpu(resource.RUSAGE_CHILDREN), {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents[int(path.parent.name)] = (int(words[1]), (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK"))
    below, more = {os.getpid()}, True
    while more:
        more = {pid for pid, (parent, _) in parents.items() if parent in below} - below
        below |= more
    return total + sum(parents[pid][1] for pid in below - {os.getpid()} if pid in parents)


def touch(array):
    array = numpy.asarray(array).reshape(-1)
    array.view(numpy.uint8)[::PAGE_BYTES].sum()


def consume(epochs, batches_of):
    """The first epoch opens, decodes, and starts processes."""
    samples = 0
    for number in range(epochs):
        if number == 1:
            start, own, below, samples = time.perf_counter(), cpu(resource.RUSAGE_SELF), worker_cpu(), 0
        for array in batches_of(number):
            touch(array)
            samples += len(array)
    seconds, own, below = time.perf_counter() - start, cpu(resource.RUSAGE_SELF) - own, worker_cpu() - below
    return {"samples": samples, "seconds": seconds, "cpu_seconds": own + below, "own_cpu_seconds": own}


def penstock_loop(arguments):
    import penstock

    with penstock.connect() as loader:
        epochs = iter(loader.epochs())
        return consume(arguments.epochs, lambda number: (batch["data"] for batch in next(epochs)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loader", choices=("penstock", *PEERS))
    parser.add_argument("--what", default="flip")
    parser.add_argument("--dataset")
    parser.add_argument("--samples", type=int, default=0)
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--result", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    if arguments.loader == "penstock":
        result = penstock_loop(arguments)
    else:
        result = consume(arguments.epochs, PEERS[arguments.loader](arguments))
    arguments.result.write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
