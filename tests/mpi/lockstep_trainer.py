"""A trainer that works in step with the others (torch.distributed) and saves a checkpoint's state every few steps. Rank 1 of
the first life dies in the middle: torchrun then starts all of them again, from the checkpoint.

    lockstep_trainer.py FOLDER      writes FOLDER/log.RANK.LIFE: epoch, step and indices of each batch
"""

import json
import os
import sys

import torch
import torch.distributed

import penstock

DIES_AT, SAVES_EVERY = 11, 4

folder, rank, life = sys.argv[1], int(os.environ["RANK"]), os.environ["TORCHELASTIC_RESTART_COUNT"]
path = os.path.join(folder, "state.json")
state = None
if os.path.exists(path):
    with open(path, encoding="ascii") as file:
        state = json.load(file)
# torchrun's store outlives its workers: without a prefix, gloo may find the address of one that is dead.
store = torch.distributed.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
torch.distributed.init_process_group("gloo", store=torch.distributed.PrefixStore(f"life{life}", store),
                                     rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
with penstock.connect(state=state) as loader, \
        open(os.path.join(folder, f"log.{rank}.{life}"), "w", encoding="ascii") as log:
    for count, batch in enumerate(loader, 1):
        torch.distributed.all_reduce(torch.ones(1))
        print(batch.epoch, batch.step, *batch.indices, file=log, flush=True)
        if life == "0" and rank == 1 and count == DIES_AT:
            os._exit(1)
        if rank == 0 and count % SAVES_EVERY == 0:
            with open(path + ".part", "w", encoding="ascii") as file:
                json.dump(loader.state(), file)
            os.replace(path + ".part", path)
torch.distributed.destroy_process_group()
