"""Mutants of the ops' own rules are caught by the ops' own samples."""

import pytest

from minigrad.engine.registry import op
from minigrad.testing.mutate import MUTATIONS, mutants, mutated
from minigrad.testing.run import run_check

pytestmark = pytest.mark.promise("the harness catches wrong rules")


@pytest.mark.parametrize("name", ["exp", "mul", "tanh", "sum", "max", "matmul", "where", "getitem"])
def test_no_mutant_of_a_common_op_survives(name):
    made = list(mutants([name]))
    assert len(made) >= len(MUTATIONS)
    assert [mutant for mutant in made if mutant.survived] == []


def test_a_mutant_that_changes_no_number_does_not_count():
    assert not [m for m in mutants(["floor"]) if m.mutation == "doubled" and m.differs]


def test_the_right_rule_is_back_afterwards():
    with mutated(op.exp, "x", lambda c: c * 3):
        with pytest.raises(AssertionError):
            run_check("exp", "K2")
    assert run_check("exp", "K2").comparisons > 0
