"""K34 on a device: a variant for "cuda" beside the reference on the same arrays."""

import numpy as np
import pytest

from minigrad.custom.rule_variants import add_to_rules, remove_from_rules, vjp_variant
from minigrad.custom.variants import Variant
from minigrad.tensor_api.tensor import Tensor
from minigrad.testing.case import Context
from minigrad.testing.checks.variants import k34
from minigrad.testing.plant import SINE, make, vectors
from minigrad.testing.run import check_one
from minigrad.testing.spec import OpSpec

pytestmark = pytest.mark.promise(
    "every variant of an op gives what its reference gives, to second order (K34)"
)


@pytest.fixture
def sine():
    """(the op, its spec): sin x, with no variant as yet."""
    op = make("sine", np.sin, SINE, {"kind": "elementwise"})
    return op, OpSpec("sine", op, np.sin, vectors(5, (3, 4)), dtypes=("float64",))


def test_a_right_variant_passes(sine, fake):
    op, spec = sine
    op.variant(lambda x: fake.sin(x), on="cuda")
    outcome = check_one(spec, k34, Context())
    assert outcome.status == "pass" and outcome.comparisons > 5


def test_a_wrong_variant_is_told_by_its_name_and_device(sine, fake):
    op, spec = sine

    def kernel(x):
        return fake.sin(x) if x.flags.c_contiguous else fake.cos(x)

    op.variant(kernel, on="cuda")
    [(_, message, _)] = check_one(spec, k34, Context()).failures
    assert message.startswith("variant kernel on cuda, ")


def test_a_wrong_kernel_of_the_rules_is_told_by_its_name_and_device(sine, fake):
    op, spec = sine

    def kernel(plan, values):
        g, x = values
        return [g * fake.cos(x)] if x.flags.c_contiguous else [g * fake.sin(x)]

    variant = Variant(kernel, "cuda", name="kernel of the rules")
    add_to_rules(op, variant)
    try:
        [(_, message, _)] = check_one(spec, k34, Context()).failures
    finally:
        remove_from_rules(op, variant)
    assert message.startswith("variant kernel of the rules on cuda, ")


def test_rules_in_place_are_compared_on_a_device_too(sine, fake):
    op, spec = sine
    seen = set()

    @vjp_variant(op, "x")
    def in_place(g, x):
        seen.add(type(x))
        return None if isinstance(x, Tensor) else g * (np if type(x) is np.ndarray else fake).cos(x)

    assert not check_one(spec, k34, Context()).failures
    assert {np.ndarray, fake.ndarray} <= seen


def test_a_variant_for_the_host_is_compared_on_the_host(sine, fake):
    op, spec = sine
    seen = set()

    def form(x):
        seen.add(type(x))
        return np.sin(x)

    op.variant(form)
    assert not check_one(spec, k34, Context()).failures
    assert seen == {np.ndarray}
