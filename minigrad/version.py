"""The version, and what a bug report should say."""

import platform
import sys

from .backends import heap, processors

__version__ = "0.1.0"


def show_versions() -> None:
    """Print the versions of minigrad, Python, NumPy and the optional packages, how the process is
    tuned (mg.accelerate), and the BLAS in use.
    """
    from importlib.metadata import PackageNotFoundError, version

    print(f"minigrad {__version__}, Python {sys.version.split()[0]}, {platform.platform()}")
    for name in (
        "numpy",
        "scipy",
        "ml_dtypes",
        "opt_einsum",
        "safetensors",
        "numba",
        "cupy-cuda13x",
        "rich",
    ):
        try:
            print(f"  {name} {version(name)}")
        except PackageNotFoundError:
            print(f"  {name} not installed")
    print(f"  process: {heap.said()}; {processors.said()}")
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return
    for pool in threadpool_info():
        kernels = pool.get("architecture", "")
        print(f"  {pool['internal_api']} {pool['version']} {kernels} {pool['num_threads']} threads")
