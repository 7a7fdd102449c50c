"""A device that copies late, as a GPU does, and checks what is registered with it.

Copies run one after another in a thread, each after a pause, from the address that was given: a source that
has been overwritten meanwhile is copied as it is then. Registrations that overlap, or are not there, get the
driver's codes.
"""

import ctypes
import queue
import threading
import time

import torch

ALREADY_REGISTERED, NOT_REGISTERED = 712, 713


class Event:
    def __init__(self):
        self._done = threading.Event()

    def complete(self):
        self._done.set()

    def query(self):
        return self._done.is_set()

    def synchronize(self):
        assert self._done.wait(30), "a copy does not end"


class FakeDevice:
    def __init__(self, pause=0.0, refuses=0):
        self.registered = {}  # address -> bytes
        self.read_only = set()  # whether memory was, of all registrations
        self.log = []  # ("register" or "unregister", address, bytes, code)
        self.refuses = refuses  # a code for each registration
        self.unregistered_copies = 0
        self._pause = pause
        self._work = queue.Queue()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            step = self._work.get()
            if isinstance(step, Event):
                step.complete()
                continue
            time.sleep(self._pause)
            destination, address, size = step
            self.unregistered_copies += not any(base <= address and address + size <= base + length
                                                for base, length in list(self.registered.items()))
            ctypes.memmove(destination.data_ptr(), address, size)

    def copy(self, tensor):
        destination = torch.empty_like(tensor)
        if tensor.numel():
            self._work.put((destination, tensor.data_ptr(), tensor.numel() * tensor.element_size()))
        return destination

    def record(self):
        event = Event()
        self._work.put(event)
        return event

    def hand_over(self, tensors, event):
        event.synchronize()  # a stream would wait instead, and the reader of the tensors with it
        assert all(isinstance(tensor, torch.Tensor) for tensor in tensors)

    def finish(self):
        self.record().synchronize()

    def register(self, address, size, read_only=False):
        overlaps = any(base < address + size and address < base + length
                       for base, length in self.registered.items())
        self.read_only.add(read_only)
        code = self.refuses or (ALREADY_REGISTERED if overlaps else 0)
        if code == 0:
            self.registered[address] = size
        self.log.append(("register", address, size, code))
        return code

    def unregister(self, address):
        code = 0 if address in self.registered else NOT_REGISTERED
        self.log.append(("unregister", address, self.registered.pop(address, 0), code))
        return code
