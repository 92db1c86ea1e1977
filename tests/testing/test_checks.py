"""What makes a check fail, skip or not apply, apart from a wrong rule."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.errors import RuleError
from minigrad.engine.registry import op
from minigrad.tensor_api.tensor import Tensor
from minigrad.testing import (
    ErrorSample,
    GradcheckError,
    OpSpec,
    Point,
    Sample,
    register_op,
    run_check,
)
from minigrad.testing.case import Context
from minigrad.testing.checks import CHECKS
from minigrad.testing.compare import check_direction
from minigrad.testing.errors import Inconclusive
from minigrad.testing.function import Function
from minigrad.testing.plant import make, numbers, pairs, vectors
from minigrad.testing.report import Report
from minigrad.testing.run import check_ops, check_spec, op_names

BY_ID = {check.id: check for check in CHECKS}
SINE = {"x": lambda g, x: g * np.cos(x)}


def outcome_of(check, forward=np.sin, rules=SINE, samples=vectors(5), reference=None, **fields):
    options = {key: fields.pop(key) for key in ("kind", "defaults") if key in fields}
    op = make("op", forward, rules, options)
    fields.setdefault("dtypes", ("float64",))
    spec = OpSpec("op", fields.pop("call", op), reference or forward, samples, **fields)
    [outcome] = check_spec(spec, Context(), [BY_ID[check]])
    return outcome


def message(outcome):
    assert outcome.status == "fail"
    return outcome.failures[0][1]


def test_an_op_without_samples_fails_and_is_told_what_to_write():
    [outcome] = check_ops(["no_such_op"], Context())
    assert "register_op('no_such_op', samples" in message(outcome)


def test_every_registered_entry_is_listed_once():
    names = op_names()
    assert len(names) == len(set(names))
    assert {"exp", "mul", "sum"} <= set(names)


def test_a_gradient_that_is_zero_in_every_sample_fails():
    stairs = {"x": lambda g, x: g * np.zeros_like(x)}
    outcome = outcome_of("K3", np.floor, stairs, vectors(5, 7))
    assert "argument 0 is zero in every sample" in message(outcome)


def test_a_gradient_stated_to_be_zero_that_is_not_fails():
    outcome = outcome_of("K3", zero_gradient=True)
    assert "zero_gradient says that the gradient of argument 0 is zero; it is not" in message(
        outcome
    )


def test_a_wrong_third_derivative_fails_k10_at_the_full_level():
    def value_and_slope_alone(g, x):
        if not isinstance(x, Tensor):
            return g * np.cos(x)
        return g * (np.cos(x) + (x - Tensor(x.data)) * (x - Tensor(x.data)))

    op = make("op", np.sin, {"x": value_and_slope_alone}, {})
    spec = OpSpec("op", op, np.sin, vectors(5), dtypes=("float64",))
    [fast] = check_spec(spec, Context("fast"), [BY_ID["K10"]])
    [full] = check_spec(spec, Context("full"), [BY_ID["K10"]])
    assert fast.status == "pass"
    assert "third derivative" in message(full)


@pytest.mark.parametrize("conditioned, status", [("", "fail"), ("ends in digits of x", "pass")])
def test_k16_allows_what_one_ulp_of_x_is_worth_where_the_spec_says_why(conditioned, status):
    def sine_of_the_next_number(x):
        return np.sin(np.nextafter(x, np.inf))

    mpmath = pytest.importorskip("mpmath")
    outcome = outcome_of(
        "K16", sine_of_the_next_number, kind="elementwise", mp=mpmath.sin, conditioned=conditioned
    )
    assert outcome.status == status


@pytest.mark.parametrize("conditioned, status", [("", "fail"), ("ends in digits of x", "pass")])
def test_k16_allows_derivatives_what_one_ulp_of_x_is_worth_to_them(conditioned, status):
    mpmath = pytest.importorskip("mpmath")
    slope_at_the_next_number = {"x": lambda g, x: g * np.cos(np.nextafter(x, np.inf))}
    fields = {"kind": "elementwise", "mp": mpmath.sin, "conditioned": conditioned}
    assert outcome_of("K16", np.sin, slope_at_the_next_number, **fields).status == status


def test_a_gradient_stated_to_be_zero_passes():
    stairs = {"x": lambda g, x: g * np.zeros_like(x)}
    assert outcome_of("K3", np.floor, stairs, zero_gradient=True).status == "pass"


def test_an_op_whose_every_sample_is_too_large_for_a_jacobian_fails_k2():
    assert "at most 400 entries" in message(outcome_of("K2", samples=vectors(50)))


def test_a_sample_on_a_kink_is_inconclusive_and_fails():
    def on_a_kink(rng, dtype):
        yield Sample("near zero", (np.array([1e-6, 1.0], dtype),))

    outcome = outcome_of("K3", np.abs, {"x": lambda g, x: g * np.sign(x)}, on_a_kink)
    assert "inconclusive" in message(outcome)


def test_a_kink_that_moves_both_stencils_alike_is_inconclusive():
    kink = 16 / 9 * 2.0**-11  # between the fine step's points, so that 8f(h) − f(2h) is off too
    beside = Function(lambda x: mg.abs(x - kink), [np.zeros(1)])
    one = [np.ones(1)]
    with pytest.raises(Inconclusive, match="may lie near a kink"):
        check_direction(beside, [np.zeros(1)], one, one, "gradient")


def test_a_spec_that_skips_a_check_is_counted_with_its_reason():
    outcome = outcome_of("K16", skips={"K16": "mpmath has no such function"})
    report = Report("fast", 0, [outcome])
    assert report.skips == {("K16", "mpmath has no such function"): 1}


def test_a_crash_in_a_rule_is_told_with_its_place():
    def broken(g, x):
        raise ZeroDivisionError("on purpose")

    text = message(outcome_of("K3", rules={"x": broken}))
    assert "ZeroDivisionError: on purpose" in text
    assert "test_checks.py" in text


def test_two_samples_of_one_name_fail():
    def twins(rng, dtype):
        yield Sample("same", (numbers(rng, dtype, 3),))
        yield Sample("same", (numbers(rng, dtype, 4),))

    assert "same name" in message(outcome_of("K1", samples=twins))


def test_a_result_of_another_dtype_than_numpys_fails_k1():
    outcome = outcome_of(
        "K1", lambda x: np.sin(x).astype(np.float64), SINE, reference=np.sin, dtypes=("float32",)
    )
    assert "dtype float64, expected float32" in message(outcome)


def test_an_op_that_accepts_what_numpy_refuses_fails_k17():
    def lenient(a, b):
        try:
            return a + b
        except ValueError:
            return np.zeros(b.shape)

    rules = {"a": lambda g: g, "b": lambda g: g}
    outcome = outcome_of(
        "K17", lenient, rules, pairs(((3,), (3,))), reference=np.add, kind="elementwise"
    )
    assert "the reference raises" in message(outcome)


def test_an_error_of_the_wrong_type_fails_k21():
    wanted = ErrorSample("strings", (np.array(["a"]),), ValueError, "numbers")
    assert "expected ValueError" in message(outcome_of("K21", errors=(wanted,)))


def test_an_error_that_is_not_raised_fails_k21():
    wanted = ErrorSample("zero", (np.array(0.0),), ValueError, "zero")
    assert "no ValueError was raised" in message(outcome_of("K21", errors=(wanted,)))


def test_a_wrong_stated_value_at_a_point_fails_k11():
    outcome = outcome_of("K11", points=(Point("zero", (0.0,), value=1.0),))
    assert "at 'zero' the value is 0.0, stated is 1.0" in message(outcome)


@pytest.mark.parametrize("stated, found", [(np.inf, 1.0), (np.inf, -np.inf), (1.0, -np.inf)])
def test_an_infinity_is_near_nothing_but_itself_at_a_point(stated, found):
    outcome = outcome_of(
        "K11", lambda x: np.full_like(x, found), points=(Point("far", (np.zeros(1),), stated),)
    )
    assert "is [" in message(outcome)


@pytest.mark.parametrize("found", [1.0, -np.inf])
def test_a_value_where_the_reference_is_infinite_fails_k1(found):
    outcome = outcome_of(
        "K1", lambda x: np.full_like(x, found), reference=lambda x: np.full_like(x, np.inf)
    )
    assert "the reference gives inf" in message(outcome)


def test_a_rounded_zero_is_not_an_exact_zero_at_a_point():
    outcome = outcome_of("K11", points=(Point("pi", (np.pi,), value=0.0),))
    assert outcome.status == "fail"


def test_an_overflow_warning_at_a_finite_point_fails_k11():
    sigmoid = lambda x: 1 / (1 + np.exp(-x))
    rules = {"x": lambda g, y: g * y * (1 - y)}
    point = Point("far left", (-1000.0,), grads=(0.0,))
    assert "overflow" in message(outcome_of("K11", sigmoid, rules, points=(point,)))


def test_a_missing_rule_fails_with_the_engines_own_error():
    text = message(
        outcome_of(
            "K3", np.sin, {}, samples=vectors(3), call=make("op", np.sin, {}, {"arrays": ("x",)})
        )
    )
    assert RuleError.__name__ in text


def test_run_check_raises_the_error_of_the_sample_named():
    with pytest.raises(KeyError):
        run_check("no such op", "K1")
    assert run_check("exp", "K3").comparisons >= 1


def test_the_report_counts_comparisons_of_all_outcomes():
    first, second = outcome_of("K1"), outcome_of("K3")
    assert Report("fast", 0, [first, second]).comparisons == first.comparisons + second.comparisons


def test_gradcheck_error_is_an_assertion_error():
    assert issubclass(GradcheckError, AssertionError)


def test_a_nan_in_a_sample_hides_no_wrong_rule():
    def with_nan(rng, dtype):
        yield Sample("with NaN", (np.array([1.0, np.nan, 2.0], dtype),))

    right = {"x": lambda g, x: g * np.where(np.isnan(x), 0.0, 1.0)}
    wrong = {"x": lambda g, x: g * np.where(np.isnan(x), 0.0, 1.5)}
    for check in ("K2", "K3"):
        assert outcome_of(check, np.nansum, right, with_nan).status == "pass"
        assert outcome_of(check, np.nansum, wrong, with_nan).status == "fail"


def test_the_full_level_says_which_skips_can_go():
    op = make("op", np.sin, SINE, {})
    fields = {"dtypes": ("float64",), "skips": {"K3": "some reason", "K2": "too large"}}
    spec = OpSpec("op", op, np.sin, vectors(50), **fields)
    k2, k3 = check_spec(spec, Context("full"), [BY_ID["K2"], BY_ID["K3"]])
    assert (k2.status, k2.reason) == ("skip", "too large")
    assert (k3.status, k3.reason) == ("skip", "some reason [the check passes: this skip can go]")


def test_products_whose_bits_depend_on_the_threads_of_blas_pass_on_every_engine():
    def large(rng, dtype):  # with OpenBLAS's kernels for AVX2 they do
        shapes = (10, 1000), (1000, 512)
        yield Sample("large", tuple(rng.standard_normal(shape).astype(dtype) for shape in shapes))

    outcome = outcome_of("K13", np.matmul, {}, samples=large, call=op.matmul)
    assert outcome.status == "pass" and outcome.comparisons > 0


class Square(mg.Function):
    """x² as a class, which takes tensors alone."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


def test_a_right_function_written_as_a_class_passes_every_check():
    spec = OpSpec("square", Square.apply, None, vectors(5, (3, 4)), dtypes=("float64", "float32"))
    failed = [o for o in check_spec(spec, Context("full")) if o.status == "fail"]
    assert failed == []


class Backwards(Square):
    """x² whose vmap method gives the examples in reverse order."""

    @staticmethod
    def vmap(info, in_dims, x):
        return (x * x)[::-1], 0


def test_a_vmap_method_that_mixes_examples_up_fails_k23():
    spec = OpSpec("square", Backwards.apply, None, vectors(5), dtypes=("float64",))
    [outcome] = check_spec(spec, Context(), [BY_ID["K23"]])
    assert "under vmap result 0 of example 0" in message(outcome)


def test_tied_arguments_outside_of_the_domain_are_not_compared():
    rules = {"a": lambda g, b: g * np.log(b), "b": lambda g, a, b: g * a / b}
    call = make("a log b", lambda a, b: a * np.log(b), rules, {})

    def samples(rng, dtype):
        yield Sample("negative a", (-rng.uniform(0.5, 2, 3), rng.uniform(0.5, 2, 3)))

    spec = OpSpec("a log b", call, None, samples, dtypes=("float64",))
    [outcome] = check_spec(spec, Context(), [BY_ID["K19"]])
    assert outcome.status == "n/a"


def fails_k15(samples):
    """The failure of K15 of a right op that is said to be checked in float32 too."""
    op = make("sine", np.sin, SINE, {})
    spec = OpSpec("sine", op, np.sin, samples, dtypes=("float64", "float32"))
    [outcome] = check_spec(spec, Context(), [BY_ID["K15"]])
    return message(outcome)


def test_samples_that_ignore_the_dtype_fail_since_nothing_narrow_was_checked():
    always_double = lambda rng, dtype: [Sample("double", (rng.random(3),))]
    assert "the samples for float32 are float64" in fails_k15(always_double)


def test_samples_that_raise_in_a_further_dtype_fail_and_stop_nothing():
    def samples(rng, dtype):
        if dtype == np.float32:
            raise RuntimeError("no such sample")
        yield Sample("double", (rng.random(3),))

    assert "no such sample" in fails_k15(samples)


def test_a_gradient_that_is_zero_but_for_rounding_is_not_asked_for_its_direction():
    def samples(rng, dtype):
        yield Sample("three", ((rng.random(3) + 1).astype(dtype),))

    ratio = make("x / x", lambda x: x / x, {"x": lambda g, x: g / x * 1.1 - g * (1.1 / x)}, {})
    spec = OpSpec("x / x", ratio, None, samples, dtypes=("float64", "float32", "float16"))
    [outcome] = check_spec(spec, Context(), [BY_ID["K15"]])
    assert outcome.status == "pass", outcome.failures


@pytest.mark.parametrize(
    "sample, words",
    [
        (np.ones(3), r"must yield Sample\(name, args\)"),
        (Sample("tensor", (Tensor(np.ones(3)),)), "has a tensor among its arguments"),
    ],
)
def test_what_is_no_sample_is_told_how_to_be_one(sample, words):
    spec = OpSpec("sine", make("sine", np.sin, SINE, {}), np.sin, lambda rng, dtype: [sample])
    with pytest.raises(TypeError, match=words):
        Context().samples(spec, "float64")


def test_a_bare_array_is_not_the_arguments_of_a_sample():
    with pytest.raises(TypeError, match=r"'bare': args is the tuple .*got float64 \(3,\)"):
        Sample("bare", np.ones(3))


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("no_such_op", "K2"), "'no_such_op' has no samples"),
        (("exp", "K99"), "no check 'K99', only K1 to K"),
        (("exp", "K2", "no such sample"), "no sample 'no such sample', only"),
    ],
)
def test_run_check_says_what_it_does_not_know(arguments, words):
    with pytest.raises((KeyError, ValueError), match=words):
        run_check(*arguments)


def test_registering_samples_of_an_unknown_op_says_what_to_do():
    with pytest.raises(ValueError, match="define it first, or give it as call="):
        register_op("no_such_op", vectors(5))


def test_a_determinant_of_equal_rows_has_no_digits_to_compare():
    """Its gradient there is 0 by cancelling, which leaves some 1e-14: no fault of the rule."""
    outcome = run_check("det", "K27", sample="2: (2, 1, 3, 3)", seed=61, level="full")
    assert outcome.status == "pass" and outcome.comparisons > 0
