"""Weather for train.py, as anemoi-datasets creates it: four variables of two levels every six hours, one date missing.

    python3 data.py FOLDER [--scale N]

FOLDER/data.zarr is the dataset, FOLDER/run.yaml Penstock's configuration.
"""

import argparse
import pathlib

import numpy as np
import xarray
import yaml
from anemoi.datasets.create.tasks import run_task

RUN = """dataset:
  uri: data.zarr
  fields:
    data: {array: data, steps: "-1:2"}
    dates: {array: dates, steps: "-1:2"}
samples:
  split: {range: ":2020-01-21T12"}
batch: {global_size: BATCH, last: drop}
order: {seed: 1, epochs: 3}
delivery: {trainers: 2, connect_timeout: 600}    # anemoi-training takes its time to import
"""
DATES, TRAINED, MISSING = 100, 85, 17  # 80 samples of three dates, 78 of four
VARIABLES = [f"{name}{level}" for name in "tuvq" for level in (850, 500)]


def weather(dates, height, width):
    rng = np.random.default_rng(0)
    latitude, longitude = np.linspace(85, -85, height), np.arange(width) * 360 / width
    wave = np.cos(np.radians(latitude))[:, None] * np.sin(np.radians(3 * longitude))
    shape = (len(dates), height, width)
    fields = {name: (("time", "latitude", "longitude"), np.round(256 * (wave + rng.standard_normal(shape, np.float32) / 4)) / np.float32(256))
              for name in VARIABLES}
    axes = {"time": ("time", dates, {"standard_name": "time"}), "latitude": ("latitude", latitude, {"units": "degrees_north"}),
            "longitude": ("longitude", longitude, {"units": "degrees_east"})}
    return xarray.Dataset({name: (dims, values.astype(np.float32)) for name, (dims, values) in fields.items()}, axes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--scale", type=int, default=1)
    arguments = parser.parse_args()
    folder, scale = arguments.folder, arguments.scale
    folder.mkdir(parents=True)
    dates = np.datetime64("2020-01-01T00", "ns") + np.arange(DATES + 50 * (scale - 1)) * np.timedelta64(6, "h")
    weather(np.delete(dates, MISSING), 24 * scale, 48 * scale).to_netcdf(folder / "weather.nc")
    recipe = {"dates": {"start": str(dates[0])[:19], "end": str(dates[-1])[:19], "frequency": "6h", "missing": [str(dates[MISSING])[:19]]},
              "input": {"netcdf": {"path": str(folder / "weather.nc")}}, "statistics": {"allow_nans": True}}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    for task in ("init", "load", "finalise", "cleanup"):
        run_task(task, recipe=str(folder / "recipe.yaml"), path=str(folder / "data.zarr"), overwrite=True)
    end = dates[len(dates) - DATES + TRAINED - 1]
    (folder / "run.yaml").write_text(RUN.replace("2020-01-21T12", str(end)[:13]).replace("BATCH", str(min(2 * scale, 4))), encoding="utf-8")


if __name__ == "__main__":
    main()
