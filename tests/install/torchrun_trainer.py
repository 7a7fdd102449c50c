"""A trainer with a validation of "val" after each epoch.

    torchrun_trainer.py FOLDER [VENV]     writes FOLDER/digest.RANK: run, epoch, step, index and digest of each sample

With VENV it is a process of torchrun, and Python, PyTorch and penstock have to be that environment's.
"""

import hashlib
import os
import sys

import penstock

folder, venv = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
if venv:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    assert dist.is_torchelastic_launched()
    assert all(os.path.realpath(path).startswith(os.path.realpath(venv) + "/")
               for path in (penstock.__file__, penstock.library_path(), torch.__file__)), (penstock.__file__, penstock.library_path())
    assert penstock.library_version() == penstock.__version__


def sample_bytes(batch, name, i):
    if venv:
        return batch.torch(name)[i].reshape(-1).view(torch.uint8).numpy().tobytes()
    return batch[name][i].tobytes()


def note(run, loader, batches, file):
    """Returns how many samples this trainer had."""
    count = 0
    for batch in batches:
        for i, index in enumerate(batch.indices):
            if batch.valid[i]:
                digest = hashlib.sha256()
                for field in loader.info.fields:
                    digest.update(sample_bytes(batch, field.name, i))
                print(run, batch.epoch, batch.step, index, digest.hexdigest()[:16], file=file)
                count += 1
    return count


def of_all(count):
    """What all trainers had, by PyTorch's own messages."""
    if not venv:
        return None
    total = torch.tensor(count)
    dist.all_reduce(total)
    return int(total)


with penstock.connect() as train, penstock.connect("val") as val:
    assert not venv or (train.info.rank, train.info.world_size) == (dist.get_rank(), dist.get_world_size())
    with open(os.path.join(folder, f"digest.{train.info.rank}"), "w", encoding="ascii") as file:
        for epoch in train.epochs():
            assert of_all(note("train", train, epoch, file)) in (None, train.info.dataset_samples)
            assert of_all(note("val", val, val.epoch(epoch.number), file)) in (None, val.info.dataset_samples)
if venv:
    dist.destroy_process_group()
