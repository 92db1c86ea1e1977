"""Every registered op passes every check at the fast level; an op without samples fails."""

import pytest

from minigrad.testing.case import Context
from minigrad.testing.report import failure_text
from minigrad.testing.run import check_ops, op_names


@pytest.mark.parametrize("name", op_names())
def test_the_op_passes_every_check(name):
    failures = [o for o in check_ops([name], Context("fast")) if o.status == "fail"]
    assert not failures, "\n" + "\n".join(map(failure_text, failures))
