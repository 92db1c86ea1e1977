"""The witness of a machine's ranks: which one it names, whenever it gets to run."""

import os
import signal
import subprocess
import sys

import pytest

from minigrad.distributed import witness

BOUND = 30


class Ranks:
    """The pipes of ranks that do nothing but end, and their witness."""

    def __init__(self, folder, count):
        self.pipes = []
        for rank in range(count):
            os.mkfifo(folder / f"pipe-{rank}")
            (folder / f"rank-{rank}").write_text(f"in phase {rank}")
            self.pipes.append(os.open(folder / f"pipe-{rank}", os.O_RDWR))
        self.command = [sys.executable, "-S", "-E", witness.__file__, str(count), str(folder)]

    def watched(self):
        self.witness = subprocess.Popen(
            self.command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.witness.stdout.read()

    def end(self, rank, farewell=b""):
        os.write(self.pipes[rank], farewell)
        os.close(self.pipes[rank])

    def report(self):
        return self.witness.communicate(timeout=BOUND)[1].splitlines()


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "job"
    path.mkdir()
    return path


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_the_first_to_die_is_named_though_the_witness_runs_only_when_all_are_gone(folder, order):
    ranks = Ranks(folder, 3)
    ranks.watched()
    os.kill(ranks.witness.pid, signal.SIGSTOP)
    for rank in order:
        ranks.end(rank)
    os.kill(ranks.witness.pid, signal.SIGCONT)
    first, *others = order
    cause = f"rank {first} of 3 was killed or crashed in phase {first}"
    assert ranks.report() == [
        f"minigrad.distributed: {cause}",
        *(
            f"minigrad.distributed: rank {rank} of 3 was ended in phase {rank}, because {cause}"
            for rank in others
        ),
    ]


def test_a_rank_that_died_before_its_pipe_was_opened_is_named(folder):
    ranks = Ranks(folder, 2)
    ranks.end(1)
    ranks.watched()
    ranks.end(0, witness.FAREWELL)
    assert ranks.report() == ["minigrad.distributed: rank 1 of 2 was killed or crashed in phase 1"]


def test_after_a_farewell_a_death_is_an_end_that_somebody_has_explained(folder):
    ranks = Ranks(folder, 2)
    ranks.watched()
    ranks.end(0, witness.FAREWELL)
    ranks.end(1)
    assert ranks.report() == ["minigrad.distributed: rank 1 of 2 was ended in phase 1"]


def test_farewells_of_all_leave_nothing(folder):
    ranks = Ranks(folder, 2)
    ranks.watched()
    for rank in (1, 0):
        ranks.end(rank, witness.FAREWELL)
    assert ranks.report() == []
    assert ranks.witness.returncode == 0 and not folder.exists()
