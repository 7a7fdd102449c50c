"""A trainer that abandons epochs: of epoch e it takes as many batches as the e-th number says, or all of them for 0.

    skipping_trainer.py FOLDER NUMBER...     writes FOLDER/log.RANK: epoch, step and indices of each batch

With --differ rank 0 takes one batch more than the others do. With --all the last epoch is skipped, too.
"""

import os
import sys
import time

import penstock

folder, counts = sys.argv[1], [int(word) for word in sys.argv[2:] if word.isdigit()]
with penstock.connect() as loader, \
        open(os.path.join(folder, f"log.{loader.info.rank}"), "w", encoding="ascii") as log:
    for epoch in loader.epochs():
        wanted = counts[epoch.number] + ("--differ" in sys.argv and loader.info.rank == 0)
        for count, batch in enumerate(epoch, 1):
            print(batch.epoch, batch.step, *batch.indices, file=log)
            if count == wanted:
                break
        assert loader.state()["epoch"] >= epoch.number
        if epoch.number + 1 == len(counts) and "--all" not in sys.argv:
            break
        if counts[epoch.number]:
            loader.skip(epoch.number + 1)
            time.sleep(0.05)  # other work, meanwhile readers hear of the skip
    print("state", loader.state()["epoch"], loader.state()["step"], file=log)
