"""Samples try what an op can be asked for: a rule may be wrong for one value of one parameter."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

from minigrad.engine.primitive import Primitive
from minigrad.engine.registry import op as registry
from minigrad.testing.case import Context
from minigrad.testing.checks import CHECKS
from minigrad.testing.function import as_tensors
from minigrad.testing.run import check_ops, op_names
from minigrad.testing.samples.recurrent import nearest_kink
from minigrad.testing.spec import OpSpec, Sample, specs

# what no derivative hangs on, in the signatures of many ops
ANYWHERE = "casting copy device dtype generator like momentum order out return_indices subok where"
UNTRIED = {
    "its result has no derivative": "allclose.rtol "
    "allclose.atol allclose.equal_nan argsort.kind argsort.stable "
    "argpartition.axis unique_all.equal_nan unique_places.equal_nan unique.equal_nan "
    "unique.return_index "
    "unique.return_inverse scatter_rows.lead scatter_places.lead "
    "grid_places.padding_mode grid_places.align_corners matrix_rank.hermitian matrix_rank.rtol",
    "the gradient is the same whatever it is": "sort.kind "
    "sort.stable einsum.optimize device_copy.source average.returned "
    "pseudoinverse.rcond polyfit.rcond",
    "finite differences of it are no derivative": "scaled_dot_product_attention.dropout_p",
    "it is taken and has no effect": "to.non_blocking unique.sorted linear_cross_entropy.options",
    "its other value makes it another op, which has samples": "svd.compute_uv "
    "stft.return_complex istft.onesided polyfit.full "
    "fractional_max_pool3d.output_ratio standardize.running",
}
EXCUSED = {name for names in UNTRIED.values() for name in names.split()}


def function_of(name):
    """(code of an op's function, defaults of its static parameters), or None."""
    entry = getattr(registry, name, None) if name in registry else None
    function = inspect.unwrap(entry.forward if isinstance(entry, Primitive) else entry)
    if not hasattr(function, "__code__"):
        return None
    if isinstance(entry, Primitive):
        return function.__code__, entry.defaults
    given = inspect.signature(function).parameters.values()
    return function.__code__, {p.name: p.default for p in given if p.default is not p.empty}


def tried(spec: OpSpec, code, defaults) -> dict[str, set[str]] | None:
    """What each parameter was in a call of any sample or point; None where none was seen."""
    seen: dict[str, set[str]] = {}

    def watch(frame, event, arg):
        if event == "call" and frame.f_code is code:
            for name in defaults.keys() & frame.f_locals.keys():
                seen.setdefault(name, set()).add(_text(frame.f_locals[name]))

    context = Context()
    calls = [(s.args, s.params) for s in context.samples(spec, spec.dtypes[0])]
    calls += [(point.args, point.params) for point in spec.points]
    before = sys.getprofile()
    for args, params in calls:
        args = tuple(np.asarray(x) if isinstance(x, float | complex) else x for x in args)
        sys.setprofile(watch)
        try:
            spec.call(*as_tensors(args), **params)
        finally:
            sys.setprofile(before)
    return seen or None


def _text(value) -> str:
    return "an array" if hasattr(value, "dtype") else repr(value)


def untried(spec: OpSpec, code, defaults) -> list[str] | None:
    """None where no call was seen: other tests of this process may have put a forward in front."""
    seen = tried(spec, code, defaults)
    if seen is None:
        return None
    names = [name for name in defaults if name not in ANYWHERE.split()]
    return [name for name in names if not seen.get(name, set()) - {_text(defaults[name])}]


@pytest.mark.filterwarnings("ignore")
def test_every_parameter_of_every_op_is_something_else_than_its_default_in_a_sample():
    found = {}
    for name in op_names():
        function = function_of(name) if name in specs else None
        if function is not None:
            missing = untried(specs[name], *function)
            if missing is not None:
                found[name] = missing
    assert len(found) > 250  # of some 310
    names = {f"{op}.{name}" for op, parameters in found.items() for name in parameters}
    assert sorted(names - EXCUSED) == []
    needless = {name for name in EXCUSED - names if name.partition(".")[0] in found}
    assert sorted(needless) == []  # what has a sample now needs no excuse


def smallest(x):
    return np.min(np.abs(x), initial=np.inf)


def from_a_whole_number(x):
    return smallest(x - np.rint(x))


def from_each_other(a, b, p=2.0):
    return smallest(a.reshape(-1, 1) - b.reshape(-1))


def from_no_sum(a, b, axis=None, keepdims=False, signed=False):
    return smallest(np.sum(b * np.exp(a), axis=axis))


def of_relu(a, w, h, live=None, relu=False, reverse=False):
    return nearest_kink(a, w, h, live, reverse=reverse) if relu else np.inf


@pytest.mark.parametrize(
    "name, distance, least",
    [
        ("frac", from_a_whole_number, 0.05),
        ("dist", from_each_other, 0.1),
        ("cdist", from_each_other, 0.1),
        ("row_distances", from_each_other, 0.1),
        ("weighted_logsumexp", from_no_sum, 0.2),
        ("rnn_scan", of_relu, 0.05),
    ],
)
def test_samples_keep_their_distance_from_kinks_and_poles_at_every_seed(name, distance, least):
    op_names()
    for seed in range(20):
        for sample in Context(seed=seed).samples(specs[name], "float64"):
            assert distance(*sample.args, **sample.params) >= least, (seed, sample.name)


@pytest.mark.parametrize(
    "name, check, seed",
    [
        ("erfc_ratio", "K1", 1),
        ("spherical_jn", "K1", 1),
        ("polyfit", "K1", 8),
        ("cond", "K12", 3),
        ("interp", "K17", 0),
        ("grid_sample", "K27", 1),
        ("relu6", "K27", 2),
        ("leaky_relu", "K27", 3),
    ],
)
def test_right_rules_pass_where_a_reference_rounds_or_a_kink_lies_near(name, check, seed):
    op_names()
    context = Context("full", seed)
    [outcome] = check_ops([name], context, [c for c in CHECKS if c.id == check])
    assert outcome.status == "pass", outcome.failures


def test_a_name_of_a_sample_of_ours_is_taken_before_they_are_loaded():
    code = (
        "import numpy as np\n"
        "from minigrad.testing import Sample, register_op\n"
        "try:\n"
        "    register_op('exp', lambda rng, dtype: [Sample('one', (np.ones(2, dtype),))])\n"
        "except ValueError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("the op 'exp' has samples already")


def test_the_arguments_of_a_sample_are_a_tuple():
    with pytest.raises(TypeError, match=r"'one': args is the tuple .*; got float64 \(2,\)"):
        Sample("one", np.ones(2))
