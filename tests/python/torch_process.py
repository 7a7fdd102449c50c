"""One of four processes that talk by gloo: prints, as JSON, whether the DTensors of each step are whole samples.

    RANK=R WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=P python3 torch_process.py RUN_DIR
"""

import json
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

import penstock.torch
from test_groups import whole

dist.init_process_group("gloo")
# The framework numbers its ranks along dp first, and not as delivery.mesh does.
mesh = DeviceMesh("cpu", torch.tensor([[0, 2], [1, 3]]), mesh_dim_names=("dp", "tp"))
outcome = {"steps": 0, "wrong": []}
with penstock.torch.Loader(run_dir=sys.argv[1], mesh=mesh) as loader:
    outcome["rank"], outcome["at"] = loader.info.rank, loader.info.coordinates
    for batch in next(loader.epochs()):
        mine = torch.zeros(8, dtype=torch.int64)
        mine[4 * loader.info.group :][:4] = batch.indices
        dist.all_reduce(mine, group=mesh["dp"].get_group())
        for name in batch:
            found = batch.dtensor(name)
            expected = torch.stack([torch.tensor(whole(name, index)) for index in mine.tolist()])
            if not torch.equal(found.full_tensor(), expected) or found.to_local().data_ptr() != batch[name].data_ptr():
                outcome["wrong"].append([batch.step, name])
        outcome["steps"] += 1
print(json.dumps(outcome), flush=True)
dist.destroy_process_group()
