"""The gradcheck harness with mg.accelerate on, for ops of each kind that it takes."""

import pytest

from minigrad.testing.case import Context
from minigrad.testing.checks.layout import k6
from minigrad.testing.report import failure_text
from minigrad.testing.run import check_ops, load_samples

pytest.importorskip("numba", reason="mg.accelerate compiles with numba")


@pytest.mark.parametrize("name", ["tanh", "gelu", "softmax", "log_softmax", "cross_entropy_index"])
def test_an_accelerated_op_passes_every_check(name, all_sizes):
    load_samples()
    failures = [o for o in check_ops([name], Context("fast")) if o.status == "fail"]
    assert not failures, "\n" + "\n".join(map(failure_text, failures))


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_an_accelerated_op_of_rows_takes_one_number_in_every_place(name, all_sizes):
    load_samples()
    failures = [o for o in check_ops([name], Context("full"), [k6]) if o.status == "fail"]
    assert not failures, "\n" + "\n".join(map(failure_text, failures))
