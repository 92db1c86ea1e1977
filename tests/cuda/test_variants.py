"""K34 on a device: a variant for "cuda" beside the reference on the same arrays."""

import numpy as np
import pytest

from minigrad.testing.case import Context
from minigrad.testing.checks.variants import k34
from minigrad.testing.plant import SINE, make, vectors
from minigrad.testing.run import check_one
from minigrad.testing.spec import OpSpec


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


def test_a_variant_for_the_host_is_compared_on_the_host(sine, fake):
    op, spec = sine
    seen = set()

    def form(x):
        seen.add(type(x))
        return np.sin(x)

    op.variant(form)
    assert not check_one(spec, k34, Context()).failures
    assert seen == {np.ndarray}
