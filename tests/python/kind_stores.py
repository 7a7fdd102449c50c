"""Small stores as other libraries write them, by zarr-python 3 alone: for the tests of `penstock inspect --write` and of OME-Zarr."""

import json

import numpy as np
import zarr


def put(group, name, values, dims=None, chunks=None, **attributes):
    """An array, with names of dimensions as xarray has them in either format."""
    if dims and group.metadata.zarr_format == 2:
        attributes["_ARRAY_DIMENSIONS"] = dims
    names = {"dimension_names": dims} if dims and group.metadata.zarr_format == 3 else {}
    array = group.create_array(name, shape=values.shape, dtype=values.dtype, chunks=chunks or values.shape, attributes=attributes, **names)
    array[...] = values
    return values


def anemoi(path, zarr_format, dates=20, constant=False):
    """With one missing date; `constant`: a variable is the same everywhere, and its stdev 0."""
    rng = np.random.default_rng(1)
    group = zarr.open_group(str(path), mode="w", zarr_format=zarr_format)
    missing = ["2020-01-02T00:00:00"] if dates > 4 else []
    group.attrs.update({"variables": ["2t", "msl", "lsm"], "missing_dates": missing, "frequency": "6h"})
    data = rng.random((dates, 3, 1, 40)).astype("f4")
    if constant:
        data[:, 2] = 1
    put(group, "data", data, ["time", "variable", "ensemble", "cell"], (1, 3, 1, 40))
    put(group, "dates", np.datetime64("2020-01-01", "s") + np.arange(dates) * np.timedelta64(6, "h"), ["time"])
    put(group, "mean", data.mean((0, 2, 3), dtype="f8"), ["variable"])
    put(group, "stdev", data.std((0, 2, 3), dtype="f8"), ["variable"])
    put(group, "latitudes", rng.random(40), ["cell"])
    put(group, "longitudes", rng.random(40), ["cell"])
    return data


def anndata(path, zarr_format, form, cells=30, genes=12):
    """`form`: dense, csr_matrix or csc_matrix. Returns X, dense."""
    rng = np.random.default_rng(2)
    group = zarr.open_group(str(path), mode="w", zarr_format=zarr_format)
    group.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
    matrix = (rng.random((cells, genes)) * (rng.random((cells, genes)) < 0.3)).astype("f4")
    if form == "dense":
        put(group, "X", matrix, **{"encoding-type": "array"})
    else:
        rows, columns = np.nonzero(matrix if form == "csr_matrix" else matrix.T)
        sparse = group.create_group("X", attributes={"encoding-type": form, "shape": [cells, genes]})
        put(sparse, "indices", columns.astype("i4"))
        put(sparse, "indptr", np.searchsorted(rows, np.arange((cells if form == "csr_matrix" else genes) + 1)).astype("i4"))
        put(sparse, "data", (matrix if form == "csr_matrix" else matrix.T)[rows, columns])
    obs = group.create_group("obs", attributes={"encoding-type": "dataframe", "_index": "_index", "column-order": ["kind", "n genes"]})
    put(obs, "n genes", (matrix > 0).sum(1))
    kind = obs.create_group("kind", attributes={"encoding-type": "categorical"})
    put(kind, "codes", rng.integers(0, 3, cells).astype("i1"))
    group.create_group("var", attributes={"encoding-type": "dataframe", "_index": "_index", "column-order": []})
    put(group.create_group("layers"), "log", np.log1p(matrix))
    return matrix


def replay(path, zarr_format, with_action=True):
    rng = np.random.default_rng(3)
    group = zarr.open_group(str(path), mode="w", zarr_format=zarr_format)
    data, meta = group.create_group("data"), group.create_group("meta")
    put(data, "camera0_rgb", rng.integers(0, 256, (90, 6, 6, 3)).astype("u1"), chunks=(1, 6, 6, 3))
    put(data, "robot0_eef_pos", rng.random((90, 3)).astype("f4"), chunks=(30, 3))
    if with_action:
        put(data, "action", rng.random((90, 2)).astype("f4"), chunks=(30, 2))
    put(meta, "episode_ends", np.array([40, 90]))


def xarrays(path, zarr_format, **attributes):
    """As xarray writes a dataset with the names of its dimensions, and integers that mean temperatures."""
    rng = np.random.default_rng(4)
    group = zarr.open_group(str(path), mode="w", zarr_format=zarr_format)
    put(group, "t2m", rng.integers(-500, 500, (24, 4, 5)).astype("i2"), ["time", "lat", "lon"], (6, 4, 5), scale_factor=0.01, add_offset=273.15,
        **attributes)
    put(group, "orography", rng.random((4, 5)), ["lat", "lon"])
    put(group, "time", np.arange(24), ["time"], units="days since 2017-12-20")
    put(group, "lat", np.arange(4.0), ["lat"])
    put(group, "lon", np.arange(5.0), ["lon"])


def arrays(path, zarr_format):
    """With an index into an array of another length."""
    group = zarr.open_group(str(path), mode="w", zarr_format=zarr_format)
    put(group, "latents", np.arange(1, 161, dtype="f4").reshape(20, 8), chunks=(5, 8))
    put(group, "to_text", np.arange(1, 21) // 6)
    put(group, "text", np.arange(1, 13, dtype="f4").reshape(4, 3))


def lerobot(path):
    (path / "meta").mkdir(parents=True)
    (path / "data" / "chunk-000").mkdir(parents=True)
    (path / "data" / "chunk-000" / "file-000.parquet").write_bytes(b"PAR1")
    (path / "meta" / "info.json").write_text(json.dumps({"codebase_version": "v3.0", "fps": 30}))
