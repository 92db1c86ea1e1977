"""Collectives between real ranks: values, derivatives, dtypes, and what disagreement says."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import distributed
from minigrad.distributed import collectives, transport, watchdog
from minigrad.distributed import ranks as worlds

pytestmark = pytest.mark.promise("collectives have their transposes as derivatives")


@pytest.mark.parametrize("ranks", [2, 3])
def test_collectives_agree_with_numpy_and_their_derivatives_with_differences(right, ranks):
    done = right(ranks, "collectives")
    assert done.output.count("all of rank") == ranks


def test_a_program_that_was_started_alone_is_a_world_of_one(alone):
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    assert (distributed.rank(), distributed.size()) == (0, 1)
    (distributed.all_reduce(x) * distributed.all_gather(x)[0]).sum().backward()
    assert x.grad.tolist() == [2, 4]
    assert distributed.broadcast(x).tolist() == [1, 2]
    assert distributed.reduce_scatter(mg.ones((1, 3))).tolist() == [1, 1, 1]
    distributed.barrier()


def test_calls_before_init_say_what_to_do(monkeypatch):
    monkeypatch.setattr(worlds, "_world", None)
    with pytest.raises(distributed.DistributedError, match=r"init\(\) first"):
        distributed.all_reduce(mg.ones(2))


@pytest.mark.parametrize("wrong", [{"backend": "tcp"}, {"timeout": 0}])
def test_init_refuses_what_it_does_not_know(monkeypatch, wrong):
    monkeypatch.setattr(worlds, "_world", None)
    with pytest.raises(ValueError):
        distributed.init(**wrong)


@pytest.mark.parametrize(
    "ranks, name", [([1], "rank 1"), ([0, 1], "ranks 0, 1"), ([5, 0, 2, 3, 4], "ranks 0, 2-5")]
)
def test_ranks_are_named_briefly(ranks, name):
    assert worlds.named(ranks) == name


def test_one_rank_needs_no_transport():
    alone = transport.Alone()
    x = np.arange(3.0)
    assert alone.all_reduce(x, "sum").done() and x.tolist() == [0, 1, 2]


# -- what rank 0 makes of the notes of all ---------------------------------------------------------


def note(count=3, waits=None, since=0.0, raised="", left=False, phase="forward"):
    return {
        "count": count, "waits": waits, "since": since, "raised": raised, "left": left,
        "phase": phase,
    }  # fmt: skip


def word_of(*notes, timeout=5.0):
    judge = watchdog.Judge(len(notes), timeout)
    for rank, heard in enumerate(notes):
        judge.hear(rank, heard)
    return judge.word()


def test_nothing_is_said_while_all_is_well():
    assert word_of(note(), note(waits="all_reduce", since=4)) == {}


def test_the_rank_that_raised_is_named():
    assert "rank 1 raised ValueError" in word_of(note(), note(raised="ValueError: no"))["verdict"]


def test_who_keeps_the_others_waiting_is_named():
    word = word_of(
        note(4, "all_reduce(a)", 6), note(3, phase="optimizer"), note(4, "all_reduce", 6)
    )
    assert "rank 1 falls behind (in optimizer)" in word["verdict"]
    assert "rank 0 has waited in all_reduce(a)" in word["verdict"]


def test_ranks_that_wait_in_different_calls_are_named():
    word = word_of(note(4, "send(a)", 6), note(4, "send(b)", 6))
    assert "in send(a) and in send(b)" in word["verdict"]


def test_a_rank_that_left_while_others_wait_is_named():
    word = word_of(note(4, "barrier()", 2), note(3, left=True))
    assert "rank 1 ended the program while rank 0 waits in barrier()" in word["verdict"]
    assert word_of(note(4), note(4, left=True)) == {}


def test_a_silent_rank_is_named(monkeypatch):
    judge = watchdog.Judge(2, 5.0)
    judge.hear(0, note())
    judge.hear(1, note(phase="backward"))
    judge.heard[1] -= 6
    assert "rank 1 has not been heard of for 5 s (last: in backward)" in judge.word()["verdict"]


def test_a_rank_that_is_heard_again_is_not_silent():
    judge = watchdog.Judge(2, 5.0)
    for rank in (0, 1):
        judge.heard[rank] -= 6
        judge.hear(rank, note())
    assert judge.word() == {}


def test_a_rank_whose_last_note_is_old_is_not_said_to_fall_behind_in_it():
    judge = watchdog.Judge(2, 5.0)
    judge.hear(0, note(4, "all_reduce", 6))
    judge.hear(1, note(3, phase="forward"))
    judge.heard[1] -= 4
    assert judge.word() == {}
    judge.heard[1] -= 2
    assert "rank 1 has not been heard of for 5 s" in judge.word()["verdict"]


def test_the_job_is_over_when_all_have_left():
    assert word_of(note(left=True), note(left=True)) == {"over": True}


def test_a_mean_is_the_sum_over_the_ranks_divided_by_their_number(monkeypatch):
    class OfThree:
        size = 3

        def agree(self, what):
            pass

        def transport(self, device):
            return self

        def sum_dtype(self, dtype):
            return dtype

        def all_reduce(self, buffer, op):
            assert op == "sum"
            buffer *= 3  # as if each rank had these numbers

        def wait(self, request, what):
            pass

    monkeypatch.setattr(collectives, "world", OfThree)
    assert collectives._reduced(np.array([1.0, 2.0]), op="mean").tolist() == [1, 2]
