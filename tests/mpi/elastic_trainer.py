"""A training that torchrun may start again with more or fewer processes: it goes on at its last checkpoint.

    elastic_trainer.py FOLDER [NAME]     checkpoint and digest.WORLD_SIZE.RANK.PID are there

A step takes long while there is a file named slow. NAME is a run of --also: every three steps comes a pass of its samples, in NAME.WORLD_SIZE.RANK.PID.
"""

import json
import os
import sys
import time

import penstock

folder = sys.argv[1]
slow = os.path.join(folder, "slow")
checkpoint = os.path.join(folder, "checkpoint")
rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
state = None
if os.path.exists(checkpoint):
    with open(checkpoint, encoding="ascii") as file:
        state = json.load(file)


def log_of(name):
    return open(os.path.join(folder, f"{name}.{world_size}.{rank}.{os.getpid()}"), "w", encoding="ascii")


def note(batch, log):
    log.write("".join(f"{batch.epoch} {batch.step} {index}\n" for index in batch.indices))
    log.flush()


def validations():
    """Goes on after each pass."""
    if len(sys.argv) == 2:
        return
    with log_of(sys.argv[2]) as log:
        for epoch in penstock.connect(sys.argv[2]).epochs():
            for batch in epoch:
                note(batch, log)
                del batch
            yield


with penstock.connect(state=state) as loader, log_of("digest") as out:
    passes = validations()
    for epoch in loader.epochs():
        for batch in epoch:
            note(batch, out)
            time.sleep(0.4 if os.path.exists(slow) else 0.02)
            if batch.step % 3 == 2:
                next(passes, None)
            del batch
            if rank == 0:
                with open(checkpoint + ".new", "w", encoding="ascii") as file:
                    json.dump(loader.state(), file)
                os.replace(checkpoint + ".new", checkpoint)
