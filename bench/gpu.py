"""Copies from shared memory to a GPU beside copies from plain pinned memory: what `pin=True` of penstock.torch can bring, and what keeps
it from that. Needs PyTorch, and a GPU; with --device cpu it says what copies between arrays take, and nothing about pinned memory.
About two minutes. Each line is a kind of memory:

  pinned         torch's own pinned memory: the limit
  ring           a memfd that is registered with the GPU, as pin=True registers a ring
  ring read-only the same, as ranks of a group have it
  ring huge      the same memory in huge pages, if the kernel has any to give
  ring node N    the same, touched by a CPU of NUMA node N
  unpinned       a memfd that nobody registered

and each column a size of a copy in MiB: GB/s, the median of the rounds, in which all lines take turns. `fields` are 16 copies of a 16th
of the largest size, as a batch of 16 fields has them. The last line, one JSON object, has the rates of the largest size, and each ring's
share of pinned.
"""

import argparse
import ctypes
import json
import mmap
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

MIB = 1 << 20
MFD_HUGETLB = 4
FIELDS = 16


class Memory:
    """A memfd of so many bytes, touched on the CPUs given. Not freed before the end."""

    def __init__(self, size, flags=0, cpus=None):
        everywhere = os.sched_getaffinity(0)
        fd = os.memfd_create("penstock-bench", flags)
        os.ftruncate(fd, size)
        self.map = mmap.mmap(fd, size)
        os.close(fd)
        try:
            os.sched_setaffinity(0, cpus or everywhere)
            ctypes.memset(self.address(), 1, size)
        finally:
            os.sched_setaffinity(0, everywhere)

    def address(self):
        return ctypes.addressof(ctypes.c_char.from_buffer(self.map))


def numa_nodes():
    """{node: its CPUs that this process may use}"""
    nodes = {}
    for folder in sorted(pathlib.Path("/sys/devices/system/node").glob("node[0-9]*")):
        cpus = set()
        for part in (folder / "cpulist").read_text(encoding="ascii").strip().split(","):
            first, _, last = part.partition("-")
            cpus |= set(range(int(first), int(last or first) + 1)) if first else set()
        if cpus & os.sched_getaffinity(0):
            nodes[int(folder.name[4:])] = cpus & os.sched_getaffinity(0)
    return nodes


def sources(torch, device, size):
    """{kind of memory: a tensor of so many bytes}; what cannot be had is said."""
    kinds = [("ring", {}, False), ("ring read-only", {}, True), ("ring huge", {"flags": MFD_HUGETLB}, False)]
    kinds += [(f"ring node {node}", {"cpus": cpus}, False) for node, cpus in numa_nodes().items()]
    found = {"pinned": torch.empty(size, dtype=torch.uint8, pin_memory=device is not None)}
    for name, how, read_only in [*kinds, ("unpinned", {}, None)]:
        try:
            memory = Memory(size, **how)
        except OSError as why:
            print(f"no '{name}': {why}", file=sys.stderr)
            continue
        if device and read_only is not None:
            code = device.register(memory.address(), size, read_only)
            if code:
                print(f"no '{name}': the GPU refused to register it (error {code})", file=sys.stderr)
                continue
        found[name] = torch.frombuffer(memory.map, dtype=torch.uint8)
    return found


def rate(torch, device, source, size, count):
    """GB/s of `count` copies at a time, each of `size` bytes, one after another through the source."""
    target = torch.empty(size * count, dtype=torch.uint8, device=device.device if device else "cpu")
    turns = max(2, (1 << 30) // (size * count))
    at = 0
    start = time.perf_counter()
    for _ in range(turns):
        for part in range(count):
            target[part * size : (part + 1) * size].copy_(source[at : at + size], non_blocking=True)
            at = (at + size) % (source.numel() - size + 1)
    if device:
        torch.cuda.synchronize()
    return turns * count * size / (time.perf_counter() - start) / 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1 or cpu (cuda)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="0.25,1,4,16,64,256", help="MiB of a copy")
    parser.add_argument("--build", help="not used: nothing of Penstock's runs")
    parser.add_argument("--work", help="likewise")
    arguments = parser.parse_args()
    try:
        import torch
        from penstock import _torch_device
    except ImportError as missing:
        print(f"needs PyTorch: {missing}", file=sys.stderr)
        return 77
    if arguments.device != "cpu" and not torch.cuda.is_available():
        print("needs a GPU: this torch finds none", file=sys.stderr)
        return 77
    device = _torch_device.device_of(arguments.device)
    sizes = [int(float(size) * MIB) for size in arguments.sizes.split(",")]
    columns = [(f"{size / MIB:g}", size, 1) for size in sizes] + [("fields", sizes[-1] // FIELDS, FIELDS)]
    found = sources(torch, device, 2 * sizes[-1])
    rates = {name: {column: [] for column, _, _ in columns} for name in found}
    for _ in range(arguments.rounds):
        for column, size, count in columns:
            for name, source in found.items():
                rates[name][column].append(rate(torch, device, source, size, count))
    medians = {name: {column: statistics.median(values) for column, values in row.items()} for name, row in rates.items()}
    print(f"{'GB/s':16}" + "".join(f"{column:>8}" for column, _, _ in columns))
    for name, row in medians.items():
        print(f"{name:16}" + "".join(f"{value:8.1f}" for value in row.values()))
    last = columns[-2][0]
    print(json.dumps({"gb_s": {name: round(row[last], 1) for name, row in medians.items()},
                      "share": {name: round(row[last] / medians["pinned"][last], 2) for name, row in medians.items() if name != "pinned"}}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
