"""K34: an op's variants beside its reference, each of them alone."""

import numpy as np
import pytest

from minigrad.compiled import install
from minigrad.custom.variants import Variant, change
from minigrad.engine.registry import op as registry
from minigrad.testing import cli, parity
from minigrad.testing.case import Context
from minigrad.testing.checks import variants
from minigrad.testing.checks.variants import Parity, k34, parities
from minigrad.testing.parity import print_parities
from minigrad.testing.plant import SINE, make, vectors
from minigrad.testing.run import check_one
from minigrad.testing.spec import OpSpec, specs

pytestmark = pytest.mark.promise(
    "every variant of an op gives what its reference gives, to second order (K34)"
)


def sine():
    """(the op, its spec): sin x, with no variant as yet."""
    op = make("sine", np.sin, SINE, {"kind": "elementwise"})
    return op, OpSpec("sine", op, np.sin, vectors(5, (3, 4)), dtypes=("float64", "float32"))


def outcome_of(spec):
    context = Context()
    return check_one(spec, k34, context), context


def refused_in_fortran_order(x):
    return np.sin(x) if x.flags.c_contiguous else None


def test_a_variant_that_a_user_gives_an_op_is_compared_by_itself():
    op, spec = sine()
    op.variant(lambda x: np.sin(x), least=1000)
    outcome, _ = outcome_of(spec)
    assert outcome.status == "pass" and outcome.comparisons > 5


def test_a_wrong_variant_is_told_by_its_name_with_the_call():
    op, spec = sine()

    def narrow(x):
        return np.sin(x.astype(np.float32)).astype(x.dtype)

    op.variant(narrow, least=1000)
    [(_, message, _)] = outcome_of(spec)[0].failures
    assert message.startswith("variant narrow on cpu, float64, ")
    assert "the reference's" in message


def test_a_wrong_variant_behind_a_right_one_is_found():
    op, spec = sine()
    op.variant(np.cos)
    op.variant(np.sin)
    assert "variant cos" in outcome_of(spec)[0].failures[0][1]


def test_an_op_that_skips_k12_is_compared_on_finite_numbers_alone():
    op, spec = sine()
    op.variant(lambda x: np.sin(x) if np.isfinite(x).all() else x)
    assert outcome_of(spec)[0].status == "fail"
    spec.skips["K12"] = "the order of its products decides"
    outcome, context = outcome_of(spec)
    assert outcome.status == "pass"
    note = "NaN and infinities: the order of its products decides"
    assert context.notes == {("sine", "K34", note)}


def test_the_variants_are_as_before_afterwards():
    op, spec = sine()
    op.variant(np.cos)
    forward = op.forward
    outcome_of(spec)
    assert op.forward is forward and op.variants[0].calls == 0


def test_a_variant_that_takes_no_call_is_a_skip_with_its_name():
    op, spec = sine()
    op.variant(lambda x: None)
    outcome, context = outcome_of(spec)
    assert outcome.status == "n/a"
    assert context.notes == {
        ("sine", "K34", "variant not reached, <lambda> on cpu: it took no call")
    }


def test_a_variant_that_takes_some_calls_is_compared_in_those():
    op, spec = sine()
    op.variant(refused_in_fortran_order)
    outcome, context = outcome_of(spec)
    assert outcome.status == "pass" and outcome.comparisons and not context.notes


def test_an_op_without_variants_has_nothing_to_compare():
    assert outcome_of(sine()[1])[0].status == "n/a"


def test_without_a_gpu_a_variant_for_one_is_not_compared(monkeypatch):
    monkeypatch.setattr(variants, "gpu_module", lambda: None)
    op, spec = sine()
    op.variant(np.cos, on="cuda")
    [found] = parities(spec, Context())
    assert (found.calls, found.unreached) == (0, "no GPU here")


def test_a_variant_that_raises_where_the_reference_does_not_is_wrong():
    op, spec = sine()

    def picky(x):
        raise ValueError("of no such array")

    op.variant(picky)
    assert "it raises ValueError('of no such array')" in outcome_of(spec)[0].failures[0][1]


@pytest.mark.parametrize(
    ("followed", "roundings", "status"),
    [(True, 4, "pass"), (True, 100, "fail"), (False, 100, "pass"), (False, 1000, "fail")],
)
def test_a_followed_variant_is_held_to_8_roundings_and_others_to_256(followed, roundings, status):
    op, spec = sine()

    def near(x):
        return np.sin(x) * (1 + roundings * np.finfo(x.dtype).eps).astype(x.dtype)

    change(op, (Variant(near, "cpu", followed=followed),))
    assert outcome_of(spec)[0].status == status


def test_a_residual_alone_that_is_wrong_is_told_apart_from_the_result():
    rules = {"x": lambda g, x, c: g * (c if isinstance(x, np.ndarray) else np.cos(x))}
    op = make("sine", lambda x: (np.sin(x), np.cos(x)), rules, {"residuals": ("c",)})
    op.variant(lambda x: (np.sin(x), np.sin(x)))
    spec = OpSpec("sine", op, np.sin, vectors(5), dtypes=("float64",))
    assert "result 1 is" in outcome_of(spec)[0].failures[0][1]


def test_a_forward_in_the_family_reaches_a_variant_that_the_ops_samples_do_not(monkeypatch):
    op, spec = sine()
    op.variant(lambda x: np.cos(x) if x.ndim == 3 else None)
    beside = OpSpec("twice", lambda x: 2 * op(x), None, vectors(5), large=vectors((2, 3, 4)))
    monkeypatch.setitem(specs, "twice", beside)
    assert "in twice, shape (2, 3, 4): result 0" in outcome_of(spec)[0].failures[0][1]


# -- minigrad-gradcheck --variants ---------------------------------------------------------------


def test_the_command_prints_a_row_for_each_variant(capsys):
    assert cli.main(["--variants", "--ops", "mul,floor_of_none"]) == 2
    capsys.readouterr()
    assert cli.main(["--variants", "--ops", "mul"]) == 0
    head, *rows, last = capsys.readouterr().out.splitlines()
    assert head.split() == ["op", "variant", "device", "calls", "worst", "difference"]
    assert all(row.startswith("mul ") for row in rows)
    assert last.endswith("none is wrong")


def test_an_op_made_of_others_is_told_with_those_and_their_variants_are_compared(
    capsys, monkeypatch
):
    monkeypatch.setattr(parity, "optional", lambda name: None)

    def no_form(x, **how):
        return None

    registry.diagonal.variant(no_form)
    try:
        assert cli.main(["--variants", "--ops", "trace"]) == 0
    finally:
        registry.diagonal.remove_variant(no_form)
    told, *table = capsys.readouterr().out.splitlines()
    assert told.startswith("trace has no variants; it calls ops that have: ")
    assert "diagonal" in told and any(row.startswith("diagonal  no_form") for row in table)


def test_an_op_that_has_none_at_all_is_told(capsys, monkeypatch):
    monkeypatch.setattr(parity, "optional", lambda name: None)
    assert cli.main(["--variants", "--ops", "diagonal"]) == 0
    assert "diagonal has no variants: its own form" in capsys.readouterr().out


def test_with_numba_the_command_compares_compiled_loops_too(capsys):
    pytest.importorskip("numba", reason="mg.accelerate compiles with numba")
    assert cli.main(["--variants", "--ops", "exp"]) == 0
    assert "loop" in capsys.readouterr().out


def test_a_wrong_compiled_loop_is_told_by_its_name(capsys, monkeypatch):
    numba = pytest.importorskip("numba", reason="mg.accelerate compiles with numba")

    @numba.njit
    def fill(x, y):
        for i in range(len(x) // 4 * 4):  # and what follows the last whole vector?
            y[i] = np.exp(x[i])

    def loop_of_fours(x):
        y = np.zeros_like(x)
        fill(x.ravel(), y.reshape(-1))
        return y

    install.own_code()
    monkeypatch.setitem(install._forwards, "exp", (loop_of_fours, 1 << 12))
    assert cli.main(["--variants", "--ops", "exp"]) == 1
    assert "exp, K34: variant loop_of_fours on cpu, " in capsys.readouterr().out


def test_the_command_exits_with_1_where_a_variant_is_wrong(capsys, monkeypatch):
    def wrong(x):
        return np.exp(x) + 1

    monkeypatch.setattr(parity, "optional", lambda name: None)
    registry.exp.variant(wrong)
    try:
        assert cli.main(["--variants", "--ops", "exp"]) == 1
    finally:
        registry.exp.remove_variant(wrong)
    printed = capsys.readouterr().out
    assert "WRONG" in printed and "exp, K34: variant wrong on cpu" in printed


def test_the_table_says_what_was_not_reached(capsys):
    assert print_parities([[Parity("exp", "loop", "cuda", unreached="no GPU here")]], 1.0) == 0
    printed = capsys.readouterr().out
    assert "not reached: no GPU here" in printed and "1 not reached" in printed
