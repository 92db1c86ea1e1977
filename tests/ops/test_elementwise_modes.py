"""Every elementwise op, activation and cast in forward mode and under vmap, on its own samples."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.primitive import Primitive
from minigrad.testing.case import differentiated
from minigrad.testing.run import load_samples
from minigrad.testing.spec import specs

FAMILIES = (
    "activation", "arithmetic", "cast", "compare", "complex", "exponential", "selection",
    "special", "trigonometric",
)  # fmt: skip


def cases():
    """The first sample of each op of these families, in real and, where it can, complex numbers."""
    load_samples()
    for spec in specs.values():
        if spec.name in FAMILY_OPS and isinstance(spec.call, Primitive) and has_rules(spec.call):
            for dtype in ("float64", "complex128"):
                if dtype in spec.dtypes:
                    yield pytest.param(spec, np.dtype(dtype), id=f"{spec.name}-{dtype}")


def has_rules(primitive):
    return bool(primitive.rules or primitive.joint)


def names_of_the_families():
    from minigrad.ops import activation, cast, elementwise

    modules = [activation, cast]
    modules += [getattr(elementwise, name) for name in FAMILIES if hasattr(elementwise, name)]
    entries = [entry for module in modules for entry in vars(module).values()]
    return {entry.name for entry in entries if isinstance(entry, Primitive)}


FAMILY_OPS = names_of_the_families()
CASES = list(cases())


def normal_like(rng, x):
    t = rng.standard_normal(x.shape)
    return (t + 1j * rng.standard_normal(x.shape) if x.dtype.kind == "c" else t).astype(x.dtype)


def inner(a, b):
    """The real inner product of two lists of arrays: Re Σ conj(a) b."""
    return sum(float(np.sum(np.conj(u) * v).real) for u, v in zip(a, b, strict=True))


@pytest.mark.parametrize("spec, dtype", CASES)
def test_forward_mode_is_the_transpose_of_reverse_mode(spec, dtype):
    rng = np.random.default_rng(0)
    sample = next(iter(spec.samples(rng, dtype)))
    places = differentiated(spec, sample.args)
    xs = [sample.args[i] for i in places]
    ts = [normal_like(rng, x) for x in xs]

    def f(*tensors):
        args = list(sample.args)
        for i, x in zip(places, tensors, strict=True):
            args[i] = x
        return spec.call(*args, **sample.params)

    y, ty = mg.func.jvp(f, tuple(xs), tuple(ts))
    ys, tys = (y, ty) if isinstance(y, tuple) else ((y,), (ty,))
    vs = [normal_like(rng, y.data) for y in ys]
    leaves = [mg.tensor(x, requires_grad=True) for x in xs]
    results = f(*leaves)
    results = results if isinstance(results, tuple) else (results,)
    gs = mg.grad(results, leaves, vs)
    pushed = inner(vs, [t.data for t in tys])
    assert pushed == pytest.approx(inner([g.data for g in gs], ts), rel=1e-10, abs=1e-12)


@pytest.mark.filterwarnings("error::minigrad.func.batching.VmapWarning")
@pytest.mark.parametrize("spec, dtype", CASES)
def test_vmap_gives_what_the_op_gives_example_by_example(spec, dtype):
    rng = np.random.default_rng(1)
    sample = next(s for s in spec.samples(rng, dtype) if any(np.ndim(x) == 1 for x in s.args))
    args = [np.stack([x, x[..., ::-1]]) if np.ndim(x) else x for x in sample.args]
    axes = tuple(0 if np.ndim(x) else None for x in args)
    y = mg.func.vmap(lambda *xs: spec.call(*xs, **sample.params), in_axes=axes)(*args)
    expected = [
        spec.call(*[x if a is None else x[i] for x, a in zip(args, axes)], **sample.params)
        for i in range(2)
    ]
    if isinstance(y, tuple):
        y, expected = y[0], [e[0] for e in expected]
    np.testing.assert_allclose(y.numpy(), np.stack(expected), rtol=1e-14, atol=1e-15)
