"""Other forms of an op's forward: which of them computes a call, and who sees it."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import func
from minigrad.engine.registry import op as registry
from minigrad.testing import gradcheck


@pytest.fixture
def doubled():
    @mg.primitive
    def doubled_of_a_test(x, *, bias=0.0):
        """y = 2x + bias"""
        return 2 * x + bias

    @doubled_of_a_test.vjp("x")
    def doubled_dx(g):
        return 2 * g

    yield doubled_of_a_test
    del registry.__dict__["doubled_of_a_test"]


def marked(value):
    """A form that computes doubled's result plus a value by which a test knows it."""
    return lambda x, bias=0.0: 2 * x + bias + value


def ran(op, *args, **params):
    return op(*args, **params).tolist()


ONE = mg.tensor([1.0])


def test_an_op_without_variants_runs_its_reference_itself(doubled):
    assert doubled.variants == () and doubled.forward is doubled.reference


def test_the_variant_given_last_is_asked_first(doubled):
    doubled.variant(marked(10))
    doubled.variant(marked(20))
    assert ran(doubled, ONE) == [22]
    assert [v.calls for v in doubled.variants] == [1, 0]


def test_none_hands_the_call_to_the_next_and_at_last_to_the_reference(doubled):
    doubled.variant(marked(10), when=lambda x, bias=0.0: bias == 0)
    doubled.variant(lambda x, bias=0.0: None)
    assert ran(doubled, ONE) == [12]
    assert ran(doubled, ONE, bias=1.0) == [3]


def test_a_variant_is_asked_from_the_size_that_it_names_on(doubled):
    doubled.variant(marked(10), least=3)
    assert ran(doubled, mg.ones(2)) == [2, 2]
    assert ran(doubled, mg.ones(3)) == [12, 12, 12]


def test_a_user_s_variant_stands_before_those_of_the_library(doubled):
    from minigrad.custom.variants import Variant, add

    doubled.variant(marked(10))
    add(doubled, Variant(marked(20), "cpu", name="the library's"))
    assert ran(doubled, ONE) == [12]
    assert [v.name for v in doubled.variants][1] == "the library's"


def test_a_variant_for_any_device_is_the_forward_itself_until_another_stands_before_it(doubled):
    from minigrad.custom.variants import ANY, Variant, add, remove

    form = Variant(marked(10), ANY)
    add(doubled, form)
    assert doubled.forward is form.fn and doubled.variants == (form,)
    first = doubled.variant(marked(20), least=2)
    assert ran(doubled, mg.ones(2)) == [22, 22] and ran(doubled, ONE) == [12]
    assert doubled.variants[1] is form
    doubled.remove_variant(first)
    assert doubled.forward is form.fn
    remove(doubled, form)
    assert doubled.forward is doubled.reference


def test_variants_of_another_device_are_not_asked(doubled):
    doubled.variant(marked(10), on="cuda")
    assert ran(doubled, ONE) == [2]
    assert repr(doubled.variants[0]) == "<variant <lambda> on cuda>"


def test_an_unknown_device_is_refused(doubled):
    with pytest.raises(ValueError, match="there is no device 'tpu'; 'cpu', 'cuda', 'cuda:1'"):
        doubled.variant(marked(10), on="tpu")


def test_a_variant_can_be_taken_away(doubled):
    form = doubled.variant(marked(10))
    doubled.remove_variant(form)
    assert ran(doubled, ONE) == [2] and doubled.forward is doubled.reference
    with pytest.raises(KeyError, match="doubled_of_a_test has no variant"):
        doubled.remove_variant(form)


def test_a_cell_that_runs_again_replaces_the_variant_of_its_name():
    cell = "@op.variant\ndef form(x, bias=0.0):\n    return 2 * x + bias + 10\n"
    spec = {"__name__": "__main__"}
    op = mg.primitive(lambda x, *, bias=0.0: 2 * x + bias, name="celled_of_a_test")
    try:
        for _ in range(2):
            exec(cell, {**spec, "op": op})
        assert len(op.variants) == 1
    finally:
        del registry.__dict__["celled_of_a_test"]


def test_derivatives_and_transforms_run_the_variant_too(doubled):
    form = doubled.variant(lambda x, bias=0.0: 2 * x + bias)
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    gradcheck(lambda x: doubled(x), (x,))
    assert func.vmap(doubled)(mg.ones(2, 2)).tolist() == [[2, 2], [2, 2]]
    assert doubled.variants[0].fn is form and doubled.variants[0].calls > 2


def test_a_tape_records_the_choice_as_one_call_and_a_replay_chooses_again(doubled):
    """The variant refuses negative numbers, which the second replay has alone."""
    doubled.variant(lambda x, bias=0.0: 2 * x + 100 if (x > 0).all() else None)
    x = mg.tensor(np.ones(2, np.float32), requires_grad=True)
    with mg.Tape() as tape:
        y = doubled(x).sum()
    program = tape.compile(y, [x], [x])
    assert program(np.ones(2, np.float32))[0] == 204
    assert program(-np.ones(2, np.float32))[0] == -4


def test_large_ufuncs_run_in_blocks_by_a_variant_and_small_ones_do_not_ask():
    if not mg.exp.variants:
        pytest.skip("minigrad/fast is not there: no blocks")
    blocks = mg.exp.variants[-1]
    before = blocks.calls
    mg.exp(mg.ones(16))
    assert blocks.calls == before
    mg.exp(mg.tensor(np.zeros(blocks.least, np.float32)))
    assert blocks.calls == before + 1
