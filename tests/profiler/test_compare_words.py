"""What compare says in sentences: which engine is fastest, and what limits the gain."""

import pytest
from minigrad_profiler import compare_view, compare_words
from minigrad_profiler.compare import Comparison, Times
from minigrad_profiler.compare_model import Model
from minigrad_profiler.compare_runs import Run


def a_comparison(losses, work=80.0, span=50.0, turns=None, workers=2, cores=2, serial_losses=None):
    """Of a graph with this work and span, whose workers' time of 2 × 100 ms went to these."""
    names = ("work", "slower", "no processor", "lock", "dependency", "imbalance", "scheduling")
    run = Run("parallel", workers, 100.0, [], losses=dict.fromkeys(names, 0.0) | losses)
    model = Model(["a", "b"], [span, work - span], [[], []])
    serial = [100.0, 101.0, 102.0]
    ways = [Times("serial", serial, [0.0] * 3), Times("parallel", turns or serial, workers=2)]
    alone = Run("serial", 1, 180.0, [], losses=dict.fromkeys(names, 0.0) | (serial_losses or {}))
    return Comparison(ways, [alone, run], model, [0, 1], 1, 1, cores, [])


@pytest.mark.parametrize(
    ("losses", "options", "said"),
    [
        ({"dependency": 40.0, "imbalance": 50.0}, {}, "longest path takes 50.00 of 80.00 ms"),
        ({"dependency": 90.0}, {"span": 40.0}, "without a ready node"),
        ({"no processor": 90.0}, {}, "other programs, which had the processors (45%"),
        ({"no processor": 90.0}, {"cores": 1}, "has 1 processor for them"),
        ({"slower": 90.0}, {}, "shared caches"),
        ({"lock": 90.0}, {}, "interpreter's lock"),
        ({"scheduling": 90.0}, {}, "the engine's own time, for 2 nodes of 40.00 ms each"),
        ({"work": 190.0, "lock": 10.0}, {}, "nothing much; they are 1.80× as fast"),
        ({"no processor": 90.0, "lock": 60.0}, {}, "processors (45% of their time), then"),
    ],
)
def test_a_sentence_says_what_limits_the_gain(losses, options, said):
    found = a_comparison(losses, **options)
    assert said in found.limit() and found.limit().endswith(".")
    assert compare_view.notes(found)[-1] == found.limit()


def test_what_slows_the_serial_engine_as_well_takes_no_gain_away():
    busy = {"no processor": 90.0}
    assert "other programs" in a_comparison(busy | {"lock": 30.0}).limit()
    assert "lock" in a_comparison(busy | {"lock": 30.0}, serial_losses=busy).limit()


def test_one_worker_is_said_to_gain_nothing():
    assert "one worker" in a_comparison({}, workers=1).limit()


@pytest.mark.parametrize(
    ("serial", "parallel", "said"),
    [
        ([100.0, 101.0, 102.0], [80.0, 80.0, 82.0], "Fastest: parallel, 1.25×"),
        ([100.0, 101.0, 102.0], [99.0, 100.0, 101.0], "Nothing is clearly faster"),
        ([100.0, 101.0, 60.0], [90.0, 60.0, 90.0], "Nothing is clearly faster"),  # turns disagree
        ([100.0, 150.0, 160.0], [99.0, 100.0, 101.0], "Nothing is clearly faster"),  # at its best
        ([100.0, 101.0, 102.0], [50.0, 50.0, 50.0], "but the graph allows 1.60×"),
    ],
)
def test_a_gain_is_told_where_it_is_clear_and_can_be(serial, parallel, said):
    found = a_comparison({}, turns=parallel)
    found.ways[0].seen[:] = serial
    assert said in found.verdict()


def test_a_machine_that_is_busy_is_said_to_be():
    found = a_comparison({})
    assert compare_words.disturbed(found) == ""
    found.ways[0].queued[:] = [30.0, 30.0, 31.0]
    assert "for 30% of its time" in compare_words.disturbed(found)
    assert compare_words.disturbed(found) in compare_view.notes(found)
