"""A trainer that saves its batches: samples_trainer.py FOLDER writes FOLDER/RANK.EPOCH.STEP.npz of fields, `indices`, `valid`, `keys` and, as
"valid of F", what `valid_of` has. With constants, FOLDER/constants.RANK.npz has them, and attributes of field F as "attributes of F"."""

import importlib.util
import json
import os
import sys

import numpy as np

import penstock

with penstock.connect() as loader:
    if loader.constants:
        told = {f"attributes of {field.name}": json.dumps(field.attributes)
                for field in (*loader.fields.values(), *loader.info.constants)}
        assert not any(array.flags.writeable for array in loader.constants.values())
        np.savez(os.path.join(sys.argv[1], f"constants.{loader.info.rank}.npz"), **loader.constants, **told)
    for batch in loader:
        name = f"{loader.info.rank}.{batch.epoch}.{batch.step}.npz"
        masks = {f"valid of {field}": mask for field, mask in batch.valid_of.items()}
        np.savez(os.path.join(sys.argv[1], name), **batch, **masks, indices=batch.indices, valid=batch.valid,
                 keys=batch.sample_keys)
        if "text.offsets" in batch:  # test_vlen.py
            texts = batch.strings("text")
            assert len(texts) == batch.sample_count and "".join(texts).encode() == batch["text"].tobytes()
            told = {field.name: field.attributes["encoding"] for field in loader.info.fields
                    if field.most_items and "encoding" in field.attributes}
            with open(os.path.join(sys.argv[1], "strings.json"), "w", encoding="utf-8") as file:
                json.dump({name: told[name] for name in ("text", "raw", "sharded", "joined", "titles") if name in told}, file)
            if importlib.util.find_spec("pyarrow"):
                import pyarrow

                table = pyarrow.record_batch(batch.arrow())
                table.validate(full=True)
                for name in {"text", "joined"} & set(batch):
                    assert table[name].to_pylist() == batch.strings(name) and str(table[name].type) == "large_string"
        for field in loader.info.fields:
            shape = batch[field.name].shape  # with steps by epoch fewer than the field's
            assert field.steps or (shape[0], *shape[2:]) == (batch.sample_count, *field.shape[1:]) and shape[1:] <= field.shape, field
