"""Jobs of several ranks for the tests: `mpiexec` of the environment, with a time-out."""

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from minigrad import distributed
from minigrad.distributed import ranks

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]
# Open MPI starts nothing for root, as containers have it, nor more ranks than there are cores.
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


@dataclass
class Job:
    """What a job of several ranks left: exit code, everything it printed, seconds it took."""

    code: int
    output: str
    seconds: float


def _mpiexec() -> str:
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    try:
        import mpi4py  # noqa: F401
    except ImportError:
        found = None
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("CI must not skip these tests: pip install mpi4py mpich")
        pytest.skip("needs mpi4py and an MPI library: pip install mpi4py mpich")
    return found


@pytest.fixture
def alone(monkeypatch):
    """A world of one rank, as a program that was started alone has it."""
    for name in ("PMI_SIZE", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(ranks, "_world", None)
    return distributed.init()


@pytest.fixture
def job():
    """job(ranks, program, *args): run tests/distributed/programs/<program>.py on so many ranks."""

    def run(ranks: int, program: str, *args: object, timeout: float = 60, **extra: str) -> Job:
        environment = {**os.environ, **OPEN_MPI, "OPENBLAS_NUM_THREADS": "1"}
        environment |= {"PYTHONPATH": _path(), **extra}
        for name in [name for name in environment if name.startswith("PMI")]:
            del environment[name]
        command = [_mpiexec(), "-n", str(ranks), sys.executable, str(PROGRAMS / f"{program}.py")]
        t0 = time.monotonic()
        done = subprocess.run(
            [*command, *map(str, args)], env=environment, timeout=timeout, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return Job(done.returncode, done.stdout, time.monotonic() - t0)

    return run


@pytest.fixture
def right(job):
    """As job, for programs that must end well."""

    def run(ranks: int, program: str, *args: object, timeout: float = 60, **extra: str) -> Job:
        done = job(ranks, program, *args, timeout=timeout, **extra)
        assert done.code == 0, done.output
        return done

    return run


def _path() -> str:
    paths = [ROOT, ROOT / "viz", ROOT / "profiler"]
    return os.pathsep.join([*map(str, paths), os.environ.get("PYTHONPATH", "")])
