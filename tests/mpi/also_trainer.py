"""A trainer with a validation run beside the one that it trains on.

    also_trainer.py FOLDER MODE     writes FOLDER/train.RANK and FOLDER/val.RANK: epoch, step and indices of each batch

MODE says how it validates: keep (two batches first, then every 5 steps all of them, over one connection), again (the same, with a
connection each time), torch (keep, by penstock.torch.Loader), slow (keep, with work between batches), die (rank 1 dies in its second
validation), die-once (its first life does; slow; the state of each validation's begin is in PENSTOCK_STATE_FILE), idle (it does
nothing for 5 s, and writes what the readers' processors did to FOLDER/cpu), metrics (keep; what rank 0 sees of both runs once val has
delivered a pass is in FOLDER/seen), watched (keep; in the midst of their work trainers wait until there is FOLDER/looked).
"""

import glob
import json
import os
import re
import sys
import time
import urllib.request

import penstock

folder, mode = sys.argv[1:]


def log_of(name, rank):
    return open(os.path.join(folder, f"{name}.{rank}"), "w", encoding="ascii")


def note(log, batch):
    print(batch.epoch, batch.step, *(int(index) for index in batch.indices), file=log, flush=True)


def work():
    if mode in ("slow", "die-once"):
        time.sleep(0.05)


def is_first_life():
    if mode != "die-once" or os.path.exists(os.path.join(folder, "lives")):
        return False
    with open(os.path.join(folder, "lives"), "w", encoding="ascii") as file:
        file.write("1")
    return True


def save_state():
    """For the next life."""
    path = os.environ.get("PENSTOCK_STATE_FILE")
    if path and rank == 0:
        with open(path + ".part", "w", encoding="ascii") as file:
            json.dump(train.state(), file)
        os.replace(path + ".part", path)


def checkpoint():
    """What save_state() saved: torchrun starts a trainer again, and leaves the state to the trainer."""
    if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
        return None
    with open(os.environ["PENSTOCK_STATE_FILE"], encoding="ascii") as file:
        return json.load(file)


held = []  # as a variable of a loop, the last batch of a validation is there until the next one's first is


def validations(rank, log):
    """A function that validates, with at most `limit` batches."""
    if mode == "torch":
        from penstock.torch import Loader

        loader = Loader(name="val")
        passes = iter(lambda: iter(loader), None)
    elif mode != "again":
        passes = penstock.connect("val").epochs()
    times = []

    def validate(limit=None):
        times.append(limit)
        epoch = next(penstock.connect("val").epochs() if mode == "again" else passes)
        for count, batch in enumerate(epoch, 1):
            note(log, batch)
            held[:] = [batch]
            if count == limit:
                break
            if rank == 1 and len(times) == 2 and (mode == "die" or is_first_life()):
                os._exit(9)
            work()

    return validate


def reader_seconds():
    """What each reader of this run has used of its processors."""
    out = {}
    for path in glob.glob("/proc/[0-9]*"):
        try:
            with open(path + "/cmdline", "rb") as file:
                ours = folder.encode() in file.read() and os.readlink(path + "/exe").endswith("penstock-reader")
            with open(path + "/stat", encoding="ascii") as file:
                words = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if ours:
            out[path] = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return out


def idle():
    time.sleep(3)  # the readers fill their slots, and come to rest
    before, start = reader_seconds(), time.monotonic()
    time.sleep(2)
    after, seconds = reader_seconds(), time.monotonic() - start
    with open(os.path.join(folder, "cpu"), "w", encoding="ascii") as file:
        json.dump([(after[path] - before[path]) / seconds for path in before], file)


def look(run):
    """What reader 0 of a run says, by HTTP and by file, once all of its trainers have taken a pass."""
    run_dir = os.environ["PENSTOCK_RUN_DIR"] + ("" if run == "train" else "." + run)
    with open(os.path.join(run_dir, "reader-0.json"), encoding="ascii") as file:
        address = json.load(file)[0]["targets"][0]

    def fetch(way):
        if way == "http":
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
                return answer.read().decode()
        with open(os.path.join(folder, run + ".prom"), encoding="utf-8") as file:
            return file.read()
    out, deadline = {}, time.monotonic() + 100
    for way in "http", "file":
        while text := fetch(way):
            taken = re.findall(r"penstock_trainer_batches_total{.*} (\d+)", text)
            if len(taken) == 2 and min(map(int, taken)) >= 5:
                break
            assert time.monotonic() < deadline, f"run {run}, by {way}: trainers have taken {taken} batches"
            time.sleep(0.05)
        out[f"{way}.{run}"] = text
    return out


def wait_for_the_watcher():
    deadline = time.monotonic() + 300
    while not os.path.exists(os.path.join(folder, "looked")):
        assert time.monotonic() < deadline, "nobody has looked"
        time.sleep(0.05)


with penstock.connect(state=checkpoint()) as train:
    rank = train.info.rank
    with log_of("train", rank) as train_log, log_of("val", rank) as val_log:
        validate = validations(rank, val_log)
        validate(2)
        for epoch in train.epochs():
            for count, batch in enumerate(epoch, 1):
                note(train_log, batch)
                work()
                if count % 5 == 0:
                    save_state()
                    validate()
                if mode == "metrics" and count == 6 and epoch.number == 0 and rank == 0:
                    with open(os.path.join(folder, "seen"), "w", encoding="utf-8") as file:
                        json.dump({**look("train"), **look("val")}, file)
                if mode == "watched" and count == 6 and epoch.number == 0:
                    wait_for_the_watcher()
                if mode == "idle" and count == 6 and epoch.number == 0 and rank == 0:
                    idle()
    if rank == 0:
        with open(os.path.join(folder, "state.json"), "w", encoding="ascii") as file:
            json.dump(train.state(), file)
