#!/usr/bin/env python3
"""What bench/run.sh transform does to samples: as a transform of Penstock, and for the loaders beside it.

    transform_step.py identity|flip|tokens       as delivery.transform

  identity  hands the samples on
  flip      flips half of the pictures, cuts 80x80 of 96x96 out, and makes float16 of them, in NumPy
  tokens    tokens of texts, by a BPE tokenizer of PyPI's tokenizers that is trained on the spot
"""
import sys

import numpy

SIDE, CUT, MOST = 96, 80, 256


def flip(images, flips, rows, columns):
    """uint8 [samples, 96, 96, 3] -> float16 [samples, 80, 80, 3]. flips: bool [samples]; rows, columns: int [samples]."""
    out = numpy.empty((len(images), CUT, CUT, 3), numpy.float16)
    for i, image in enumerate(images):
        part = image[rows[i] : rows[i] + CUT, columns[i] : columns[i] + CUT]
        out[i] = (part[:, ::-1] if flips[i] else part) * numpy.float16(1 / 255)
    return out


def texts_of(numbers):
    """A text of each row of numbers: words of a small language."""
    return [" ".join(f"w{number % 997}x{number % 89}" for number in row) for row in numbers]


def tokenizer():
    import tokenizers

    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="?"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.train_from_iterator(texts_of(numpy.arange(20000).reshape(-1, 50)),
                             tokenizers.trainers.BpeTrainer(vocab_size=2000, special_tokens=["?"], show_progress=False))
    made.enable_padding(length=MOST)
    made.enable_truncation(MOST)
    return made


def tokens(made, numbers):
    """int64 [samples, words] -> int32 [samples, 256]."""
    return numpy.array([encoding.ids for encoding in made.encode_batch(texts_of(numbers))], numpy.int32)


def main():
    import penstock

    what = sys.argv[1]
    if what == "identity":
        @penstock.transform
        def step(batch):
            return {name: batch[name] for name in batch}
    elif what == "flip":
        @penstock.transform
        def step(batch, rng):
            origins = rng.integers(0, SIDE - CUT + 1, 2)
            return {"data": flip(batch["data"], rng.random() < 0.5, origins[:, 0], origins[:, 1])}
    else:
        made = tokenizer()

        @penstock.transform
        def step(batch):
            return {"data": tokens(made, batch["data"])}


if __name__ == "__main__":
    main()
