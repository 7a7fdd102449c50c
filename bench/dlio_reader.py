"""Reads samples of a Zarr array for DLIO's own PyTorch DataLoader, by tensorstore. DLIO's file i stands for the array's
samples [i * num_samples_per_file, (i + 1) * num_samples_per_file)."""
import os

import tensorstore
from dlio_benchmark.reader.reader_handler import FormatReader


class ZarrReader(FormatReader):
    def __init__(self, dataset_type, thread_index, epoch):
        super().__init__(dataset_type, thread_index)
        # A worker is a process; the workers are the parallelism.
        context = tensorstore.Context({"data_copy_concurrency": {"limit": 1}, "cache_pool": {"total_bytes_limit": 1 << 28}})
        self._array = tensorstore.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": os.environ["DLIO_ZARR"]}},
                                       context=context, open=True, recheck_cached_data=False).result()

    def open(self, filename):
        return int(os.path.basename(filename).split("_")[1].split(".")[0])

    def close(self, filename):
        pass

    def get_sample(self, filename, sample_index):
        index = self.open_file_map[filename] * self._args.num_samples_per_file + sample_index
        self._sample = self._array[index].read().result()

    def next(self):
        yield from super().next()

    def read_index(self, global_sample_idx, step):
        super().read_index(global_sample_idx, step)
        return self._sample  # and not DLIO's resized image: both loaders deliver the same bytes

    def finalize(self):
        return super().finalize()

    def is_index_based(self):
        return True

    def is_iterator_based(self):
        return False
