"""A grid that is cut along latitude: a rank reads, keeps and trains on its band alone, and asks its neighbours for a row at each edge.

    penstock synth data.zarr --layout weather --samples 65 --shape 8,16,32
    penstock-run -c run.yaml -- python3 spatial.py

    # run.yaml
    dataset:
      uri: data.zarr
      cuts: {lat: {over: sp}}
      constants: [latitude]
      fields:
        now: {array: data, steps: "0:1", mean: mean, std: std, cut: {latitude: lat}}
        next: {array: data, steps: "1:2", mean: mean, std: std, cut: {latitude: lat}}
    batch: {global_size: 8}
    order: {epochs: 2}
    delivery: {trainers: 4, mesh: [dp: 2, sp: 2], data: [dp]}
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

import penstock.torch


def with_halo(band, group):
    """A band [samples, variables, rows, columns] with a row of each neighbour; zeros beyond the poles."""
    at, last = dist.get_rank(group), dist.get_world_size(group) - 1
    edges = [band[:, :, :1].contiguous(), band[:, :, -1:].contiguous()]
    halo = [torch.zeros_like(edge) for edge in edges]
    neighbours = [(0, at - 1)] * (at > 0) + [(1, at + 1)] * (at < last)
    work = [dist.isend(edges[side], group=group, group_dst=rank) for side, rank in neighbours]
    work += [dist.irecv(halo[side], group=group, group_src=rank) for side, rank in neighbours]
    for each in work:
        each.wait()
    return torch.cat([halo[0], band, halo[1]], 2)


dist.init_process_group("gloo")
sp = min(2, dist.get_world_size())
mesh = init_device_mesh("cpu", (dist.get_world_size() // sp, sp), mesh_dim_names=("dp", "sp"))
torch.manual_seed(0)
model = nn.Conv2d(8, 8, 3, padding=(0, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

with penstock.torch.Loader(mesh=mesh) as loader:
    rows = loader.connection.fields["now"].positions(2)  # of [step, variable, latitude, longitude]
    weight = torch.cos(torch.deg2rad(loader.constants["latitude"]))
    weight = (weight / weight.mean())[rows][:, None]
    for epoch in loader.epochs():
        for batch in epoch:
            now, coming = (torch.nan_to_num(batch[name][:, 0]) for name in ("now", "next"))
            forecast = model(with_halo(now, mesh["sp"].get_group()))
            whole = torch.nan_to_num(batch.dtensor("now").full_tensor()[:, 0])  # only to show that the band is right
            mine = slice(len(now) * loader.info.group, len(now) * (loader.info.group + 1))
            assert torch.allclose(forecast, model(nn.functional.pad(whole[mine], (0, 0, 1, 1)))[:, :, rows], atol=1e-5)
            loss = (weight * (forecast - coming) ** 2).mean() / dist.get_world_size()
            optimizer.zero_grad()
            loss.backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
            optimizer.step()
        dist.all_reduce(loss.detach())
        print(f"epoch {epoch.number}: loss {loss.item():.4e}", flush=True)
dist.destroy_process_group()
