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
    put(group, "time", np.arange(24), ["time"], units="days since 2018-12-20")
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


def multiscale(axes, scales, paths):
    """The attribute of an image; `scales`: of each level, a number for each axis."""
    units = {name: {"unit": "micrometer"} if name in "zyx" else {} for name in axes}
    kinds = {"t": "time", "c": "channel"}
    return [{"version": "0.4", "name": "image", "axes": [{"name": name, "type": kinds.get(name, "space")} | units[name] for name in axes],
             "datasets": [{"path": path, "coordinateTransformations": [{"type": "scale", "scale": scale}]} for path, scale in zip(paths, scales)]}]


def attributes(group, **ome):
    """What OME-Zarr says of a group, where 0.4 (Zarr v2) and 0.5 (v3) have it."""
    group.attrs.update(ome if group.metadata.zarr_format == 2 else {"ome": {"version": "0.5"} | ome})


def image(group, axes, values, levels=3, step=0.5, paths=None):
    """An image of several levels, each of every second item along y and x of the one before. Returns the levels' values."""
    paths = paths or [str(level) for level in range(levels)]
    scales = [[step * 2**level if axis in "yx" else 1.0 for axis in axes] for level in range(levels)]
    attributes(group, multiscales=multiscale(axes, scales, paths))
    pyramid = []
    for level, path in enumerate(paths):
        every = tuple(slice(None, None, 2**level) if axis in "yx" else slice(None) for axis in axes)
        names = {"dims": list(axes)} if group.metadata.zarr_format == 3 else {}  # v2: nothing but the image has names
        pyramid.append(put(group, path, values[every], chunks=tuple(min(16 if n < 100 else 256, n) for n in values[every].shape), **names))
    return pyramid


def ome(path, zarr_format, labels=("cells",), paths=None, shape=(3, 2, 5, 32, 48)):
    """An image [t, c, z, y, x] with labels [t, z, y, x]. Returns the levels of both."""
    rng = np.random.default_rng(5)
    group = zarr.open_group(str(path), mode="w", zarr_format=zarr_format)
    pyramid = image(group, "tczyx", rng.integers(1, 4000, shape).astype("u2"), paths=paths)
    found = []
    if labels:
        inside = group.create_group("labels")
        attributes(inside, labels=list(labels))
        for name in labels:
            found.append(image(inside.create_group(name), "tzyx", rng.integers(1, 9, (shape[0], *shape[2:])).astype("i4"), paths=paths))
    return pyramid, found


def plate(path, zarr_format, sides=(32, 32, 32, 32)):
    """Two wells of two fields, each an image [t, c, y, x] of one time."""
    rng = np.random.default_rng(6)
    group = zarr.open_group(str(path), mode="w", zarr_format=zarr_format)
    attributes(group, plate={"wells": [{"path": "A/1"}, {"path": "B/1"}]})
    for well, row in enumerate("AB"):
        inside = group.create_group(row).create_group("1")
        attributes(inside, well={"images": [{"path": "0"}, {"path": "1"}]})
        for field in range(2):
            image(inside.create_group(str(field)), "tcyx", rng.integers(1, 4000, (1, 2, sides[2 * well + field], 32)).astype("u2"), 2)


def spatialdata(path, zarr_format, tables=True):
    group = zarr.open_group(str(path), mode="w", zarr_format=zarr_format)
    group.attrs["spatialdata_attrs"] = {"version": "0.2"}
    images = group.create_group("images")
    image(images.create_group("tissue"), "cyx", np.ones((3, 64, 64), "u1"), 2)
    if tables:
        group.create_group("tables")
        anndata(path / "tables" / "table", zarr_format, "csr_matrix")
