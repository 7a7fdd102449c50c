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
    """Sources and the whole numbers that their weights are; with other weights from later steps on: (step, weights, ramp)."""

    def __init__(self, sources, weights, samples=None, schedule=()):
        self.sources, self.weights, self.schedule = sources, weights, schedule
        self.samples = samples or sum(source.count for source in sources)
        self.pieces = [(0, weights)]

    def cut(self, steps, positions, size):
        """Where each piece begins, and its weights, in epochs of so many steps and positions; steps have `size` of them."""
        begins, entries = {}, [(0, self.weights, False), *self.schedule]
        for (begin, weights, _), (end, later, ramp) in zip(entries, entries[1:]):
            stairs = min(end - begin, 1024) if ramp else 1
            for j in range(stairs):
                begins[begin + j * (end - begin) // stairs] = [
                    (2 * stairs - 2 * j - 1) * p * sum(later) + (2 * j + 1) * q * sum(weights)
                    for p, q in zip(weights, later)] if ramp else weights
        begins[entries[-1][0]] = entries[-1][1]
        self.pieces = [(step // steps * positions + step % steps * size, weights) for step, weights in sorted(begins.items())]

    def divide(self, n):
        """How many of the run's first n positions each of the sources has."""
        ends = [first for first, _ in self.pieces[1:]] + [n]
        return self.halve([max(min(n, end) - first, 0) for (first, _), end in zip(self.pieces, ends)], 0, len(self.sources))

    def halve(self, counts, low, high):
        """The same of the positions that the sources [low, high) have in each piece."""
        if high - low == 1:
            return [sum(counts)]
        middle, lefts, total = (low + high) // 2, [], 2**24  # 2^-40, in units of 2^-64
        for count, (_, weights) in zip(counts, self.pieces):
            before, of_list = total >> 64, sum(weights[low:high])
            total += 2**64 * count * sum(weights[low:middle]) // of_list if of_list else 0
            lefts.append((total >> 64) - before)
        return self.halve(lefts, low, middle) + self.halve([c - left for c, left in zip(counts, lefts)], middle, high)

    def positions(self, batch, last):
        """Positions of an epoch."""
        return {"drop": self.samples // batch, "pad": -(-self.samples // batch)}[last] * batch \
            if last != "partial" else self.samples

    def step(self, seed, epoch, step, batch, last):
        """(source, pass, anchor, key) of each position of a step."""
        positions = self.positions(batch, last)
        size = min(batch, positions - step * batch)
        begin = epoch * positions + step * batch
        if self.schedule:
            self.cut(-(-positions // batch), positions, batch)
        before, behind = self.divide(begin), self.divide(begin + size)
        draws = [(d, m) for d in range(len(self.sources)) for m in range(before[d], behind[d])]
        key = random_u64(random_u64(seed, 5, epoch), 0, step)
        return [self.find(seed, *draws[permute(i, size, key)]) for i in range(size)]

    def find(self, seed, d, draw):
        source, own_seed = self.sources[d], random_u64(seed, 6, d)
        number, place = divmod(draw, source.count)
        anchor = source.order(own_seed, number)[place]
        return d, number, anchor, random_u64(random_u64(own_seed, 3, number), 0, getattr(anchor, "key_index", anchor))

    def epoch(self, seed, epoch, batch, last):
        """(step, position in the step, source, pass, anchor, key) of each position."""
        steps = -(-self.positions(batch, last) // batch)
        return [(s, i, *found) for s in range(steps) for i, found in enumerate(self.step(seed, epoch, s, batch, last))]
