#!/usr/bin/env python3
"""One trainer over one loader: Penstock, or another library, each written with care. All consume in the same way.

    loaders.py NAME --location URI --array NAME --rank R --hosts N --batch B --epochs E --result FILE [OPTION...]

A location is a folder, http://HOST:PORT/PATH, or s3://BUCKET/PATH with --endpoint. With --joined ARRAY INDEX a sample has
ARRAY[INDEX[i]] beside it; both arrays are held in memory.

  penstock       the service that has started this process
  tensorstore    a DataLoader over tensorstore, with DistributedSampler, and with decoded chunks kept (--cache)
  zarrs          the same over zarr-python with the codec pipeline of zarrs, which keeps nothing
  grain          grain's MapDataset over tensorstore
  insitubatch    insitubatch. Each epoch deals its chunks out to the hosts anew
  insitubatch-own  insitubatch. Each host has its own share of the chunks, the same in all epochs
  streaming      MosaicML Streaming, of a dataset that was converted (convert), with its cache in --local
  convert        no loader: writes the dataset to --local as MosaicML Streaming wants it

--ahead says how many batches are on their way. With --meet FOLDER all trainers wait for each other in that folder, before
the first epoch and after each one, as training does after each step. The clock of a loader runs from their first meeting.
Penstock's clock starts when the service has let this process in, and hence has begun to read. The times of FILE are those
of the monotonic clock, the same on all hosts of a machine.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import sys
import time
import urllib.parse

import numpy

PAGE_BYTES = 4096
SHARD_BYTES = 8 << 20  # of MosaicML Streaming: what a host reads at once


def touch(arrays, everything):
    """What a consumer does with a batch: each byte, or one byte of each page."""
    for array in arrays:
        flat = numpy.asarray(array).reshape(-1)
        if everything:
            flat.view(numpy.uint64).sum()
        else:
            flat.view(numpy.uint8)[::PAGE_BYTES].sum()


# --- where the dataset is -------------------------------------------------------------------------


def zarr_store(arguments):
    """zarr-python's store of the dataset: a folder, or by obstore."""
    import zarr

    url = urllib.parse.urlsplit(arguments.location)
    if not url.scheme:
        return zarr.storage.LocalStore(arguments.location, read_only=True)
    import obstore

    if url.scheme == "s3":
        store = obstore.store.S3Store(url.netloc, prefix=url.path.strip("/"), endpoint=arguments.endpoint,
                                      region="us-east-1", virtual_hosted_style_request=False,
                                      client_options={"allow_http": True})
    else:
        store = obstore.store.HTTPStore.from_url(arguments.location, client_options={"allow_http": True})
    return zarr.storage.ObjectStore(store, read_only=True)


def open_joined(arguments):
    """A function from indices to what is joined to these samples: a list of arrays."""
    if not arguments.joined:
        return lambda indices: []
    import zarr

    group = zarr.open_group(zarr_store(arguments), mode="r")
    values, index = (group[name][:] for name in arguments.joined)
    return lambda indices: [values[index[numpy.asarray(indices)]]]


def open_tensorstore(arguments):
    import tensorstore

    url = urllib.parse.urlsplit(arguments.location)
    path = f"{url.path.strip('/')}/{arguments.array}/"
    store = {
        "": {"driver": "file", "path": f"{arguments.location}/{arguments.array}/"},
        "http": {"driver": "http", "base_url": f"{url.scheme}://{url.netloc}", "path": f"/{path}"},
        "s3": {"driver": "s3", "bucket": url.netloc, "path": path, "endpoint": arguments.endpoint,
               "aws_region": "us-east-1", "aws_credentials": {"type": "environment"}},
    }[url.scheme]
    return tensorstore.open(
        {"driver": "zarr3" if arguments.format == 3 else "zarr", "kvstore": store, "recheck_cached_data": False},
        context=tensorstore.Context({"cache_pool": {"total_bytes_limit": arguments.cache}}),
        read=True).result()


# --- loaders: each is a function from arguments to a function from the epoch's number to its batches ----------------


def keep_ahead(starts, ahead):
    """Results of functions that start something, so many of them started before they are waited for."""
    pending = collections.deque()
    for start in starts:
        pending.append(start())
        if len(pending) > ahead:
            yield pending.popleft()()
    while pending:
        yield pending.popleft()()


def torch_loader(arguments, samples, start):
    """A DataLoader over `start`, which takes indices and returns what waits for their array."""
    import torch
    from torch.utils.data import BatchSampler, DataLoader, IterableDataset
    from torch.utils.data.distributed import DistributedSampler

    joined = open_joined(arguments)
    sampler = DistributedSampler(range(samples), arguments.hosts, arguments.rank, seed=arguments.seed, drop_last=True)
    batches = BatchSampler(sampler, arguments.batch, drop_last=True)

    def begin(indices):
        wait = start(indices)
        return lambda: [torch.from_numpy(array) for array in (wait(), *joined(indices))]

    class Batches(IterableDataset):
        def __iter__(self):
            return keep_ahead((lambda indices=indices: begin(indices) for indices in batches), arguments.ahead)

    loader = DataLoader(Batches(), batch_size=None, num_workers=0)

    def epoch(number):
        sampler.set_epoch(number)
        return loader

    return epoch


def tensorstore_loader(arguments):
    array = open_tensorstore(arguments)

    def start(indices):
        reading = array.oindex[indices].read()
        return lambda: numpy.asarray(reading.result())

    return torch_loader(arguments, array.shape[0], start)


def zarrs_loader(arguments):
    import zarr
    import zarrs  # noqa: F401 registers itself

    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "codec_pipeline.strict": True})
    if arguments.threads:
        zarr.config.set({"codec_pipeline.chunk_concurrent_maximum": arguments.threads,
                         "threading.max_workers": arguments.threads})
    array = zarr.open_group(zarr_store(arguments), mode="r")[arguments.array]
    pool = concurrent.futures.ThreadPoolExecutor(max(arguments.ahead, 1))
    return torch_loader(arguments, array.shape[0],
                        lambda indices: pool.submit(lambda: array.oindex[indices]).result)


def grain_loader(arguments):
    import grain

    array, joined = open_tensorstore(arguments), open_joined(arguments)
    options = grain.ReadOptions(num_threads=max(arguments.ahead, 1), prefetch_buffer_size=max(arguments.ahead, 1))

    def read(indices):
        return [numpy.asarray(array.oindex[indices].read().result()), *joined(indices)]

    def epoch(number):
        share = grain.MapDataset.range(array.shape[0]).shuffle(seed=arguments.seed + number)
        share = share[arguments.rank::arguments.hosts].batch(arguments.batch, drop_remainder=True)
        return share.map(read).to_iter_dataset(options)

    return epoch


def insitubatch_loader(arguments, own=False):
    from insitubatch import InSituDataset, open_geometries
    from insitubatch.split import SplitManifest

    store, joined = zarr_store(arguments), open_joined(arguments)
    geometries = open_geometries(store, variables=[arguments.array])
    shape = geometries[arguments.array]

    def chunks_of(number):
        order = numpy.random.default_rng(arguments.seed + number).permutation(shape.n_chunks)
        return sorted(order[arguments.rank::arguments.hosts].tolist())

    manifest = SplitManifest(n_chunks=shape.n_chunks, sample_chunk_size=shape.sample_chunk_size,
                             n_samples=shape.n_samples, seed=arguments.seed,
                             chunks={"train": chunks_of(0), "val": [], "test": []})
    dataset = InSituDataset(store, manifest, geometries, batch_size=arguments.batch, seed=arguments.seed,
                            block_chunks=2 * arguments.batch, prefetch_depth=max(arguments.ahead, 1),
                            cache_budget_bytes=arguments.cache or None)

    def epoch(number):
        if not own:
            manifest.chunks["train"] = chunks_of(number)
        dataset.set_epoch(number)
        for batch in dataset.train:
            if len(batch.sample_indices) == arguments.batch:
                yield [batch.arrays[arguments.array], *joined(batch.sample_indices)]

    return epoch


def streaming_loader(arguments):
    """Needs WORLD_SIZE, RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and so on, as torchrun sets them."""
    from streaming import StreamingDataLoader, StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    clean_stale_shared_memory()
    os.environ["S3_ENDPOINT_URL"] = arguments.endpoint or ""
    dataset = StreamingDataset(remote=arguments.location, local=arguments.local, shuffle=True, batch_size=arguments.batch,
                               shuffle_seed=arguments.seed, num_canonical_nodes=arguments.hosts,
                               predownload=arguments.ahead * arguments.batch)
    # torch.stack took ten times as long as numpy.stack.
    loader = StreamingDataLoader(dataset, batch_size=arguments.batch, drop_last=True, num_workers=0,
                                 collate_fn=lambda samples: [numpy.stack([sample["data"] for sample in samples])])

    def epoch(number):
        del number  # counted by the dataset
        for batch in loader:
            yield batch

    return epoch


def convert(arguments):
    from streaming import MDSWriter

    array = open_tensorstore(arguments)
    size = "x".join(map(str, array.shape[1:]))
    columns = {"data": f"ndarray:{array.dtype.name}:{size.replace('x', ',')}"}
    with MDSWriter(out=arguments.local, columns=columns, compression="zstd:3", size_limit=SHARD_BYTES) as writer:
        for index in range(array.shape[0]):
            writer.write({"data": numpy.asarray(array[index].read().result())})


def penstock_loader():
    """A function like the others', the time at which the service let this process in, and what says goodbye."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
    import penstock

    loader = penstock.connect()
    begin = time.monotonic()
    epochs = loader.epochs()

    def close():
        next(epochs, None)  # waits for the other trainers' last batches
        loader.close()

    return lambda number: (list(batch.values()) for batch in next(epochs)), begin, close


LOADERS = {"tensorstore": tensorstore_loader, "zarrs": zarrs_loader, "grain": grain_loader,
           "insitubatch": insitubatch_loader,
           "insitubatch-own": lambda arguments: insitubatch_loader(arguments, own=True),
           "streaming": streaming_loader}


# --- running --------------------------------------------------------------------------------------


class Meeting:
    """Where all trainers wait for each other: each leaves a file for each time."""

    def __init__(self, folder, rank, hosts):
        self.folder, self.rank, self.hosts, self.count = folder, rank, hosts, 0

    def wait(self):
        if not self.folder:
            return
        pathlib.Path(self.folder, f"{self.count}-{self.rank}").touch()
        files = [os.path.join(self.folder, f"{self.count}-{rank}") for rank in range(self.hosts)]
        while not all(map(os.path.exists, files)):
            time.sleep(0.002)
        self.count += 1


def run(arguments):
    close, meeting = None, Meeting(arguments.meet, arguments.rank, arguments.hosts)
    if arguments.name == "penstock":
        loader, begin, close = penstock_loader()
    else:
        loader = LOADERS[arguments.name](arguments)
        meeting.wait()
        begin = time.monotonic()
    epochs = []
    for number in range(arguments.epochs):
        samples = 0
        for batch in loader(number):
            touch(batch, arguments.touch == "all")
            samples += len(batch[0])
            del batch  # a slot goes back before the next one is asked for
            if samples >= arguments.most_batches * arguments.batch:
                break
        epochs.append({"samples": samples, "end": time.monotonic()})
        meeting.wait()
    if close:
        close()
    result = json.dumps({"begin": begin, "epochs": epochs})
    pathlib.Path(arguments.result.replace("{rank}", str(arguments.rank))).write_text(result, encoding="ascii")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*LOADERS, "penstock", "convert"])
    parser.add_argument("--location")
    parser.add_argument("--endpoint", help="s3: http://HOST:PORT")
    parser.add_argument("--array", help="of the samples")
    parser.add_argument("--joined", nargs=2, metavar=("ARRAY", "INDEX"))
    parser.add_argument("--format", type=int, default=2, help="of Zarr (2)")
    parser.add_argument("--rank", type=int, default=int(os.environ.get("RANK", 0)))
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64, help="samples of a batch (64)")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--most-batches", type=int, default=1 << 40, help="of an epoch")
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--cache", type=int, default=0, help="bytes of memory for decoded chunks")
    parser.add_argument("--local", help="streaming: the folder of its cache; convert: of the dataset")
    parser.add_argument("--ahead", type=int, default=2, help="batches on their way (2)")
    parser.add_argument("--threads", type=int, default=0, help="zarrs: threads (as it likes)")
    parser.add_argument("--touch", choices=("all", "page"), default="all")
    parser.add_argument("--meet", metavar="FOLDER")
    parser.add_argument("--result", default="/dev/stdout")
    arguments = parser.parse_args()
    if arguments.name == "convert":
        convert(arguments)
    else:
        run(arguments)
    sys.stdout.flush()
    if arguments.name != "penstock":
        os._exit(0)  # threads of libraries may live on


if __name__ == "__main__":
    main()
