"""What merged logs of several ranks say of ranks without a log."""

import pytest
from minigrad_profiler.merge import Merged, Rank


def of_ranks(numbers, size):
    ranks = [
        Rank(f"{number} of {size}", "log", 0, 0.0, 0.0, 0.0, 0, 0, 0, None) for number in numbers
    ]
    return Merged(ranks, 0)


@pytest.mark.parametrize("missing", [0, 10, 11])
def test_a_rank_without_a_log_is_named_however_many_there_are(missing):
    others = [number for number in range(12) if number != missing]
    assert of_ranks(others, 12).notes() == [f"of 12 ranks no log is here of: {missing}"]


def test_of_many_missing_ranks_the_first_are_named():
    [note] = of_ranks([0], 1_000_000).notes()
    assert note.endswith("no log is here of: 1, 2, 3, 4, 5, 6, 7, 8, ...")
