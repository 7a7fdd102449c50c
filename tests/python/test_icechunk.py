"""Repositories that icechunk writes here must decode to what zarr-python wrote: formats 1 and 2, and migrated ones.

    python test_icechunk.py --dump PATH/dump_array --field PATH/dump_field --penstock PATH/penstock

References, scalars, empty arrays, shards, split manifests, inline, native and virtual chunks; chunks that were removed,
files that were changed or damaged. Without icechunk it exits 77 (skipped).
"""

import argparse
import datetime
import inspect
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

from dumping import Dump, DumpField

SKIPPED = 77

try:
    import icechunk
    import numpy as np
    import zarr
except ImportError as error:
    print(f"skipped: this Python has no icechunk: {error}")
    sys.exit(SKIPPED)


class Checks:
    def __init__(self, dump_tool, field_tool):
        self.dump_tool = dump_tool
        self.dump = Dump(dump_tool)
        self.fields = DumpField(field_tool)
        self.done, self.wrong = 0, []

    def note(self, good, text):
        self.done += 1
        if not good:
            self.wrong.append(text)

    def equal(self, uri, array, expected, dump=None):
        items, message = (dump or self.dump).read(uri, array)
        self.note(items == np.ascontiguousarray(expected).tobytes(), f"{uri} {array}: {message or 'other items'}")

    def refused(self, uri, array, *words, dump=None):
        items, message = (dump or self.dump).read(uri, array)
        good = items is None and all(word in message for word in words)
        self.note(good, f"{uri} {array}: {'was read' if items is not None else message}: expected {words}")


def new_repository(storage, config, version):
    more = {"spec_version": version} if "spec_version" in inspect.signature(icechunk.Repository.create).parameters else {}
    return icechunk.Repository.create(storage, config=config, **more)


def create(folder, version, **config):
    config = icechunk.RepositoryConfig(**config)
    storage = icechunk.local_filesystem_storage(str(folder))
    return new_repository(storage, config, version)


def arrays():
    """name -> items, and how zarr-python is to store them"""
    random = np.random.default_rng(7)
    return {
        "big": (random.normal(size=(40, 64, 8)).astype("f4"), {"chunks": (7, 64, 8)}),
        "small": (np.arange(30, dtype="i2"), {"chunks": (4,)}),
        "a group/of many/x y-ü": (random.integers(0, 255, (5, 9), dtype="u1"), {"chunks": (2, 5)}),
        "shards": (random.normal(size=(33, 20)), {"chunks": (4, 5), "shards": (16, 20)}),
        "scalar": (np.array(3.5), {}),
        "empty": (np.empty((0, 4), "f4"), {"chunks": (1, 4)}),
        "filled": (np.full((6, 6), 9, "i4"), {"chunks": (2, 2), "fill_value": 9}),
    }


def put_all(session, scale=1):
    root = zarr.group(session.store, overwrite=True)
    for name, (items, how) in arrays().items():
        array = root.create_array(name, shape=items.shape, dtype=items.dtype, **how)
        if items.size:
            array[...] = (items * scale).astype(items.dtype)


def check_all(checks, uri, scale=1):
    for name, (items, _) in arrays().items():
        if items.ndim == 0 or items.size == 0:
            checks.refused(uri, name, "zero-dimensional" if items.ndim == 0 else "empty")
        else:
            checks.equal(uri, name, (items * scale).astype(items.dtype))
    values, _, _ = checks.fields.ask(**{"dataset.uri": uri, "dataset.fields.x.array": "small",
                                         "dataset.fields.x.mean": f"{uri}::scalar"})
    checks.note(values == (arrays()["small"][0] * scale - 3.5 * scale).astype("f4").tobytes(), f"{uri}: 'scalar' as a mean")


def check_references(checks, folder, version, splits):
    repository = create(folder, version, inline_chunk_threshold_bytes=200, manifest=splits)
    session = repository.writable_session("main")
    put_all(session)
    first = session.commit("first")
    tag, branch = ("v 1/x", "feature/a b") if version == 2 else ("v 1", "feature b")  # format 1 has no slashes there
    repository.create_tag(tag, snapshot_id=first)
    repository.create_branch(branch, snapshot_id=first)
    session = repository.writable_session("main")
    put_all(session, 2)
    session.commit("second")
    uri = f"icechunk://{folder}"
    check_all(checks, uri, 2)
    check_all(checks, f"{uri}@branch:main", 2)
    for reference in (f"@{branch}", f"@tag:{tag}", f"@snapshot:{first}"):
        check_all(checks, uri + reference)
    checks.refused(f"{uri}@no such", "small", "has no branch 'no such'", "'main'")
    checks.refused(f"{uri}@tag:main", "small", "has no tag 'main'")
    checks.refused(f"{uri}@snapshot:1234", "small", "no snapshot's id")
    checks.refused(f"{uri}@snapshot:{'0' * 20}", "small", "has no snapshot")
    checks.refused(f"{uri}@", "small", "no name behind '@'")
    checks.refused(str(folder), "small", "write icechunk:// before its path")
    repository.create_tag("gone", snapshot_id=first)
    repository.delete_tag("gone")
    checks.refused(f"{uri}@tag:gone", "small", "has no tag 'gone'")
    return repository


def check_missing(checks, folder):
    """What a manifest refers to and is not there is an error; an index in no manifest is the fill value."""
    repository = create(folder, 2, inline_chunk_threshold_bytes=0)
    session = repository.writable_session("main")
    root = zarr.group(session.store)
    items = np.arange(40, dtype="f8").reshape(10, 4)
    root.create_array("a", shape=(10, 4), chunks=(2, 4), dtype="f8", fill_value=-1)[:6] = items[:6]
    session.commit("some")
    expected = items.copy()
    expected[6:] = -1
    uri = f"icechunk://{folder}"
    checks.equal(uri, "a", expected)
    chunk = next((folder / "chunks").iterdir())
    content = chunk.read_bytes()
    chunk.unlink()
    checks.refused(uri, "a", f"chunks/{chunk.name}", "the manifest refers to this chunk", "removed")
    chunk.write_bytes(content[:-1])
    checks.refused(uri, "a", f"chunks/{chunk.name}", "cut short")
    chunk.write_bytes(content)
    for manifest in (folder / "manifests").iterdir():
        manifest.rename(folder / manifest.name)
    checks.refused(uri, "a", "manifests/", "is not there", "refers to it")


def check_damage(checks, folder):
    """A file that is cut, is another one, holds too much or leads nowhere has one message and no items."""
    repository = create(folder, 1, inline_chunk_threshold_bytes=1000)
    session = repository.writable_session("main")
    zarr.group(session.store).create_array("a", shape=(10,), chunks=(1,), dtype="i8")[:] = range(10)
    session.commit("a")
    uri = f"icechunk://{folder}"
    manifest = next((folder / "manifests").iterdir())
    good = manifest.read_bytes()
    header = good[:38] + b"\0"
    bomb = subprocess.run(["zstd", "-c"], input=bytes(1 << 28), capture_output=True, check=True).stdout
    cases = [
        (good[:-9], "manifests/"), (b"x" * len(good), "do not begin as a file of Icechunk"),
        (good[:36] + b"\7" + good[37:], "version 7 of Icechunk's format"),
        (good[:37] + b"\1" + good[38:], "a file of kind 1"),
        (good[:38] + b"\5" + good[39:], "unknown method"),
        (header + b"\0" * (len(good) - 39), "leads out of its"),
        (header + struct.pack("<I", 0xFFFFFFF0) + b"Ichk" + b"\0" * (len(good) - 47), "leads out of its"),
        (good[:39] + bytes(reversed(good[39:])), "damaged"),
    ]
    for content, words in cases:
        manifest.write_bytes(content)
        checks.refused(uri, "a", "manifests/", words)
    manifest.write_bytes(good)
    checks.equal(uri, "a", np.arange(10))
    snapshots = {path: path.read_bytes() for path in (folder / "snapshots").iterdir()}
    for path, content in snapshots.items():
        path.write_bytes(content[:39] + 5 * bomb)
    checks.refused(uri, "a", "snapshots/", "more than 256 MiB")
    for path, content in snapshots.items():
        path.write_bytes(content[:50])
    checks.refused(uri, "a", "snapshots/", "frame")


def check_virtual(checks, folder, version):
    data = folder / "data dir"
    data.mkdir(parents=True)
    items = np.arange(60, dtype="<i4").reshape(6, 10)
    (data / "x #1.bin").write_bytes(b"head" + items.tobytes())
    # The uri is percent-encoded.
    prefix = f"file://{data}/".replace(" ", "%20")
    relative = version == 2 and hasattr(icechunk.VirtualChunkContainer, "name")
    container = icechunk.VirtualChunkContainer(prefix, icechunk.local_filesystem_store(str(data)),
                                               **({"name": "here"} if relative else {}))
    config = icechunk.RepositoryConfig(inline_chunk_threshold_bytes=0)
    config.set_virtual_chunk_container(container)
    storage = icechunk.local_filesystem_storage(str(folder / "repository"))
    repository = new_repository(storage, config, version)
    repository.save_config()
    session = repository.writable_session("main")
    zarr.group(session.store).create_array("v", shape=(6, 10), chunks=(1, 10), dtype="i4", compressors=None, filters=None)
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=5)
    for i in range(6):
        place = "vcc://here/" if relative and i % 2 else prefix
        session.store.set_virtual_ref(f"v/c/{i}/0", f"{place}x%20%231.bin", offset=4 + 40 * i, length=40, checksum=later,
                                      validate_container=False)
    session.commit("v")
    uri = f"icechunk://{folder}/repository"
    checks.refused(uri, "v", "outside the repository", "set store.virtual: [")
    with Dump(checks.dump_tool, DUMP_VIRTUAL=f"{folder}/elsewhere/".replace(" ", "%20")) as dump:
        checks.refused(uri, "v", "store.virtual", dump=dump)
    with Dump(checks.dump_tool, DUMP_VIRTUAL=prefix) as dump:
        checks.equal(uri, "v", items, dump=dump)
        os.utime(data / "x #1.bin", (later.timestamp() + 60,) * 2)
        checks.refused(uri, "v", "was changed after", dump=dump)
        (data / "x #1.bin").unlink()
        checks.refused(uri, "v", "lies outside the repository, and was removed", dump=dump)


def check_many(checks, folder, penstock):
    """200,000 virtual references: found, and counted in the memory of a plan."""
    count = 200_000
    repository = create(folder, 2)
    session = repository.writable_session("main")
    zarr.group(session.store).create_array("v", shape=(count, 2), chunks=(1, 2), dtype="u2", compressors=None)
    refs = [icechunk.VirtualChunkSpec([i, 0], f"s3://bucket/folder/{i // 1000:05}.nc", 4 * i, 4) for i in range(count)]
    session.store.set_virtual_refs("v", refs, validate_containers=False)
    session.commit("many")
    uri = f"icechunk://{folder}"
    checks.refused(uri, "v", "s3://bucket/folder/00000.nc", "set store.virtual: ['s3://bucket/folder/']")
    done = subprocess.run([penstock, "plan", "--set", f"dataset.uri={uri}", "--set", "batch.global_size=64"],
                          capture_output=True, text=True, check=False)
    checks.note("for manifests, references and directories" in done.stdout, f"penstock plan: {done.stdout}{done.stderr}")


def check_commands(checks, folder, version, penstock):
    """inspect and verify work as of other stores."""
    uri = f"icechunk://{folder}@tag:v 1{'/x' if version == 2 else ''}"
    for command, words in ((["inspect", uri], "shards"), (["verify", uri], "0 of 66 chunks bad")):
        done = subprocess.run([penstock, *command], capture_output=True, text=True, check=False)
        checks.note(done.returncode == 0 and words in done.stdout, f"{command}: {done.stdout}{done.stderr}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump", required=True)
    parser.add_argument("--field", required=True)
    parser.add_argument("--penstock", required=True)
    arguments = parser.parse_args()
    checks = Checks(arguments.dump, arguments.field)
    with checks.dump, tempfile.TemporaryDirectory(prefix="penstock-icechunk-") as name:
        folder = pathlib.Path(name)
        split = icechunk.ManifestSplitCondition.AnyArray()
        along = icechunk.ManifestSplitDimCondition.Any()
        splits = icechunk.ManifestConfig(splitting=icechunk.ManifestSplittingConfig.from_dict({split: {along: 2}}))
        versions = (1, 2) if "spec_version" in inspect.signature(icechunk.Repository.create).parameters else (1,)
        for version in versions:
            check_references(checks, folder / f"r{version}", version, None)
            check_references(checks, folder / f"s{version}", version, splits)
            check_virtual(checks, folder / f"v{version}", version)
        if hasattr(icechunk, "upgrade_icechunk_repository"):
            shutil.copytree(folder / "s1", folder / "m")
            icechunk.upgrade_icechunk_repository(
                icechunk.Repository.open(icechunk.local_filesystem_storage(str(folder / "m"))), dry_run=False)
            check_all(checks, f"icechunk://{folder}/m", 2)
            check_all(checks, f"icechunk://{folder}/m@tag:v 1")
        check_missing(checks, folder / "missing")
        check_damage(checks, folder / "damage")
        check_many(checks, folder / "many", arguments.penstock)
        check_commands(checks, folder / f"s{versions[-1]}", versions[-1], arguments.penstock)
    for line in checks.wrong:
        print(f"wrong: {line}")
    print(f"icechunk {icechunk.__version__}: {checks.done} checks, {len(checks.wrong)} wrong")
    return 1 if checks.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
