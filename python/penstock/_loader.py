"""Loader: batches from the service, one after another."""

import ctypes
import gc
import json
import sys
import threading
import weakref

from . import _library
from ._batch import Batch, Memory
from ._connection import Connection
from ._errors import OK, Ended, Error, Invalid, Timeout, error_for
from ._info import Stats, constants_of, info_of

# What waits in C returns so often that Python can handle signals such as Ctrl-C.
_SLICE_MS = 100


def _milliseconds(seconds):
    return int(min(seconds * 1000, 2**63 - 1))


def _coordinate(at):
    """As the library takes it: "1", or "1/2" with the size of the axis."""
    return "/".join(str(int(number)) for number in (at if isinstance(at, tuple) else (at,)))


def _json(state):
    return state if isinstance(state, str) else json.dumps(state)


class Loader:
    """A connection to the service. Iterating gives batches until all epochs are consumed. epochs()
    gives the batches epoch by epoch. One thread at a time iterates, of the process that has connected: a fork
    cannot go on, and a loader cannot be pickled. Any thread may close.

    info       what the service delivers: see Info
    constants  dict: path of an array in dataset.constants -> the array, read-only. It outlives the loader
    fields     dict: name -> Field, with its dtype, shape and attributes
    """

    def __init__(
        self,
        run_dir=None,
        rank=None,
        world_size=None,
        timeout=60.0,
        state=None,
        wait_for_release=False,
        name=None,
        coordinates=None,
    ):
        """Connects, and waits for the service to start.

        run_dir, rank, world_size: None: from the environment.
        timeout: seconds to wait for the service. None, or less than 0: without limit.
        state: where to go on: the value that state() gave, as a dict or as JSON text. None: the
        value of PENSTOCK_STATE, if set.
        name: of another run for the same trainers (penstock-run --also NAME=FILE).
        wait_for_release: with all slots leased, next() waits until a batch is released (by another
        thread, or by JAX) instead of raising Invalid.
        coordinates: in the mesh of trainers (delivery.mesh), {"dp": 1, "tp": 0}, of a program that places its ranks
        itself: this trainer is the rank there. {"dp": (1, 2), "tp": (0, 4)} tells the sizes of the axes, too, and the
        service refuses a trainer of another mesh. None: the coordinates of the rank.
        """
        self._connection = None
        self._is_placed = bool(coordinates)  # the program knows its rank, and told it
        self._ended = False
        self._memories = {}  # thread -> memory of a batch to come, or that came, and nobody has got it yet
        self._lent = []  # weak references to batches
        if (rank is None) != (world_size is None):
            raise Invalid("give rank and world_size together, or neither")
        if world_size is not None and world_size < 1:
            raise Invalid(f"world_size is {world_size}; there is at least this trainer")
        options = _library.Options(
            run_dir=None if run_dir is None else str(run_dir).encode(),
            rank=rank or 0,
            world_size=world_size or 0,
            timeout_ms=-1 if timeout is None or timeout < 0 else max(1, _milliseconds(timeout)),
            state=None if state is None else _json(state).encode(),
            wait_for_release=bool(wait_for_release),
            name=None if name is None else name.encode(),
            coordinates=",".join(f"{axis}={_coordinate(at)}" for axis, at in (coordinates or {}).items()).encode(),
        )
        library = _library.load()
        self._connection = Connection(library, _connected(library, options))
        pointer = self._connection.pointer
        self.info = info_of(library, pointer)
        self.constants = constants_of(library, pointer, self.info)
        self._cursor = (self.info.start_epoch, self.info.start_step)  # of the next batch to hand out
        self._taken = self._cursor  # of the next batch to lease: later, where batches are copied ahead
        self._turn = 0  # counts the loops over epochs: the last one goes on
        self._epochs = weakref.WeakSet()  # what epochs() and epoch() have given

    def __enter__(self):
        return self

    def __exit__(self, _, error, __):
        """An exception that comes through is why this trainer ends. The service is told the exception,
        names it, and does as when a trainer dies. SystemExit with code 0, and Ended, are a goodbye."""
        orderly = isinstance(error, Ended) or (isinstance(error, SystemExit) and not error.code)
        try:
            if error is not None and not orderly and self._connection is not None:
                self._connection.fail(error)
        finally:
            self.close()

    def __del__(self):
        self.close()

    def __reduce__(self):
        raise Invalid(
            "a penstock loader cannot be pickled or copied: a connection belongs to the process that made it. Connect in "
            "the process that trains (torch.multiprocessing: in the function that it starts; DataLoader: num_workers=0)"
        )

    def close(self):
        """Leaves the service. Batches that are held become copies. A view of an array of a batch stays valid as long as
        anything refers to the view, and keeps the connection: the rank is free when the last one is gone."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            try:
                self._memories = {}
                if not self._ended and not sys.is_finalizing():
                    self._copy_out()
            finally:
                connection.close(self._ended)

    @property
    def fields(self):
        return {field.name: field for field in self.info.fields}

    def __len__(self):
        """Steps of one epoch, which is also its number of batches."""
        return self.info.steps_per_epoch

    def next(self, timeout=None):
        """The next batch. Waits up to `timeout` seconds (None, or less than 0: without limit). Raises
        Timeout, Ended, or the error for which the service stopped."""
        batch = self._lease(timeout)
        self._settle(batch, self._after(batch))
        return batch

    def _lease(self, timeout):
        """The next batch. The same one again until _settle(): an exception that comes between loses none."""
        connection = self._connection
        if connection is None:
            raise Invalid("the loader is closed")
        memory = self._memory(connection)  # which keeps the connection
        if memory.raw.indices is None:
            self._await(connection, memory.raw, timeout)
        batch = Batch(self.info, memory)
        self._taken = self._after(batch)
        return batch

    def _memory(self, connection):
        """This thread's memory. Two threads at a time are refused, and never get one batch. A thread that died with a
        batch that nobody got leaves the batch to the next one."""
        thread, memories = threading.get_ident(), self._memories
        mine = memories.get(thread)
        if mine is not None and mine.raw.indices is not None:
            return mine
        for other, memory in list(memories.items()) if len(memories) > (thread in memories) else ():
            left = other != thread and memory is not None and memory.raw.indices is not None
            if left and other not in sys._current_frames() and memories[other] is memory:
                memories[thread], memories[other] = memory, None  # no other thread runs in between
                return memory
        if mine is None:
            mine = memories[thread] = Memory(connection)
        return mine

    def _settle(self, batch, cursor=None):
        """Somebody has the batch: the next _lease() is of the one behind it. `cursor`: behind the batch, if it is
        handed out."""
        self._lend(batch)
        thread, cursor = threading.get_ident(), cursor or self._cursor
        self._memories[thread], self._cursor = None, cursor  # no signal's handler runs in between

    def _after(self, batch):
        """The cursor behind a batch."""
        last = batch.step + 1 == self.info.steps_per_epoch
        return (batch.epoch + 1, 0) if last else (batch.epoch, batch.step + 1)

    def _note_trained(self):
        """For those who copy batches ahead, and give a slot back before its batch was trained on: the program is
        done with what was handed out. A process that takes this one's place goes on there."""
        connection = self._connection
        if connection is not None and connection.retain():
            try:
                connection.library.penstock_trained(connection.pointer, *self._cursor)
            finally:
                connection.let_go()

    def _await(self, connection, raw, timeout):
        """Waits until a batch is in `raw`."""
        library, pointer = connection.library, connection.pointer
        left_ms = None if timeout is None or timeout < 0 else _milliseconds(timeout)
        collected = False
        while True:
            if self._connection is None:
                raise Ended("the loader was closed by another thread")
            slice_ms = _SLICE_MS if left_ms is None else min(_SLICE_MS, left_ms)
            status = library.penstock_next(pointer, ctypes.byref(raw), slice_ms)
            if status == OK:
                return
            if status == Invalid.status and not collected:
                collected = gc.collect() >= 0  # batches caught in reference cycles lease slots
                continue
            if left_ms is not None:
                left_ms -= slice_ms
            if status != Timeout.status or left_ms == 0:
                self._ended = status == Ended.status
                reason = library.penstock_last_error(pointer).decode(errors="replace")
                raise error_for(status, reason)

    def _lend(self, batch):
        """Keeps in mind what shares a slot's memory, and has copy_out()."""
        self._lent = [lent for lent in self._lent if lent() is not None]
        self._lent.append(weakref.ref(batch))

    def _copy_out(self):
        """Slots go back in order, so a batch that is held from before a skip would keep the slots behind it."""
        for batch in [lent() for lent in self._lent]:
            if batch is not None:
                batch.copy_out()
        self._lent = []

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return self.next()
        except Ended:
            raise StopIteration from None

    def skip(self, epoch, step=0):
        """Goes on at a later step, and passes over the batches before. Where all trainers skip, readers
        leave these batches out. Batches that are held become copies, and lease no slots. Views of their
        arrays do: drop these before. Raises Invalid for a step that is over, or behind the last epoch."""
        connection = self._connection
        if connection is None or not connection.retain():
            raise Invalid("the loader is closed")
        try:
            library, pointer = connection.library, connection.pointer
            if (epoch, step) == self._cursor:
                return
            status = library.penstock_skip(pointer, epoch, step)
            if status != OK:
                raise error_for(status, library.penstock_last_error(pointer).decode(errors="replace"))
            self._copy_out()
            self._note_left(epoch)
            self._memories = {}  # of batches that nobody has got, if any
            self._cursor = self._taken = (epoch, step)
        finally:
            connection.let_go()

    def _note_left(self, epoch):
        """Epochs before that one which are not over do not become whole."""
        for left in list(self._epochs):
            left._left = left._left or self._cursor[0] <= left.number < epoch

    def epochs(self):
        """The epochs that come: after a resume, the rest of the one in which the run goes on, and those behind it.
        Each is an iterable of its batches with attributes `number`, and `complete`: whether all batches of the epoch were
        handed out (after a resume, with those before it). Behind the loop False means that the loop was left, or that
        the service was told to stop. Asking for the next epoch skips the batches that are left of the one before."""
        while not self._ended and self._cursor[0] < self.info.epochs:
            epoch = Epoch(self, self._cursor[0])
            yield epoch
            if self._cursor[0] == epoch.number and not self._ended and self._connection is not None:
                self.skip(epoch.number + 1)
        if self._connection is not None and not self._ended:
            self._await_end()

    def epoch(self, number):
        """Epoch `number`, or the rest of it, as of epochs(); what lies before is skipped. For a second run (--also), which
        goes on with the training, also after a resume: val.epoch(epoch.number). Raises Ended behind the last epoch."""
        self._check_exists(number)
        if number > self._cursor[0]:
            self.skip(number)
        elif number < self._cursor[0]:
            raise Invalid(f"epoch {number} is over; the next batch is of epoch {self._cursor[0]}")
        return Epoch(self, number)

    def _check_exists(self, number):
        """Raises Ended where there is no such epoch, over or not."""
        if number >= self.info.epochs:
            raise Ended(
                f"epoch {number} was asked for, and order.epochs is {self.info.epochs}: the first one is epoch 0. "
                "Iterate loader.epochs(), which ends by itself and is right after a resume, or raise order.epochs"
            )

    @property
    def complete(self):
        """Whether all batches of all epochs were handed out. False after the last batch means that the
        service was told to stop (a signal, preemption): save state(), and go on from there."""
        return self._cursor[0] >= self.info.epochs

    def _await_end(self):
        """Waits until all trainers have their last batch: if the service has to start again, the others
        need this trainer, too. A failure meanwhile does not matter to this trainer, which has all of
        its batches."""
        try:
            self.next()
        except Error:
            pass

    def stats(self):
        """Statistics of the connection: see Stats."""
        connection = self._connection
        if connection is None or not connection.retain():
            raise Invalid("the loader is closed; take the statistics before")
        try:
            raw = _library.CStats()
            connection.library.penstock_stats(connection.pointer, ctypes.byref(raw), ctypes.sizeof(raw))
        finally:
            connection.let_go()
        return Stats(**{name: getattr(raw, name) for name in Stats.__dataclass_fields__})

    def state(self):
        """The state behind the last batch that was handed out: a dict to save with the checkpoint.
        Written as JSON, it is what penstock-reader --resume reads."""
        if self._connection is None:
            raise Invalid("the loader is closed; take the state before")
        text = ctypes.create_string_buffer(_library.STATE_BYTES)
        status = self._connection.library.penstock_state(
            self._connection.pointer, text, _library.STATE_BYTES
        )
        if status != OK:
            raise error_for(status, "the state does not fit its buffer")
        state = json.loads(text.value)
        state["epoch"], state["step"] = self._cursor  # whatever is copied ahead
        return state


class Epoch:
    """The batches of one epoch. It can be iterated once, and no longer when a later one was asked for."""

    def __init__(self, loader, number):
        self._loader = loader
        self.number = number
        self._left = False
        loader._epochs.add(self)
        loader._turn += 1
        self._turn = loader._turn

    @property
    def complete(self):
        """Whether all batches were handed out: see Loader.epochs()."""
        return self._loader._cursor[0] > self.number and not self._left

    def __len__(self):
        """Batches of a whole epoch. After a resume, the first epoch has fewer."""
        return len(self._loader)

    def __iter__(self):
        return self

    def __next__(self):
        if self._loader._cursor[0] != self.number:
            raise StopIteration
        self.check_turn()
        return self._loader.__next__()  # not next(): behind a call of C, a signal's handler may run, and lose the batch

    def check_turn(self):
        if self._turn != self._loader._turn:
            raise Invalid(
                f"another loop over this loader has begun, and goes on with epoch {self._loader._cursor[0]}: a loader gives "
                "each batch once, to one loop at a time"
            )


def _connected(library, options):
    """A connection's pointer, once it is there. An exception that a signal's handler raises ends the wait."""
    pointer, connected = ctypes.c_void_p(), ctypes.c_int32()
    message = ctypes.create_string_buffer(_library.MESSAGE_BYTES)
    try:
        status = library.penstock_connect_begin(ctypes.byref(options), ctypes.byref(pointer), message)
        while status == OK and not connected.value:
            status = library.penstock_connect_continue(pointer, _SLICE_MS, ctypes.byref(connected), message)
        if status != OK:
            raise error_for(status, message.value.decode(errors="replace"))
        return pointer
    except BaseException:
        library.penstock_close(pointer)
        raise


def connect(name=None, **options):
    """Connects to the service of this node, and waits until the service delivers. `name`: of the run, as
    --also NAME=FILE has named it; None: the run that is trained on. A name with a slash is a run
    directory. See Loader for the options: run_dir, rank, world_size, timeout, state,
    wait_for_release, coordinates."""
    if name is not None and "/" in str(name):
        return Loader(name, **options)
    return Loader(name=name, **options)
