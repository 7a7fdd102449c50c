"""The data loader of DLIO, the benchmark of storage for training (github.com/argonne-lcf/dlio_benchmark).

In a workload's file:

    framework: pytorch
    reader:
      data_loader: pytorch
      data_loader_classname: penstock.dlio.DataLoader
      data_loader_sampler: iterative
      batch_size: 7

Each rank of DLIO is a trainer of the service of its node. PENSTOCK_RUN_DIR says where the service is, and
delivery.trainers is the number of DLIO's ranks. DLIO's epochs are the service's epochs. DLIO wants a file for
each part of its dataset: dataset.num_files_train times num_samples_per_file is the number of samples.
"""

from dlio_benchmark.common.enumerations import DataLoaderType, DatasetType
from dlio_benchmark.data_loader.base_data_loader import BaseDataLoader

from ._errors import Invalid
from .torch import Loader


class DataLoader(BaseDataLoader):
    """Batches of one DLIO rank, as dicts of tensors in shared memory."""

    def __init__(self, format_type, dataset_type, epoch_number):
        super().__init__(format_type, dataset_type, epoch_number, DataLoaderType.PYTORCH)
        self._loader = None

    def read(self):
        if self.dataset_type is not DatasetType.TRAIN:
            raise Invalid("penstock.dlio reads training data alone: set workflow.evaluation to False")
        self._loader = Loader(rank=self._args.my_rank, world_size=self._args.comm_size)
        info = self._loader.info
        if info.group_count != info.world_size:
            raise Invalid(
                f"DLIO counts the samples of each of its {info.world_size} ranks, and by delivery.mesh there are "
                f"{info.group_count} groups of ranks with the same samples: leave delivery.mesh out"
            )
        if info.global_batch_size != self.batch_size * info.world_size:
            raise Invalid(
                f"reader.batch_size is {self.batch_size}, and the service gives {info.world_size} trainers "
                f"{info.global_batch_size} samples together: batch.global_size has to be "
                f"{self.batch_size * info.world_size}"
            )
        if self._args.epochs > info.epochs:
            raise Invalid(f"train.epochs is {self._args.epochs}, and order.epochs is {info.epochs}: raise it")

    def next(self):
        super().next()
        yield from self._loader
        self.epoch_number += 1

    def finalize(self):
        if self._loader is not None and self._loader.state_dict()["epoch"] >= self._args.epochs:
            self._loader.close()
