"""Documents for Megatron-core as an indexed dataset (.bin and .idx), and packed the same way in Zarr for Penstock.

    data.py FOLDER [--scale N]

GPTDataset shuffles documents, strings them together, cuts them to samples, and shuffles these. tokens.zarr has its documents in the
order of its first epoch, so that both have the same samples.
"""

import argparse
import pathlib

import numpy as np
import zarr
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

from samples import EOD, GLOBAL, SEQUENCE, dataset_of

RUN = f"""dataset:
  uri: tokens.zarr
  fields:
    tokens: {{array: tokens, steps: "0:{SEQUENCE}", segments: true}}
    labels: {{array: tokens, steps: "1:{SEQUENCE + 1}"}}
samples: {{stride: {SEQUENCE}, segments: document_ends}}
batch: {{global_size: {GLOBAL}}}
order: {{seed: 1, epochs: 1}}
delivery:
  connect_timeout: 600
  trainers: 2
  mesh: [pp: 1, dp: 2, cp: 1, tp: 1]
  data: [dp]
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--scale", type=int, default=1)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    builder = IndexedDatasetBuilder(str(arguments.folder / "documents.bin"), dtype=np.uint16)
    lengths = rng.lognormal(5.5, 1, 1000 * arguments.scale**2).astype(int) + 1
    lengths[-1] += (1 - (lengths + 1).sum()) % (GLOBAL * SEQUENCE)  # whole steps, and the label of the last token
    for length in lengths:
        builder.add_document(np.append(rng.integers(0, EOD, length), EOD), [length + 1])
    builder.finalize(str(arguments.folder / "documents.idx"))

    dataset = dataset_of(arguments.folder)
    documents = [dataset.dataset[document] for document in dataset.document_index]
    group = zarr.open_group(str(arguments.folder / "tokens.zarr"), mode="w")
    tokens, ends = np.concatenate(documents), np.cumsum([len(document) for document in documents])
    group.create_array("tokens", shape=tokens.shape, dtype="u2", chunks=(2**17,))[:] = tokens
    group.create_array("document_ends", shape=ends.shape, dtype="i8")[:] = ends
    (arguments.folder / "run.yaml").write_text(RUN, encoding="ascii")


if __name__ == "__main__":
    main()
