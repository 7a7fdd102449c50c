"""scvi-tools (1.4 or newer): a data module for its models, over cells in AnnData's layout in Zarr.

    datamodule = DataModule("cells.zarr", batch_key="donor")
    model = scvi.model.SCVI(registry=datamodule.registry)
    model.train(max_epochs=datamodule.epochs, datamodule=datamodule)

The run has a field X, and a field for each column of obs, of the column's name:

    fields:
      X: {array: X, deliver: {dense: [2000], combine: sum}}
      donor: obs/donor/codes

A dense X reaches the model without a copy. With `deliver: csr` X goes to the device sparse, and becomes dense there.
"""

import inspect

import numpy as np
import torch
import zarr

import penstock
import penstock.torch

try:
    import scvi
    from lightning import LightningDataModule
except ImportError as error:
    raise ImportError(f"penstock.integrations.scvi needs scvi-tools, 1.4 or newer: {error}") from error
if "registry" not in inspect.signature(scvi.model.SCVI).parameters:
    raise ImportError("penstock.integrations.scvi needs scvi-tools 1.4 or newer, whose models take a registry; this is "
                      f"{scvi.__version__}")


def _strings(group, path):
    """Names that AnnData wrote, also as a nullable array of strings."""
    if path not in group:
        raise penstock.Invalid(f"{group.store_path} has no '{path}': it is no AnnData in Zarr, or the column is not categorical")
    found = group[path]
    return np.array((found["values"] if isinstance(found, zarr.Group) else found)[:].tolist(), dtype=str)


class DataModule(LightningDataModule):
    """`path`: the AnnData that the run reads, for names of genes and categories (several: one of them, where all have the same).
    Keys are columns of obs. `genes`: those of the run's panel, in its order; None: all. `name`: as of penstock.connect().
    Parts of the data, batches and order are the run's: train_size, batch_size and so on of model.train() do nothing."""

    def __init__(self, path, batch_key=None, labels_key=None, categorical_covariate_keys=None, continuous_covariate_keys=None,
                 genes=None, name=""):
        super().__init__()
        group = zarr.open_group(path, mode="r")
        self.loader = penstock.torch.Loader(name=name, all_valid=True)
        index = group["var"].attrs["_index"] if "var" in group else "_index"
        self.genes = list(genes) if genes is not None else _strings(group, f"var/{index}")
        self._keys = {"batch": batch_key, "labels": labels_key}
        self._covariates, self._numbers = list(categorical_covariate_keys or ()), list(continuous_covariate_keys or ())
        categorical = (batch_key, labels_key, *self._covariates)
        self._categories = {key: _strings(group, f"obs/{key}/categories") for key in categorical if key}
        self._check({field.name: field for field in self.loader.info.fields})

    def _check(self, fields):
        missing = [key for key in ("X", *self._categories, *self._numbers) if key not in fields]
        if missing:
            raise penstock.Invalid(f"the run has no field {', '.join(missing)}, but {', '.join(fields)}: name them in "
                                   "dataset.fields, such as donor: obs/donor/codes")
        x = fields["X"]
        if not x.offsets and x.shape != (len(self.genes),):
            raise penstock.Invalid(f"X has samples of {list(x.shape)}, and there are names of {len(self.genes)} genes: with a "
                                   "panel give genes=, its names")
        self._is_sparse = bool(x.offsets)

    @property
    def epochs(self):
        return self.loader.info.epochs

    @property
    def n_obs(self):
        """Samples of an epoch."""
        return self.loader.info.steps_per_epoch * self.loader.info.global_batch_size

    n_train = n_obs

    @property
    def n_vars(self):
        return len(self.genes)

    @property
    def n_batch(self):
        return len(self._names("batch"))

    @property
    def n_labels(self):
        return len(self._names("labels"))

    @property
    def batch_labels(self):
        return self._names("batch")

    @property
    def label_keys(self):
        return [self._keys["labels"]] if self._keys["labels"] else None

    n_samples = 0  # there is no sample_key

    def _names(self, kind):
        return self._categories.get(self._keys[kind], np.array(["0"]))

    def train_dataloader(self):
        trainers = self.loader.info.world_size
        processes = self.trainer.world_size if self.trainer else trainers
        if processes != trainers:
            raise penstock.Invalid(f"{processes} processes train together, and the run has {trainers} trainers: give "
                                   "model.train() devices= and num_nodes= that make as many, and strategy= of ddp")
        return self.loader

    def on_before_batch_transfer(self, batch, _):
        """What models take, of a penstock.torch.Batch."""
        def column(key):
            codes = batch[key].long()
            if (codes < 0).any():
                raise penstock.Invalid(f"a cell has no {key}: give such cells a category, or leave them out by samples.where")
            return codes.unsqueeze(1)

        none = torch.zeros(batch.sample_count, 1, dtype=torch.long)
        x = batch.csr("X").sparse(len(self.genes)) if self._is_sparse else batch["X"]
        out = {"X": x, **{kind: column(key) if key else none for kind, key in self._keys.items()}}
        if self._covariates:
            out["extra_categorical_covs"] = torch.cat([column(key) for key in self._covariates], 1)
        if self._numbers:
            out["extra_continuous_covs"] = torch.stack([batch[key].float() for key in self._numbers], 1)
        return out

    def on_after_batch_transfer(self, batch, _):
        return {name: tensor.to_dense() if tensor.is_sparse_csr else tensor for name, tensor in batch.items()}

    @property
    def registry(self):
        """What scvi-tools' models ask of data: names and numbers, as of its own data modules. No cell is read."""
        def field(where, key, state, **summary):
            return {"data_registry": {"attr_name": where, "attr_key": key}, "state_registry": state, "summary_stats": summary}

        def categorical(kind, **more):
            mapping = {"categorical_mapping": self._names(kind).astype(object), "original_key": self._keys[kind] or kind}
            return field("obs", f"_scvi_{kind}", {**mapping, **more}, **{f"n_{kind}": len(self._names(kind))})

        sizes = [len(self._categories[key]) for key in self._covariates]
        mappings = {key: self._categories[key] for key in self._covariates}
        covariates = {"field_keys": self._covariates, "mappings": mappings, "n_cats_per_key": sizes} if sizes else {}
        numbers = {"columns": np.array(self._numbers, dtype=object)} if self._numbers else {}
        keys = {f"{kind}_key": key for kind, key in self._keys.items()}
        lists = {"categorical_covariate_keys": self._covariates or None, "continuous_covariate_keys": self._numbers or None}
        return {
            "scvi_version": scvi.__version__, "model_name": "SCVI", "setup_method_name": "setup_datamodule",
            "setup_args": {"layer": None, "size_factor_key": None, "sample_key": None, **keys, **lists},
            "field_registries": {
                "X": field("X", None, {"n_obs": self.n_obs, "n_vars": self.n_vars, "column_names": np.asarray(self.genes)},
                           n_vars=self.n_vars, n_cells=self.n_obs),
                "batch": categorical("batch"), "labels": categorical("labels", unlabeled_category="Unknown"),
                "size_factor": field("obs", None, {}), "ind_x": field("obs", "_indices", {}),
                "extra_categorical_covs": field("obsm", "_scvi_extra_categorical_covs", covariates,
                                                n_extra_categorical_covs=len(sizes)),
                "extra_continuous_covs": field("obsm", "_scvi_extra_continuous_covs", numbers,
                                               n_extra_continuous_covs=len(self._numbers)),
            }}
