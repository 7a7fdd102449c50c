"""Cells for train.py: counts and two columns of obs, as a collection that scvi-tools and annbatch write.

    python3 data.py FOLDER [--scale N]

FOLDER/cells.zarr is the collection, FOLDER/cells.h5ad what it is made of, FOLDER/run.yaml Penstock's configuration.
"""

import argparse
import pathlib

import anndata
import numpy as np
import pandas
import scipy.sparse
import scvi

RUN = """dataset:
  uri: cells.zarr/dataset_0
  fields:
    X: {{array: X, deliver: {{dense: [{genes}], combine: sum}}}}
    donor: obs/donor/codes
    kind: obs/kind/codes
batch: {{global_size: {batch}, last: drop}}
order: {{seed: 1, epochs: 2}}
delivery: {{trainers: 2, connect_timeout: 600}}
"""


def cells(count, genes):
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 4, count)
    blocks = [scipy.sparse.random(2048, genes, 0.1, "csr", np.float32, random_state=rng) for _ in range(count // 2048)]
    counts = scipy.sparse.vstack(blocks, format="csr")
    counts.data = rng.poisson(1 + 3 * (counts.indices % 4 == np.repeat(kind, np.diff(counts.indptr)))).astype(np.float32) + 1
    obs = pandas.DataFrame({"kind": pandas.Categorical.from_codes(kind, ["B", "NK", "T", "monocyte"]),
                            "donor": pandas.Categorical.from_codes(rng.integers(0, 8, count), [f"donor {i}" for i in range(8)])},
                           index=[f"cell{i}" for i in range(count)])
    return anndata.AnnData(counts, obs=obs, var=pandas.DataFrame(index=[f"gene{i}" for i in range(genes)]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--scale", type=int, default=1)
    arguments = parser.parse_args()
    genes, folder = 500 * arguments.scale, arguments.folder
    folder.mkdir(parents=True)
    cells(2048 * arguments.scale**2, genes).write_h5ad(folder / "cells.h5ad")
    scvi.model.SCVI.setup_annbatch(str(folder / "cells.zarr"), [str(folder / "cells.h5ad")], preload_to_gpu=False, shuffle=True)
    (folder / "run.yaml").write_text(RUN.format(genes=genes, batch=128 * arguments.scale), encoding="utf-8")


if __name__ == "__main__":
    main()
