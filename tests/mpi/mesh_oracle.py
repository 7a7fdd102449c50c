"""Groups of trainers and what each has of a sample, by brute force, in a few lines of NumPy. Shares no code with src/.

A mesh is a dict of axes and their sizes, outermost first, and a list of the axes that divide the batch. A cut is a dict as
in dataset.cuts. What a field's `cut` and `only` say is a dict: {"cut": {axis: cut}, "only": {axis of the mesh: coordinates}},
with axes as numbers.
"""

import itertools
import math

import numpy as np


class Mesh:
    def __init__(self, axes, data):
        self.axes, self.data = axes, data
        self.ranks = [dict(zip(axes, at)) for at in itertools.product(*(range(size) for size in axes.values()))]

    def groups(self):
        """The ranks of each group."""
        keys = [tuple(rank[axis] for axis in self.axes if axis in self.data) for rank in self.ranks]
        return [[r for r, own in enumerate(keys) if own == key] for key in sorted(set(keys))]

    def part_count(self, cut):
        return math.prod(self.axes[axis] for axis in as_list(cut["over"]))


def as_list(value):
    return value if isinstance(value, list) else [value]


def parts(cut, count, length):
    """The indices of each of `count` parts."""
    indices, split = np.arange(length), cut.get("split")
    if cut.get("order") == "zigzag":
        pieces = np.split(indices, 2 * count)  # fails where they are not of one length
        return [np.concatenate([pieces[i], pieces[2 * count - 1 - i]]) for i in range(count)]
    if isinstance(split, list):
        assert len(split) == count and sum(split) == length
        return np.split(indices, np.cumsum(split)[:-1])
    if split == "chunk":
        each = -(-length // count)
        return [indices[i * each:(i + 1) * each] for i in range(count)]
    return np.array_split(indices, count) if split == "even" else np.split(indices, count)


def indices_of(cut, mesh, rank, length):
    """The indices of a rank."""
    number = 0
    for axis in as_list(cut["over"]):
        number = number * mesh.axes[axis] + mesh.ranks[rank][axis]
    return parts(cut, mesh.part_count(cut), length)[number]


class Shares:
    """`stepped`: names of fields with an axis of steps, which is their axis 0. `ragged`: names of ragged fields, whose axis 0
    is that of each step's items."""

    def __init__(self, mesh, cuts, rules, stepped, ragged=()):
        self.mesh, self.cuts, self.rules, self.stepped, self.ragged = mesh, cuts, rules, stepped, ragged

    def cuts_of(self, name):
        """The cut of each axis of a field. What is said of a field's steps is cut as they are."""
        owner, _, made = name.partition(".")
        cuts = self.rules.get(owner, {}).get("cut", {})
        if owner in self.ragged:
            return {}
        if not made:
            return cuts
        of_steps = made in ("valid", "segment", "position") and owner in self.stepped
        return {axis: cut for axis, cut in cuts.items() if of_steps and axis == 0}

    def has(self, name, rank):
        """Whether a rank has a field. Fields that come beside another one, F.valid of F, go with it."""
        for axis, coordinates in self.rules.get(name.partition(".")[0], {}).get("only", {}).items():
            known = {"first": 0, "last": self.mesh.axes[axis] - 1}
            if self.mesh.ranks[rank][axis] not in [known.get(one, one) for one in as_list(coordinates)]:
                return False
        return True

    def indices(self, name, shape, rank):
        """By axis of a field that is cut, the indices that a rank has."""
        return {axis: indices_of(self.cuts[cut], self.mesh, rank, shape[axis]) for axis, cut in self.cuts_of(name).items()}

    def of_items(self, value, lengths, cut, rank):
        """What a rank has of each step's items."""
        ends = np.cumsum(lengths)
        return np.concatenate([value[end - length:end].take(indices_of(cut, self.mesh, rank, length), 0)
                               for end, length in zip(ends, lengths)])

    def of(self, values, rank):
        """What a rank has of a sample's fields."""
        found = {}
        for name, value in values.items():
            if not self.has(name, rank):
                continue
            for axis, indices in self.indices(name, value.shape, rank).items():
                value = value.take(indices, axis)
            owner, _, made = name.partition(".")
            cut = self.rules.get(owner, {}).get("cut") if owner in self.ragged else None
            if cut and made not in ("offsets", "length", "valid"):
                value = self.of_items(value, values[f"{owner}.offsets"], self.cuts[cut[0]], rank)
            found[name] = value
        return found
