"""The order of samples with weights, by brute force: the rules of docs/inside/order.md in a few lines. Shares no code with
src/. Weights are fractions until they are rounded to units of 2^-32.
"""

import math

from mix_oracle import Source, permute, random_u64

ONE = 2**32


def fit(weights, target):
    """The parts behind the point, or what they lack to 1, shrink so that all weights come to `target`."""
    parts = [w % ONE for w in weights]
    wanted = target - sum(w - part for w, part in zip(weights, parts))
    shrinks = wanted <= sum(parts)
    if not shrinks:
        parts = [ONE - part if part else 0 for part in parts]
        wanted = sum(1 for part in parts if part) * ONE - wanted
    parts = in_proportion(parts, wanted)
    return [w - w % ONE + (part if shrinks else ONE - part) if w % ONE else w for w, part in zip(weights, parts)]


def in_proportion(weights, target):
    """Weights of the sum `target`: each ends where the rounded-down share of those up to it does."""
    total, run, found = max(sum(weights), 1), 0, []
    for w in weights:
        found.append((run + w) * target // total - run * target // total)
        run += w
    return found


def whole_sum(weights, target=None):
    target = (sum(weights) + ONE // 2) // ONE if target is None else target
    return fit(weights, target * ONE)


def settle(rows, draws):
    """Rows of weights, as floating numbers above 0, in units of 2^-32."""
    if draws:
        exponent = math.frexp(max(w for row in rows for w in row))[1]
        units = iter(in_proportion([max(1, int(math.ldexp(w, 32 - exponent))) for row in rows for w in row], draws * ONE))
    else:
        units = (max(1, int(w * ONE + 0.5)) for row in rows for w in row)
    rows = [[next(units) for _ in row] for row in rows]
    sums = [sum(row) for row in rows]
    light = [r for r, w in enumerate(sums) if 0 < w < ONE]
    heavy = [r for r, w in enumerate(sums) if w >= ONE]
    own = max(1, (sum(sums[r] for r in light) + ONE // 2) // ONE) if light else 0
    new = dict(zip(light, whole_sum([sums[r] for r in light], own)))
    new |= zip(heavy, whole_sum([sums[r] for r in heavy], draws - own if draws else None))
    return [(in_proportion if draws else fit)(row, new[r]) if r in new else row for r, row in enumerate(rows)]


def halve(weights, low, high, count, key):
    """How many of `count` samples are of the first half."""
    middle = (low + high) // 2
    left, right = sum(weights[low:middle]), sum(weights[middle:high])
    up = count - left // ONE - right // ONE
    if up != 1:
        return left // ONE + up // 2
    chance, of = left % ONE, left % ONE + right % ONE
    if of >= ONE:
        chance, of = ONE - right % ONE, 2 * ONE - of
    return left // ONE + ((random_u64(key, low, high) * of >> 64) < chance)


def divide(weights, low, high, count, key):
    if high - low < 2:
        return [count] * (high - low)
    left = halve(weights, low, high, count, key)
    middle = (low + high) // 2
    return divide(weights, low, middle, left, key) + divide(weights, middle, high, count - left, key)


class Copy(int):
    """An anchor that is the k-th copy of a sample."""

    def __new__(cls, anchor, number):
        made = super().__new__(cls, anchor)
        made.key_index = anchor + (number % 2**16 << 48)
        return made


class Weighted(Source):
    """A dataset with weights, which are those of the anchors in `rows`, all above 0. `places`: the numbers of these rows
    among all rows."""

    def __init__(self, rows, places, weights, draws, window_rows, shuffle=True):
        self.all, self.places, self.shuffle, self.draws, self.passes = rows, places, shuffle, draws, {}
        self.weights = settle([[weights[t] for t in row] for row in rows], draws)
        sums = [sum(row) for row in self.weights]
        self.light = [r for r, w in enumerate(sums) if 0 < w < ONE]
        self.heavy = [r for r, w in enumerate(sums) if w >= ONE]
        self.listed = [sums[r] for r in self.light + self.heavy]
        self.count = sum(sums) // ONE
        assert sum(sums) % ONE == 0
        self.row_count = sum(self.listed[:len(self.light)]) // ONE + len(self.heavy)
        self.window = min(window_rows, self.row_count)

    def draw(self, seed, number):
        """The samples of each row of an epoch that has any, in order."""
        key, keys = random_u64(seed, 8, number), random_u64(seed, 9, number)
        split, end, found = len(self.light), len(self.listed), []
        counts = divide(self.listed, 0, split, sum(self.listed[:split]) // ONE, key)
        counts += divide(self.listed, split, end, sum(self.listed[split:]) // ONE, key)
        for r, count in sorted(zip(self.light + self.heavy, counts)):
            weights, own = self.weights[r], random_u64(keys, 0, self.places[r])
            if self.draws:
                at = [random_u64(own, 0, j) * sum(weights) >> 64 for j in range(count)]
                times = [(next(i for i in range(len(weights)) if x < sum(weights[:i + 1])), j) for j, x in enumerate(at)]
            else:
                times = [(i, k) for i, n in enumerate(divide(weights, 0, len(weights), count, own)) for k in range(n)]
            if count:
                found.append([Copy(self.all[r][i], k) for i, k in times])
        assert len(found) == self.row_count
        return found

    def windows(self, seed, number):
        """The anchors of each window."""
        place = permute if self.shuffle else lambda i, n, key: i
        rows, row_key, window_keys = self.draw(seed, number), random_u64(seed, 1, number), random_u64(seed, 2, number)
        order = [place(i, len(rows), row_key) for i in range(len(rows))]
        for first in range(0, len(order), self.window):
            samples = [t for row in order[first:first + self.window] for t in rows[row]]
            key = random_u64(window_keys, 0, first // self.window)
            yield [samples[place(i, len(samples), key)] for i in range(len(samples))]

    def make_order(self, seed, number):
        for window in self.windows(seed, number):
            yield from window
