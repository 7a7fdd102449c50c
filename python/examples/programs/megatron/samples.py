"""Megatron-core's own samples: GPTDataset, and the sampler of its pretraining."""

import os

from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig

SEQUENCE, GLOBAL, MICRO = 512, 16, 4  # tokens, samples, samples
VOCABULARY = 512
EOD = VOCABULARY - 1


class Tokenizer:
    """What GPTDataset asks of a tokenizer."""

    vocab_size, eod, eos, pad = VOCABULARY, EOD, EOD, VOCABULARY
    unique_identifiers = {"class": "tokens"}


def dataset_of(folder):
    """One epoch. The index is kept in a folder, as --data-cache-path."""
    config = GPTDatasetConfig(
        random_seed=1, sequence_length=SEQUENCE, blend=([os.path.join(folder, "documents")], None), split="1,0,0",
        path_to_cache=os.path.join(folder, "cache"), tokenizer=Tokenizer(), create_attention_mask=False,
        reset_position_ids=True, reset_attention_mask=False, eod_mask_loss=True)
    return BlendedMegatronDatasetBuilder(GPTDataset, [None, None, None], lambda: True, config).build()[0]


class Sampler:
    """As MegatronPretrainingSampler: this rank's part of each microbatch, from the samples on that are consumed already."""

    def __init__(self, samples, consumed, rows, rank, ranks):
        self.samples, self.consumed, self.rows, self.rank, self.ranks = samples, consumed, rows, rank, ranks

    def __iter__(self):
        for begin in range(self.consumed, self.samples - self.rows * self.ranks + 1, self.rows * self.ranks):
            yield range(begin + self.rank * self.rows, begin + (self.rank + 1) * self.rows)
