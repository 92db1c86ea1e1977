"""Every registered op passes every check at the fast level; an op without samples fails."""

import pytest

from minigrad.engine.registry import op as registry
from minigrad.testing.case import Context
from minigrad.testing.report import failure_text
from minigrad.testing.run import check_ops, op_names

pytestmark = pytest.mark.promise("every rule is right, to second order, in every layout and dtype")


def is_of_the_library(name: str) -> bool:
    """Not an op that another test of the same process has defined."""
    entry = getattr(registry, name, None) if name in registry else None
    module = getattr(entry, "forward", entry).__module__ if entry is not None else ""
    return module.startswith(("minigrad", "numpy", "scipy"))


@pytest.mark.parametrize("name", [name for name in op_names() if is_of_the_library(name)])
def test_the_op_passes_every_check(name):
    failures = [o for o in check_ops([name], Context("fast")) if o.status == "fail"]
    assert not failures, "\n" + "\n".join(map(failure_text, failures))


def test_the_whole_table_is_checked():
    assert sum(map(is_of_the_library, op_names())) > 470
