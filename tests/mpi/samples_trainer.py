"""A trainer that saves its batches: samples_trainer.py FOLDER writes FOLDER/RANK.EPOCH.STEP.npz of fields, `indices`, `valid` and, as
"valid of F", what `valid_of` has."""

import os
import sys

import numpy as np

import penstock

with penstock.connect() as loader:
    for batch in loader:
        name = f"{loader.info.rank}.{batch.epoch}.{batch.step}.npz"
        masks = {f"valid of {field}": mask for field, mask in batch.valid_of.items()}
        np.savez(os.path.join(sys.argv[1], name), **batch, **masks, indices=batch.indices, valid=batch.valid)
        for field in loader.info.fields:
            assert batch[field.name].shape == (batch.sample_count, *field.shape), field
