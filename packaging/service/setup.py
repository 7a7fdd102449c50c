"""What pyproject.toml cannot say: all files of folder `prefix`, which packaging/service.sh fills, go below the environment's prefix, as
`cmake --install` has them."""

import os
import pathlib

from setuptools import Distribution, setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel


class PlatformWheel(bdist_wheel):
    """py3-none-<platform>: programs, which need no Python."""

    def get_tag(self):
        return "py3", "none", os.environ.get("PENSTOCK_WHEEL_PLATFORM") or super().get_tag()[2]


class PlatformDistribution(Distribution):
    def has_ext_modules(self):
        return True


def files():
    os.chdir(pathlib.Path(__file__).resolve().parent)
    for folder, _, names in sorted(os.walk("prefix")):
        if names:
            yield os.path.relpath(folder, "prefix"), [os.path.join(folder, name) for name in sorted(names)]


setup(cmdclass={"bdist_wheel": PlatformWheel}, distclass=PlatformDistribution, data_files=list(files()))
