"""Context parallelism: a rank has the first and the last piece of each sequence, or two from the middle, so that all have as much to do.

    penstock synth data.zarr --layout tokens --samples 2000 --documents 20
    penstock-run -c run.yaml -- python3 context.py

    # run.yaml
    dataset:
      uri: data.zarr
      cuts: {seq: {over: cp, order: zigzag}}
      fields:
        tokens: {array: tokens, steps: "0:64", cut: {0: seq}}
        labels: {array: tokens, steps: "1:65", cut: {0: seq}}     # shifted, then cut
    samples: {stride: 64, pad: {after: 64}}
    batch: {global_size: 8}
    delivery: {trainers: 4, mesh: [dp: 2, cp: 2], data: [dp]}
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Shard

import penstock.torch

WORDS, WIDTH = 1024, 32
dist.init_process_group("gloo")
cp = min(2, dist.get_world_size())
mesh = init_device_mesh("cpu", (dist.get_world_size() // cp, cp), mesh_dim_names=("dp", "cp"))
torch.manual_seed(0)
words, places, mix, out = nn.Embedding(WORDS, WIDTH), nn.Embedding(64, WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WORDS)
parameters = list(nn.ModuleList([words, places, mix, out]).parameters())
optimizer = torch.optim.SGD(parameters, lr=0.5)


def of_all(part):
    """[samples, tokens, ...] of all ranks that share the sequences; each rank's gradient counts."""
    return DTensor.from_local(part, mesh["cp"], [Shard(1)]).full_tensor(grad_placements=[Partial()])


with penstock.torch.Loader(mesh=mesh) as loader:
    position = torch.from_numpy(loader.connection.fields["tokens"].positions())[None]  # of this rank's tokens in their sequence
    positions = of_all(position)  # of all tokens that keys and values come from
    causal = position[0, :, None] >= positions
    for epoch in loader.epochs():
        seen = 0
        for batch in epoch:
            tokens, labels, valid = (batch[name].long() for name in ("tokens", "labels", "labels.valid"))
            assert torch.equal(of_all(tokens)[:, positions[0].argsort()][:, 1:], of_all(labels)[:, positions[0].argsort()][:, :-1])
            query, key, value = mix(words(tokens % WORDS) + places(position)).chunk(3, -1)
            logits = out(nn.functional.scaled_dot_product_attention(query, of_all(key), of_all(value), attn_mask=causal))
            count = valid.sum()
            dist.all_reduce(count)  # of labels in all groups and all parts
            seen += count.item()
            loss = (nn.functional.cross_entropy(logits.transpose(1, 2), labels % WORDS, reduction="none") * valid).sum() / count
            optimizer.zero_grad()
            loss.backward()
            for parameter in parameters:
                dist.all_reduce(parameter.grad)
            optimizer.step()
        dist.all_reduce(loss.detach())
        print(f"epoch {epoch.number}: loss {loss.item():.4e} {seen} labels", flush=True)
dist.destroy_process_group()
