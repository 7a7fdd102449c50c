"""The order of a mix, by brute force: every rule of docs/inside/order.md in a few lines, with no table and no cleverness.
Shares no code with src/. What samples are says samples_oracle.py.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "golden"))
from order_v1 import permute, random_u64  # noqa: E402


def rows_of(counts, row_length, anchors):
    """The anchors of each row that has any: rows cut each store from its first frame on."""
    rows, end = [], 0
    for count in counts:
        begin, end = end, end + count
        rows += [[t for t in range(first, min(first + row_length, end)) if t in anchors]
                 for first in range(begin, end, row_length)]
    return [row for row in rows if row]


class Source:
    """A dataset of a mix: its samples in the order of each pass."""

    def __init__(self, rows, window_rows, shuffle=True):
        self.rows, self.shuffle = rows, shuffle
        self.window = min(window_rows, len(rows))
        self.count = sum(len(row) for row in rows)
        self.passes = {}

    def order(self, seed, number):
        """The anchors of pass `number`."""
        if (seed, number) not in self.passes:
            self.passes[seed, number] = list(self.make_order(seed, number))
        return self.passes[seed, number]

    def make_order(self, seed, number):
        place = permute if self.shuffle else lambda i, n, key: i
        row_key, window_keys = random_u64(seed, 1, number), random_u64(seed, 2, number)
        order = [place(i, len(self.rows), row_key) for i in range(len(self.rows))]
        for first in range(0, len(order), self.window):
            samples = [t for row in order[first:first + self.window] for t in self.rows[row]]
            key = random_u64(window_keys, 0, first // self.window)
            yield from (samples[place(i, len(samples), key)] for i in range(len(samples)))


class Mix:
    """Sources and the whole numbers that their weights are."""

    def __init__(self, sources, weights, samples=None):
        self.sources, self.weights = sources, weights
        self.samples = samples or sum(source.count for source in sources)

    def divide(self, n, low=0, high=None):
        """How many of the run's first n positions each of the sources [low, high) has."""
        high = len(self.sources) if high is None else high
        if high - low == 1:
            return [n]
        middle = (low + high) // 2
        left = n * sum(self.weights[low:middle]) // sum(self.weights[low:high])
        return self.divide(left, low, middle) + self.divide(n - left, middle, high)

    def positions(self, batch, last):
        """Positions of an epoch."""
        return {"drop": self.samples // batch, "pad": -(-self.samples // batch)}[last] * batch \
            if last != "partial" else self.samples

    def step(self, seed, epoch, step, batch, last):
        """(source, pass, anchor, key) of each position of a step."""
        positions = self.positions(batch, last)
        size = min(batch, positions - step * batch)
        begin = epoch * positions + step * batch
        before, behind = self.divide(begin), self.divide(begin + size)
        draws = [(d, m) for d in range(len(self.sources)) for m in range(before[d], behind[d])]
        key = random_u64(random_u64(seed, 5, epoch), 0, step)
        return [self.find(seed, *draws[permute(i, size, key)]) for i in range(size)]

    def find(self, seed, d, draw):
        source, own_seed = self.sources[d], random_u64(seed, 6, d)
        number, place = divmod(draw, source.count)
        anchor = source.order(own_seed, number)[place]
        return d, number, anchor, random_u64(random_u64(own_seed, 3, number), 0, anchor)

    def epoch(self, seed, epoch, batch, last):
        """(step, position in the step, source, pass, anchor, key) of each position."""
        steps = -(-self.positions(batch, last) // batch)
        return [(s, i, *found) for s in range(steps) for i, found in enumerate(self.step(seed, epoch, s, batch, last))]
