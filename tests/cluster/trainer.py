"""A trainer for the tests of launch/slurm: writes digests as penstock-trainer does; saves and leaves when it is asked
to, as launch/slurm/preemptible.sbatch wants it, on any number of trainers and without PyTorch.

Trainers that do not talk to each other agree on the step to stop after through a file. Rank 0 names one that is far
enough ahead: none can be further than a ring's slots before another.
"""

import argparse
import json
import os
import time

import penstock
import xxhash

AHEAD = 16  # steps; more than any ring of these tests has slots


def replace(path, text):
    with open(path + ".part", "w", encoding="ascii") as file:
        file.write(text)
    os.replace(path + ".part", path)


def read(path):
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except FileNotFoundError:
        return None


def write_digests(batch, names, file):
    for i, index in enumerate(batch.indices):
        if not batch.valid[i]:
            continue
        digest = xxhash.xxh3_64()
        for name in names:
            digest.update(batch[name][i].tobytes())
        file.write(f"{batch.epoch} {batch.step} {batch.first_position + i} {index} {digest.hexdigest()}\n")
    file.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--digest", required=True, help="{rank} and {start} are replaced")
    parser.add_argument("--checkpoint")
    parser.add_argument("--save-every", type=int, help="steps: rank 0 saves a state that all trainers have passed")
    parser.add_argument("--step-seconds", type=float, default=0)
    args = parser.parse_args()
    start = os.environ.get("SLURM_RESTART_COUNT", "0")
    with penstock.connect() as loader:
        info = loader.info
        names = [field.name for field in info.fields]
        last = os.path.join(args.checkpoint, f"last-step.{start}") if args.checkpoint else None
        with open(args.digest.format(rank=info.rank, start=start), "w", encoding="ascii") as file:
            for batch in loader:
                write_digests(batch, names, file)
                time.sleep(args.step_seconds)
                if not last:
                    continue
                number = batch.epoch * info.steps_per_epoch + batch.step
                if args.save_every and info.rank == 0 and number >= AHEAD and number % args.save_every == 0:
                    epoch, step = divmod(number - AHEAD, info.steps_per_epoch)
                    replace(os.path.join(args.checkpoint, "state.json"),
                            json.dumps({**loader.state(), "epoch": epoch, "step": step}))
                if info.rank == 0 and not read(last) and read(os.path.join(args.checkpoint, "stop")) is not None:
                    replace(last, str(number + AHEAD))
                stop = int(read(last) or number + 1)
                assert number <= stop, f"rank {info.rank} is at {number}, all should stop after {stop}"
                if number == stop:
                    if info.rank == 0:
                        replace(os.path.join(args.checkpoint, "state.json"), json.dumps(loader.state()))
                    break


if __name__ == "__main__":
    main()
