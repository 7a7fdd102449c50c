# A Spack recipe. It has not been run: no Spack was at hand. `spack repo add packaging/spack`, then `spack install penstock`.
#
# Spack has no release to fetch yet: point it to a checkout, `spack dev-build penstock@main`, or set `git` to your mirror.

from spack.package import *


class Penstock(CMakePackage):
    """An MPI data-loading service for distributed training over Zarr: readers shuffle a dataset over the whole cluster, and
    trainers find finished batches in shared memory."""

    license("Apache-2.0")
    version("main", branch="main")

    variant("mpi", default=True, description="penstock-reader and penstock-run; without, the trainers' side and the tools alone")
    variant("python", default=True, description="the Python package")
    variant("man", default=True, description="manual pages")

    variant("ingest", default=False, description="penstock ingest, which cuts segments out of videos")
    variant("images", default=False, description="codecs of images (JPEG, JPEG XL, JPEG 2000, PNG, WebP), and zfpy")

    depends_on("c", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi@3.1:", when="+mpi")
    depends_on("libmicrohttpd", when="+mpi")
    depends_on("ffmpeg@5:", when="+ingest")
    with when("+images"):
        depends_on("libjpeg-turbo")
        depends_on("libjxl@0.7:")
        depends_on("openjpeg@2.5:")
        depends_on("libpng@1.6:")
        depends_on("libwebp")
        depends_on("zfp")
    depends_on("c-blosc")
    depends_on("zstd")
    depends_on("libdeflate")
    depends_on("lz4")
    depends_on("bzip2")
    depends_on("xz")
    depends_on("isa-l")
    depends_on("curl@7.85:")
    depends_on("openssl")
    depends_on("json-c")
    depends_on("libyaml")
    depends_on("hwloc@2.5:")
    depends_on("xxhash")
    depends_on("random123")
    depends_on("python@3.8:", when="+python", type=("build", "run"))
    depends_on("py-numpy", when="+python", type="run")
    depends_on("python", when="+man", type="build")

    generator("ninja")
    extends("python", when="+python")

    def cmake_args(self):
        return [
            self.define("BUILD_TESTING", False),
            self.define_from_variant("PENSTOCK_MPI", "mpi"),
            self.define_from_variant("PENSTOCK_MAN", "man"),
            self.define("PENSTOCK_INGEST", "ON" if "+ingest" in self.spec else "OFF"),
            self.define("PENSTOCK_IMAGES", "ON" if "+images" in self.spec else "OFF"),
            self.define_from_variant("PENSTOCK_INSTALL_PYTHON", "python"),
            self.define("PENSTOCK_PYTHON_DIR", python_platlib if "+python" in self.spec else "lib/python"),
        ]

    def setup_run_environment(self, env):
        if "+python" in self.spec:
            env.set("PENSTOCK_LIBRARY", join_path(self.prefix.lib, "libpenstock.so.0"))
