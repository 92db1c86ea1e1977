"""K34: variants of an op's rules beside these, each of them alone."""

from contextlib import contextmanager

import numpy as np
import pytest

from minigrad.custom.rule_variants import (
    add_to_rules,
    listed_of_rules,
    remove_from_rules,
    vjp_variant,
)
from minigrad.custom.variants import Variant
from minigrad.engine.registry import op as registry
from minigrad.testing.case import Context
from minigrad.testing.checks.variant_calls import calls_of
from minigrad.testing.checks.variants import k34, parities
from minigrad.testing.plant import PRODUCT, SINE, make, pairs, times, vectors
from minigrad.testing.run import check_one, load_samples
from minigrad.testing.spec import OpSpec, specs

pytestmark = pytest.mark.promise(
    "every variant of an op gives what its reference gives, to second order (K34)"
)


def sine():
    """(sin x, its spec)."""
    op = make("sine", np.sin, SINE, {"kind": "elementwise"})
    return op, OpSpec("sine", op, np.sin, vectors(5, (3, 4)), dtypes=("float64", "float32"))


def product():
    op = make("times", times, PRODUCT, {})
    return op, OpSpec("times", op, times, pairs((5, 5), ((3, 4), (3, 4))), dtypes=("float64",))


@contextmanager
def of_nodes(op, fn, least=0):
    """A variant of all rules of a node, while it lasts."""
    variant = Variant(fn, "cpu", least=least, name="loop of the rules")
    add_to_rules(op, variant)
    try:
        yield variant
    finally:
        remove_from_rules(op, variant)


def failure(spec):
    """What K34 says, or None; that something was compared."""
    outcome = check_one(spec, k34, Context())
    assert outcome.failures or outcome.comparisons
    return outcome.failures[0][1] if outcome.failures else None


def is_plain(*arrays):
    return all(type(x) is np.ndarray for x in arrays)


def test_a_right_variant_of_a_node_passes_and_has_been_asked():
    op, spec = sine()
    with of_nodes(op, lambda plan, values: plan.apply_rules(values)) as variant:
        assert failure(spec) is None
    assert variant.calls == 0  # a copy of it was asked


def test_a_wrong_variant_of_a_node_is_told_by_its_name():
    op, spec = sine()
    with of_nodes(op, lambda plan, values: [values[0] * values[0]], least=1000):
        told = failure(spec)
    assert told.startswith("variant loop of the rules on cpu, ")
    assert "the gradient of argument 0 is" in told


def test_one_for_every_elementwise_op_is_compared_with_the_rules_of_each():
    op, spec = sine()
    variant = Variant(lambda plan, values: [2 * values[0]], "cpu", name="for all")
    add_to_rules(None, variant)
    try:
        assert "variant for all on cpu" in failure(spec)
    finally:
        remove_from_rules(None, variant)


def test_a_wrong_rule_in_place_is_told_by_its_name():
    op, spec = sine()
    vjp_variant(op, "x")(lambda g, x: g.copy() if is_plain(g, x) else None)
    assert failure(spec).startswith("variant rules in place on cpu, ")


def test_a_right_rule_in_place_passes_and_stays():
    op, spec = sine()
    vjp_variant(op, "x")(lambda g, x: g * np.cos(x) if is_plain(g, x) else None)
    before = listed_of_rules(op)
    assert failure(spec) is None
    assert listed_of_rules(op) == before and before[0].calls == 0


def test_a_rule_in_place_that_is_never_asked_is_told():
    op, spec = sine()
    vjp_variant(op, "x", name="never", on=("cpu",))(lambda g, x: None)
    context = Context()
    assert check_one(spec, k34, context).status == "n/a"
    assert context.notes == {("sine", "K34", "variant not reached, never on cpu: it took no call")}


def test_one_that_raises_where_the_own_rule_does_not_is_wrong():
    op, spec = sine()

    @vjp_variant(op, "x")
    def picky(g, x):
        raise ValueError("of no such array")

    assert "it raises ValueError('of no such array'), which the op's own rules" in failure(spec)


def test_a_cotangent_that_lies_otherwise_in_memory_is_asked():
    op, spec = sine()

    @vjp_variant(op, "x")
    def in_memory_order(g, x):
        if not is_plain(g, x):
            return None
        return np.multiply(g.ravel("K"), np.cos(x).ravel("C")).reshape(x.shape)

    assert "the gradient of argument 0" in failure(spec)


def test_a_nan_among_the_arguments_is_asked():
    op, spec = sine()

    @vjp_variant(op, "x")
    def without_nan(g, x):
        return g * np.cos(np.nan_to_num(x)) if is_plain(g, x) else None

    assert "NaN and infinities" in failure(spec)


def test_one_argument_alone_needing_a_gradient_is_asked():
    op, spec = product()

    @vjp_variant(op)
    def both(g, a, b, needs, a_shape, b_shape):
        if not is_plain(g, a, b):
            return None
        return (g * b, g * a) if needs[0] else (None, g * b)

    assert "argument 1 alone needing a gradient" in failure(spec)


def test_the_first_result_used_alone_is_asked():
    rules = {
        "x": lambda g, x: (
            (0 if g[0] is None else g[0] * x.exp()) + (0 if g[1] is None else g[1] * 2)
            if not isinstance(x, np.ndarray)
            else (0 if g[0] is None else g[0] * np.exp(x)) + (0 if g[1] is None else g[1] * 2)
        )
    }
    op = make("two", lambda x: (np.exp(x), 2 * x), rules, {"outputs": 2})
    spec = OpSpec("two", op, lambda x: (np.exp(x), 2 * x), vectors(5), dtypes=("float64",))

    @vjp_variant(op, "x")
    def of_one(g, x):
        return g[0].copy() if g[1] is None and is_plain(x) else None

    assert "the first result used alone" in failure(spec)


def test_rules_of_fast_are_compared_with_those_of_the_table():
    load_samples()
    found = [*parities(specs["lstm_gates"], Context())]
    if not listed_of_rules(registry.lstm_gates):
        pytest.skip("fast/ is not installed")
    [of_host] = [p for p in found if (p.variant, p.device) == ("rules in place", "cpu")]
    assert of_host.calls > 50 and not of_host.failure


def test_an_op_of_steps_grows_in_its_rows():
    load_samples()
    steps = [len(c.args[0]) for c in calls_of(specs["gru_scan"], Context(), 0, lambda: 0)]
    rows = [c.args[0].shape[1] for c in calls_of(specs["gru_scan"], Context(), 0, lambda: 0)]
    assert max(steps) == 40 and max(rows) > 100
