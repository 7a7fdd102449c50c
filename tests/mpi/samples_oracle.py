"""What samples are, by brute force: every rule of docs/use/samples.md in a few lines of NumPy, with no table and no
cleverness. Shares no code with src/.

Frames count over all stores. A store is a dict of arrays by name. `samples` and `fields` are the sections of the
configuration, as YAML has them.
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "golden"))
from order_v1 import random_u64  # noqa: E402


def listed(steps):
    if isinstance(steps, str):
        begin, end = steps.split(":")
        return list(range(int(begin), int(end)))
    return steps


def steps_of(field, epoch=None):
    """A field's steps: numbers relative to the anchor. None: the anchor alone, without an axis of steps. Of steps that differ
    from epoch to epoch those of that one; without one all, which anchors have."""
    steps = field.get("steps")
    if not isinstance(steps, dict):
        return listed(steps)
    if epoch is None:
        return max(map(listed, steps.values()), key=len)
    return listed(steps[max(first for first in steps if first <= epoch)])


def sample_key(seed, epoch, t):
    """The key that is delivered with the sample at the anchor t."""
    return random_u64(random_u64(seed, 3, epoch), 0, t)


def origins_of(field, shape, key):
    """Where a random crop begins along each axis that is cropped. `shape`: of a frame, without the sample axis."""
    crop, found = field["crop"], {}
    for axis in range(1, len(shape) + 1):
        if str(axis) in crop:
            choices = shape[axis - 1] - crop[str(axis)] + 1
            found[axis] = random_u64(key, crop.get("group", 0), len(found)) * choices >> 64
    return found


class Samples:
    epoch = 0  # whose samples are asked for

    def __init__(self, stores, samples, fields):
        self.stores, self.samples, self.fields = stores, samples, fields
        self.lead = next(f["array"] for f in fields.values() if "index" not in f and "align" not in f)
        self.counts = [len(store[self.lead]) for store in stores]
        self.first = np.concatenate(([0], np.cumsum(self.counts)))
        self.frames = int(self.first[-1])
        pad = samples.get("pad", {})
        self.before, self.after = pad.get("before", 0), pad.get("after", 0)
        self.union = sorted({u for f in fields.values() for u in steps_of(f) or [0]})
        self.episodes = self.find_episodes()
        self.blocked = self.find_blocked()

    def each_frame(self, name):
        """An array with one value a frame, over all stores."""
        return np.concatenate([store[name] for store in self.stores])

    def ends(self, name):
        """An array of ends, over all stores."""
        return [int(first + end) for first, store in zip(self.first, self.stores) for end in store[name]]

    def find_episodes(self):
        """[first, end) of each, in order."""
        episodes = self.samples.get("episodes", {})
        if "ends" in episodes:
            ends = self.ends(episodes["ends"])
        elif "id" in episodes:
            ids, borders = self.each_frame(episodes["id"]), set(self.first.tolist())
            ends = [i for i in range(1, self.frames + 1)
                    if i in borders or (i < self.frames and ids[i] != ids[i - 1])]
        elif self.samples.get("continuous"):
            ends = [self.frames]
        else:
            ends = self.first[1:].tolist()
        return list(zip([0, *ends[:-1]], ends))

    def find_blocked(self):
        """Frames that no sample may touch."""
        blocked = np.zeros(self.frames, bool)
        missing = self.samples.get("missing")
        for first, count, store in zip(self.first, self.counts, self.stores):
            if missing and store[missing].dtype == bool:
                blocked[first:first + count] |= store[missing]
            elif missing:
                blocked[first + store[missing]] = True
        for field in self.fields.values():
            for first, count, store in zip(self.first, self.counts, self.stores):
                if "align" in field:
                    blocked[first:first + count] |= [self.match(field, store, at) is None for at in range(count)]
        split = self.samples.get("split", {})
        if "range" in split:
            begin, end = (int(x) if x else None for x in split["range"].split(":"))
            begin, end = begin or 0, self.frames if end is None else end
            inside = np.zeros(self.frames, bool)
            inside[begin + (split.get("gap", 0) if begin else 0):end] = True
            blocked |= ~inside
        elif split:
            blocked |= ~np.array([part == split["part"] for part in self.parts(split)])
        return blocked

    def parts(self, split):
        """The part that each frame is in. None: in no part."""
        key = random_u64(split.get("seed", 0), 4, 0)
        hashes = [random_u64(key, *group) for group in self.groups(split.get("by", "episode"))]
        ranks = {number: rank for rank, number in enumerate(sorted(set(hashes)))}
        ends, total = [], 0.0
        for fraction in split["parts"].values():
            total += fraction
            last = 2**64 - 1 if total > 1 - 1e-9 else max(int(total * 2**64) - 1, 0)
            ends.append(sum(number <= last for number in ranks))
        if any(begin == end for begin, end in zip([0, *ends], ends)):  # no part is empty
            for p in range(len(ends)):
                ends[p] = max(ends[p], (ends[p - 1] if p else 0) + 1)
            for p in reversed(range(len(ends))):
                ends[p] = min(ends[p], ends[p + 1] - 1 if p + 1 < len(ends) else len(ranks))
        names = list(split["parts"])
        return [next((names[p] for p, end in enumerate(ends) if ranks[number] < end), None) for number in hashes]

    def groups(self, by):
        """The group of each frame: its store and its number there, or its value."""
        starts, found = self.first.tolist(), []
        values = None if by in ("episode", "sample") else self.each_frame(by)
        for e, (first, end) in enumerate(self.episodes):
            store = int(np.searchsorted(self.first, first, "right")) - 1
            number = sum(starts[store] <= begin < first for begin, _ in self.episodes[:e])
            for t in range(first, end):
                home = int(np.searchsorted(self.first, t, "right")) - 1
                found.append((store, number) if by == "episode" else (home, t - starts[home]) if by == "sample"
                             else (2**64 - 1, int(values[t]) % 2**64))
        return found

    def episode_of(self, t):
        return next((first, end) for first, end in self.episodes if first <= t < end)

    def anchors(self):
        """Every frame that is a sample, in order."""
        stride, where = self.samples.get("stride", 1), self.samples.get("where")
        wanted = self.each_frame(where) if where else np.ones(self.frames, bool)
        found = []
        for first, end in self.episodes:
            for t in range(first, end, stride):
                touched = [t + u for u in self.union]
                if (sum(x < first for x in touched) <= self.before and sum(x >= end for x in touched) <= self.after
                        and not any(self.blocked[x] for x in touched if first <= x < end) and wanted[t]):
                    found.append(t)
        return found

    def match(self, field, arrays, at):
        """The item of an aligned field that a frame of the store has; None: none."""
        own = arrays[os.path.join(os.path.dirname(field["array"]), "when")]
        frame = arrays[field["align"]][at]
        if field["method"] == "nearest":
            return len(own) - 1 - int(np.argmin(np.abs(own - frame)[::-1]))  # of two as near the later one
        fits = np.flatnonzero(own == frame if field["method"] == "exact" else own <= frame)
        return int(fits[-1]) if len(fits) else None

    def frame(self, field, t, key):
        """What a field has at a frame, as it is delivered in the sample with that key."""
        store = int(np.searchsorted(self.first, t, "right")) - 1
        arrays, at = self.stores[store], t - int(self.first[store])
        if "index" in field:
            at = arrays[field["index"]][at]
        if "align" in field:
            at = self.match(field, arrays, at)
        value = np.asarray(arrays[field["array"]][at])
        if "scale" in field or "offset" in field:
            value = value.astype("f4") * np.float32(field.get("scale", 1)) + np.float32(field.get("offset", 0))
        value = value.astype(field.get("cast", value.dtype))
        for axis, origin in (origins_of(field, value.shape, key) if "crop" in field else {}).items():
            value = value.take(range(origin, origin + field["crop"][str(axis)]), axis - 1)
        return value

    def field(self, name, t, key):
        """A field of the sample at the anchor t."""
        field = self.fields[name]
        steps = steps_of(field, self.epoch)
        if steps is None:
            return self.frame(field, t, key)
        first, end = self.episode_of(t)
        values = []
        for step in steps:
            value = self.frame(field, min(max(t + step, first), end - 1), key)
            missing = not first <= t + step < end
            values.append(np.zeros_like(value) if missing and self.samples.get("fill") == "zero" else value)
        return np.stack(values)

    def made(self, t, key):
        """Fields that are made for others, by name."""
        first, end = self.episode_of(t)
        found = {}
        for name, field in self.fields.items():
            steps = steps_of(field, self.epoch)
            if "crop" in field:
                shape = self.stores[0][field["array"]].shape[1:]
                found[f"{name}.crop"] = np.array(list(origins_of(field, shape, key).values()), "i4")
            if steps is None:
                continue
            real = [first <= t + step < end for step in steps]
            if self.before or self.after:
                found[f"{name}.valid"] = np.array(real)
            if field.get("segments"):
                found |= self.documents(name, [t + s if r else None for s, r in zip(steps, real)])
        return found

    def documents(self, name, frames):
        ends = self.ends(self.samples["segments"])
        segment, position, seen = [], [], []
        start = next((x for x in frames if x is not None), None)
        for x in frames:
            if x is None:
                segment.append(0)
                position.append(0)
                continue
            document = sum(end <= x for end in ends)
            if document not in seen:
                seen.append(document)
            segment.append(len(seen))
            position.append(x - max(start, ends[document - 1] if document else 0))
        return {f"{name}.segment": np.array(segment, "i4"), f"{name}.position": np.array(position, "i4")}

    def sample(self, t, key=0):
        """All fields of the sample at the anchor t, in order of name. Its key says where random crops lie."""
        values = {name: self.field(name, t, key) for name in self.fields} | self.made(t, key)
        return {name: np.array(values[name], order="C") for name in sorted(values)}

    def touches(self, t, frames, array):
        """Whether the sample at t has one of these frames of an array, at a step or in the place of a missing one."""
        first, end = self.episode_of(t)
        used = [min(max(t + step, first), end - 1)
                for field in self.fields.values() if field["array"] == array for step in steps_of(field) or [0]
                if first <= t + step < end or self.samples.get("fill") != "zero"]
        return any(frame in frames for frame in used)
