"""Ragged fields of a batch (deliver: csr): the items of all samples, and where each sample's begin."""

from typing import Any, Dict, NamedTuple, Optional

import numpy as np

from ._errors import Invalid


def own_items(cuts, offsets):
    """How many items of a ragged field this trainer has before offsets of whole samples."""
    for cut in cuts:
        offsets = offsets // cut.whole * (1 if cut.second is None else 2)
    return offsets


class Csr(NamedTuple):
    """A ragged field. With `steps` above 1 each step of each sample has items of its own: what is said of samples
    holds for these.

    values   [items, ...]: the items of all samples, one sample after another; None: the field has no values
    columns  dict: the field's other columns, by name ("x" of the field "events.x"), like `values`
    offsets  int64 [samples * steps + 1]: sample i has items offsets[i] to offsets[i + 1] - 1
    steps    steps of a sample, at least 1
    lengths  int32 [samples * steps]: how many items of each sample are real (pad_to_multiple_of); None: all
    cuts     of a field that is cut (dataset.cuts): which piece of each sample this rank has. Offsets and lengths are
             of whole samples, on every rank
    """

    values: Optional[Any]
    columns: Dict[str, Any]
    offsets: Any
    steps: int
    lengths: Optional[Any] = None
    cuts: tuple = ()

    @property
    def own_offsets(self):
        """Like offsets, of the items that this rank has: those of `values`."""
        return own_items(self.cuts, self.offsets)

    def positions(self):
        """int64 [items]: where in their sample the items of `values` are, counted with those that pad it. NumPy."""
        whole, own = (np.asarray(offsets, dtype=np.int64) for offsets in (self.offsets, self.own_offsets))
        counts = np.diff(own)
        at = np.arange(own[-1]) - np.repeat(own[:-1], counts)
        for cut in self.cuts:
            piece = np.repeat(np.diff(whole) // cut.whole, counts)
            second = cut.begin + 1 if cut.second is None else cut.second
            at += np.where(at < piece, cut.begin, second - 1) * piece
        return at

    def matrix_indices(self, framework):
        """The only column of indices, which a sparse matrix of `framework` needs."""
        if self.values is None or len(self.columns) != 1:
            raise Invalid(
                f"a matrix of {framework} has values and one column of indices; this field has "
                f"{'no values' if self.values is None else 'values'} and the columns {sorted(self.columns)}"
            )
        (index,) = self.columns.values()
        return index


def csr_of(batch, fields, name, make=Csr):
    """Field `name` of a batch of any framework, as a Csr. `fields`: of penstock.Info."""
    offsets = f"{name}.offsets"
    if offsets not in batch:
        raise Invalid(f"'{name}' is no ragged field of this batch (deliver: csr); fields are {', '.join(batch)}")
    columns = {field.name: batch[field.name] for field in fields if field.offsets == offsets}
    values = columns.pop(name, None)
    steps = next(field.steps for field in fields if field.name == offsets)
    cuts = next(field.cuts for field in fields if field.offsets == offsets)
    lengths = batch.get(f"{name}.length")
    columns = {key[len(name) + 1 :]: column for key, column in columns.items()}
    return make(values, columns, batch[offsets], steps, lengths if lengths is None else lengths.reshape(-1), cuts)


def strings_of(csr):
    """The items of each step of each sample, bytes of UTF-8, as a str. Tensors of a GPU are copied."""
    if csr.values is None or str(csr.values.dtype) not in ("uint8", "torch.uint8") or csr.values.ndim != 1:
        raise Invalid("strings are of ragged fields of uint8, with one value an item")
    if csr.cuts:
        raise Invalid("a part of a string is no string: take the field's bytes with batch.csr()")
    values = csr.values.cpu() if hasattr(csr.values, "cpu") else csr.values
    data, offsets = np.asarray(values).tobytes(), csr.offsets.tolist()
    lengths = np.diff(offsets).tolist() if csr.lengths is None else csr.lengths.tolist()
    return [data[begin : begin + length].decode() for begin, length in zip(offsets, lengths)]
