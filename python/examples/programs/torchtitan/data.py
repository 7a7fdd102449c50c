"""Documents for torchtitan, as a dataset of text, and the same documents as tokens for Penstock.

    data.py FOLDER [--scale N]

FOLDER gets documents/ (written by Hugging Face's datasets, which torchtitan reads), tokenizer/ (a byte-level BPE), tokens.zarr
and run.yaml. tokens.zarr has what torchtitan's loader makes of each document: `input` are its tokens without the last one,
`labels` those without the first. Both halves of the documents fill equally many batches: torchtitan packs each rank's half by
itself, and a rank that ends before the others breaks the training.
"""

import argparse
import json
import pathlib

import datasets
import numpy as np
import tokenizers
import zarr
from torchtitan.components.tokenizer import HuggingFaceTokenizer

SEQUENCE, BATCH, TRAINERS = 256, 16, 2
RUN = f"""dataset:
  uri: tokens.zarr
  fields:
    input: {{array: input, steps: "0:{SEQUENCE}", segments: true}}
    labels: {{array: labels, steps: "0:{SEQUENCE}"}}
samples: {{stride: {SEQUENCE}, segments: document_ends}}
batch: {{global_size: {BATCH}}}
order: {{seed: 1, epochs: 1}}
delivery:
  connect_timeout: 600
  trainers: {TRAINERS}
  mesh: [pp: 1, dp_replicate: 1, dp_shard: {TRAINERS}, cp: 1, tp: 1]
  data: [dp_replicate, dp_shard]
"""


def make_texts(count):
    rng = np.random.default_rng(0)
    words = ["".join(map(chr, rng.integers(97, 123, rng.integers(2, 10)))) for _ in range(2000)]
    return [" ".join(words[word] for word in rng.zipf(1.3, length) % len(words)) for length in rng.integers(50, 500, count)]


def make_tokenizer(folder, texts):
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(texts[:400], vocab_size=500, special_tokens=["<begin>", "<end>"], show_progress=False)
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<begin>", "eos_token": "<end>"}), encoding="ascii")
    return HuggingFaceTokenizer(HuggingFaceTokenizer.Config(), tokenizer_path=str(folder))


def fill(parts, encode):
    """Lets each part's last document grow until all parts are equally many batches: a letter that stands alone is a token."""
    counts = [sum(len(encode(text)) - 1 for text in part) for part in parts]
    step = SEQUENCE * BATCH // TRAINERS
    whole = -(-max(counts) // step) * step
    for part, count in zip(parts, counts):
        part[-1] += " a" * (whole - count)
    documents = [[encode(text) for text in part] for part in parts]
    assert all(sum(len(tokens) - 1 for tokens in part) == whole for part in documents)
    return sum(documents, [])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--scale", type=int, default=1)
    arguments = parser.parse_args()
    texts = make_texts(200 * arguments.scale**2 * TRAINERS)
    arguments.folder.mkdir(parents=True)
    tokenizer = make_tokenizer(arguments.folder / "tokenizer", texts)
    parts = [list(part) for part in np.array_split(np.array(texts, object), TRAINERS)]
    documents = fill(parts, lambda text: tokenizer.encode(text, add_bos=True, add_eos=True))
    datasets.Dataset.from_dict({"text": sum(parts, [])}).save_to_disk(arguments.folder / "documents")
    group = zarr.open_group(str(arguments.folder / "tokens.zarr"), mode="w")
    for name, part in (("input", slice(None, -1)), ("labels", slice(1, None))):
        tokens = np.concatenate([np.array(document[part], "i4") for document in documents])
        group.create_array(name, shape=tokens.shape, dtype="i4", chunks=(SEQUENCE * 256,))[:] = tokens
    ends = np.cumsum([len(document) - 1 for document in documents])
    group.create_array("document_ends", shape=ends.shape, dtype="i8")[:] = ends
    (arguments.folder / "run.yaml").write_text(RUN, encoding="ascii")


if __name__ == "__main__":
    main()
