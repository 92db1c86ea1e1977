"""The model of a step on many ranks: its formulas, where they can be checked by hand."""

import xml.etree.ElementTree

import pytest
from minigrad_profiler.compare_overlap import compare_overlap

import minigrad as mg
from minigrad import distributed
from minigrad.distributed.simulate import (
    RANKS,
    Link,
    Step,
    all_reduce_time,
    measure_link,
    measure_step,
    predict,
    predictions,
    svg,
    table,
)

STEP = Step(forward=1.0, backward=2.0, rest=0.5, ready=(0.5, 1.9), nbytes=(100, 300))


def test_an_all_reduce_takes_what_the_formulas_say():
    link = Link(latency=1e-3, bandwidth=100.0)
    assert all_reduce_time(400, 4, link, "ring") == pytest.approx(6e-3 + 6.0)
    assert all_reduce_time(400, 8, link, "tree") == pytest.approx(6e-3 + 24.0)
    assert all_reduce_time(400, 1, link) == 0
    with pytest.raises(ValueError, match="ring"):
        all_reduce_time(400, 2, link, "star")


def test_a_step_hides_what_fits_behind_the_backward():
    free = predict(STEP, Link(0.0, 1e12), 64)
    assert free.step == pytest.approx(3.5) and free.hidden == pytest.approx(1, abs=0.2)
    assert free.speedup == pytest.approx(64)
    # two ranks, 100 bytes a second: bucket 0 runs from 0.5 to 1.5, bucket 1 from 1.9 to 4.9
    slow = predict(STEP, Link(0.0, 100.0), 2)
    assert slow.communication == pytest.approx(4.0)
    assert slow.step == pytest.approx(3.5 + 2.9) and slow.plain == pytest.approx(7.5)
    assert slow.hidden == pytest.approx(1 - 2.9 / 4)


def test_a_bucket_waits_for_the_one_before_it():
    step = Step(0.0, 1.0, 0.0, ready=(0.0, 0.1), nbytes=(500, 100))
    assert predict(step, Link(0.0, 1000.0), 2).step == pytest.approx(1.0)
    assert predict(step, Link(0.0, 100.0), 2).step == pytest.approx(6.0)


def test_ranks_that_share_cores_compute_more_slowly():
    assert predict(STEP, Link(0.0, 1e12, cores=2), 4).step == pytest.approx(7.0)
    assert predict(STEP, Link(0.0, 1e12, cores=2), 4, slower=1.5).step == pytest.approx(5.25)


def test_latency_favours_the_tree_and_bandwidth_the_ring_on_many_ranks():
    latency, bandwidth = Link(1e-3, 1e12), Link(0.0, 1e3)
    assert all_reduce_time(400, 1024, latency, "tree") < all_reduce_time(400, 1024, latency)
    assert all_reduce_time(400, 1024, bandwidth) < all_reduce_time(400, 1024, bandwidth, "tree")


def test_table_and_picture_show_2_to_1024_ranks():
    link = Link(1e-4, 1e3)
    assert [row.ranks for row in predictions(STEP, link)][::2] == list(RANKS)
    assert len(table(STEP, link).splitlines()) == 2 + 2 * len(RANKS)
    picture = xml.etree.ElementTree.fromstring(svg(STEP, link, [(2, 3.0)], "a < b"))
    assert len(picture.findall("{*}polyline")) == 4 and len(picture.findall("{*}circle")) == 1


def test_a_step_is_measured_in_a_world_of_one(alone):
    layers = [mg.nn.Linear(30, 30) for _ in range(3)]
    model = distributed.DataParallel(mg.nn.Sequential(*layers), bucket_mb=0)
    step = measure_step(model, lambda: model(mg.ones((4, 30))).sum(), repeats=3)
    assert len(step.ready) == len(step.nbytes) == 6
    assert list(step.ready) == sorted(step.ready) and 0 < step.ready[-1] <= step.backward
    with pytest.raises(ValueError, match="two ranks"):
        measure_link()


@pytest.mark.parametrize("measure", [measure_step, compare_overlap])
def test_a_model_that_is_not_wrapped_is_named(alone, measure):
    with pytest.raises(TypeError, match=r"model is a Linear.*DataParallel\(model\)"):
        measure(mg.nn.Linear(2, 1), lambda: mg.tensor(1.0))


@pytest.mark.parametrize("measure", [measure_step, compare_overlap])
def test_a_step_without_the_model_is_an_error(alone, measure):
    model = distributed.DataParallel(mg.nn.Linear(2, 1))
    with pytest.raises(ValueError, match=r"model\(\.\.\.\)"):
        measure(model, lambda: mg.tensor(1.0, requires_grad=True))
