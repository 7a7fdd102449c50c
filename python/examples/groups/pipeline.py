"""A pipeline of two stages: text for the first stage, latents for the last one, and what a stage does not use is not in its memory.

    penstock synth data.zarr --samples 64 --videos 4
    penstock-run -c run.yaml -- python3 pipeline.py

    # run.yaml
    dataset:
      uri: data.zarr
      fields:
        text: {array: clip_emb, index: segment_to_video, only: {pp: first}}
        latents: {array: base_frames, only: {pp: last}}
    batch: {global_size: 16}
    order: {epochs: 2}
    delivery: {trainers: 4, mesh: [pp: 2, dp: 2], data: [dp]}
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

import penstock.torch

dist.init_process_group("gloo")
pp = min(2, dist.get_world_size())
mesh = init_device_mesh("cpu", (pp, dist.get_world_size() // pp), mesh_dim_names=("pp", "dp"))
torch.manual_seed(0)
layers = [nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 4)]
at = mesh["pp"].get_local_rank()
model = nn.Sequential(*(layers if pp == 1 else layers[:2] if at == 0 else layers[2:]))
stage = PipelineStage(model, at, pp, torch.device("cpu"), group=mesh["pp"].get_group())
schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

with penstock.torch.Loader(mesh=mesh) as loader:
    assert list(loader.connection.fields) == ["latents"] * (at == pp - 1) + ["text"] * (at == 0)
    for epoch in loader.epochs():
        for batch in epoch:
            inputs = [batch["text"].float()] if "text" in batch else []
            target = batch["latents"].float().mean((1, 3, 4)) if "latents" in batch else None
            losses = []
            optimizer.zero_grad()
            schedule.step(*inputs, target=target, losses=losses)  # cuts the batch into microbatches
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad, group=mesh["dp"].get_group())
                parameter.grad /= mesh["dp"].size()
            optimizer.step()
        if losses:
            loss = torch.stack(losses).mean().detach()
            dist.all_reduce(loss, group=mesh["dp"].get_group())
            print(f"epoch {epoch.number}: loss {loss.item() / mesh['dp'].size():.4e}", flush=True)
dist.destroy_process_group()
