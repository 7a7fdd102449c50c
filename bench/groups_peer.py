#!/usr/bin/env python3
"""The usual way for ranks that share a batch: the first one loads, and broadcasts.

    groups_peer.py PROCESSES FILE [--touch]

A trainer of a run with one trainer. It starts the other processes, and sends each batch to them with
torch.distributed.broadcast over gloo, into memory that is there. FILE, with {rank} for the rank, gets {"epochs": [{"epoch",
"seconds"}]} of rank 0, as penstock-trainer --json has them.
"""
import json
import os
import pathlib
import sys
import tempfile
import time

import torch
import torch.distributed as dist

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
PAGE_BYTES = 4096


def join(rank, processes, folder):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=processes)


def touch(tensor):
    tensor.view(torch.uint8).flatten()[::PAGE_BYTES].sum()


def lead(processes, folder, path, touches):
    import penstock

    with penstock.connect() as loader:
        join(0, processes, folder)
        epochs, last = [], time.perf_counter()
        about = [{"steps": loader.info.steps_per_epoch, "epochs": loader.info.epochs, "batch": loader.info.batch_size,
                  "fields": [(field.name, field.dtype_name, field.shape) for field in loader.info.fields]}]
        dist.broadcast_object_list(about)
        for epoch in loader.epochs():
            for batch in epoch:
                for name in batch:
                    tensor = batch.torch(name)
                    dist.broadcast(tensor, 0)
                    if touches:
                        touch(tensor)
                del batch, tensor
            now = time.perf_counter()
            epochs.append({"epoch": len(epochs), "seconds": now - last})
            last = now
    with open(path.format(rank=0), "w", encoding="ascii") as file:
        json.dump({"epochs": epochs}, file)


def follow(rank, processes, folder, touches):
    join(rank, processes, folder)
    about = [None]
    dist.broadcast_object_list(about)
    batch = about[0]["batch"]
    tensors = [torch.empty((batch, *shape), dtype=getattr(torch, dtype)) for _, dtype, shape in about[0]["fields"]]
    for _ in range(about[0]["steps"] * about[0]["epochs"]):
        for tensor in tensors:
            dist.broadcast(tensor, 0)
            if touches:
                touch(tensor)


def main():
    processes, path, touches = int(sys.argv[1]), sys.argv[2], "--touch" in sys.argv
    children = []
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(1, processes):
            child = os.fork()
            if child == 0:
                follow(rank, processes, folder, touches)
                os._exit(0)
            children.append(child)
        lead(processes, folder, path, touches)
        for child in children:
            if os.waitpid(child, 0)[1] != 0:
                sys.exit("a process failed")


if __name__ == "__main__":
    main()
