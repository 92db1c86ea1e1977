"""NCCL on two real GPUs, one process each."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from minigrad import cuda

PROGRAM = Path(__file__).parent / "programs" / "nccl.py"
ROOTS = [Path(__file__).parents[2] / part for part in ("", "profiler")]

two_gpus = pytest.mark.skipif(
    not cuda.is_available() or cuda.device_count() < 2, reason="needs two GPUs and CuPy"
)


def started(phase: str, port: int, *args: str) -> list[subprocess.Popen]:
    """Two processes, started as torchrun would."""
    ranks = []
    for rank in range(2):
        environment = {
            **os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank),
            "MASTER_PORT": str(port), "PYTHONPATH": os.pathsep.join(map(str, ROOTS)),
            "PYTHONUNBUFFERED": "1",
        }  # fmt: skip
        command = [sys.executable, str(PROGRAM), phase, *args]
        ranks.append(
            subprocess.Popen(
                command, env=environment, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )
        )  # fmt: skip
    return ranks


def outputs(ranks: list[subprocess.Popen], timeout: float) -> list[str]:
    """What each has printed; all are killed when one does not end in time."""
    end = time.monotonic() + timeout
    found = []
    for process in ranks:
        try:
            found.append(process.communicate(timeout=max(1.0, end - time.monotonic()))[0])
        except subprocess.TimeoutExpired:
            for other in ranks:
                other.kill()
            found.append("killed: too late\n" + process.communicate()[0])
    return found


@two_gpus
def test_two_gpus_hold_the_gradients_of_the_joined_batch_and_the_same_bits():
    ranks = started("right", 13401)
    found = outputs(ranks, 120)
    assert [process.returncode for process in ranks] == [0, 0], "\n-- next rank --\n".join(found)
    assert all("all of rank" in text for text in found)


@two_gpus
def test_a_rank_that_leaves_ends_the_others_within_their_time_out():
    ranks = started("leave", 13402)
    found = outputs(ranks, 90)
    assert ranks[1].returncode == 3
    assert ranks[0].returncode not in (0, None), found[0]
    assert "killed: too late" not in found[0], found[0]
    assert "rank 0 of 2 stops" in found[0], found[0]


@two_gpus
def test_mpi_introduces_nccl(job):
    done = job(2, "nccl", "right", "nccl", timeout=120)
    assert done.code == 0, done.output
    assert done.output.count("all of rank") == 2
