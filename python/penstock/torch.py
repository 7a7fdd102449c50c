"""Batches as PyTorch tensors, on the CPU without a copy, or on a GPU before they are needed.

    import penstock.torch

    with penstock.torch.Loader(device="cuda") as loader:
        for epoch in loader.epochs():
            for batch in epoch:               # a dict of tensors on the GPU
                train_step(batch["latents"], batch["text"])
            save(model, loader.state_dict())

On the CPU (device=None) a tensor shares the memory of its batch, which goes back to the service when
the batch and its tensors are gone. On a GPU the loader copies `depth` batches ahead, on a stream of
its own. A batch's memory goes back once the copy is complete. A process that takes this one's place without a
state goes on with the batch that this one was training on: the loop is done with a batch when it asks for the next one.
"""

import collections
import functools
import sys
import threading

import numpy as np
import torch

from ._batch import Fields
from ._batch import _unprotected
from ._batch import tensor as _tensor
from ._errors import Ended, Invalid, Timeout
from ._loader import Epoch as _ConnectionsEpoch
from ._loader import Loader as _Connection
from ._ragged import Csr as _Csr
from ._torch_device import Pins as _Pins
from ._torch_device import device_of as _device
from ._torch_mesh import Place as _Place
from ._torch_mesh import coordinates_of as _coordinates_of


class Csr(_Csr):
    """A ragged field as tensors."""

    __slots__ = ()

    def nested(self, column=None):
        """The values, or another column, as a nested tensor of the layout torch.jagged, [samples * steps, own
        length, ...]. Nothing is copied."""
        items = self.values if column is None else self.columns[column]
        return torch.nested.nested_tensor_from_jagged(items, self.own_offsets)

    def sparse(self, width):
        """A torch.sparse_csr tensor [samples * steps, width], of a field with values and one column of indices.
        Nothing is copied where indices are int64; else torch copies them to int64."""
        shape = (len(self.offsets) - 1, width)
        return torch.sparse_csr_tensor(self.own_offsets, self.matrix_indices("torch"), self.values, shape)


class Batch(Fields):
    """One trainer's samples of one step: field name -> tensor [samples, *shape]. The tensor of a ragged field
    (deliver: csr) is [items, *shape]; csr() has its columns and offsets together, and strings() its strings.

    indices, sample_keys  int64 tensors [samples], on the same device. Keys are 64 random bits.
    valid          bool tensor [samples]
    valid_of       field name -> bool tensor [samples, steps], as of penstock.Batch
    epoch, step, bound, first_position  int, as of penstock.Batch

    On the CPU ranks of a group share the memory (info.is_shared), which is read-only: a process that writes to a tensor
    there gets SIGSEGV, since torch knows no read-only tensors. copy_out() first, or copy to a device.
    """

    __slots__ = ("_place",)

    _csr = Csr

    def dtensor(self, name, mesh=None):
        """The field as a DTensor, without a copy and without communication: Shard(0) along the axes of the mesh that
        divide the batch, Shard(axis + 1) along those that cut an axis of samples, else Replicate. `mesh`: a DeviceMesh
        with axes of delivery.mesh, maybe not all; None: the one that Loader() was given. Along axes that it lacks the
        DTensor is of this rank's samples and parts. Invalid: DTensor cannot express the parts (zigzag, or sizes other than
        torch.chunk()'s), or the tensor is on another device. Functions that write in place write to the batch."""
        return self._place.dtensor(self, name, mesh)

    def copy_out(self):
        """Copies all tensors. The slot that they share goes back when no view from before is left."""
        for name, tensor in self.items():
            self[name] = tensor.clone()
        self.indices, self.sample_keys, self.valid = (
            tensor.clone() for tensor in (self.indices, self.sample_keys, self.valid)
        )

    def torch(self, name):
        """The field, as of penstock.Batch."""
        return self[name]


def _tensors(batch, copy, place):
    """A Batch of a penstock.Batch. `copy`: what becomes of each tensor."""
    out = Batch((name, copy(batch.torch(name))) for name in batch)
    out.indices = copy(torch.from_numpy(_unprotected(batch.indices).view(np.int64)))
    out.sample_keys = copy(torch.from_numpy(_unprotected(batch.sample_keys).view(np.int64)))
    out.valid = copy(torch.from_numpy(_unprotected(batch.valid)))
    out._describe(batch)
    out._place = place
    return out


class Loader:
    """A connection that is iterated epoch by epoch: epochs() gives the epochs that come. Each iter() is the next epoch, for
    frameworks that count epochs themselves. Batches are dicts of tensors. An epoch that was not iterated to its end is
    skipped to its end by the next one.

    loader   a penstock.Loader, or None: connects at the first use, with the arguments of
             penstock.connect(), such as name and state
    device   None: tensors on the CPU that share the batch's memory. Else a GPU: "cuda", "cuda:1", …
    depth    with a device: how many batches are copied ahead, at most delivery.slots - 2
    pin      with a device: registers the shared memory with the device, so that copies are
             asynchronous and fast. Raises Invalid where the device refuses.
    mesh     torch's DeviceMesh, with the names and sizes of delivery.mesh: this process is the trainer at its
             coordinates there, whatever its rank is. The axes of a part of the mesh are compared with those of the
             rank. Axes of size 1 may be left out. batch.dtensor() makes DTensors on it
    all_valid  True: raises Invalid at a batch with samples that are not valid, for programs that have no mark for them

    One thread at a time.
    """

    def __init__(self, loader=None, *, device=None, depth=1, pin=False, mesh=None, all_valid=False, **connect):
        if loader is not None and connect:
            raise Invalid(f"with a loader that is connected, {', '.join(connect)} has no meaning")
        if depth < 1:
            raise Invalid(f"depth is {depth}; at least 1 batch is copied ahead")
        self._device = _device(device)
        if pin and self._device is None:
            raise Invalid("pin=True registers memory with a GPU: give a device")
        if mesh is not None and connect.get("coordinates"):
            raise Invalid("mesh tells coordinates: give one of the two")
        if mesh is not None and loader is None:
            connect["coordinates"] = _coordinates_of(mesh)
        self._arguments = connect
        self._mesh = mesh
        self._place = None
        self._all_valid = all_valid
        self._loader = None  # its cursor is that of the next batch to hand out
        self._depth = depth
        self._pin = pin
        self._pins = None
        self._state = connect.pop("state", None)  # for the connection to come
        self._open = None  # the epoch that is being iterated
        self._stopped = False  # no more batches come
        self._ended = False
        self._ahead = []  # (batch, event): copies under way, or complete. Replaced, never changed
        self._copying = collections.deque()  # (memory, event): what copies read
        if loader is not None:
            self._begin(loader)

    def _begin(self, loader):
        """The connection is there."""
        info = loader.info
        if self._device and self._depth > info.slot_count - 2:
            raise Invalid(
                f"depth is {self._depth}, and the service has {info.slot_count} slots for each trainer: "
                f"at most {info.slot_count - 2} batches can be copied ahead; raise delivery.slots"
            )
        self._place = _Place(loader, self._mesh)
        if self._mesh is not None:
            self._place.check()
        if self._pin:
            self._pins = _Pins(self._device, loader._connection, info.is_shared)
            self._check_pins()
        self._loader = loader
        if self._device:
            loader._note_trained()

    def __getstate__(self):
        if self._loader is not None:
            self._loader.__reduce__()  # raises
        return self.__dict__

    def __getitem__(self, index):
        raise Invalid(
            "penstock.torch.Loader has no samples by index, and takes no sampler: iterate the loader itself. A program that "
            "wants a DataLoader writes DataLoader(penstock.torch.Dataset(), batch_size=None)"
        )

    def _check_pins(self):
        if self._pins and self._pins.error:
            raise self._pins.error

    @property
    def connection(self):
        """The penstock.Loader; connects if need be."""
        if self._loader is None:
            loader = _Connection(state=self._state, **self._arguments)
            try:
                self._begin(loader)
            except Invalid as error:
                loader.__exit__(Invalid, error, None)
                raise
        return self._loader

    @property
    def info(self):
        return self.connection.info

    @functools.cached_property
    def constants(self):
        """dict: path of an array in dataset.constants -> tensor on the CPU, for .to(device). The tensors share
        the memory of the connection's constants, and are not to be written to."""
        arrays = self.connection.constants
        writable = {name: np.frombuffer(array.base, array.dtype).reshape(array.shape) for name, array in arrays.items()}
        return {field.name: _tensor(writable[field.name], field.dtype_name == "bfloat16") for field in self.info.constants}

    def epochs(self):
        """The epochs that come: after a resume, the rest of the one in which the run goes on, and those behind it.
        Each is an iterable of its batches with attributes `number` and `complete`: see penstock.Loader.epochs(). How many
        the service delivers: info.epochs."""
        while not self.complete and not self._stopped:
            epoch = iter(self)
            yield epoch
            if self._cursor[0] == epoch.number and not self._stopped:
                self._skip_to(epoch.number + 1, 0)
        self._end_if_done()

    def epoch(self, number):
        """Epoch `number`, or the rest of it; what lies before is skipped. For a second run (--also), which goes on with the
        training, also after a resume: val.epoch(epoch.number). Raises Ended behind the last epoch."""
        self.connection._check_exists(number)
        self.set_epoch(number)
        self._open = None
        return iter(self)

    @property
    def complete(self):
        """Whether all batches of all epochs were handed out. False after the last batch means that the service was told
        to stop: save state_dict(), and go on from there."""
        return self.connection.complete

    @property
    def _cursor(self):
        return self._loader._cursor

    @property
    def batch_size(self):
        """The most samples of a batch of this process."""
        return self.info.batch_size

    @property
    def stats(self):
        return self.connection.stats()

    def __len__(self):
        """Batches of a whole epoch."""
        return self.info.steps_per_epoch

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            self._drop()
        finally:  # a device that is broken is no reason to say nothing
            if self._loader is not None:
                self._loader.__exit__(kind, error, trace)

    def close(self):
        try:
            self._drop()
        finally:
            if self._loader is not None:
                self._loader.close()

    def _drop(self):
        """Forgets what is copied ahead."""
        if self._device:
            self._device.finish()
        self._ahead = []
        self._copying.clear()

    def set_epoch(self, epoch):
        """Says which epoch comes next: the one that comes anyway, or a later one, which is skipped to.
        Epochs that are over do not come again: raises Invalid."""
        self.connection  # pylint: disable=pointless-statement
        coming = self._cursor[0]
        if epoch < coming:
            raise Invalid(f"epoch {epoch} is over; the next one is epoch {coming}")
        if epoch > coming:
            self._skip_to(epoch, 0)

    def _skip_to(self, epoch, step):
        """Passes over batches; those that are not copied yet never are."""
        self._loader._note_left(epoch)
        while self._ahead and self._cursor < (epoch, step):
            self._hand_out()
        if self._device and self._cursor < (epoch, step):
            self._drop()  # slots are given back in order
        self._loader.skip(epoch, step)

    def state_dict(self):
        """The state behind the last batch that was handed out, whatever is copied ahead."""
        return self.connection.state()

    def load_state_dict(self, state):
        """Goes on at a state of state_dict(). Best before the first use: then the service is told. On a
        loader that is connected already, batches before the state are passed over."""
        if self._loader is None:
            self._state = dict(state)
            return
        cursor = (state["epoch"], state["step"])
        if cursor < self._cursor:
            raise Invalid(
                f"the state is of epoch {cursor[0]} step {cursor[1]}, and this loader is at epoch "
                f"{self._cursor[0]} step {self._cursor[1]}: load the state before the first batch"
            )
        self._skip_to(*cursor)
        self._open = None  # its epoch goes on here

    def __iter__(self):
        """The next epoch, or the rest of the one that a state or the service starts in."""
        self.connection  # pylint: disable=pointless-statement
        return _Epoch(self)

    def _next(self):
        """The next batch of any epoch; None at the end."""
        try:
            return self._take() if self._device is None else self._take_ahead()
        except Ended:
            self._stopped = True
            return None

    def _end_if_done(self):
        """Behind the last batch of all, waits until all trainers have theirs: if the service has to start
        again, the others need this trainer, too."""
        if self._cursor[0] >= self.info.epochs and not self._ended:
            self._ended = True
            self._drop()
            if self._device:
                self._loader._note_trained()
            self._loader._await_end()

    def _lease(self, timeout):
        batch = self._loader._lease(timeout)
        if self._all_valid and not batch.valid.all():
            raise Invalid(
                f"epoch {batch.epoch} step {batch.step}: {int((~batch.valid).sum())} of {batch.sample_count} samples are not valid, and this "
                "program has no mark for them: let batch.last be drop or partial, and errors.bad_sample fail"
            )
        return batch

    def _take(self):
        batch = _tensors(self._lease(None), lambda tensor: tensor, self._place)
        self._loader._settle(batch, self._loader._after(batch))
        return batch

    def _take_ahead(self):
        self._loader._note_trained()  # the program asks for a batch: it is done with the last one
        if not self._ahead:
            self._copy(None)
        try:
            while len(self._ahead) <= self._depth and self._may_lease() and self._loader._taken[0] < self.info.epochs:
                self._copy(0)
        except (Timeout, Ended):
            pass  # an end is found again when nothing is left
        batch, event = self._ahead[0]
        self._device.hand_over([*batch.values(), batch.indices, batch.sample_keys, batch.valid], event)
        return self._hand_out()

    def _hand_out(self):
        """The first batch that was copied ahead."""
        batch, rest = self._ahead[0][0], self._ahead[1:]
        cursor = self._loader._after(batch)
        self._ahead, self._loader._cursor = rest, cursor  # no signal's handler runs in between
        return batch

    def _may_lease(self):
        """Gives back what is copied. Whether another batch can be leased, and the service have a slot."""
        while self._copying and self._copying[0][1].query():
            self._copying.popleft()
        return len(self._copying) < self._loader.info.slot_count - 1

    def _copy(self, timeout):
        """Takes the service's next batch and starts to copy it."""
        while not self._may_lease():
            self._copying[0][1].synchronize()
        memory = self._lease(timeout)
        self._check_pins()
        batch = _tensors(memory, self._device.copy, self._place)
        event = self._device.record()
        self._copying.append((memory, event))
        self._loader._lend(memory)
        thread, ahead = threading.get_ident(), [*self._ahead, (batch, event)]
        self._loader._memories[thread], self._ahead = None, ahead  # no signal's handler runs in between


class _Epoch(_ConnectionsEpoch):
    """The batches of one epoch, as tensors."""

    def __init__(self, loader):
        epoch, step = loader._cursor
        if loader._open == epoch and step > 0 and not loader._stopped:
            loader._skip_to(epoch + 1, 0)  # it was abandoned
        loader._loader._check_exists(loader._cursor[0])
        loader._open = loader._cursor[0]
        super().__init__(loader._loader, loader._open)
        self._batches = loader

    def __next__(self):
        if self._loader._cursor[0] != self.number:
            self._batches._end_if_done()
            raise StopIteration
        self.check_turn()
        batch = self._batches._next()
        if batch is None:
            raise StopIteration
        return batch


def _batched_by(frame):
    """Whether the caller, of that frame, is a DataLoader's fetcher that makes batches."""
    is_torch = frame.f_globals.get("__name__", "").startswith("torch.utils.data.")
    return is_torch and frame.f_locals.get("auto_collation", False)


def _is_shared_out(frame):
    """Whether Accelerate iterates, to give several processes parts of what this one reads. Looks at no frame's
    variables: up to Python 3.12 the frame of a loop would keep them, and with them its last batch."""
    loaders = getattr(sys.modules.get("accelerate.data_loader"), "__dict__", {})
    sharing = [loaders[name] for name in ("IterableDatasetShard", "DataLoaderDispatcher") if name in loaders]
    codes = [loader.__iter__.__code__ for loader in sharing]
    while codes and frame is not None:
        if frame.f_code in codes:
            return sys.modules["accelerate"].PartialState().num_processes > 1
        frame = frame.f_back
    return False


class Dataset(torch.utils.data.IterableDataset):
    """Batches for torch.utils.data.DataLoader(dataset, batch_size=None), for programs that want a DataLoader.
    A Loader alone does as well. Arguments as of Loader. The DataLoader has no workers: the readers are the
    workers, and several connections of one rank cannot be. It makes no batches either: batch.global_size says how
    many samples a batch has, and the order of samples is the service's."""

    def __init__(self, *arguments, **named):
        super().__init__()
        self.loader = Loader(*arguments, **named)

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        if torch.utils.data.get_worker_info() is not None:
            raise Invalid("penstock.torch.Dataset takes no DataLoader workers: give num_workers=0")
        caller = sys._getframe(1)
        if _batched_by(caller):
            raise Invalid(
                "penstock.torch.Dataset gives whole batches, and a DataLoader would put several of them into one: give "
                "batch_size=None (its default is 1). Samples of a batch: batch.global_size of the service's configuration"
            )
        if _is_shared_out(caller):
            raise Invalid(
                "accelerator.prepare() was given a DataLoader of penstock.torch.Dataset: process 0 would read for all, "
                "or each process keep a part of its own samples. Do not prepare it: iterate penstock.torch.Loader()"
            )
        return iter(self.loader)

    def __getitem__(self, index):
        return self.loader[index]

    def state_dict(self):
        return self.loader.state_dict()

    def load_state_dict(self, state):
        self.loader.load_state_dict(state)
