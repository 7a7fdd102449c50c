"""Writes order_v1.txt: the order of samples, worked out a second time from its description.

Shares no code with src/plan: Philox 4x32-10 from its paper, the permutation and the windows from
docs/inside/order.md. The files are fixed for ever; this program is here to show where they come from.
Arguments are the samples of stores that are joined. With `--anchors` first they are frames, of which some are anchors.

    python3 tests/golden/order_v1.py 1000 > tests/golden/order_v1.txt
    python3 tests/golden/order_v1.py 37 200 3 96 61 > tests/golden/order_v1_stores.txt
    python3 tests/golden/order_v1.py --anchors 37 600 3 296 161 > tests/golden/order_v1_anchors.txt
    python3 tests/golden/order_v1.py --mix > tests/golden/order_v1_mix.txt
"""
import sys
from math import isqrt

C, W, B, SEED, EPOCHS = 8, 5, 50, 17, 2
KEY_ROWS, KEY_WINDOWS, KEY_DRAWS, KEY_SOURCES = 1, 2, 5, 6
M64, M32 = 2**64 - 1, 2**32 - 1


def random_u64(key, high, low):
    x = [low & M32, low >> 32, high & M32, high >> 32]
    k0, k1 = key & M32, key >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [(b >> 32) ^ x[1] ^ k0, b & M32, (a >> 32) ^ x[3] ^ k1, a & M32]
        k0, k1 = (k0 + 0x9E3779B9) & M32, (k1 + 0xBB67AE85) & M32
    return x[1] << 32 | x[0]


def permute(i, n, key):
    a = isqrt(n - 1) + 1
    a += a % 2
    b = -(-n // a)
    while True:
        right, left = divmod(i, a)
        for r in range(0, 24 if n < 1024 else 8, 2):
            left = (left + (random_u64(key, r, right) * a >> 64)) % a
            right = (right + (random_u64(key, r + 1, left) * b >> 64)) % b
        i = left + a * right
        if i < n:
            return i


def is_anchor(frame):
    """A quarter of the frames, and none of [200, 333): rows have 0 to C samples."""
    return random_u64(SEED, 99, frame) % 4 == 0 and not 200 <= frame < 333


def epoch_order(epoch, stores, chosen=lambda frame: True, seed=None):
    seed = SEED if seed is None else seed
    rows, end = [], 0
    for count in stores:
        begin, end = end, end + count
        rows += [[t for t in range(i, min(i + C, end)) if chosen(t)] for i in range(begin, end, C)]
    rows = [row for row in rows if row]
    row_key = random_u64(seed, KEY_ROWS, epoch)
    order = [permute(i, len(rows), row_key) for i in range(len(rows))]
    for j in range(0, len(rows), W):
        samples = [s for r in order[j:j + W] for s in rows[r]]
        key = random_u64(random_u64(seed, KEY_WINDOWS, epoch), 0, j // W)
        yield from (samples[permute(i, len(samples), key)] for i in range(len(samples)))


# Of a mix: weight, stores, which frames are samples. The last two are small, one comes rarely.
SOURCES = [(5, [1000], lambda frame: True), (3, [37, 200, 3, 96, 61], lambda frame: True), (2, [37, 600, 3, 296, 161], is_anchor),
           (7, [1], lambda frame: True), (1, [9, 2], lambda frame: True)]
MIX_SAMPLES = 330


def counts(weights, n):
    """How many of the first n positions each source has."""
    if len(weights) == 1:
        return [n]
    half = len(weights) // 2
    left = n * sum(weights[:half]) // sum(weights)
    return counts(weights[:half], left) + counts(weights[half:], n - left)


def mix_order():
    """(epoch, step, position, index, source), with a short last step in each epoch."""
    seeds = [random_u64(SEED, KEY_SOURCES, d) for d in range(len(SOURCES))]
    passes = [[] for _ in SOURCES]  # what each source gives, draw after draw
    numbers = [0] * len(SOURCES)
    for e in range(EPOCHS):
        for s, first in enumerate(range(0, MIX_SAMPLES, B)):
            n, b = e * MIX_SAMPLES + first, min(B, MIX_SAMPLES - first)
            begin, end = counts([source[0] for source in SOURCES], n), counts([source[0] for source in SOURCES], n + b)
            draws = []
            for d, (_, stores, chosen) in enumerate(SOURCES):
                while len(passes[d]) < end[d]:
                    passes[d] += epoch_order(numbers[d], stores, chosen, seeds[d])
                    numbers[d] += 1
                draws += [(passes[d][m], d) for m in range(begin[d], end[d])]
            key = random_u64(random_u64(SEED, KEY_DRAWS, e), 0, s)
            yield from ((e, s, i, *draws[permute(i, b, key)]) for i in range(b))


if __name__ == "__main__":
    if sys.argv[1] == "--mix":
        print(f"# epoch step position index source: weights {[source[0] for source in SOURCES]}, {MIX_SAMPLES} samples an epoch, "
              f"in rows of {C}, windows of {W} rows, batch {B}, seed {SEED}")
        for row in mix_order():
            print(*row)
        sys.exit()
    anchors = sys.argv[1] == "--anchors"
    lengths = [int(argument) for argument in sys.argv[1 + anchors:]]
    print("# epoch step position index: "
          f"{'+'.join(map(str, lengths))} {'frames, some of them anchors,' if anchors else 'samples'} in rows of {C}, windows of {W} rows, batch {B}, seed {SEED}")
    for e in range(EPOCHS):
        for p, sample in enumerate(epoch_order(e, lengths, is_anchor if anchors else lambda frame: True)):
            print(e, p // B, p % B, sample)
