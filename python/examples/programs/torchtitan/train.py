"""torchtitan's trainer with a tiny Llama on CPUs, fed by its own loader or by Penstock.

    data.py data && cd data
    torchrun --nproc-per-node 2 ../train.py . --loader own
    penstock-run -c run.yaml -- python3 ../train.py . --loader penstock
"""

import argparse
import contextlib
import os
import pathlib
import signal
import sys

import datasets
import torch
from torch.distributed.fsdp import FSDPModule

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import told  # noqa: E402
import torchtitan.tools.utils as utils  # noqa: E402


class Cpu:
    """What torchtitan asks of an accelerator's module in torch, for machines without one."""

    total_memory = 2**30
    memory_stats = staticmethod(lambda device: {})
    get_device_name = staticmethod(lambda device: "CPU")
    get_device_properties = classmethod(lambda cls, device: cls)
    reset_peak_memory_stats = empty_cache = set_device = set_rng_state = staticmethod(lambda *_: None)
    device_count = staticmethod(lambda: 1)
    current_device = staticmethod(lambda: 0)

    def __getattr__(self, name):
        return getattr(torch.cpu, name)


if not torch.accelerator.is_available():
    utils.device_type, utils.device_module = "cpu", Cpu()
if not hasattr(torch.distributed, "set_timeout"):  # torch 2.13
    torch.distributed.set_timeout = torch.distributed.distributed_c10d._set_pg_timeout

from torchtitan.components.checkpointer import CheckpointManager  # noqa: E402
from torchtitan.components.dataloader import DataloaderExhaustedError  # noqa: E402
from torchtitan.components.loss import CrossEntropyLoss  # noqa: E402
from torchtitan.components.optimizer import LRSchedulersContainer, default_adamw  # noqa: E402
from torchtitan.config import ParallelismConfig, TrainingConfig  # noqa: E402
from torchtitan.hf_datasets import DatasetConfig  # noqa: E402
from torchtitan.hf_datasets.text_datasets import DATASETS, HuggingFaceTextDataLoader  # noqa: E402
from torchtitan.models import llama3  # noqa: E402
from torchtitan.models.common import ComplexRoPE, Embedding, Linear, RMSNorm  # noqa: E402
from torchtitan.models.common.attention import ScaledDotProductAttention  # noqa: E402
from torchtitan.trainer import Trainer  # noqa: E402

DATASETS["documents"] = DatasetConfig(path="documents", loader=datasets.load_from_disk, sample_processor=lambda row: row["text"])


def tiny_model(tokens=512, width=16, heads=2):
    """A Llama of one layer, with attention that CPUs have: it sees the documents before, too."""
    spec = llama3.model_registry("debugmodel")
    layers = llama3._build_llama3_layers(
        n_layers=1, dim=width, n_heads=heads, hidden_dim=2 * width, attn_backend="flex",
        rope=ComplexRoPE.Config(dim=width // heads, max_seq_len=4096, theta=500000, scaling="llama"))
    layers[0].attention.inner_attention = ScaledDotProductAttention.Config()
    spec.model = llama3.Llama3Model.Config(
        dim=width, vocab_size=tokens, layers=layers, norm=RMSNorm.Config(normalized_shape=width, param_init=llama3._NORM_INIT),
        tok_embeddings=Embedding.Config(num_embeddings=tokens, embedding_dim=width, param_init=llama3._EMBEDDING_INIT),
        lm_head=Linear.Config(in_features=width, out_features=tokens, param_init=llama3._output_linear_init(width)))
    return spec


def loader_of(arguments):
    if arguments.loader == "own":
        return HuggingFaceTextDataLoader.Config(dataset="documents", dataset_path=f"{arguments.folder}/documents", infinite=False,
                                                num_workers=arguments.workers, persistent_workers=True, prefetch_factor=4)
    from penstock.integrations.torchtitan import DataLoader
    return DataLoader.Config()


class Told(Trainer):
    """Trainer that tells of its batches."""

    def batch_generator(self, data):
        self.told = told.Told()
        for inputs, labels in super().batch_generator(data):
            self.told.batch(self.step, inputs["input"], inputs["positions"], labels)
            if self.step == self.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            yield inputs, labels


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--loader", choices=("own", "penstock"), required=True)
    parser.add_argument("--steps", type=int, default=10**6)
    parser.add_argument("--idle", action="store_true", help="take all batches, and train nothing")
    parser.add_argument("--resume", help="a folder for checkpoints: saves at each --interval steps, and goes on from the last one")
    parser.add_argument("--interval", type=int, default=4)
    parser.add_argument("--kill-at", type=int, help="the step that a process dies in")
    parser.add_argument("--tensor-parallel", type=int, default=1)
    parser.add_argument("--sequence", type=int, default=256)
    parser.add_argument("--workers", type=int, default=1, help="of the own loader")
    arguments = parser.parse_args()
    trainer = Told(Told.Config(
        model_spec=tiny_model(),
        hf_assets_path=str(arguments.folder / "tokenizer"),
        dump_folder=arguments.resume or str(arguments.folder / "outputs"),
        dataloader=loader_of(arguments),
        loss=CrossEntropyLoss.Config(),
        optimizer=default_adamw(lr=1e-3),
        lr_scheduler=LRSchedulersContainer.Config(warmup_steps=2),
        training=TrainingConfig(local_batch_size=8, global_batch_size=16, seq_len=arguments.sequence, steps=arguments.steps,
                                disable_cuda_graphs=True),
        parallelism=ParallelismConfig(tensor_parallel_degree=arguments.tensor_parallel, spmd_backend="partial_dtensor"),
        checkpoint=CheckpointManager.Config(enable=bool(arguments.resume), interval=arguments.interval, last_save_model_only=False),
    ))
    trainer.kill_at = arguments.kill_at
    for module in trainer.model_parts[0].modules():
        if isinstance(module, FSDPModule):
            module.set_force_sum_reduction_for_comms(True)  # gloo has no other
    if arguments.idle:
        with contextlib.suppress(DataloaderExhaustedError):
            for _ in trainer.batch_generator(trainer.dataloader):
                pass
    else:
        trainer.train()
    trainer.told.end()
    trainer.close()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
