"""A trainer for tests that look at a job: takes all batches, says so, and waits before it leaves.

    hold_trainer.py FOLDER [SECONDS]    SECONDS of pretended work a batch. Writes FOLDER/done.RANK with the seconds spent in
                                        next(); leaves when there is FOLDER/go,
                                        and pretends no more work then
"""

import os
import sys
import time

import penstock

folder, work = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0
go = os.path.join(folder, "go")
waited = 0.0
with penstock.connect() as loader:
    batches = iter(loader)
    while True:
        start = time.monotonic()
        batch = next(batches, None)
        waited += time.monotonic() - start if batch is not None else 0
        if batch is None:
            break
        if not os.path.exists(go):
            time.sleep(work)
    del batch
    with open(os.path.join(folder, f"done.{loader.info.rank}"), "w", encoding="ascii") as file:
        file.write(str(waited))
    deadline = time.monotonic() + 120
    while not os.path.exists(go) and time.monotonic() < deadline:
        time.sleep(0.01)
