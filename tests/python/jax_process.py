"""One of two JAX processes of two devices each: prints, as JSON, what penstock.jax.batches() says to each sharding, and whether each
device has the rows of the step that the sharding says.

    python3 jax_process.py RUN_DIR RANK PORT
"""

import json
import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

import penstock
import penstock.jax

run_dir, rank, port = sys.argv[1], int(sys.argv[2]), sys.argv[3]
jax.config.update("jax_enable_x64", True)
jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
devices = np.array(jax.devices())
square = Mesh(devices.reshape(2, 2), ("data", "model"))
shardings = {
    "data": NamedSharding(Mesh(devices, "data"), P("data")),
    "both": NamedSharding(square, P(("data", "model"))),
    "within": NamedSharding(square, P("data")),
    "reordered within": NamedSharding(Mesh(devices[[1, 0, 3, 2]], "data"), P("data")),
    "own": NamedSharding(Mesh(np.array(jax.local_devices()), "data"), P("data")),
    "one device": SingleDeviceSharding(jax.local_devices()[0]),
    "shared": NamedSharding(Mesh(devices.reshape(2, 2).T, ("data", "model")), P("data")),
    "everywhere": NamedSharding(square, P()),
    "interleaved": NamedSharding(Mesh(devices[[0, 2, 1, 3]], "data"), P("data")),
    "swapped": NamedSharding(Mesh(devices[[2, 3, 0, 1]], "data"), P("data")),
    "more axes": NamedSharding(square, P("data", "model")),
}


def rows_are_right(batch, own):
    """The label of row r of a step of 8 samples is 8 * step + r: demo_server.c says so."""
    for name, array in (("label", batch["label"]), ("image", batch["image"]), ("valid", batch.valid)):
        if array.shape[0] != (4 if own else 8):
            return False
        for shard in array.addressable_shards:
            first = 8 * batch.step + (4 * rank if own else 0)
            expected = np.arange(array.shape[0])[shard.index[0]] + first
            found = np.asarray(shard.data)
            good = {"label": lambda: found == expected, "valid": lambda: found,
                    "image": lambda: found.reshape(len(found), -1).view(np.uint8)[:, 0] == expected % 61}[name]()
            if not np.all(good) or len(found) != len(expected):
                return False
    return batch.indices.tolist() == [8 * batch.step + 4 * rank + i for i in range(4)]


outcome = {}
with penstock.connect(run_dir, rank=rank, world_size=2, timeout=30, wait_for_release=True) as loader:
    for name, sharding in shardings.items():
        try:
            batch = next(penstock.jax.batches(loader, sharding, ahead=0))
            outcome[name] = rows_are_right(batch, name in ("own", "one device"))
        except penstock.Invalid as error:
            outcome[name] = str(error)
print(json.dumps(outcome))
