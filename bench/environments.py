#!/usr/bin/env python3
"""Virtual environments with the libraries that benchmarks compare Penstock with, one for each set that fits together.

    environments.py FOLDER NAME     prints the Python of FOLDER/NAME, made on the first use

What cannot be made here is no error of a benchmark: exit code 1, with the reason on standard error. Only the standard
library is used.
"""
import pathlib
import shutil
import subprocess
import sys

# The packages to install, what has to be there to import afterwards, and the oldest Python. MosaicML Streaming needs
# PyTorch and torchvision of one build, and insitubatch a newer Python than Debian 12's.
ENVIRONMENTS = {
    "torch": (["numpy", "zarr>=3", "torch==2.13.0", "tensorstore", "zarrs", "obstore", "fsspec", "aiohttp", "grain", "tokenizers",
               "spdl", "litdata"],
              ["torch", "zarr", "tensorstore"], (3, 9)),
    "insitubatch": (["insitubatch"], ["insitubatch"], (3, 12)),
    "xbatcher": (["numpy", "zarr>=3", "torch==2.13.0", "xarray", "xbatcher"], ["torch", "zarr", "xbatcher"], (3, 11)),
    "robomimic": (["robomimic", "zarr>=3"], ["robomimic.utils.dataset", "zarr"], (3, 11)),
    "lerobot": (["torch==2.13.0", "torchvision==0.28.0", "torchcodec==0.13.0", "datasets>=4,<5", "diffusers<0.36", "huggingface-hub<0.36",
                 "accelerate>=1.10,<2", "einops<0.9", "av>=15,<16", "jsonlines", "packaging<26", "draccus==0.10.0", "gymnasium<2",
                 "termcolor", "deepdiff", "imageio[ffmpeg]", "opencv-python-headless<4.13", "pyserial", "zarr>=3", "numpy"],
                ["lerobot", "torchcodec", "zarr"], (3, 11)),
    "dlio": (["numpy<2", "torch==2.13.0", "tensorstore", "mpi4py", "hydra-core", "omegaconf", "pandas", "psutil", "h5py", "Pillow"],
             ["torch", "tensorstore", "mpi4py", "hydra", "h5py", "pandas"], (3, 9)),
    "singlecell": (["numpy", "zarr>=3", "anndata", "scipy", "scDataset", "torch==2.13.0"],
                   ["torch", "zarr", "anndata", "scdataset"], (3, 11)),
    "icechunk": (["numpy", "zarr>=3", "icechunk"], ["icechunk", "zarr"], (3, 11)),
    "annbatch": (["annbatch"], ["annbatch"], (3, 12)),
    "parquet": (["numpy", "zarr>=3", "pyarrow", "polars", "torch==2.13.0"], ["torch", "zarr", "pyarrow", "polars"], (3, 11)),
    "pyav": (["numpy", "zarr>=3", "av"], ["av", "zarr"], (3, 11)),
    "torchtitan": (["torchtitan==0.3.0", "torch==2.13.0", "triton", "numpy", "zarr>=3"], ["torchtitan.trainer", "zarr"], (3, 11)),
    "megatron": (["megatron-core==0.16.1", "torch==2.13.0", "numpy", "zarr>=3", "pybind11", "setuptools", "psutil"],
                 ["megatron.core.datasets.gpt_dataset", "zarr", "psutil"], (3, 11)),
    "loops": (["torch==2.13.0", "lightning==2.6.6", "accelerate==1.15.0", "transformers==5.24.0", "torchdata==0.11.0", "jax==0.10.2",
               "flax==0.12.8", "optax==0.2.8", "numpy", "zarr>=3"],
              ["lightning", "accelerate", "transformers", "torchdata", "jax", "flax", "optax"], (3, 11)),
    "composer": (["mosaicml==0.32.1", "numpy", "zarr>=3"], ["composer", "zarr"], (3, 11)),  # which needs an older PyTorch
    "anemoi": (["numpy", "zarr<=2.18.7", "torch==2.13.0", "anemoi-datasets==0.5.47", "netcdf4", "xarray", "pytorch-lightning", "hydra-core",
                "einops", "torch-geometric", "torchinfo", "numba", "nvidia-ml-py", "matplotlib", "cartopy", "datashader", "distinctipy",
                "pyshtools", "plotly", "scikit-learn", "typeguard"],
               ["torch", "zarr", "anemoi.datasets", "anemoi.training"], (3, 11)),
    "physicsnemo": (["nvidia-physicsnemo==2.2.2", "torch==2.13.0", "torchvision==0.28.0", "numpy", "zarr>=3"],
                    ["torch", "zarr", "physicsnemo.distributed"], (3, 11)),
    "streaming": (["mosaicml-streaming", "tensorstore"], ["streaming", "tensorstore"], (3, 9)),
    # scvi-tools 1.5.1 gives annbatch an argument that 0.3 has no more.
    "scvi": (["scvi-tools==1.5.1", "annbatch[torch,zarrs]==0.2.2", "zarr>=3"], ["scvi", "annbatch", "zarrs"], (3, 12)),
    "monai": (["monai==1.6.1", "pytorch-ignite", "ome-zarr==0.18.0", "torch==2.13.0"], ["monai.engines", "ignite", "ome_zarr"], (3, 11)),
}
# Installed without what they require: DLIO names TensorFlow and DALI, of which a run with PyTorch needs nothing; LeRobot and
# anemoi-training an older PyTorch, anemoi-training also plots.
ALONE = {"dlio": ["dlio_benchmark==2.0.0", "pydftracer==1.0.2"], "lerobot": ["lerobot==0.4.4"],
         "anemoi": ["anemoi-training==0.17.1", "anemoi-models==0.19.0", "anemoi-graphs==0.9.8"]}
LAST_MINOR = 20


class Missing(Exception):
    """The environment cannot be made; the text says why."""


def python_of(folder, name):
    return pathlib.Path(folder) / name / "bin" / "python3"


def is_recent(python, oldest):
    check = f"import sys; sys.exit(sys.version_info < {oldest})"
    return shutil.which(python) and subprocess.run([python, "-c", check], capture_output=True,
                                                   check=False).returncode == 0


def base_python(oldest):
    names = [sys.executable, "python3", *(f"python3.{minor}" for minor in range(oldest[1], LAST_MINOR))]
    for python in names:
        if is_recent(python, oldest):
            return python
    raise Missing(f"there is no Python {'.'.join(map(str, oldest))} or newer")


def can_import(python, modules):
    return python.exists() and subprocess.run([python, "-c", f"import {', '.join(modules)}"], capture_output=True,
                                              check=False).returncode == 0


def prepare(folder, name):
    """The Python that has the libraries. Raises Missing."""
    packages, modules, oldest = ENVIRONMENTS[name]
    python = python_of(folder, name)
    if can_import(python, modules):
        return python
    print(f"installing {' '.join(packages)} in {python.parent.parent}", file=sys.stderr, flush=True)
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    install = [str(python), "-m", "pip", "install", "--quiet"]
    commands = [[base_python(oldest), "-m", "venv", str(python.parent.parent)], [*install, *packages]]
    if name in ALONE:
        commands.append([*install, "--no-deps", *ALONE[name]])
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
            raise Missing(f"cannot be installed: {lines[-1]}")
    if not can_import(python, modules):
        raise Missing(f"installed, but 'import {', '.join(modules)}' fails")
    return python


def prepare_all(folder, names, wanted):
    """The Python of each peer that there is, and why there are no others. `names`: {peer: environment}; `wanted`: --no-peers was not
    given."""
    pythons, missing = {}, {}
    for peer, name in names.items():
        try:
            if not wanted:
                raise Missing("left out by --no-peers")
            pythons[peer] = prepare(folder, name)
        except Missing as reason:
            missing[peer] = str(reason)
    return pythons, missing


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in ENVIRONMENTS:
        sys.exit(f"environments.py FOLDER {'|'.join(ENVIRONMENTS)}")
    try:
        print(prepare(sys.argv[1], sys.argv[2]))
    except Missing as missing:
        sys.exit(str(missing))


if __name__ == "__main__":
    main()
