"""penstock.torch on a GPU: what test_torch.py has with a device that copies late, and how memory is registered."""

import sys
import unittest

try:
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
if not torch.cuda.is_available():
    print("skipped: this torch finds no GPU")
    sys.exit(77)

import penstock
import penstock.torch
import test_torch
import test_torch_mesh
from demo import Demo
from test_torch import SAMPLES, STEPS, is_right, open_loader


class Gpu(penstock._torch_device.Cuda):
    """A GPU whose copies wait behind `pause` seconds each, with the book that FakeDevice keeps."""

    def __init__(self, pause=0.0, refuses=0):
        super().__init__("cuda")
        self.registered, self.log, self.unregistered_copies = {}, [], 0
        self.read_only = set()
        self._refuses, self._cycles = refuses, int(pause * 1e9)

    def copy(self, tensor):
        self.unregistered_copies += tensor.numel() > 0 and not tensor.is_pinned()
        if self._cycles:
            with torch.cuda.stream(self._stream):
                torch.cuda._sleep(self._cycles)
        return super().copy(tensor)

    def register(self, address, size, read_only=False):
        self.read_only.add(read_only)
        code = self._refuses or super().register(address, size, read_only)
        if code == 0:
            self.registered[address] = size
        self.log.append(("register", address, size, code))
        return code

    def unregister(self, address):
        code = super().unregister(address)
        self.log.append(("unregister", address, self.registered.pop(address, 0), code))
        return code


class Epochs(test_torch.Epochs):
    new_device = Gpu


class States(test_torch.States):
    new_device = Gpu


class Device(test_torch.Device):
    new_device = Gpu


class Pinned(test_torch.Pinned):
    new_device = Gpu


class PinnedGroups(test_torch_mesh.Pinned):
    new_device = Gpu


class Named(unittest.TestCase):
    """The device that users name."""

    def test_batches_are_on_the_gpu(self):
        for options in ({}, {"pin": True}, {"pin": True, "depth": 2}):
            with Demo(samples=SAMPLES, epochs=2, slots=4) as demo, open_loader(demo, device="cuda", **options) as loader:
                for _ in range(2):
                    batches = list(loader)  # all of them stay
                    self.assertTrue(all(tensor.is_cuda for batch in batches for tensor in batch.values()))
                    self.assertTrue(batches[0].indices.is_cuda and batches[0].sample_keys.is_cuda and batches[0].valid.is_cuda)
                    self.assertEqual([is_right(batch) for batch in batches], [True] * STEPS)

    def test_a_program_that_falls_behind(self):
        """Kernels of earlier batches run while later ones are copied, and see their own batch."""
        with Demo(samples=400, epochs=1, slots=4) as demo, open_loader(demo, device="cuda", depth=2, pin=True) as loader:
            sums = []
            for batch in loader:
                torch.cuda._sleep(2_000_000)
                sums.append((batch["label"].sum(), batch.indices.sum()))
                del batch
            self.assertEqual([label.item() for label, _ in sums], [index.item() for _, index in sums])
            self.assertEqual(sum(label.item() for label, _ in sums), 400 * 399 // 2)

    def test_a_refusal_is_no_error_of_later_kernels(self):
        class Refused(Gpu):
            def register(self, address, size, read_only=False):
                return super().register(address + (1 << 46), size, read_only)  # nothing is there

        with Demo(slots=4) as demo:
            loader = open_loader(demo, device=Refused(), pin=True)
            with self.assertRaisesRegex(penstock.Invalid, r"refused to register .* \(error \d+\): raise the limit"):
                next(iter(loader))
            torch.ones(1000, device="cuda").sum().item()
            loader.close()
        with Demo(slots=4) as demo, open_loader(demo, device="cuda") as loader:
            self.assertTrue(all(is_right(batch, 40) for batch in loader))


if __name__ == "__main__":
    unittest.main()
