"""A robot's episodes as a LeRobot dataset (v3: Parquet and MP4), written by LeRobot, and the same imported for Penstock.

    data.py FOLDER [--scale N]

FOLDER gets robot/ (the LeRobot dataset), robot.zarr (what `penstock import lerobot robot robot.zarr` makes of it) and run.yaml. A
sample is what a diffusion policy trains on: two observations, and the actions at steps -1 to 14.
"""

import argparse
import os
import pathlib
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import numpy as np  # noqa: E402
import vision  # noqa: E402, F401, I001
from lerobot.datasets.lerobot_dataset import LeRobotDataset  # noqa: E402

from penstock.import_lerobot import main as import_lerobot  # noqa: E402

SIDE, RATE, EPISODES = 96, 10, 4
FEATURES = {
    "observation.images.top": {"dtype": "video", "shape": (SIDE, SIDE, 3), "names": ["height", "width", "channel"]},
    "observation.state": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
    "action": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
}
RUN = """dataset:
  uri: robot.zarr
  constants: [meta/tasks]
  fields:
    observation.images.top: {array: observation.images.top, steps: "-1:1", mean: 0, std: 255}
    observation.state: {array: observation.state, steps: "-1:1"}
    action: {array: action, steps: "-1:15"}
    timestamp: {array: timestamp}
    frame_index: {array: frame_index}
    episode_index: {array: episode_index}
    index: {array: index}
    task_index: {array: task_index}
samples:
  episodes: {ends: meta/episode_ends}
  pad: {before: 1, after: 7}
batch: {global_size: 32}
order: {seed: 17, epochs: 2}
delivery: {trainers: 2, connect_timeout: 600}
"""


def episode(rng, length):
    """A disc that follows a target over a pattern: (pictures, places, targets)."""
    targets = np.cumsum(rng.normal(0, 3, (length, 2)), axis=0) + SIDE / 2
    targets = np.clip(targets, 8, SIDE - 8).astype("f4")
    places = np.concatenate([targets[:1], targets[:-1]])
    rows, columns = np.mgrid[:SIDE, :SIDE]
    pattern = np.stack([rows * 2, columns * 2, (rows + columns) % 256], axis=-1).astype("u1")
    pictures = np.repeat(pattern[None], length, axis=0)
    for picture, (x, y) in zip(pictures, places):
        picture[(columns - x) ** 2 + (rows - y) ** 2 < 36] = (255, 60, 20)
    return pictures, places, targets


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--scale", type=int, default=1)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    dataset = LeRobotDataset.create("penstock/robot", RATE, FEATURES, root=arguments.folder / "robot", vcodec="h264")
    for number in range(EPISODES * arguments.scale):
        for picture, place, target in zip(*episode(rng, int(rng.integers(40, 80)) * arguments.scale)):
            dataset.add_frame({"task": ("push", "follow")[number % 2], "observation.images.top": picture, "observation.state": place,
                               "action": target})
        dataset.save_episode()
    dataset.finalize()
    (arguments.folder / "run.yaml").write_text(RUN, encoding="ascii")
    if import_lerobot([str(arguments.folder / "robot"), str(arguments.folder / "robot.zarr"), "--processes", "1"]) != 0:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
