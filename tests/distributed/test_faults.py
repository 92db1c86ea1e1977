"""A rank that dies, raises, hangs or differs: every rank ends in time, with the cause named.

The job's own time-out is 2 s; the bound leaves room for a slow machine to start Python twice.
"""

import time

import pytest

import minigrad as mg

pytestmark = pytest.mark.promise(
    "a rank that dies, raises, hangs or differs ends the job in time, with the cause named; "
    "no half checkpoint"
)

BOUND = 30


def failed(job, *args):
    done = job(2, "faults", *args, timeout=BOUND)
    assert done.code != 0, done.output
    assert "the end of rank" not in done.output
    return done.output


@pytest.mark.parametrize(
    "phase, where",
    [
        ("start", "in what follows init()"),
        ("forward", "in forward"),
        ("backward", "in backward"),
        ("optimizer", "in what follows the backward"),
    ],
)
def test_a_killed_rank_is_named_with_its_phase_on_every_rank(job, phase, where):
    output = failed(job, "kill", phase)
    assert f"rank 1 of 2 was killed or crashed {where}" in output
    assert "rank 0 of 2 was ended" in output


def test_forked_children_and_folders_are_no_ranks(job, tmp_path):
    """A rank that is killed while a child of its own lives on is noticed; nothing stays behind."""
    done = job(2, "faults", "fork", "forward", timeout=BOUND, TMPDIR=str(tmp_path))
    assert "rank 1 of 2 was killed or crashed in forward" in done.output
    until = time.monotonic() + 10
    while list(tmp_path.glob("minigrad-job-*")) and time.monotonic() < until:
        time.sleep(0.1)
    assert not list(tmp_path.glob("minigrad-job-*"))


@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_an_exception_in_one_rank_is_named_on_every_rank(job, phase):
    output = failed(job, "raise", phase)
    assert "ValueError: a planted error" in output
    assert (
        f"rank 0 of 2 stops, because rank 1 raised ValueError: a planted error (in {phase})"
        in output
    )


def test_a_stopped_process_is_named(job):
    output = failed(job, "stop", "forward")
    assert "rank 0 of 2 stops, because rank 1 has not been heard of for 2 s" in output


def test_a_rank_that_falls_behind_is_named_on_every_rank(job):
    output = failed(job, "sleep", "forward")
    for rank in (0, 1):
        assert f"rank {rank} of 2 stops, because rank 1 falls behind (in forward)" in output


def test_a_rank_that_ends_early_is_named(job):
    output = failed(job, "exit", "optimizer")
    assert "rank 1 ended the program while rank 0 waits in all_reduce of gradients" in output


@pytest.mark.parametrize("phase", ["start", "backward", "end"])
def test_a_rank_that_leaves_by_os_exit_ends_the_job_without_success(job, phase):
    done = job(2, "faults", "leave", phase, timeout=BOUND)
    assert done.code != 0 and "the end of rank 1" not in done.output
    output = done.output
    assert "rank 1 of 2 called os._exit(0) in" in output
    assert "rank 0 of 2 stops, because rank 1 raised os._exit(0)" in output


def test_models_of_other_shapes_are_named_at_the_start(job):
    output = failed(job, "shapes", "never")
    assert output.count("rank 0 has parameter 0.weight float32 (6, 4)") >= 2
    assert "rank 1 has parameter 0.weight float32 (5, 4)" in output


def test_models_of_other_counts_are_named_at_the_start(job):
    output = failed(job, "count", "never")
    assert "rank 1 has parameter 4.weight float32 (3, 3) (6 entries)" in output


def test_ranks_that_make_different_calls_are_told_which(job):
    output = failed(job, "calls", "never")
    assert "rank 0: all_reduce(float32 (2, 4), op='sum')" in output
    assert "rank 1: all_gather(float32 (2, 4))" in output


@pytest.mark.parametrize("phase", ["saving", "in the file"])
def test_a_checkpoint_is_there_whole_or_not_at_all(job, tmp_path, phase):
    """Killed at step 2, before rank 1 or rank 0 saves: step 1 stays in force and can be read."""
    from minigrad.distributed import load_checkpoint
    from minigrad.distributed.checkpoint import complete_steps

    job(2, "faults", "kill", phase, tmp_path, timeout=BOUND)
    assert complete_steps(tmp_path) == [0, 1]
    step, state, shards = load_checkpoint(tmp_path)
    assert step == 1 and [shard["rank"] for shard in shards] == [0, 1]
    assert state["model"]["module.0.weight"].shape == (6, 4)
    assert not list(tmp_path.glob("**/.*"))


def test_a_timeout_of_the_environment_that_is_no_number_is_named(monkeypatch):
    monkeypatch.setenv("MINIGRAD_DISTRIBUTED_TIMEOUT", "soon")
    monkeypatch.setattr("minigrad.distributed.ranks._world", None)
    with pytest.raises(ValueError, match="MINIGRAD_DISTRIBUTED_TIMEOUT is .* got 'soon'"):
        mg.distributed.init()
