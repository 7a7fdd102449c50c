"""The transforms of test_transform.py, and what they make of one sample by itself. MODE says which, and THREADS in how many threads:

  new    a flipped copy of the image in its place, and two fields more
  rows   rows of unequal lengths from the ragged field, which is consumed; the image is handed on
  slow   `new`, and each batch takes a while
  odd    fails at the sample whose image begins with 77
  other  another shape after the trial
  batch  numbers that depend on the batch
  long   more items than the decorator says
  hang   `new`, but one batch never ends
  all    each field is handed on
  clash  a field of a name that is there already
"""

import itertools
import json
import os
import sys
import threading
import time

import numpy as np

import penstock

MODE = os.environ.get("MODE", "new")
THREADS = int(os.environ.get("THREADS", "1"))
MEETING = threading.Barrier(2) if THREADS == 2 else None
MOST = 40


def sample(mode, image, row, rng):
    """What is made of one sample. rng: of this sample alone."""
    coin, numbers = rng.random()[0] < 0.5, rng.integers(-5, 9, 3)[0]
    if mode == "rows":
        return {"rows": np.repeat(row, 2)[: len(row) + 5 + numbers[0]].astype(np.int32), "length": np.int64(len(row)), "image": image}
    return {"image": (image[::-1] if coin else image) * np.float32(0.5), "coin": np.bool_(coin), "numbers": numbers}


def both_at_once(batch):
    """Waits until two threads are here, where there are to be two; a trial has two samples."""
    if MEETING and len(batch.indices) > 2:
        MEETING.wait(20)
        with open("met", "a", encoding="ascii") as file:
            file.write(f"{len(batch.indices)} {getattr(sys, '_is_gil_enabled', lambda: True)()}\n")


@penstock.transform(ragged={"rows": MOST}, threads=THREADS)
def change(batch, rng):
    both_at_once(batch)
    if MODE == "all":
        return {name: batch[name] for name in batch}
    images = batch["image"]
    if MODE == "slow":
        time.sleep(0.02)
    if MODE == "hang" and len(images) > 2 and os.path.exists("hang"):
        os.remove("hang")
        time.sleep(100)
    if MODE == "odd" and (images.reshape(len(images), -1)[:, 0] == 77).any():
        raise ValueError("this one is odd")
    if MODE == "clash":
        return {"rows": [np.zeros(1)] * len(images), "rows.offsets": images[:, 0, 0]}
    if MODE == "rows":
        csr, numbers = batch.csr("text"), rng.random() is not None and rng.integers(-5, 9, 3)
        rows = [csr.values[a:b] for a, b in zip(csr.offsets, csr.offsets[1:])]
        made = [np.repeat(row, 2)[: len(row) + 5 + n].astype(np.int32) for row, n in zip(rows, numbers[:, 0])]
        return {"rows": made, "length": np.array([len(row) for row in rows]), "image": images}
    coin, numbers = rng.random() < 0.5, rng.integers(-5, 9, 3)
    flipped = np.where(coin.reshape(-1, *[1] * (images.ndim - 1)), images[:, ::-1], images)
    if MODE == "long":
        return {"rows": [np.zeros(MOST + 1)] * len(images)}
    if MODE == "batch":
        return {"image": images - images.mean(axis=0)}
    if MODE == "other" and batch.step > 0:
        flipped = flipped[:, :1]
    return {"image": flipped * np.float32(0.5), "coin": coin, "numbers": numbers}


if __name__ == "__main__" and len(sys.argv) > 1:  # a trainer: writes what it gets
    got, after = [], ""
    with penstock.connect(*sys.argv[2:3]) as loader:
        for epoch in itertools.islice(loader.epochs(), *map(int, sys.argv[3:] or [sys.maxsize])):
            for batch in epoch:
                before, after = after, json.dumps(loader.state())
                rows = batch.csr("rows") if "rows" in batch else None
                text = batch.csr("text") if "text.offsets" in batch else None
                for i in range(batch.sample_count):
                    fields = {name: np.array(batch[name][i]) for name in batch if not name.startswith(("rows", "text"))}
                    if rows is not None:
                        fields["rows"] = np.array(rows.values[rows.offsets[i] : rows.offsets[i + 1]])
                    if "text" in batch:
                        fields["text"] = np.array(text.values[text.offsets[i] : text.offsets[i + 1]] if text else batch["text"][i])
                    if (batch.epoch, batch.step, i) == (1, 3, 0) and loader.info.world_size == 1:
                        with open(f"{sys.argv[1][:-3]}state", "w", encoding="ascii") as file:
                            file.write(before)
                    got.append((batch.epoch, batch.step, int(batch.indices[i]), int(batch.sample_keys[i]), bool(batch.valid[i]), fields))
        rank = loader.info.rank
    np.save(f"{sys.argv[1]}.{rank}.npy", np.array(got, object), allow_pickle=True)
