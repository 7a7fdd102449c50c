"""Megatron-LM's groups of ranks: each rank says where it is, and has the tokens that Megatron's own cut would leave it.

    penstock synth data.zarr --layout tokens --samples 2000 --documents 20
    penstock-run -c run.yaml -- python3 with_megatron.py

Megatron names the fastest axis first, tp-cp-ep-dp-pp, and delivery.mesh last. Nobody broadcasts: neither get_batch_on_this_tp_rank()
nor get_batch_on_this_cp_rank() is needed, and `whole` is here to show that.

    # run.yaml
    dataset:
      uri: data.zarr
      cuts: {seq: {over: cp, order: zigzag}}
      fields:
        tokens: {array: tokens, steps: "0:64", cut: {0: seq}}
        whole: {array: tokens, steps: "0:64"}
    samples: {stride: 64}
    batch: {global_size: 8}
    delivery: {trainers: 4, mesh: [pp: 1, dp: 1, cp: 2, tp: 2], data: [dp]}
"""

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.utils import get_batch_on_this_cp_rank

import penstock.torch

dist.init_process_group("gloo")
two = min(2, dist.get_world_size())
parallel_state.initialize_model_parallel(tensor_model_parallel_size=two, context_parallel_size=two)
place = {
    "pp": parallel_state.get_pipeline_model_parallel_rank(),
    "dp": parallel_state.get_data_parallel_rank(),
    "cp": parallel_state.get_context_parallel_rank(),
    "tp": parallel_state.get_tensor_model_parallel_rank(),
}
with penstock.torch.Loader(coordinates=place) as loader:
    for epoch in loader.epochs():
        for batch in epoch:
            tokens = batch["tokens"].long()
            assert torch.equal(tokens, get_batch_on_this_cp_rank({"tokens": batch["whole"].long()})["tokens"])
            total = tokens.sum()
            dist.all_reduce(total, group=parallel_state.get_context_parallel_group())
        print(f"epoch {epoch.number}: the last tokens sum to {total.item()}", flush=True)
dist.destroy_process_group()
