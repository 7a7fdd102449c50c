"""Batches from the Penstock service of this node, as NumPy arrays in shared memory.

    import penstock

    with penstock.connect() as loader:
        for epoch in loader.epochs():
            for batch in epoch:
                train(batch["latents"], batch["text"], batch.valid)

The arrays are views of shared memory, without a copy. A batch's memory goes back to the service
when the batch and its last view are gone. A view that is kept keeps the batch's memory.
batch.torch("x") is the same array as a PyTorch tensor, and keeps the memory, too.

connect() takes run directory, rank and world size from the environment that torchrun, Slurm or
penstock-reader sets: PENSTOCK_RUN_DIR, RANK and WORLD_SIZE. Ranks that share a model (delivery.mesh) share batches, too:
info.group, info.coordinates, and of a field that is cut positions().
"""

from ._batch import Batch
from ._encoder import Encoder
from ._errors import (
    Corrupt,
    Ended,
    Error,
    Interrupted,
    Invalid,
    InputOutput,
    Lost,
    MPIFailed,
    NotFound,
    OutOfMemory,
    Protocol,
    Refused,
    Timeout,
    Unsupported,
)
from ._info import Axis, Cut, Field, Info, Stats
from ._library import library_path, library_version
from ._loader import Loader, connect
from ._ragged import Csr
from ._transform import Rng, TransformBatch, transform

__version__ = "0.1.0"

__all__ = [
    "Axis",
    "Batch",
    "Corrupt",
    "Csr",
    "Cut",
    "Encoder",
    "Ended",
    "Error",
    "Field",
    "Info",
    "InputOutput",
    "Interrupted",
    "Invalid",
    "Loader",
    "Lost",
    "MPIFailed",
    "NotFound",
    "OutOfMemory",
    "Protocol",
    "Refused",
    "Rng",
    "Stats",
    "Timeout",
    "TransformBatch",
    "Unsupported",
    "connect",
    "library_path",
    "library_version",
    "transform",
]
