"""Ragged fields of a batch (deliver: csr): the items of all samples, and where each sample's begin."""

from typing import Any, Dict, NamedTuple, Optional

import numpy as np

from ._errors import Invalid


class Csr(NamedTuple):
    """A ragged field. With `steps` above 1 each step of each sample has items of its own: what is said of samples
    holds for these.

    values   [items, ...]: the items of all samples, one sample after another; None: the field has no values
    columns  dict: the field's other columns, by name ("x" of the field "events.x"), like `values`
    offsets  int64 [samples * steps + 1]: sample i has items offsets[i] to offsets[i + 1] - 1
    steps    steps of a sample, at least 1
    """

    values: Optional[Any]
    columns: Dict[str, Any]
    offsets: Any
    steps: int

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
    return make(values, {key[len(name) + 1 :]: column for key, column in columns.items()}, batch[offsets], steps)


def strings_of(csr):
    """The items of each step of each sample, bytes of UTF-8, as a str. Tensors of a GPU are copied."""
    if csr.values is None or str(csr.values.dtype) not in ("uint8", "torch.uint8") or csr.values.ndim != 1:
        raise Invalid("strings are of ragged fields of uint8, with one value an item")
    values = csr.values.cpu() if hasattr(csr.values, "cpu") else csr.values
    data, offsets = np.asarray(values).tobytes(), csr.offsets.tolist()
    return [data[begin:end].decode() for begin, end in zip(offsets, offsets[1:])]
