"""What the harness does with samples of chance, of large size, and of packages that are missing."""

import sys

import numpy as np
import pytest

from minigrad.testing import GradcheckError, OpSpec, Sample
from minigrad.testing.case import Context
from minigrad.testing.checks.calls import _require_as_among_few
from minigrad.testing.compare import check_jacobian
from minigrad.testing.function import Function
from minigrad.testing.numeric import STEP
from minigrad.testing.plant import make
from minigrad.testing.run import check_spec
from tests.testing.test_checks import BY_ID, message, outcome_of


def near_a_kink(draws):
    """Samples of |x| whose first entry lies beside 0 in so many draws, and then no more."""
    left = iter([1e-4] * draws + [1.0] * 100)

    def samples(rng, dtype):
        yield Sample("beside 0", (np.array([next(left), 0.7, -1.3], dtype),))

    return samples


def test_a_sample_near_a_kink_by_chance_is_drawn_again():
    slope = {"x": lambda g, x: g * np.sign(x)}
    assert outcome_of("K3", np.abs, slope, near_a_kink(1)).status == "pass"
    assert outcome_of("K3", np.abs, slope, near_a_kink(2)).status == "pass"
    assert "inconclusive" in message(outcome_of("K3", np.abs, slope, near_a_kink(100)))


def test_a_wrong_rule_is_wrong_in_the_next_draw_too():
    slope = {"x": lambda g, x: g * np.sign(x) * 1.001}
    assert "finite differences give" in message(outcome_of("K3", np.abs, slope, near_a_kink(1)))


def rounded_alike(steps):
    """x, and 1e-6 (x − 1) more where x is so many fine steps from 1, which no rule knows."""

    def fn(x):
        from_one = x.data - 1
        hit = np.isin(np.abs(from_one) / (STEP / 2), steps) if steps else True
        return x + 1e-6 * from_one * hit

    return Function(fn, [np.ones(1)])


def test_two_steps_that_agree_by_chance_make_no_entry_wrong():
    check_jacobian(rounded_alike([1, 2, 4]), [np.ones(1)], "Jacobian")  # the points of both steps
    with pytest.raises(GradcheckError, match="1 of 1 entries"):
        check_jacobian(rounded_alike([]), [np.ones(1)], "Jacobian")  # x is 1e-6 steeper


def sum_of_squares_off(where):
    """Σ x² of each row, its rule a hundredth off where `where(g, x)` says."""

    def rule(g, x):
        return g[..., None] * (2 * x.conj()) * (1.01 if where(g, x) else 1.0)

    return {"x": rule}


def writing_rule(g, x):
    if x.size > 60_000 and isinstance(g, np.ndarray):
        g *= 1 + 1e-12
    return g[..., None] * (2 * x)


@pytest.mark.parametrize(
    "rules, fields",
    [
        (sum_of_squares_off(lambda g, x: x.shape[-1] > 5_000), {}),
        (sum_of_squares_off(lambda g, x: x.size > 500_000), {}),
        (
            sum_of_squares_off(lambda g, x: x.dtype.kind == "c" and x.size > 60_000),
            {"dtypes": ("float64", "complex128")},
        ),
        ({"x": writing_rule}, {}),
    ],
    ids=["long rows", "beyond 2^19", "complex", "writes into the cotangent"],
)
def test_k25_grows_every_axis_dtype_and_size_at_the_full_level(rules, fields):
    def rows(rng, dtype):
        x = rng.standard_normal((3, 4))
        x = x + 1j * x[::-1] if np.dtype(dtype).kind == "c" else x
        yield Sample("rows", (x.astype(dtype),))

    for rule, status in ((sum_of_squares_off(lambda g, x: False), "pass"), (rules, "fail")):
        op = make("op", lambda x: np.sum(np.square(x), -1), rule, {})
        spec = OpSpec("op", op, None, rows, **{"dtypes": ("float64",), **fields})
        [outcome] = check_spec(spec, Context("full"), [BY_ID["K25"]])
        assert outcome.status == status, outcome


def raising_rule(where):
    def rule(g, x):
        if where(x):
            raise ValueError("a block of the rule does not fit")
        return g[..., None] * (2 * x)

    return {"x": rule}


def rows(rng, dtype):
    yield Sample("rows", (rng.standard_normal((3, 4)).astype(dtype),))


def sum_of_squares(x):
    return np.sum(np.square(x), -1)


@pytest.mark.parametrize(
    "check, where",
    [
        ("K25", lambda x: x.size > 60_000),
        ("K25", lambda x: 100 < x.size < 60_000),
        ("K27", lambda x: np.abs(x).max() > 4),
    ],
    ids=["large", "on the way to large", "large values"],
)
def test_a_rule_that_raises_where_the_op_gave_a_value_is_wrong(check, where):
    right = outcome_of(check, sum_of_squares, raising_rule(lambda x: False), rows)
    assert right.status == "pass"
    wrong = outcome_of(check, sum_of_squares, raising_rule(where), rows)
    assert "a block of the rule does not fit" in message(wrong)


def test_an_op_may_refuse_large_arguments_by_its_call():
    def small_alone(x):
        if x.size > 1_000:
            raise ValueError("at most 1,000 elements")
        return sum_of_squares(x)

    outcome = outcome_of("K25", small_alone, raising_rule(lambda x: x.size > 1_000), rows)
    assert (outcome.status, outcome.failures) == ("n/a", [])


def test_a_large_sample_that_the_op_refuses_is_a_failure():
    def small_alone(x):
        if x.size > 1_000:
            raise ValueError("at most 1,000 elements")
        return sum_of_squares(x)

    def large(rng, dtype):
        yield Sample("large", (rng.standard_normal((30, 40)).astype(dtype),))

    right = raising_rule(lambda x: False)
    assert outcome_of("K25", sum_of_squares, right, rows, large=large).status == "pass"
    assert "at most 1,000" in message(outcome_of("K25", small_alone, right, rows, large=large))


def squares_off(where):
    """Σ x² of each row, a thousandth too much where `where(x)` says, and its true gradient."""

    def op(x):
        return sum_of_squares(x) * (1.001 if where(x) else 1)

    return op, {"x": lambda g, x: g[..., None] * (2 * x) * (1.001 if where(x) else 1)}


def test_a_wrong_value_at_a_large_size_is_wrong_though_its_gradient_is_right():
    def large(rng, dtype):
        yield Sample("large", (rng.standard_normal((30, 40)).astype(dtype),))

    for size, fields in ((60_000, {}), (1_000, {"large": large})):
        wrong, right = (squares_off(where) for where in (lambda x: x.size > size, lambda x: False))
        assert outcome_of("K25", *wrong, rows, **fields).status == "pass"  # it is its own reference
        fields["reference"] = sum_of_squares
        assert outcome_of("K25", *right, rows, **fields).status == "pass"
        assert "the reference" in message(outcome_of("K25", *wrong, rows, **fields))


def test_k25_takes_no_reference_that_is_slow():
    def slow(x):
        return sum([sum_of_squares(x) for _ in range(10_000)]) / 10_000

    wrong = squares_off(lambda x: x.size > 60_000)
    assert outcome_of("K25", *wrong, rows, reference=slow).status == "pass"


def lacking(package):
    def forward(x):
        raise ImportError(f"sin comes from {package}.special, which is not installed")

    return forward


def test_an_op_whose_package_is_missing_is_skipped_with_the_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)  # as Python has what cannot be imported
    outcome = outcome_of("K3", lacking("scipy"))
    assert (outcome.status, outcome.reason) == ("skip", "scipy is not installed")


def test_an_import_error_is_a_failure_where_the_package_is_there():
    assert "ImportError" in message(outcome_of("K3", lacking("numpy")))
    pytest.importorskip("scipy")
    assert "ImportError" in message(outcome_of("K3", lacking("scipy")))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_form_for_many_elements_of_one_dtype_is_as_right_as_that_for_few(dtype):
    def sine(x):
        y = np.sin(x)
        return y * (1 + 1e-4 * (y > 0.9)) if x.size > 4096 and x.dtype == dtype else y

    fields = {"kind": "elementwise", "dtypes": ("float64", "float32")}
    rules = {"x": lambda g, x: g * np.cos(x)}
    assert outcome_of("K25", np.sin, rules, values_near_one, **fields).status == "pass"
    assert "among 32,777 elements" in message(
        outcome_of("K25", sine, rules, values_near_one, reference=np.sin, **fields)
    )


def test_rounding_near_a_zero_of_values_most_of_which_lie_in_a_tail_is_no_other_form():
    few = np.repeat(np.array([1e-30, 1.0, 1e-4], np.float32), [600, 300, 100])
    rounded, wrong = few.copy(), few.copy()
    rounded[900:] += np.float32(6e-8)  # by what the terms are rounded that cancel there
    wrong[900:] += np.float32(1e-6)
    _require_as_among_few(rounded, few, "float32", "")
    with pytest.raises(GradcheckError, match="among 32,777 elements"):
        _require_as_among_few(wrong, few, "float32", "")


def values_near_one(rng, dtype):
    yield Sample("values", (np.array([0.4, 0.5, 0.8], dtype),))


@pytest.mark.parametrize("kind", ["", "elementwise"])
def test_an_op_that_raises_for_its_size_alone_fails_k25(kind):
    def for_few(x):
        if x.size > 5000:
            raise ValueError("too many")
        return np.sin(x)

    assert "too many" in message(outcome_of("K25", for_few, kind=kind))


def test_an_op_that_refuses_large_arrays_of_single_precision_alone_fails_k25():
    def not_in_single(x):
        return np.sin(x, out=0.5 if x.dtype == np.float32 and x.size > 5000 else None)

    outcome = outcome_of("K25", not_in_single, kind="elementwise", dtypes=("float64", "float32"))
    assert "among 32,777 elements, and accepts the same elements 1,000" in message(outcome)
