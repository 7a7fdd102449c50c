"""Writes Icechunk repositories of formats 1 and 2, of the arrays of a Zarr v3 folder. Only the standard library.

FlatBuffers are written from the root to the leaves, so that all offsets lead forwards. A chunk of
at most `inline` bytes lies in its manifest, another one is an object of the repository, or with `virtual` stays where it is.
"""

import base64
import hashlib
import json
import os
import struct

MAGIC = b"ICE\xf0\x9f\xa7\x8aCHUNK" + b"penstock test".ljust(24)
SNAPSHOT, MANIFEST, REPOSITORY = 1, 2, 6
ALPHABET = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", b"0123456789ABCDEFGHJKMNPQRSTVWXYZ")


def zstd(content):
    """A frame without the size of its content, of blocks that are not compressed."""
    out, step = bytearray(b"\x28\xb5\x2f\xfd\x00\x58"), 1 << 16
    for begin in range(0, max(len(content), 1), step):
        block = content[begin:begin + step]
        out += struct.pack("<I", len(block) << 3 | (begin + step >= len(content)))[:3] + block
    return bytes(out)


class Number:
    def __init__(self, code, value):
        self.code, self.value = code, value


class Struct(bytes):
    """Lies in the table itself."""


def vector(count, content):
    return struct.pack("<I", count) + content


def text(value):
    return vector(len(value), value if isinstance(value, bytes) else value.encode()) + b"\0"


def numbers(values):
    return vector(len(values), struct.pack(f"<{len(values)}I", *values))


class Flat:
    """`fields` of a table: entry -> Number, Struct, bytes of a vector, a dict (a table), or a list of tables."""

    def __init__(self, fields):
        self.out = bytearray(4) + b"Ichk"
        self.lead(0, self.table(fields))

    def align(self, bytes_):
        self.out += bytes(-len(self.out) % bytes_)

    def lead(self, at, target):
        struct.pack_into("<I", self.out, at, target - at)

    def table(self, fields):
        places, inline, later = {}, bytearray(4), []
        for entry, value in sorted(fields.items()):
            if isinstance(value, Number):
                inline += bytes(-len(inline) % struct.calcsize(value.code))
                places[entry] = len(inline)
                inline += struct.pack("<" + value.code, value.value)
            elif isinstance(value, Struct):
                places[entry] = len(inline)
                inline += value
            else:
                inline += bytes(-len(inline) % 4)
                places[entry] = len(inline)
                later.append((len(inline), value))
                inline += bytes(4)
        count = max(fields) + 1
        self.align(8)
        start = len(self.out)
        self.out += struct.pack(f"<HH{count}H", 4 + 2 * count, len(inline), *(places.get(i, 0) for i in range(count)))
        self.align(8)
        at = len(self.out)
        struct.pack_into("<i", inline, 0, at - start)
        self.out += inline
        for place, value in later:
            self.lead(at + place, self.put(value))
        return at

    def put(self, value):
        if isinstance(value, dict):
            return self.table(value)
        self.align(8)
        if isinstance(value, bytes):
            self.out += bytes(4)  # items of 8 bytes begin at a multiple
            at = len(self.out)
            self.out += value
            return at
        at = len(self.out)
        self.out += struct.pack("<I", len(value)) + bytes(4 * len(value))
        for i, item in enumerate(value):
            self.lead(at + 4 + 4 * i, self.table(item))
        return at


def named(id_):
    digits = base64.b32encode(id_).rstrip(b"=").translate(ALPHABET)
    return digits.decode()


def make_id(*words, bytes_=12):
    return Struct(hashlib.sha256("\0".join(map(str, words)).encode()).digest()[:bytes_])


class Writer:
    def __init__(self, folder, version=2, inline=0, virtual=None, per_manifest=0, etag="", modified=0):
        """virtual: what is in front of a chunk's path in its location; per_manifest: chunks, 0: all"""
        self.folder, self.version, self.inline, self.virtual = folder, version, inline, virtual
        self.per_manifest, self.etag, self.modified = per_manifest, etag, modified
        self.snapshots, self.branches, self.tags = [], {}, {}

    def save(self, name, kind, fields):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        content = MAGIC + bytes((self.version, kind, 1)) + zstd(bytes(Flat(fields).out))
        with open(path + ".new", "wb") as file:
            file.write(content)
        os.replace(path + ".new", path)
        return len(content)

    def chunk(self, source, path, index):
        with open(os.path.join(source, path), "rb") as file:
            content = file.read()
        ref = {0: numbers(index)}
        if len(content) <= self.inline:
            return {**ref, 1: vector(len(content), content)}
        ref[3] = Number("Q", len(content))
        if self.virtual:
            ref[5] = text(f"{self.virtual}{path}")
            if self.etag:
                ref[6] = text(self.etag)
            if self.modified:
                ref[7] = Number("I", self.modified)
            return ref
        id_ = make_id(path, hashlib.sha256(content).hexdigest())
        target = os.path.join(self.folder, "chunks", named(id_))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(content)
        return {**ref, 4: id_}

    def chunks(self, source, path):
        """(index, path below `source`) in order of index"""
        found = []
        for folder, _, names in os.walk(os.path.join(source, path, "c")):
            for name in names:
                below = os.path.relpath(os.path.join(folder, name), source)
                found.append((tuple(map(int, below[len(path):].strip("/").split("/")[1:])), below))
        return sorted(found)

    def array(self, source, path, files):
        """Manifests of an array; appends (id, bytes, chunks) of each to `files`."""
        node, refs = make_id(path, bytes_=8), self.chunks(source, path)
        step, manifests = self.per_manifest or max(len(refs), 1), []
        for begin in range(0, len(refs), step):
            part = refs[begin:begin + step]
            id_ = make_id(path, begin, source, self.version)
            table = {0: id_, 1: [{0: node, 1: [self.chunk(source, name, index) for index, name in part]}]}
            size = self.save(f"manifests/{named(id_)}", MANIFEST, table)
            files.append((id_, size, len(part)))
            # Cut along the first axis alone, so that extents do not overlap.
            extents = [(min(i[k] for i, _ in part), max(i[k] for i, _ in part) + 1) for k in range(len(part[0][0]))]
            manifests.append({0: id_, 1: vector(len(extents), b"".join(struct.pack("<II", *e) for e in extents))})
        return {0: vector(0, b""), 2: manifests}

    def commit(self, source, message="", branch="main"):
        nodes, files = [], []
        for folder, folders, names in os.walk(source):
            folders[:] = sorted(name for name in folders if not (name == "c" and "zarr.json" in names))
            if "zarr.json" not in names:
                continue
            path = os.path.relpath(folder, source).replace(".", "", 1) if folder == source else os.path.relpath(folder, source)
            with open(os.path.join(folder, "zarr.json"), "rb") as file:
                document = file.read()
            is_array = json.loads(document)["node_type"] == "array"
            nodes.append({0: make_id(path, bytes_=8), 1: text("/" + path), 2: text(document)[:-1],
                          3: Number("B", 1 if is_array else 2), 4: self.array(source, path, files) if is_array else {0: Number("B", 0)}})
        id_ = make_id(source, message, self.version, len(self.snapshots))
        table = {0: id_, 2: nodes, 3: Number("Q", 1), 4: text(message), 5: []}
        files.sort()
        if self.version == 1:
            packed = b"".join(bytes(i) + bytes(4) + struct.pack("<QII", size, count, 0) for i, size, count in files)
            table[6] = vector(len(files), packed)
        else:
            table[6] = vector(0, b"")
            table[7] = [{0: i, 1: Number("Q", size), 2: Number("I", count)} for i, size, count in files]
        self.save(f"snapshots/{named(id_)}", SNAPSHOT, table)
        self.snapshots.append(id_)
        self.branches[branch] = id_
        self.save_references()
        return named(id_)

    def save_references(self):
        if self.version == 1:
            for kind, names in (("branch", self.branches), ("tag", self.tags)):
                for name, id_ in names.items():
                    path = os.path.join(self.folder, "refs", f"{kind}.{name}", "ref.json")
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with open(path, "w", encoding="ascii") as file:
                        json.dump({"snapshot": named(id_)}, file)
            return
        order = sorted(self.snapshots)
        refs = {entry: [{0: text(name), 1: Number("I", order.index(id_))} for name, id_ in sorted(names.items())]
                for entry, names in ((1, self.tags), (2, self.branches))}
        infos = [{0: id_, 1: Number("i", -1), 2: Number("Q", 1), 3: text("")} for id_ in order]
        self.save("repo", REPOSITORY, {0: Number("B", 2), **refs, 3: [], 4: infos, 5: {0: Number("B", 0), 1: Number("Q", 1)},
                                       6: [], 7: []})
