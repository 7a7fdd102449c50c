"""Connection: libpenstock's connection, and how long it lives."""

import ctypes
import sys
import threading
import traceback
import weakref

from . import _library
from ._errors import OK, error_for


def _words(error):
    """An exception's text as the interpreter's last line has it, in one line, for the C library."""
    line = " ".join("".join(traceback.format_exception_only(type(error), error)).split())
    return line.encode(errors="replace")  # a file's name may have what is no character


def _leave_at_exit(library, pointer):
    """The process ends, and the connection was not closed. If the interpreter has kept an exception
    that nobody caught, the trainer has failed. Else it leaves."""
    error = getattr(sys, "last_value", None)
    if error is None or hasattr(sys, "ps1"):
        library.penstock_leave(pointer)
    else:
        library.penstock_fail(pointer, _words(error))


def _ring(pointer):
    ring = pointer.contents
    return ring.base, ring.bytes, ring.generation


class Connection:
    """Owns the connection. The ring is unmapped when the loader is closed and the last view of a
    batch is gone, so that a view never points to memory that is not there any more. The goodbye goes
    out at the same time, or earlier, when no more batches can come or the process ends. After the
    goodbye the service may overwrite leased slots."""

    def __init__(self, library, pointer):
        self.library = library
        self.pointer = pointer
        self._kept = []  # what the library calls back until it frees the connection
        self._lock = threading.RLock()  # reentrant: a finalizer may run anywhere
        self._users = 0  # batches, and calls under way
        self._wanted = True
        self._at_exit = weakref.finalize(self, _leave_at_exit, library, pointer)

    def retain(self):
        """Keeps the connection for a batch, or for a call under way. False: the connection is gone."""
        with self._lock:
            if self._users == 0 and not self._wanted:
                return False
            self._users += 1
            return True

    def let_go(self):
        with self._lock:
            self._users -= 1
            last = self._users == 0 and not self._wanted
        if last:
            self._free()

    def watch_rings(self, attached, detaching):
        """Calls attached(base, bytes, generation) and detaching(generation): see penstock_watch_rings()."""
        watch = _library.RingWatch(
            _library.RING_FUNCTION(lambda _, ring: attached(*_ring(ring))),
            _library.RING_FUNCTION(lambda _, ring: detaching(_ring(ring)[2])),
            None,
        )
        self._kept.append(watch)
        status = self.library.penstock_watch_rings(self.pointer, ctypes.byref(watch))
        if status != OK:
            raise error_for(status, "rings can be watched once, and before the first batch")

    def give_back(self, raw):
        """Runs when the last reference to a batch's memory goes, in the thread that drops it."""
        if raw.indices is not None:  # else no batch came
            self.library.penstock_release(self.pointer, ctypes.byref(raw))
        self.let_go()

    def fail(self, error):
        self.library.penstock_fail(self.pointer, _words(error))

    def close(self, ended):
        with self._lock:
            self._wanted = False
            last = self._users == 0
        if last:
            self._free()
        elif ended:
            self.library.penstock_leave(self.pointer)

    def _free(self):
        self._at_exit.detach()
        self.library.penstock_close(self.pointer)
