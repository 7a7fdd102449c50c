"""A training that torchrun may start again with more or fewer processes: it goes on at its last checkpoint.

    elastic_trainer.py FOLDER     checkpoint and digest.WORLD_SIZE.RANK.PID are there
"""

import json
import os
import sys
import time

import penstock

folder = sys.argv[1]
checkpoint = os.path.join(folder, "checkpoint")
rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
state = None
if os.path.exists(checkpoint):
    with open(checkpoint, encoding="ascii") as file:
        state = json.load(file)
with penstock.connect(state=state) as loader:
    with open(os.path.join(folder, f"digest.{world_size}.{rank}.{os.getpid()}"), "w", encoding="ascii") as out:
        for epoch in loader.epochs():
            for batch in epoch:
                out.write("".join(f"{batch.epoch} {batch.step} {index}\n" for index in batch.indices))
                out.flush()
                time.sleep(0.02)
                del batch
                if rank == 0:
                    with open(checkpoint + ".new", "w", encoding="ascii") as file:
                        json.dump(loader.state(), file)
                    os.replace(checkpoint + ".new", checkpoint)
