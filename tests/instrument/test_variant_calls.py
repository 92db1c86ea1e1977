"""A profile counts which form of an op computed its calls."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.registry import op as registry


@pytest.fixture
def tripled():
    @mg.primitive
    def tripled_of_a_test(x):
        """y = 3x"""
        return 3 * x

    @tripled_of_a_test.variant(least=4)
    def by_sums(x):
        return x + x + x

    yield tripled_of_a_test
    del registry.__dict__["tripled_of_a_test"]


SMALL, LARGE = mg.ones(2), mg.ones(4)
COUNTED = ("tripled_of_a_test", "by_sums")


def test_calls_of_a_variant_are_counted_while_the_profile_is_entered(tripled):
    tripled(LARGE)
    with mg.profile() as prof:
        tripled(LARGE)
        tripled(SMALL)
        tripled(LARGE)
    tripled(LARGE)
    assert prof.variants() == {COUNTED: 2}
    assert {"op": COUNTED[0], "variant": COUNTED[1], "calls": 2} in prof.as_dict()["variants"]


def test_the_table_shows_them_beside_all_forward_calls_of_the_op(tripled):
    with mg.profile() as prof:
        for x in (LARGE, SMALL, LARGE):
            tripled(x)
    line = next(line for line in prof.table().splitlines() if "by_sums" in line)
    assert line.split() == ["tripled_of_a_test", "by_sums", "2", "3"]


def test_steps_that_a_schedule_leaves_out_do_not_count(tripled):
    with mg.profile(schedule=(1, 0, 1)) as prof:
        for _ in range(3):
            tripled(LARGE)
            prof.step()
    assert prof.variants() == {COUNTED: 1}


def test_reset_begins_at_zero(tripled):
    with mg.profile() as prof:
        tripled(LARGE)
        prof.reset()
        tripled(LARGE)
    assert prof.variants() == {COUNTED: 1}


def test_a_profile_without_such_calls_has_no_table_of_them():
    with mg.profile() as prof:
        mg.exp(mg.tensor(np.ones(3)))
    assert prof.variants() == {} and "variant" not in prof.table()
