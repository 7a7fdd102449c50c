"""Writes order_v1.txt: the order of samples, worked out a second time from its description.

Shares no code with src/plan: Philox 4x32-10 from its paper, the permutation and the windows from
docs/order.md. The files are fixed for ever; this program is here to show where they come from.
Arguments are the samples of stores that are joined. With `--anchors` first they are frames, of which some are anchors.

    python3 tests/golden/order_v1.py 1000 > tests/golden/order_v1.txt
    python3 tests/golden/order_v1.py 37 200 3 96 61 > tests/golden/order_v1_stores.txt
    python3 tests/golden/order_v1.py --anchors 37 600 3 296 161 > tests/golden/order_v1_anchors.txt
"""
import sys
from math import isqrt

C, W, B, SEED, EPOCHS = 8, 5, 50, 17, 2
KEY_ROWS, KEY_WINDOWS = 1, 2
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


def epoch_order(epoch, stores, chosen=lambda frame: True):
    rows, end = [], 0
    for count in stores:
        begin, end = end, end + count
        rows += [[t for t in range(i, min(i + C, end)) if chosen(t)] for i in range(begin, end, C)]
    rows = [row for row in rows if row]
    row_key = random_u64(SEED, KEY_ROWS, epoch)
    order = [permute(i, len(rows), row_key) for i in range(len(rows))]
    for j in range(0, len(rows), W):
        samples = [s for r in order[j:j + W] for s in rows[r]]
        key = random_u64(random_u64(SEED, KEY_WINDOWS, epoch), 0, j // W)
        yield from (samples[permute(i, len(samples), key)] for i in range(len(samples)))


if __name__ == "__main__":
    anchors = sys.argv[1] == "--anchors"
    lengths = [int(argument) for argument in sys.argv[1 + anchors:]]
    print("# epoch step position index: "
          f"{'+'.join(map(str, lengths))} {'frames, some of them anchors,' if anchors else 'samples'} in rows of {C}, windows of {W} rows, batch {B}, seed {SEED}")
    for e in range(EPOCHS):
        for p, sample in enumerate(epoch_order(e, lengths, is_anchor if anchors else lambda frame: True)):
            print(e, p // B, p % B, sample)
