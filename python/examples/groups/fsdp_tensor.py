"""FSDP and tensor parallelism on a DeviceMesh, as torchtitan lays ranks out: text embeddings predict the mean of each latent channel.

    penstock synth data.zarr --samples 64 --videos 4
    penstock-run -c run.yaml -- python3 fsdp_tensor.py

    # run.yaml
    dataset: {uri: data.zarr, fields: {latents: {array: base_frames}, text: {array: clip_emb, index: segment_to_video}}}
    batch: {global_size: 16}
    order: {epochs: 2}
    delivery: {trainers: 4, mesh: [dp_shard: 2, tp: 2], data: [dp_shard]}
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import penstock.torch

dist.init_process_group("gloo")
tp = min(2, dist.get_world_size())
mesh = init_device_mesh("cpu", (dist.get_world_size() // tp, tp), mesh_dim_names=("dp_shard", "tp"))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 4))
parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
fully_shard(model, mesh=mesh["dp_shard"])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

with penstock.torch.Loader(mesh=mesh) as loader:
    for epoch in loader.epochs():
        for batch in epoch:
            seen = [torch.empty_like(batch.indices) for _ in range(tp)]
            dist.all_gather(seen, batch.indices, group=mesh["tp"].get_group())
            assert all(torch.equal(batch.indices, other) for other in seen)  # ranks of a group have the same samples
            target = batch["latents"].float().mean((1, 3, 4))
            loss = nn.functional.mse_loss(model(batch["text"].float()), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            dist.all_reduce(loss.detach(), group=mesh["dp_shard"].get_group())
        print(f"epoch {epoch.number}: loss {loss.item() / mesh['dp_shard'].size():.4e}", flush=True)
dist.destroy_process_group()
