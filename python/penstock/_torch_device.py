"""Devices that batches are copied to: a GPU's stream of copies, and shared memory that is registered with the GPU."""

import torch

from ._errors import Invalid

_PORTABLE = 1  # a flag of cudaHostRegister: every context sees the memory as pinned
_READ_ONLY = 8  # another: the device only reads. Memory that is mapped read-only is refused without
_NOT_SUPPORTED = 801  # what cudaHostRegister says of the latter on devices that cannot
_REGISTER_BYTES = 64 << 30  # at once: drivers refuse calls of 512 GiB and more


class Cuda:
    """A GPU, by torch.cuda, which is HIP where torch was built for it. One stream of copies."""

    def __init__(self, device):
        if not torch.cuda.is_available():
            raise Invalid(f"device {device}: this torch finds no GPU (torch.cuda.is_available())")
        self.device = torch.device(device)
        self._stream = torch.cuda.Stream(self.device)

    def copy(self, tensor):
        """Starts a copy. The source must stay until the event that record() gives afterwards."""
        with torch.cuda.stream(self._stream):
            return tensor.to(self.device, non_blocking=True)

    def record(self):
        event = torch.cuda.Event()
        event.record(self._stream)
        return event

    def hand_over(self, tensors, event):
        """From now on the tensors belong to the current stream, which waits for their copies."""
        current = torch.cuda.current_stream(self.device)
        current.wait_event(event)
        for tensor in tensors:
            tensor.record_stream(current)

    def finish(self):
        """Waits for all copies."""
        self._stream.synchronize()

    def register(self, address, size, read_only=False):
        flags = _PORTABLE | (_READ_ONLY if read_only else 0)
        return self._checked(torch.cuda.cudart().cudaHostRegister(address, size, flags))

    def unregister(self, address):
        return self._checked(torch.cuda.cudart().cudaHostUnregister(address))

    def _checked(self, code):
        """A code of the CUDA runtime as int. The runtime remembers an error until it is asked, and torch would raise
        it of the program's next kernel: so it is asked here."""
        if int(code) != 0:
            try:
                torch.zeros(1, device=self.device)
            except RuntimeError:
                pass
        return int(code)


def device_of(device):
    """What copies batches; None: nobody. An object with the methods of Cuda stands for itself."""
    if device is None or hasattr(device, "hand_over"):
        return device
    return None if torch.device(device).type == "cpu" else Cuda(device)


class Pins:
    """Keeps a connection's rings registered with a device, each from its start to its end. `read_only`: as the ranks of a
    group map theirs."""

    def __init__(self, device, connection, read_only):
        self._device = device
        self._read_only = read_only
        self._parts = {}  # generation -> addresses
        self.error = None  # of a registration that failed
        connection.watch_rings(self._attached, self._detaching)

    def _attached(self, base, size_of_ring, generation):
        parts = self._parts[generation] = []
        for offset in range(0, size_of_ring, _REGISTER_BYTES):
            size = min(_REGISTER_BYTES, size_of_ring - offset)
            code = self._device.register(base + offset, size, self._read_only)
            if code != 0:
                self.error = Invalid(
                    f"pin=True: the device refused to register {size} bytes of shared memory (error {code}): "
                    + (
                        "it takes none that is read-only, as ranks of a group share: use pin=False"
                        if self._read_only and code == _NOT_SUPPORTED
                        else "raise the limit of locked memory (ulimit -l), or use pin=False"
                    )
                )
                return
            parts.append(base + offset)

    def _detaching(self, generation):
        self._device.finish()
        for address in self._parts.pop(generation, []):
            self._device.unregister(address)
