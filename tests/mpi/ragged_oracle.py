"""What ragged fields of a sample are, by brute force: every rule of docs/use/ragged.md in a few lines of NumPy. Shares no
code with src/.

A ragged field is a dict as in the configuration: `ragged` (offsets, index or columns, values), `index`, `slice`, `deliver`, `cast`. Its
items are those of frames; None stands for a step without any.
"""

import numpy as np


def columns_of(field):
    """Paths of the columns in their order: indices, or columns, and values last."""
    ragged = field["ragged"]
    return [*ragged.get("index", []), *ragged.get("columns", []), *([ragged["values"]] if "values" in ragged else [])]


def convert(field, path, items):
    """Values as they are delivered."""
    return items.astype(field["cast"]) if path == field["ragged"].get("values") and "cast" in field else items


def sliced(field):
    """The column of indices that a slice is of, and the list of what it keeps."""
    return next(((field["ragged"]["index"][axis - 1], listed) for axis, listed in field.get("slice", {}).items()), (None, None))


def items_of(field, store, at):
    """The items of a store's frame, by column."""
    at = int(store[field["index"]][at]) if "index" in field else at
    begin, end = store[field["ragged"]["offsets"]][at:at + 2]
    items = {path: convert(field, path, store[path][begin:end]) for path in columns_of(field)}
    path, listed = sliced(field)
    if listed is None:
        return items
    kept = [i for i, index in enumerate(items[path].tolist()) if index in listed]
    items = {name: values[kept] for name, values in items.items()}
    items[path] = np.array([listed.index(index) for index in items[path].tolist()], items[path].dtype)
    return items


def empty(field, store):
    return {path: convert(field, path, store[path][:0]) for path in columns_of(field)}


def names_of(name, field):
    """What each column is called."""
    values = field["ragged"].get("values")
    return {path: name if path == values else f"{name}.{path.rpartition('/')[2]}" for path in columns_of(field)}


def dense(field, items):
    """One tensor. Sums of integers stay at the dtype's ends: those of the tests never fall."""
    deliver, ragged = field["deliver"], field["ragged"]
    how, cast = deliver.get("combine", "sum"), field.get("cast")
    values = items[ragged["values"]] if "values" in ragged else np.ones(len(items[ragged["index"][0]]), cast or "f4")
    tensor, is_set = np.zeros(deliver["dense"], values.dtype), np.zeros(deliver["dense"], bool)
    most = np.iinfo(values.dtype).max if values.dtype.kind in "iu" else None
    for place, value in zip(zip(*(items[path].tolist() for path in ragged["index"])), values):
        old = tensor[place]
        if how == "sum" and most is not None:
            value = min(int(old) + int(value), most)
        elif how == "sum":
            value = old + value
        elif how == "max" and is_set[place]:
            value = max(old, value)
        tensor[place], is_set[place] = value, True
    return tensor


def pad(items, length):
    padded = np.zeros((length, *items.shape[1:]), items.dtype)
    padded[:min(length, len(items))] = items[:length]
    return padded


def sample(name, field, steps):
    """The fields of a ragged field in a sample with the items of these steps: a list, or those of the anchor alone.
    Offsets are the lengths of the sample's own steps, as penstock-trainer --digest takes them."""
    listed, deliver = isinstance(steps, list), field.get("deliver", "csr")
    every = steps if listed else [steps]
    lengths = [len(next(iter(items.values()))) for items in every]
    join = np.stack if listed else lambda arrays: arrays[0]
    if deliver == "csr":
        found = {called: np.concatenate([items[path] for items in every])
                 for path, called in names_of(name, field).items()}
        return found | {f"{name}.offsets": np.array(lengths, "i8")}
    if "pad_to_multiple_of" in deliver:
        padded = [-(-length // deliver["pad_to_multiple_of"]) * deliver["pad_to_multiple_of"] for length in lengths]
        found = {called: np.concatenate([pad(items[path], length) for items, length in zip(every, padded)])
                 for path, called in names_of(name, field).items()}
        return found | {f"{name}.offsets": np.array(padded, "i8"), f"{name}.length": join(np.array(lengths, "i4"))}
    if "pad" in deliver:
        lengths = [min(length, deliver["pad"]) for length in lengths]
        found = {called: join([pad(items[path], deliver["pad"]) for items in every])
                 for path, called in names_of(name, field).items()}
        return found | {f"{name}.length": join(np.array(lengths, "i4"))}
    return {name: join([dense(field, items) for items in every])}
