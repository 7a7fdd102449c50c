"""One of four JAX processes of two devices each, by delivery.mesh [dp: 2, sp: 2]: prints, as JSON, what penstock.jax.batches() says to
each sharding, and whether each device has what the sharding says.

    python3 jax_group_process.py RANK PORT RUN_DIR RUN_DIR_OF_ANOTHER_SERVICE
"""

import json
import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import penstock
import penstock.jax
from test_groups import whole

rank, port = int(sys.argv[1]), sys.argv[2]
jax.config.update("jax_enable_x64", True)
jax.distributed.initialize(f"127.0.0.1:{port}", 4, rank)
devices = np.array(jax.devices()).reshape(2, 2, 2)
AXES = ("dp", "sp", "x")
group, part = divmod(rank, 2)


def on(axes, *spec, of=devices):
    return NamedSharding(Mesh(of, axes), P(*spec))


def of_all(*spec, of=devices):
    return on(AXES, *spec, of=of)


own = on(("x",), "x", of=devices[group, part])
groups_own = on(("sp", "x"), of=devices[group])
cut = {"grid": of_all("dp", "sp"), "tokens": of_all("dp", "sp")}
cases = {
    "rows": (of_all("dp"), cut),
    "finer": (of_all(("dp", "x")), {"grid": of_all("dp", ("sp", "x")), "tokens": of_all(("dp", "x"), "sp")}),
    "another axis": (of_all("dp"), {**cut, "grid": of_all("dp", "sp", "x")}),
    "some rows": (of_all(("dp", "sp")), cut),
    "own": (own, {}),
    "half": (of_all("dp"), {**cut, "grid": on(("dp", "x"), "dp", of=devices[:, 0])}),
    "group": (groups_own, {"grid": on(("sp", "x"), None, "sp", of=devices[group]), "tokens": on(("sp", "x"), None, "sp", of=devices[group])}),
    "parts": (of_all("dp"), {}),
    "everywhere": (of_all(), cut),
    "interleaved": (of_all(("sp", "dp")), cut),
    "swapped": (of_all("dp", of=devices[::-1]), cut),
    "parts swapped": (of_all("dp"), {**cut, "grid": of_all("dp", "sp", of=devices[:, ::-1])}),
}
others = {
    "unequal": (of_all("dp"), {"grid": of_all("dp", "sp"), "tokens": on(("dp", "x"), "dp", of=devices[:, 0])}),
    "unequal own": (of_all("dp"), {"grid": own, "tokens": on(("dp", "x"), "dp", of=devices[:, 0])}),
}


def expected(name, step, rows, parts):
    """Of rows of the step, of all groups. A field that is cut has the parts in their order."""
    order = np.concatenate(parts) if parts else slice(None)
    return np.stack([whole(name, index)[order] if parts else whole(name, index) for index in 8 * step + np.arange(8)[rows]])


def is_right(batch, loader, name, rows):
    zigzag, pieces = name == "tokens", np.arange(16).reshape(4, 4)
    parts = [np.concatenate([pieces[i], pieces[3 - i]]) for i in range(2)] if zigzag and loader.fields[name].cuts else []
    array, found = batch[name], []
    local = array.shape[1:] == loader.fields[name].shape and loader.fields[name].cuts
    if local:  # the parts of this process alone
        parts = [loader.fields[name].positions(0)]
    values = expected(name, batch.step, rows, parts)
    for shard in array.addressable_shards:
        found.append(values.shape == array.shape and np.array_equal(shard.data, values[shard.index]))
    return all(found)


outcome = {}
for run_dir, tried in zip(sys.argv[3:], (cases, others)):
    with penstock.connect(run_dir, rank=rank, world_size=4, timeout=30, wait_for_release=True) as loader:
        for name, (sharding, fields) in tried.items():
            try:
                batch = next(penstock.jax.batches(loader, sharding, fields=fields, ahead=0))
            except penstock.Invalid as error:
                outcome[name] = str(error)
                continue
            here = slice(4 * group, 4 * group + 4)
            rows = {field: here if name in ("own", "group") or name == "unequal own" and field == "grid" else slice(None) for field in batch}
            outcome[name] = {field: is_right(batch, loader, field, rows[field]) for field in batch}
            if name == "rows":  # a jitted function sees each sample once
                sums = {field: int(jax.jit(jax.numpy.sum)(batch[field])) for field in batch}
                outcome["sums"] = sums == {field: int(expected(field, batch.step, slice(None), []).sum()) for field in batch}
            outcome[name]["valid"] = bool(all(np.all(shard.data) for shard in batch.valid.addressable_shards))
print(json.dumps(outcome))
