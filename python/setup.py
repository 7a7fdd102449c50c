"""What pyproject.toml cannot say: a wheel that has libpenstock.so inside is for one platform.

packaging/wheel.sh puts the library beside the modules, and names the platform. Without the library this is a package of
modules alone, which look for an installed libpenstock.so.0.
"""

import os
import pathlib

from setuptools import Distribution, setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel

HAS_LIBRARY = (pathlib.Path(__file__).parent / "penstock" / "libpenstock.so").exists()


class PlatformWheel(bdist_wheel):
    """py3-none-<platform>: the library is loaded by ctypes, and needs no certain Python."""

    def get_tag(self):
        return "py3", "none", os.environ.get("PENSTOCK_WHEEL_PLATFORM") or super().get_tag()[2]


class PlatformDistribution(Distribution):
    def has_ext_modules(self):
        return True


options = {}
if HAS_LIBRARY:
    options = {"cmdclass": {"bdist_wheel": PlatformWheel}, "distclass": PlatformDistribution,
               "package_data": {"penstock": ["libpenstock.so"]}}
setup(**options)
