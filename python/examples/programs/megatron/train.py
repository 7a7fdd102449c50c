"""Megatron-core's groups, data and checkpoints, with a tiny model on CPUs: its own loader, or Penstock.

    data.py data && cd data
    torchrun --nproc-per-node 2 ../train.py . --loader own
    penstock-run -c run.yaml -- python3 ../train.py . --loader penstock

The loop is plain: schedules and models of Megatron-core want CUDA.
"""

import argparse
import contextlib
import os
import pathlib
import signal
import sys

import torch
import torch.distributed as dist
from megatron.core import dist_checkpointing, parallel_state
from megatron.core.dist_checkpointing import ShardedTensor
from megatron.core.utils import get_batch_on_this_cp_rank

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import told  # noqa: E402
from samples import EOD, GLOBAL, MICRO, SEQUENCE, VOCABULARY, Sampler, dataset_of  # noqa: E402

if not torch.cuda.is_available():
    torch.cuda.synchronize, torch.cuda.current_device = lambda *_: None, lambda: "cpu"  # dist_checkpointing asks these


class Own:
    """GPTDataset behind torch's DataLoader, at the settings of Megatron-LM (--num-workers 2)."""

    def __init__(self, folder):
        self.dataset, self.consumed, self.batches = dataset_of(folder), 0, None

    def __next__(self):
        if self.batches is None:
            ranks = parallel_state.get_data_parallel_world_size()
            sampler = Sampler(len(self.dataset), self.consumed, MICRO, parallel_state.get_data_parallel_rank(), ranks)
            self.batches = iter(torch.utils.data.DataLoader(
                self.dataset, batch_sampler=sampler, num_workers=2, persistent_workers=True))
        self.consumed += MICRO * parallel_state.get_data_parallel_world_size()
        return next(self.batches)

    def state_dict(self):
        return {"consumed_samples": self.consumed}

    def load_state_dict(self, state):
        self.consumed = state["consumed_samples"]


def data_of(arguments):
    if arguments.loader == "own":
        return Own(arguments.folder)
    from penstock.integrations.megatron import Batches
    return Batches(micro_batch_size=MICRO, seq_length=arguments.sequence, eod=EOD)


def fields_of(batch):
    return (batch[name] for name in ("tokens", "labels", "loss_mask", "position_ids"))


def idle(data):
    tells = told.Told()
    with contextlib.suppress(StopIteration):
        while True:
            tells.batch(0, *fields_of(next(data)))
    tells.end()


def sharded(model):
    return {name: ShardedTensor.from_rank_offsets(name, tensor, replica_id=dist.get_rank())
            for name, tensor in model.state_dict().items()}


def loss_of(model, batch):
    losses = torch.nn.functional.cross_entropy(model(batch["tokens"]).flatten(0, 1), batch["labels"].flatten(), reduction="none")
    return (losses * batch["loss_mask"].flatten()).sum() / batch["loss_mask"].sum().clamp(min=1)


def whole_of(part, group):
    """Both ranks' parts of zigzag order, put together."""
    parts = [torch.empty_like(part) for _ in range(2)]
    dist.all_gather(parts, part, group=group)
    (first, last), (second, third) = (part.chunk(2, 1) for part in parts)
    return torch.cat([first, second, third, last], 1)


def check_cut(batch):
    names = ("tokens", "labels", "position_ids", "loss_mask")
    whole = {name: whole_of(batch[name].contiguous(), parallel_state.get_context_parallel_group()) for name in names}
    assert torch.equal(whole["tokens"][:, 1:], whole["labels"][:, :-1])
    cut = get_batch_on_this_cp_rank(whole)
    assert all(torch.equal(cut[name], batch[name]) for name in names)
    print("parts are Megatron's", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--loader", choices=("own", "penstock"), required=True)
    parser.add_argument("--steps", type=int, default=10**6)
    parser.add_argument("--idle", action="store_true", help="take all batches, and train nothing")
    parser.add_argument("--resume", help="a folder for checkpoints: saves at each --interval steps, and goes on from the last one")
    parser.add_argument("--interval", type=int, default=4)
    parser.add_argument("--kill-at", type=int, help="the step that a process dies in")
    parser.add_argument("--tensor-parallel", type=int, default=1)
    parser.add_argument("--context-parallel", type=int, default=1)
    parser.add_argument("--check-cut", action="store_true", help="whether a rank's part is that of Megatron's own cut")
    parser.add_argument("--sequence", type=int, default=SEQUENCE)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=arguments.tensor_parallel,
                                             context_parallel_size=arguments.context_parallel)
    data = data_of(arguments)
    if arguments.idle:
        idle(data)
        dist.destroy_process_group()
        return
    model = torch.nn.Sequential(torch.nn.Embedding(VOCABULARY, 4), torch.nn.Linear(4, VOCABULARY))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tells, step = told.Told(), 0
    last = sorted(pathlib.Path(arguments.resume).glob("*/metadata.json"))[-1:] if arguments.resume else []
    if last:
        loaded = dist_checkpointing.load({"model": sharded(model)}, str(last[0].parent))
        model.load_state_dict(loaded["model"])
        data.load_state_dict(loaded["data"])
        step = loaded["step"]
    microbatches = GLOBAL // MICRO // parallel_state.get_data_parallel_world_size()
    group = parallel_state.get_data_parallel_group(with_context_parallel=True)
    try:
        while step < arguments.steps:
            for _ in range(microbatches):
                batch = next(data)
                tells.batch(step, *fields_of(batch))
                if arguments.check_cut:
                    check_cut(batch)
                (loss_of(model, batch) / microbatches).backward()
            if step == arguments.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad, group=group)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if arguments.resume and step % arguments.interval == 0:
                folder = pathlib.Path(arguments.resume) / f"{step:06}"
                folder.mkdir(parents=True, exist_ok=True)
                dist.barrier()
                dist_checkpointing.save({"model": sharded(model), "data": data.state_dict(), "step": step}, str(folder))
    except StopIteration:
        pass
    tells.end()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
