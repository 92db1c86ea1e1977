"""Checks of values alone: NaN where ends have no answer, vmap where nothing has a slope."""

import numpy as np

from minigrad.engine.registry import op as op_
from minigrad.testing import OpSpec
from minigrad.testing.case import Context
from minigrad.testing.checks import CHECKS
from minigrad.testing.plant import make, vectors
from minigrad.testing.run import check_spec
from minigrad.testing.spec import Sample

SINE = {"x": lambda g, x: g * np.cos(x)}


def outcome_of(id, op, reference, **fields):
    spec = OpSpec("op", op, reference, vectors(5), dtypes=("float64",), **fields)
    [outcome] = check_spec(spec, Context(), [check for check in CHECKS if check.id == id])
    return outcome


def message(outcome):
    assert outcome.status == "fail"
    return outcome.failures[0][1]


def _without_nan(x):
    return np.where(np.isnan(x), 0.0, np.sin(x))


def test_an_op_that_answers_for_nan_alone_must_let_it_through():
    op = make("op", _without_nan, SINE, {})
    assert "expected nan" in message(outcome_of("K12", op, np.sin, nan_alone="at the ends"))


def test_an_op_that_answers_for_nan_alone_is_not_asked_about_infinity():
    op = make("op", lambda x: np.where(np.isinf(x), 7.0, np.sin(x)), SINE, {})
    assert outcome_of("K12", op, np.sin).status == "fail"
    assert outcome_of("K12", op, np.sin, nan_alone="at the ends").status == "pass"


def _places():
    return make("op", lambda x: np.argmax(x, axis=-1), {}, {"arrays": ("x",)})


def test_the_batch_rule_of_an_op_without_a_derivative_is_checked():
    op = _places()
    op.batch(lambda op, xs, batched, params: np.argmin(xs[0].data, axis=-1))
    assert "under vmap" in message(outcome_of("K23", op, None, differentiable=False))


def test_a_right_batch_rule_of_an_op_without_a_derivative_passes():
    op = _places()
    op.batch(lambda op, xs, batched, params: op(xs[0]))
    outcome = outcome_of("K23", op, None, differentiable=False)
    assert outcome.status == "pass" and outcome.comparisons


def _shares(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _tails(but):
    """K32 of a softmax whose gradient loses its digits where a share is nearly 1."""
    wrong = {"x": lambda g, y: y * (g - op_.sum(g * y, axis=-1, keepdims=True))}

    def samples(rng, dtype):
        for name, size in (("near", 0.01), ("far", 1)):
            yield Sample(name, (np.array([0.1, 1.2, -0.3, 0.2], dtype) * dtype.type(size),))

    spec = OpSpec("op", make("op", _shares, wrong, {}), _shares, samples, tails_but=but)
    context = Context()
    [outcome] = check_spec(spec, context, [check for check in CHECKS if check.id == "K32"])
    return outcome, context.notes


def test_derivatives_far_out_are_left_out_by_name_and_with_a_reason():
    assert message(_tails({})[0]).startswith("far times 13")
    assert message(_tails({"near": "another"})[0]).startswith("far times 13")
    outcome, notes = _tails({"far": "a difference"})
    assert outcome.status == "pass" and outcome.comparisons
    assert ("op", "K32", "not of far: a difference") in notes
