#!/usr/bin/env python3
"""Windows of 16 steps from a robot's store, as other libraries give them: one library, cold and warm.

    windows_peers.py xbatcher|robomimic|lerobot DATASET --work DIR [--batch N] [--seconds S] [--workers N]

DATASET is a directory of `penstock synth --layout robot`. A sample is what bench/windows.py asks Penstock for: image, state and
action at steps -1 to 14 of a random frame.

  xbatcher    BatchGenerator over xarray and zarr-python on DATASET itself; warm: the arrays loaded beforehand. Knows no episodes
  robomimic   SequenceDataset over HDF5 with the same frames, not compressed; warm: hdf5_cache_mode "all" over as many episodes as
              make --cached samples, for it keeps each sample by itself
  lerobot     LeRobotDataset, images as PNG in Parquet files, which is its way without videos. It keeps nothing: warm is cold

All of them go through PyTorch's DataLoader, without workers and with --workers of them, and the better figure counts. The clock
runs from the first batch on. The consumer touches one byte of each page, as penstock-trainer --touch does. HDF5 and Parquet
have the first --frames frames, for the cost of a sample does not depend on their number. Prints {"cold": samples/s, "warm": samples/s}.
"""
import argparse
import json
import os
import pathlib
import shutil
import sys
import time

import numpy
import torch
import zarr
from torch.utils.data import DataLoader, Dataset, RandomSampler

STEPS, BEFORE, PAGE_BYTES, RATE = 16, 1, 4096, 10  # frames a second: any number
FIELDS = ("img", "state", "action")


def touch(batch):
    for value in batch.values() if isinstance(batch, dict) else batch:
        if isinstance(value, dict):
            touch(value)
        elif isinstance(value, torch.Tensor) and value.nbytes >= PAGE_BYTES:
            value.contiguous().view(-1).view(torch.uint8)[::PAGE_BYTES].sum()


def rate(dataset, workers, arguments):
    """Samples a second of a DataLoader, from its first batch on."""
    sampler = RandomSampler(dataset, replacement=True, num_samples=1 << 30, generator=torch.Generator().manual_seed(17))
    loader = DataLoader(dataset, arguments.batch, sampler=sampler, num_workers=workers,
                        multiprocessing_context="fork" if workers else None)
    batches = iter(loader)
    touch(next(batches))
    begin, samples = time.monotonic(), 0
    while time.monotonic() - begin < arguments.seconds:
        touch(next(batches))
        samples += arguments.batch
    return samples / (time.monotonic() - begin)


def best_rate(make, arguments):
    return max(rate(make(), workers, arguments) for workers in sorted({0, arguments.workers}))


def first_episodes(dataset, most_frames):
    """Whole episodes, as [first, end), with at most so many frames."""
    group = zarr.open_group(dataset, mode="r")
    ends = [0, *(int(end) for end in group["meta/episode_ends"][:] if end <= most_frames)]
    return group, list(zip(ends, ends[1:]))


def written(path, write):
    """`path`, written under another name first: what is there is complete."""
    if not path.exists():
        part = path.with_name(path.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        write(part)
        part.rename(path)
    return path


# --- xbatcher --------------------------------------------------------------------------------------


class Windows(Dataset):
    """xbatcher.loaders.torch.MapDataset gives one tensor; a sample here has three. Each process opens the store for itself:
    zarr-python's threads do not survive a fork."""

    def __init__(self, path, loaded):
        import xarray

        self.path, self.owner, self.windows = path, None, None
        self.frames = zarr.open_group(path, mode="r")["data/action"].shape[0]
        self.arrays = xarray.open_zarr(path, group="data", chunks=None)[list(FIELDS)].load() if loaded else None

    def __len__(self):
        return self.frames - STEPS + 1

    def __getitem__(self, index):
        if self.owner != os.getpid():
            import xarray
            import xbatcher

            arrays = self.arrays
            if arrays is None:
                arrays = xarray.open_zarr(self.path, group="data", chunks=None)[list(FIELDS)]
            sizes = dict(arrays.sizes) | {"frame": STEPS}  # axes that are not named become one with the windows
            self.windows = xbatcher.BatchGenerator(arrays, sizes, {"frame": STEPS - 1}, preload_batch=False)
            self.owner = os.getpid()
        window = self.windows[index]
        return {field: torch.from_numpy(numpy.ascontiguousarray(window[field].values)) for field in FIELDS}


def xbatcher_rates(arguments):
    return {"cold": best_rate(lambda: Windows(arguments.dataset, False), arguments),
            "warm": best_rate(lambda: Windows(arguments.dataset, True), arguments)}


# --- robomimic -------------------------------------------------------------------------------------


def write_hdf5(path, arguments):
    import h5py

    group, episodes = first_episodes(arguments.dataset, arguments.frames)
    few = [number for number, (_, end) in enumerate(episodes) if number == 0 or end <= arguments.cached]
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        for number, (first, end) in enumerate(episodes):
            demo = data.create_group(f"demo_{number}")
            demo.attrs["num_samples"] = end - first
            demo["actions"] = group["data/action"][first:end]
            demo["obs/img"] = group["data/img"][first:end]
            demo["obs/state"] = group["data/state"][first:end]
        data.attrs["total"] = episodes[-1][1]
        file["mask/few"] = numpy.array([f"demo_{number}" for number in few], dtype="S")


def robomimic_rates(arguments):
    from robomimic.utils import obs_utils
    from robomimic.utils.dataset import SequenceDataset

    path = arguments.work / f"{pathlib.Path(arguments.dataset).stem}-{arguments.frames}-{arguments.cached}.hdf5"
    if not path.exists():
        write_hdf5(path.with_suffix(".part"), arguments)
        path.with_suffix(".part").rename(path)
    obs_utils.initialize_obs_utils_with_obs_specs({"obs": {"low_dim": ["state"], "rgb": ["img"]}})

    def make(cache, few):
        dataset = SequenceDataset(str(path), ("img", "state"), ("actions",), frame_stack=BEFORE + 1, seq_length=STEPS - BEFORE,
                                  get_pad_mask=True, hdf5_cache_mode=cache, filter_by_attribute=few, load_next_obs=False)
        dataset.close_and_delete_hdf5_handle()
        return dataset

    cached = make("all", "few")
    return {"cold": best_rate(lambda: make(None, None), arguments), "warm": best_rate(lambda: cached, arguments)}


# --- lerobot ---------------------------------------------------------------------------------------


def write_lerobot(path, arguments):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    group, episodes = first_episodes(arguments.dataset, arguments.frames)
    features = {field: {"dtype": "image" if field == "img" else "float32", "shape": group[f"data/{field}"].shape[1:],
                        "names": ["height", "width", "channel"] if field == "img" else None} for field in FIELDS}
    dataset = LeRobotDataset.create("penstock/windows", RATE, features, root=path, use_videos=False)
    for first, end in episodes:
        arrays = {field: group[f"data/{field}"][first:end] for field in FIELDS}
        for frame in range(end - first):
            dataset.add_frame({"task": "push", **{field: arrays[field][frame] for field in FIELDS}})
        dataset.save_episode()
    dataset.finalize()


def lerobot_rates(arguments):
    os.environ["HF_HUB_OFFLINE"] = "1"
    sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "python/examples/programs"))
    import vision  # noqa: F401
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    path = written(arguments.work / f"{pathlib.Path(arguments.dataset).stem}-{arguments.frames}.lerobot", lambda part: write_lerobot(part, arguments))
    offsets = [(step - BEFORE) / RATE for step in range(STEPS)]
    dataset = LeRobotDataset("penstock/windows", root=path, delta_timestamps={field: offsets for field in FIELDS})
    measured = best_rate(lambda: dataset, arguments)
    return {"cold": measured, "warm": measured}


PEERS = {"xbatcher": xbatcher_rates, "robomimic": robomimic_rates, "lerobot": lerobot_rates}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=PEERS)
    parser.add_argument("dataset")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="where HDF5 and Parquet files go")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement (%(default)s)")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--frames", type=int, default=2000, help="of HDF5 and Parquet files (%(default)s)")
    parser.add_argument("--cached", type=int, default=500, help="robomimic: samples in memory, about (%(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rates = PEERS[arguments.name](arguments)
    print(json.dumps({variant: round(value, 1) for variant, value in rates.items()}), flush=True)
    os._exit(0)  # threads of libraries may live on


if __name__ == "__main__":
    main()
