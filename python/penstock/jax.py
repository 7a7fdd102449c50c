"""Batches as JAX arrays over all processes of a training job.

    import jax
    import penstock.jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    sharding = NamedSharding(Mesh(jax.devices(), "data"), PartitionSpec("data"))
    with penstock.connect(wait_for_release=True) as loader:
        for epoch in loader.epochs():
            for batch in penstock.jax.batches(epoch, sharding):
                state = train_step(state, batch["latents"], batch.sample_keys)
            save(state, loader.state())

Each process has a trainer of the service, of rank jax.process_index(). The local batches of all processes
make one global array. Processes of a group (delivery.mesh) have the same rows, or parts of a field that is cut:

    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("dp", "sp"))  # delivery: {mesh: [dp: 2, sp: 2], data: [dp]}
    rows, grid = (NamedSharding(mesh, PartitionSpec(*spec)) for spec in (["dp"], ["dp", "sp"]))
    for batch in penstock.jax.batches(epoch, rows, fields={"era5": grid}):

Ragged fields (deliver: csr) stay local: each process has its own items, on its device.
"""

import collections

import jax
import numpy as np

from ._batch import Fields
from ._errors import Ended, Invalid, Timeout
from ._jax_places import Places, rows_alone, words
from ._loader import Epoch
from ._ragged import Csr as _Csr


_INT32_MAX = 2**31 - 1


class Csr(_Csr):
    """A ragged field as arrays of this process."""

    __slots__ = ()

    def _shape(self, width):
        return (len(self.offsets) - 1, width)

    def bcsr(self, width):
        """A jax.experimental.sparse.BCSR [samples * steps of this process, width], of a field with values and one
        column of indices. Nothing is copied where indices have the dtype of offsets."""
        from jax.experimental import sparse

        index = self.matrix_indices("JAX").astype(self.offsets.dtype)
        return sparse.BCSR((self.values, index, self.own_offsets), shape=self._shape(width))

    def bcoo(self, width):
        """As bcsr(), as a BCOO. Values are not copied; indices are, beside the number of each item's row."""
        from jax.experimental import sparse

        index = self.matrix_indices("JAX").astype(self.offsets.dtype)
        rows = jax.numpy.repeat(
            jax.numpy.arange(len(self.offsets) - 1, dtype=self.offsets.dtype),
            jax.numpy.diff(self.own_offsets),
            total_repeat_length=len(index),
        )
        return sparse.BCOO((self.values, jax.numpy.stack([rows, index], axis=1)), shape=self._shape(width))


class Batch(Fields):
    """The samples of one step: field name -> global jax.Array [samples of the step, *shape]. The array of a ragged
    field is [items, *shape], of this process alone; csr() has its columns and offsets together, and strings() its strings.
    Each batch has another number of items, for which jitted functions are compiled anew: deliver: pad N or dense avoids this.

    sample_keys  global uint32 array [samples, 2]: random bits of each sample, as jax.random.wrap_key_data() takes them
    valid  global bool array [samples]
    valid_of  field name -> global bool array [samples, steps], as of penstock.Batch
    indices  uint64 NumPy array [samples of this process]
    epoch, step, first_position  int, as of penstock.Batch
    bound  int: as penstock.Batch.bound. Functions are compiled anew for each: batch.budget_buckets makes them few

    A batch is a pytree, for jitted functions and jax.tree.map(): its leaves are the fields, sample_keys and valid. What
    comes out has these, bound and csr() alone: epoch, step and indices differ from batch to batch, and indices between
    processes.
    """

    __slots__ = ()

    _csr = Csr


class _Described:
    """What a jitted function is compiled for, beside shapes: two are the same if they are of one service and bound."""

    def __init__(self, names, fields, bound):
        self.names, self.fields, self.bound = names, fields, bound

    def __eq__(self, other):
        return (self.names, self.bound) == (other.names, other.bound) and self.fields is other.fields

    def __hash__(self):
        return hash((self.names, self.bound))


def _flatten(batch):
    names = tuple(batch)
    keyed = [(jax.tree_util.DictKey(name), batch[name]) for name in names]
    keyed += [(jax.tree_util.GetAttrKey(name), getattr(batch, name)) for name in ("sample_keys", "valid")]
    return keyed, _Described(names, batch._fields, batch.bound)


def _unflatten(described, leaves):
    *fields, sample_keys, valid = leaves
    batch = Batch(zip(described.names, fields))
    batch.sample_keys, batch.valid = sample_keys, valid
    batch._fields, batch.bound = described.fields, described.bound
    return batch


jax.tree_util.register_pytree_with_keys(Batch, _flatten, _unflatten)


def _is_offsets(field):
    return field.steps > 0 and not field.most_items


def _offsets_dtype(fields, offsets):
    """int32, as indices mostly are, where it suffices."""
    most = max(field.most_items for field in fields if field.offsets == offsets.name)
    return np.int32 if most <= _INT32_MAX else np.int64


def _is_cut(field):
    """Whether JAX would make numbers of 32 bits of those of 64, without a word."""
    return not jax.config.jax_enable_x64 and field.dtype.itemsize // (2 if field.dtype.kind == "c" else 1) == 8


def _check(loader, sharding):
    info = loader.info
    for field in info.fields:
        if not jax.config.jax_enable_x64 and field.most_items > _INT32_MAX:
            raise Invalid(f"field '{field.name}' may have {field.most_items} items in a batch: set jax_enable_x64")
        if _is_cut(field) and not _is_offsets(field):
            raise Invalid(
                f"field '{field.name}' is {field.dtype_name}, and JAX would cut it to 32 bits: cast it "
                f"(dataset.fields.{field.name}.cast), or set jax_enable_x64"
            )
    if info.world_size != jax.process_count():
        raise Invalid(
            f"this process is {jax.process_index()} of {jax.process_count()} to JAX, and trainer {info.rank} of "
            f"{info.world_size} to the service: give connect() rank and world_size as JAX counts"
        )
    local = len(sharding.addressable_devices)
    ragged = [field.name for field in info.fields if field.most_items]
    if ragged and local > 1:
        raise Invalid(
            f"field '{ragged[0]}' is ragged, and {local} devices of this process cannot share its items: deliver it as "
            "pad or dense, or run a process for each device"
        )


def _places(loader, sharding, fields):
    """Name of a field that is not ragged -> its Place; and that of arrays with a row for each sample."""
    info = loader.info
    unknown = fields.keys() - {field.name for field in info.fields}
    if unknown and not info.mesh:  # else another process may have it
        raise Invalid(f"fields has '{min(unknown)}', and there is no such field")
    places = Places(loader)
    rows = places.rows(rows_alone(sharding))
    is_unequal = info.steps_per_epoch * info.global_batch_size != info.dataset_samples
    groups = info.group_count
    if info.global_batch_size % groups and places.divide_rows(rows):
        raise Invalid(
            f"batch.global_size {info.global_batch_size} is not a multiple of the {groups} that share a step, which get unequal "
            f"numbers of samples, and the blocks of a jax.Array are equal: use one device, or set batch.global_size to a multiple"
        )
    if is_unequal and loader.state()["last"] == "partial" and places.divide_rows(rows):
        raise Invalid(
            "steps have unequal numbers of samples, as the last one of an epoch (batch.last: partial) or batches by budget "
            f"(batch.budget_field) have, and these need not divide as {words(sharding)} says: use one device, or set "
            "batch.last to drop or pad and leave the budget out"
        )
    named = {f.name: places.field(f, fields.get(f.name, sharding)) for f in info.fields if f.is_padded or not f.steps}
    return named, rows


def _aliases(sharding):
    """Whether device_put() may give an array that is the host's memory itself."""
    return any(device.platform == "cpu" for device in sharding.addressable_devices)


def _transfer(batch, places, device):
    """Starts to copy a penstock.Batch to the devices. `device`: where ragged fields go."""
    named, rows = places

    def put(array, place):
        return place.put(np.array(array) if _aliases(place.sharding) else array)

    def put_here(field):
        array = batch[field.name]
        if _is_offsets(field):
            array = array.astype(_offsets_dtype(batch._fields, field))
        elif device.platform == "cpu":
            array = np.array(array)
        return jax.device_put(array, device)

    out = Batch(
        (field.name, put(batch[field.name], named[field.name]) if field.name in named else put_here(field))
        for field in batch._fields
    )
    out.sample_keys = put(batch.sample_keys.view(np.uint32).reshape(-1, 2), rows)
    out.valid = put(batch.valid, rows)
    out.indices = batch.indices.copy()
    out._describe(batch)
    return out


def constants(loader, sharding=None, names=None):
    """The constants of dataset.constants as a dict: path of the array -> jax.Array. On the CPU an array may share
    the memory of `loader.constants`.

    sharding  where each array lies; None: on the default device. Every process has all values, so that any
              sharding will do: PartitionSpec() puts all of an array on each device.
    names     which constants; None: all
    """
    out = {}
    for field in loader.info.constants:
        if names is not None and field.name not in names:
            continue
        if _is_cut(field):
            raise Invalid(
                f"constant '{field.name}' is {field.dtype_name}, and JAX would cut it to 32 bits: leave it out (names), "
                f"and convert loader.constants['{field.name}'] yourself; or set jax_enable_x64"
            )
        array = loader.constants[field.name]
        if sharding is None:
            out[field.name] = jax.device_put(array)
        else:
            out[field.name] = jax.make_array_from_callback(array.shape, sharding, array.__getitem__)
    return out


def batches(loader, sharding, *, fields=None, ahead=1):
    """Gives batches as global arrays, until all epochs are consumed, or the epoch that was given. `ahead` batches are on
    their way to the devices while the program works on one. A batch's memory goes back to the service when its arrays
    are on the devices. JAX may keep a host's array longer: connect with wait_for_release=True. loader.state() is behind
    the last batch that was given. A process that takes this one's place without a state goes on with that batch: the
    program is done with a batch when it asks for the next one.

    loader    a penstock.Loader, or an epoch of its epochs() or epoch(); iterated by nobody else
    sharding  of the global arrays: their first axis over the devices, so that each process has the rows of its group
              (delivery.mesh; without a mesh of its own), one local batch, in the order of groups. Every field has it;
              `sample_keys` and `valid` have the first axis's part. Other shardings are refused. One of devices of this
              process alone makes arrays of its own samples.
    fields    name of a field -> another sharding, for those with more axes to shard. That of a field that is cut
              (dataset.cuts) has to give each process the indices of its part. The axis is the whole one again; with
              order: zigzag it has the parts one after another, and the positions of a part are
              loader.fields[name].positions(axis). Parts of unequal lengths are refused.
    ahead     at most delivery.slots - 2
    """
    epoch = loader if isinstance(loader, Epoch) else None
    loader = epoch._loader if epoch else loader
    info = loader.info
    _check(loader, sharding)
    places = _places(loader, sharding, dict(fields or {}))
    if not 0 <= ahead <= info.slot_count - 2:
        raise Invalid(
            f"ahead is {ahead}, and the service has {info.slot_count} slots for each trainer: at most "
            f"{info.slot_count - 2} batches can be on their way; raise delivery.slots"
        )
    if loader._taken != loader._cursor:
        raise Invalid(
            "a loop over this loader was left with batches on their way to the devices, which would be lost: go on with "
            "that loop, or with a later epoch (loader.epochs(), loader.skip())"
        )
    loader._note_trained()
    return _generate(loader, epoch, places, next(iter(sharding.addressable_devices), jax.local_devices()[0]), ahead)


def _generate(loader, epoch, places, device, ahead):
    under_way = collections.deque()  # (memory, arrays)
    last = epoch.number if epoch else loader.info.epochs - 1

    def start(timeout):
        memory = loader._lease(timeout)
        under_way.append((memory, _transfer(memory, places, device)))
        loader._settle(memory)

    while under_way or loader._taken[0] <= last:
        if epoch:
            epoch.check_turn()
        try:
            if not under_way:
                start(None)
            while len(under_way) <= ahead and loader._taken[0] <= last:
                start(0)
        except Timeout:
            pass
        except Ended:
            if not under_way:
                return
        memory, arrays = under_way[0]
        jax.block_until_ready([*arrays.values(), arrays.sample_keys, arrays.valid])
        under_way.popleft()
        del memory
        loader._cursor = loader._after(arrays)
        yield arrays
        loader._note_trained()  # the program asks for another one
    if loader.complete:
        loader._await_end()
