"""The tester tested: every planted wrong rule is caught, and its right twin passes."""

import numpy as np
import pytest

from minigrad.custom.rule_variants import listed_of_rules
from minigrad.engine.registry import op as registry
from minigrad.testing.case import Context
from minigrad.testing.checks import CHECKS
from minigrad.testing.checks.variants import k34
from minigrad.testing.planted_variants import VARIANTS
from minigrad.testing.run import check_one, load_samples
from minigrad.testing.selftest import PLANTS, is_killed, judge
from minigrad.testing.spec import specs

pytestmark = pytest.mark.promise("the harness catches wrong rules")

BY_NAME = {plant.name: plant for plant in PLANTS}


# Every check has a wrong rule that it catches, so that no check passes everything.
MEANT = (
    ("forward", "K1"), ("factor", "K2"), ("one entry", "K3"), ("reversed", "K3"),
    ("nonlinear", "K4"), ("memory order", "K5"), ("input order", "K6"), ("in place", "K7"),
    ("shared memory", "K8"), ("promotion", "K9"), ("detached", "K10"), ("ties", "K11"),
    ("subgradient", "K11"), ("NaN", "K12"), ("noise", "K13"), ("half sums", "K1"),
    ("cancellation", "K16"), ("empty", "K17"), ("aliases", "K19"), ("in place", "K20"),
    ("one alone", "K20"), ("0-d", "K17"), ("forward mode", "K10"), ("divides", "K4"),
    ("message", "K21"), ("leak", "K22"), ("rounding", "K15"), ("half precision", "K15"),
    ("unbroadcast", "K18"),
    ("batch rule", "K23"), ("batched beside", "K23"), ("batched index", "K23"),
    ("one tangent", "K10"), ("narrow tangent", "K15"), ("forward over reverse", "K10"),
    ("last call", "K24"), ("first call", "K24"), ("beyond a size", "K25"), ("long axis", "K25"),
    ("many candidates", "K25"), ("middle axis", "K26"), ("batched axis", "K26"),
    ("large", "K27"), ("negative sum", "K27"), ("at zero", "K27"), ("equal elements", "K27"),
    ("wide rows", "K5"), ("input in wide rows", "K6"), ("repeated row", "K5"),
    ("odd address", "K5"), ("NaN swallowed", "K4"), ("cut", "K4"), ("other thread", "K13"),
    ("axis None", "K26"), ("several axes", "K26"), ("axes kept", "K26"),
    ("axis refused", "K26"),
    ("tangent's axis", "K26"), ("empty tangent", "K17"), ("tangent's dtype", "K15"),
    ("tangent cut", "K4"), ("tied tangents", "K19"), ("middle of the broadcast", "K18"),
    ("mixed dtypes", "K15"), ("one of three unused", "K20"), ("unused beside a graph", "K20"),
    ("two of three", "K20"), ("graph of three axes", "K17"), ("kept result", "K22"),
    ("permuted input", "K6"), ("three tied", "K19"), ("large tangent", "K27"),
    ("in order", "K27"), ("half beside single", "K15"), ("real beside complex", "K15"),
    ("whole divisor", "K15"), ("shared memory given", "K19"),
    ("beside itself detached", "K19"), ("one number repeated", "K6"),
    ("one row repeated", "K6"), ("detached in single", "K15"), ("detached in half", "K15"),
    ("batch in single", "K23"), ("batch in fours", "K23"),
    ("weight left out", "K17"), ("four axes", "K17"), ("four axes of elements", "K17"),
    ("tangent at a kink", "K27"), ("in the tails", "K27"), ("large in single", "K25"),
    ("large in half", "K25"),
    ("value large in single", "K25"), ("graph of a large call", "K25"), ("five axes", "K17"),
    ("one scale for many", "K25"), ("infinity among many", "K25"), ("wraps round", "K15"),
    ("second beyond 3", "K27"), ("negative beside complex", "K15"),
    ("lower half plane", "K27"), ("from 3 to 4", "K27"), ("beyond 100,000", "K27"),
    ("one half", "K27"), ("minus one", "K27"), ("range of single", "K15"),
    ("a single element", "K17"), ("column", "K17"), ("tied maxima", "K27"),
    ("length of zero", "K27"), ("no axes at all", "K26"), ("written again", "K24"),
    ("result written again", "K24"), ("recording off", "K3"), ("tangent of NaN", "K4"),
    ("square batch", "K23"), ("if on values", "K23"), ("if in the second", "K23"),
    ("input handed on", "K8"), ("input if F-ordered", "K8"), ("one array, two results", "K8"),
    ("result of each call", "K8"), ("written in turn", "K9"), ("written for a while", "K7"),
    ("kept cotangent", "K22"), ("written again", "K9"),
    ("a lost NaN", "K12"), ("a hidden NaN", "K12"), ("square overflows", "K31"),
    ("length by squares", "K31"), ("value by squares", "K31"),
    ("squares of halves", "K31"),
    ("0 to the −1", "K12"), ("0 to the −1, in forward mode", "K12"), ("the root of 0", "K12"),
    ("the other side", "K12"),
    ("0 · ∞", "K12"), ("subnormal", "K12"), ("huge", "K12"),
    ("equal cotangents", "K4"), ("positive cotangents", "K4"), ("square", "K17"),
    ("one row", "K17"), ("power of two", "K17"), ("all equal", "K27"), ("zeros alone", "K27"),
    ("whole numbers", "K27"), ("all positive", "K27"), ("real among complex", "K27"),
    ("zeros beside", "K27"), ("row by column", "K18"), ("second at ties", "K27"),
    ("second if negative", "K27"), ("detached tangent", "K23"), ("numbers in a batch", "K23"),
    ("scattered batch", "K23"), ("matrix returned", "K9"), ("seed set", "samples"),
    ("print options", "K3"), ("inference", "K20"), ("limits by name", "K29"),
    ("residual in levels", "K28"), ("grad of grad", "K28"),
    ("steps by size", "K30"),
    ("last block", "K34"), ("residual of a loop", "K34"),
    ("rule in place", "K34"),
    ("no rule", "K33"), ("edges", "K33"), ("constant weight", "K33"),
)  # fmt: skip

# K28 finds what only nests of transforms show, K32 slopes that have no digits in a tail, K34 large
# calls of another order in memory or with NaN.
ALONE = {
    "partial dropped": "K28", "cotangent dropped": "K28", "output a constant": "K28",
    "jvp of jvp": "K28", "grad of vmap of grad": "K28",
    "flat": "K32", "flat above alone": "K32", "nearly all": "K32",
    "block of another order": "K34", "loop without NaN": "K34", "row of a loop": "K34",
    "loop of rules": "K34",
}  # fmt: skip


@pytest.fixture(scope="module", params=BY_NAME)
def verdict(request):
    """Of the module: pytest puts the tests of one plant together, which is judged once."""
    return judge(BY_NAME[request.param])


def test_the_wrong_rule_is_caught(verdict):
    assert verdict.caught_by


def test_its_right_twin_passes(verdict):
    assert not verdict.twin_failures


def test_the_checks_meant_for_a_fault_find_it(verdict):
    meant = {check for name, check in MEANT if name == verdict.plant.name}
    assert meant <= {*verdict.caught_by}


def test_a_check_that_alone_can_find_a_fault_does(verdict):
    alone = ALONE.get(verdict.plant.name)
    assert alone is None or verdict.caught_by == (alone,)


def test_the_tables_name_plants_that_there_are():
    assert {name for name, _ in MEANT} | {*ALONE} <= {*BY_NAME}


@pytest.mark.parametrize("plant", VARIANTS, ids=lambda plant: plant.name)
def test_k34_names_the_wrong_variant(plant):
    with plant.while_wrong():
        [variant] = [*plant.wrong.call.variants, *listed_of_rules(plant.wrong.call)]
        [(_, told, _)] = check_one(plant.wrong, k34, Context()).failures
    assert told.startswith(f"variant {variant.name} on cpu, ")


@pytest.mark.parametrize(("name", "seed"), [(name, 1 + i % 2) for i, name in enumerate(BY_NAME)])
def test_the_verdict_does_not_hang_on_the_seed(name, seed):
    assert is_killed(BY_NAME[name], seed)


def test_a_wrong_text_of_compiled_loops_is_found():
    pytest.importorskip("numba", reason="mg.accelerate compiles with numba")
    assert judge(BY_NAME["quotient for sign"]).caught_by == ("K29",)


def test_k28_alone_finds_that_gelus_partial_is_dropped_in_nests():
    load_samples()
    registry.gelu.plans.clear()  # the twin with residuals, which is made when first asked for
    try:
        with BY_NAME["partial dropped"].while_wrong():
            outcomes = [check_one(specs["gelu"], check, Context()) for check in CHECKS]
    finally:
        registry.gelu.plans.clear()
    assert [outcome.check for outcome in outcomes if outcome.status == "fail"] == ["K28"]


def test_planted_ops_never_enter_the_registry():
    names = {entry.__name__ for entry in registry}
    assert not names & {spec.name for plant in PLANTS for spec in (plant.wrong, plant.right)}


def test_the_message_names_the_one_wrong_entry():
    [check] = [check for check in CHECKS if check.id == "K3"]
    outcome = check_one(BY_NAME["one entry"].wrong, check, Context())
    [(sample, message, snippet)] = outcome.failures
    assert sample == "shape 1024"
    assert "argument 0 (x) at index [700]" in message
    assert "run_check('one entry (wrong)', 'K3', sample='shape 1024')" in snippet


def test_there_are_at_least_the_named_plants_and_ten_more():
    assert len(PLANTS) >= 29
    assert len(np.unique([plant.name for plant in PLANTS])) == len(PLANTS)
