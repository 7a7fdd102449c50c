"""Context parallelism with packed documents: each document is cut by itself, and pays attention to itself alone.

    penstock synth data.zarr --layout documents --samples 400 --items 40
    penstock-run -c run.yaml -- python3 packed.py

    # run.yaml
    dataset:
      uri: data.zarr
      cuts: {seq: {over: cp, order: zigzag}}
      fields:
        text:
          ragged: {offsets: tokens/offsets, values: tokens/values}
          deliver: {pad_to_multiple_of: 4}      # of 2 pieces for each of 2 parts
          cut: {0: seq}
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
words, mix, out = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WORDS)
parameters = list(nn.ModuleList([words, mix, out]).parameters())
optimizer = torch.optim.SGD(parameters, lr=0.5)


def of_all(part):
    """[items, ...] of all ranks that share the documents; each rank's gradient counts."""
    return DTensor.from_local(part, mesh["cp"], [Shard(0)]).full_tensor(grad_placements=[Partial()])


with penstock.torch.Loader(mesh=mesh) as loader:
    for epoch in loader.epochs():
        seen = 0
        for batch in epoch:
            text = batch.csr("text")
            tokens, position = text.values.long() % WORDS, torch.from_numpy(text.positions())  # of this rank's items
            document = torch.repeat_interleave(text.own_offsets.diff())
            place = text.offsets[document] + position  # in the packed documents, where attention kernels take offsets
            valid = position < text.lengths[document] - 1  # there is a next token: neither padding nor the last one
            documents, places = of_all(document), of_all(place)
            packed = torch.empty(text.offsets[-1], dtype=torch.int64).scatter_(0, places, of_all(tokens))
            assert torch.equal(places.sort()[0], torch.arange(text.offsets[-1]))  # each item has one rank
            labels = packed[(place + 1).clamp(max=len(packed) - 1)]

            causal = (document[:, None] == documents) & (place[:, None] >= places)
            query, key, value = mix(words(tokens)).chunk(3, -1)
            logits = out(nn.functional.scaled_dot_product_attention(query, of_all(key), of_all(value), attn_mask=causal))
            count = valid.sum()
            dist.all_reduce(count)  # of labels in all groups and all parts
            seen += count.item()
            loss = (nn.functional.cross_entropy(logits, labels, reduction="none") * valid).sum() / count
            optimizer.zero_grad()
            loss.backward()
            for parameter in parameters:
                dist.all_reduce(parameter.grad)
            optimizer.step()
        dist.all_reduce(loss.detach())
        print(f"epoch {epoch.number}: loss {loss.item():.4e} {seen} labels", flush=True)
dist.destroy_process_group()
