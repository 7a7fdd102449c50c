"""References of kerchunk and VirtualiZarr must decode to what the files that they lead to hold.

    python test_references.py --dump PATH/dump_array --field PATH/dump_field --hand
    python test_references.py --dump PATH/dump_array --field PATH/dump_field --peers

--hand takes no package: a file with raw chunks as HDF5 has them, and references to it in every form. --peers takes h5py, which
writes HDF5 files and says where their chunks lie; pyarrow, netCDF4, kerchunk and VirtualiZarr: as far as they are installed.
Without any of them it exits 77 (skipped).
"""

import argparse
import array
import base64
import itertools
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import zlib

from dumping import Dump, DumpField

SKIPPED = 77


GROUP = {"zarr_format": 2}


class Checks:
    def __init__(self, dump_tool, field_tool, folder):
        self.folder = folder
        self.dump = Dump(dump_tool, DUMP_VIRTUAL=str(folder))
        self.fields = DumpField(field_tool)
        self.done, self.read, self.not_read, self.wrong = 0, 0, 0, []

    def note(self, good, text):
        self.done += 1
        if not good:
            self.wrong.append(text)

    def write(self, name, document):
        (self.folder / name).write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
        return f"reference://{self.folder}/{name}"

    def equal(self, uri, name, expected):
        items, message = self.dump.read(uri, name)
        self.read += items == expected
        self.note(items == expected, f"{uri} {name}: {message or 'other items'}")

    def refused(self, uri, name, *words):
        items, message = self.dump.read(uri, name)
        good = items is None and all(word in message for word in words)
        self.not_read += good
        self.note(good, f"{uri} {name}: {'was read' if items is not None else message}: expected {words}")


# What HDF5 does to chunks

def fletcher32(data):
    """Of 16-bit big-endian words, little-endian behind the data (H5checksum.c)."""
    words = struct.unpack(f">{len(data) // 2}H", data[:len(data) // 2 * 2]) + ((data[-1] << 8,) if len(data) % 2 else ())
    sum1 = sum2 = 0
    for word in words:
        sum1 = (sum1 + word) % 65535
        sum2 = (sum2 + sum1) % 65535
    sum1, sum2 = (sum1 or 65535 if any(words) else 0), (sum2 or 65535 if any(words) else 0)
    return data + struct.pack("<I", sum2 << 16 | sum1)


def shuffle(data, size):
    """What is no element stays behind (H5Zshuffle.c)."""
    whole = len(data) // size * size
    return b"".join(data[i:whole:size] for i in range(size)) + data[whole:]


PIPELINES = {
    "netCDF4": ([{"id": "fletcher32"}, {"id": "shuffle", "elementsize": 8}, {"id": "zlib", "level": 4}],
                lambda data: zlib.compress(shuffle(fletcher32(data), 8), 4)),
    "h5py": ([{"id": "shuffle", "elementsize": 8}, {"id": "zlib", "level": 1}, {"id": "fletcher32"}],
             lambda data: fletcher32(zlib.compress(shuffle(data, 8), 1))),
    "unpacked": ([{"id": "fletcher32"}, {"id": "shuffle", "elementsize": 8}], lambda data: shuffle(fletcher32(data), 8)),
    "plain": (None, bytes),
}

SHAPE, CHUNKS = (11, 7), (4, 5)


def metadata(filters, **more):
    return {"zarr_format": 2, "shape": SHAPE, "chunks": CHUNKS, "dtype": "<f8", "order": "C", "compressor": None,
            "filters": filters, "fill_value": -1.0, "dimension_separator": ".", **more}


def cut_chunks(items):
    """index -> bytes, edges filled up"""
    for row, column in itertools.product(range(0, SHAPE[0], CHUNKS[0]), range(0, SHAPE[1], CHUNKS[1])):
        values = [items[r][c] if r < SHAPE[0] and c < SHAPE[1] else -7.0
                  for r in range(row, row + CHUNKS[0]) for c in range(column, column + CHUNKS[1])]
        yield f"{row // CHUNKS[0]}.{column // CHUNKS[1]}", array.array("d", values).tobytes()


def flat(items):
    return array.array("d", [value for row in items for value in row]).tobytes()


def write_chunks(path, items, encode):
    """key -> [path, offset, length], of one file with something between chunks."""
    places = {}
    with open(path, "wb") as file:
        file.write(b"\x89HDF\r\n\x1a\n" + bytes(40))
        for index, data in cut_chunks(items):
            stored = encode(data)
            places[index] = [str(path), file.tell(), len(stored)]
            file.write(stored + b"--")
    return places


def check_by_hand(checks, folder):
    numbers = random.Random(5)
    items = [[numbers.gauss(0, 1) for _ in range(SHAPE[1])] for _ in range(SHAPE[0])]
    expected = flat(items)
    refs = {".zgroup": GROUP, "a/.zgroup": GROUP}
    for name, (filters, encode) in PIPELINES.items():
        places = write_chunks(folder / f"{name}.nc", items, encode)
        refs[f"a/{name}/.zarray"] = json.dumps(metadata(filters))
        refs.update({f"a/{name}/{index}": place for index, place in places.items()})
    for uri in (checks.write("v0.json", refs), checks.write("v1.json", {"version": 1, "refs": refs}),
                checks.write("slash.json", json.dumps({"version": 1, "refs": refs}).replace("/", "\\/"))):
        for name in PIPELINES:
            checks.equal(uri, f"a/{name}", expected)

    places = write_chunks(folder / "other.nc", items, PIPELINES["netCDF4"][1])
    inline = {"x/.zarray": metadata(PIPELINES["netCDF4"][0]), ".zgroup": GROUP}
    for index, (path, offset, length) in places.items():
        stored = pathlib.Path(path).read_bytes()[offset:offset + length]
        if index.startswith("0"):
            inline[f"x/{index}"] = "base64:" + base64.b64encode(stored).decode()
        elif index.startswith("1"):  # all of a file
            (folder / f"chunk {index}").write_bytes(stored)
            inline[f"x/{index}"] = [f"file://{folder}/chunk {index}"]
        else:
            inline[f"x/{index}"] = ["{{u}}", offset, length]
    checks.equal(checks.write("inline.json", {"version": 1, "refs": inline, "templates": {"u": str(folder / "other.nc")}}),
                 "x", expected)
    consolidated = {".zmetadata": {"zarr_consolidated_format": 1, "metadata": {
        ".zgroup": GROUP, "x/.zarray": metadata(None), "x/.zattrs": {}}}}
    consolidated |= {f"x/{index}": refs[f"a/plain/{index}"] for index in places}
    checks.equal(checks.write("consolidated.json", consolidated), "x", expected)
    size = CHUNKS[0] * CHUNKS[1] * 8  # chunks at equal distances, as `gen` makes them
    checks.equal(checks.write("gen.json", {
        "version": 1, "refs": {".zgroup": GROUP, "x/.zarray": metadata(None)}, "templates": {"f": "{{folder}}/{{name}}.nc"},
        "gen": [{"key": "x/{{i}}.{{j}}", "url": f"{{{{f(folder='{folder}', name='plain')}}}}", "length": str(size),
                 "offset": f"{{{{48 + (2*i + j) * {size + 2}}}}}", "dimensions": {"i": {"stop": 3}, "j": [0, 1]}}]}), "x", expected)

    lacking = dict(refs)
    del lacking["a/plain/1.1"]
    filled = [[-1.0 if 4 <= r < 8 and c >= 5 else items[r][c] for c in range(SHAPE[1])] for r in range(SHAPE[0])]
    checks.equal(checks.write("lacking.json", lacking), "a/plain", flat(filled))

    def broken(name, reference, *words):
        checks.refused(checks.write("broken.json", {**refs, f"a/{name}/0.0": reference}), f"a/{name}", *words)

    path, offset, length = refs["a/netCDF4/0.0"]
    broken("netCDF4", [path, offset, length - 1], "array 'a/netCDF4' chunk 0.0", "cut short")
    broken("netCDF4", [path, 10**9, length], path.rpartition("/")[2])
    broken("plain", [str(folder / "none.nc"), 0, size], "the references refer to this chunk", "was removed, or never copied")
    broken("plain", ["s3://bucket/folder/f.nc", 0, size], "set store.virtual: ['s3://bucket/folder/']")
    content = bytearray(pathlib.Path(refs["a/unpacked/0.0"][0]).read_bytes())
    content[refs["a/unpacked/0.0"][1] + 3] ^= 1
    (folder / "flipped.nc").write_bytes(content)
    broken("unpacked", [str(folder / "flipped.nc"), *refs["a/unpacked/0.0"][1:]], "checksum")
    for name in ("lzf", "szip", "scaleoffset", "grib"):
        uri = checks.write("filter.json", {".zgroup": GROUP, "x/.zarray": metadata([{"id": name}]), "x/0.0": ""})
        checks.refused(uri, "x", f"'{name}'")
    (folder / "parquet").mkdir()
    (folder / "parquet" / ".zmetadata").write_text('{"metadata": {}, "record_size": 9}', encoding="ascii")
    checks.refused(f"reference://{folder}/parquet", "x", "as Parquet", "write them once as JSON")

    attributes = {"_FillValue": base64.b64encode(struct.pack("<d", items[0][0])).decode(), "_ARRAY_DIMENSIONS": ["y", "x"]}
    fill = {".zgroup": GROUP, "v/.zarray": metadata(None, fill_value=items[0][0]), "v/.zattrs": attributes}
    fill |= {f"v/{index}": refs[f"a/plain/{index}"] for index in places}
    uri = checks.write("fill.json", fill)
    values, message, _ = checks.fields.ask(**{"dataset.uri": uri, "dataset.fields.x.array": "v", "dataset.fields.x.cf": "true",
                                              "dataset.fields.x.cast": "float64", "store.virtual": str(folder)})
    values = array.array("d", values or b"")
    good = len(values) == SHAPE[0] * SHAPE[1] and values[0] != values[0] and values[1] == items[0][1]
    checks.note(good, f"{uri}: a _FillValue in base64: {message or values[:2]}")


# Packages

def check_h5py(checks, folder):
    """References that this test makes of what h5py says of its files."""
    import h5py
    import numpy as np
    generator = np.random.default_rng(3)
    path = folder / "h5py.h5"
    arrays = {"f8": generator.normal(size=(30, 9, 5)), "i2": generator.integers(-99, 99, (30, 17)).astype(">i2"),
              "u1": generator.integers(0, 9, (30, 64), dtype="u1")}
    options = [{}, {"fletcher32": True}, {"shuffle": True, "fletcher32": True}, {"compression": "gzip", "shuffle": True},
               {"compression": "gzip", "shuffle": True, "fletcher32": True}]
    refs = {".zgroup": GROUP, **{f"{name}/.zgroup": GROUP for name in arrays}}
    with h5py.File(path, "w") as file:
        for (name, items), (number, how) in itertools.product(arrays.items(), enumerate(options)):
            chunks = (7, *items.shape[1:])
            data = file.create_dataset(f"{name}/{number}", data=items, chunks=chunks, **how)
            file.flush()
            size = items.dtype.itemsize
            filters = ([{"id": "shuffle", "elementsize": size}] if data.shuffle else []) + \
                ([{"id": "zlib", "level": 4}] if data.compression else []) + ([{"id": "fletcher32"}] if data.fletcher32 else [])
            refs[f"{name}/{number}/.zarray"] = metadata(filters, shape=items.shape, chunks=chunks, dtype=items.dtype.str,
                                                             fill_value=0)
            for i in range(data.id.get_num_chunks()):
                info = data.id.get_chunk_info(i)
                index = ".".join(str(at // length) for at, length in zip(info.chunk_offset, chunks))
                refs[f"{name}/{number}/{index}"] = [str(path), info.byte_offset, info.size]
    uri = checks.write("h5py.json", {"version": 1, "refs": refs})
    for (name, items), number in itertools.product(arrays.items(), range(len(options))):
        checks.equal(uri, f"{name}/{number}", items.astype(items.dtype.newbyteorder("=")).tobytes())


def check_parquet(checks, folder):
    """References as Parquet, made by hand, and as JSON by penstock.references: bytes, a whole file, parts, and chunks that lack."""
    import pyarrow
    import pyarrow.parquet
    items = [[float(r * SHAPE[1] + c) for c in range(SHAPE[1])] for r in range(SHAPE[0])]
    places = [[*write_chunks(folder / "parquet.nc", items, bytes)[index]] for index, _ in cut_chunks(items)]
    data = [chunk for _, chunk in cut_chunks(items)]
    (folder / "whole chunk").write_bytes(data[1])
    rows = [{"path": None, "offset": 0, "size": 0, "raw": data[0]},
            {"path": str(folder / "whole chunk"), "offset": 0, "size": 0, "raw": None},
            *({"path": path, "offset": offset, "size": size, "raw": None} for path, offset, size in places[2:4]),
            {"path": None, "offset": 0, "size": 0, "raw": None}]
    source = folder / "made.parq"
    (source / "g" / "x").mkdir(parents=True)
    (source / ".zmetadata").write_text(json.dumps({"record_size": 3, "metadata": {
        ".zgroup": GROUP, "g/.zgroup": GROUP, "g/x/.zarray": metadata(None), "g/x/.zattrs": {}}}), encoding="ascii")
    for i in range(0, len(rows), 3):
        table = pyarrow.Table.from_pylist(rows[i:i + 3])
        table = table.set_column(0, "path", table["path"].dictionary_encode())
        pyarrow.parquet.write_table(table, source / "g" / "x" / f"refs.{i // 3}.parq", compression="zstd")
    package = pathlib.Path(__file__).parents[2] / "python"

    def convert(given, target):
        return subprocess.run([sys.executable, "-m", "penstock.references", str(given), str(folder / target)], cwd=package,
                              capture_output=True, text=True, check=False)

    done = convert(source, "made.json")
    uri = f"reference://{folder}/made.json"
    checks.note(done.returncode == 0 and uri in done.stdout, f"penstock.references: {done.stdout}{done.stderr}")
    lacks = [[-1.0 if r >= 8 else items[r][c] for c in range(SHAPE[1])] for r in range(SHAPE[0])]
    checks.equal(uri, "g/x", flat(lacks))
    (source / "g" / "x" / "refs.0.parq").write_bytes(b"PAR1")
    done = convert(source, "damaged.json")
    checks.note(done.returncode == 4 and "penstock.references: " in done.stderr and not (folder / "damaged.json").exists(),
                f"penstock.references of a damaged file: {done.returncode} {done.stderr}")


def make_netcdf(path):
    """variable -> values; with fletcher32 and shuffle as netCDF4 orders them, or without the checksum"""
    import netCDF4
    import numpy as np
    generator = np.random.default_rng(4)
    values = {}
    with netCDF4.Dataset(path, "w") as file:
        for name, length in (("t", 50), ("y", 13), ("x", 7)):
            file.createDimension(name, length)
        for name, kind, how in (("summed", "f8", {"zlib": True, "shuffle": True, "fletcher32": True, "fill_value": -9.0}),
                                ("packed", "f4", {"zlib": True, "shuffle": True}), ("raw", "i4", {})):
            values[name] = (generator.normal(size=(50, 13, 7)) * 100).astype(kind)
            variable = file.createVariable(name, kind, ("t", "y", "x"), chunksizes=(8, 13, 7), **how)
            variable[:] = values[name]
        file.createVariable("scalar", "f8", ())[...] = 2.5
    return values


def check_kerchunk(checks, folder):
    import kerchunk.hdf
    values = make_netcdf(folder / "kerchunk.nc")
    values.pop("summed")  # kerchunk skips what has checksums
    references = kerchunk.hdf.SingleHdf5ToZarr(str(folder / "kerchunk.nc"), inline_threshold=300, error="ignore").translate()
    for name, document in (("kerchunk1.json", references), ("kerchunk0.json", references["refs"])):
        uri = checks.write(name, document)
        for variable, items in values.items():
            checks.equal(uri, variable, items.tobytes())
        checks.refused(uri, "scalar", "zero-dimensional")


def check_virtualizarr(checks, folder):
    import xarray
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr import open_virtual_dataset
    from virtualizarr.parsers import HDFParser
    path = folder / "virtualizarr.nc"
    values = make_netcdf(path)
    virtual = open_virtual_dataset(f"file://{path}", registry=ObjectStoreRegistry({"file://": LocalStore()}), parser=HDFParser(),
                                   loadable_variables=[])
    virtual.vz.to_kerchunk(str(folder / "virtualizarr.json"), format="json")
    uri = f"reference://{folder}/virtualizarr.json"
    with xarray.open_dataset(path, engine="netcdf4" if "netCDF4" in sys.modules else None, mask_and_scale=False) as dataset:
        for variable, items in values.items():
            checks.note((dataset[variable].values == items).all(), f"xarray reads other values of {variable}")
            checks.equal(uri, variable, dataset[variable].values.tobytes())
    field, message, _ = checks.fields.ask(**{"dataset.uri": uri, "dataset.fields.x.array": "packed", "store.virtual": str(folder),
                                             "dataset.fields.x.mean": f"{uri}::scalar"})
    checks.note(field == (values["packed"] - 2.5).astype("f4").tobytes(), f"{uri}: 'scalar' as a mean: {message or 'other values'}")
    virtual.drop_vars("scalar").vz.to_kerchunk(str(folder / "virtualizarr.parq"), format="parquet", record_size=4)
    checks.refused(f"reference://{folder}/virtualizarr.parq", "raw", "as Parquet", "python3 -m penstock.references")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump", required=True)
    parser.add_argument("--field", required=True)
    parser.add_argument("--hand", action="store_true")
    parser.add_argument("--peers", action="store_true")
    arguments = parser.parse_args()
    tests = [check_by_hand] if arguments.hand else []
    tests += [check_h5py, check_parquet, check_kerchunk, check_virtualizarr] if arguments.peers else []
    left_out = {}
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(arguments.dump, arguments.field, pathlib.Path(folder))
        with checks.dump:
            for test in tests:
                try:
                    test(checks, pathlib.Path(folder))
                except ImportError as error:
                    left_out[test.__name__] = error
    for text in checks.wrong:
        print("WRONG", text)
    for name, error in left_out.items():
        print(f"left out: {name}: {error}")
    print(f"{checks.done} checks, {len(checks.wrong)} wrong; arrays: {checks.read} equal, {checks.not_read} refused")
    if checks.done == 0:
        print("skipped: this Python has neither h5py nor pyarrow")
        sys.exit(SKIPPED)
    sys.exit(1 if checks.wrong else 0)


if __name__ == "__main__":
    main()
