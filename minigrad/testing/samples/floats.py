"""Samples of mantissas, exponents and neighbours of numbers, and of integer arithmetic."""

import numpy as np

from ..spec import Point, Sample, register_op
from .forms import of_several, over

HARDWARE = ("float64", "float32", "float16")  # ml_dtypes' bfloat16 has no loop for these


def _between_powers(rng, dtype, shape):
    """Signed numbers away from powers of 2, where the mantissa jumps."""
    sizes = rng.uniform(1.1, 1.9, shape) * 2.0 ** rng.integers(-3, 4, shape)
    return np.asarray(sizes * rng.choice([-1.0, 1.0], shape)).astype(dtype)


register_op(
    "frexp",
    over([((2, 3), {}), ((), {}), ((0,), {})], _between_powers),
    reference=np.frexp,
    dtypes=HARDWARE,
    points=[Point("0", (np.array([0.0, 8.0]),), (np.array([0.0, 0.5]), np.array([0, 4], np.int32)),
                  (np.array([1.0, 0.0625]),))],
)  # fmt: skip
register_op(
    "ldexp",
    of_several([(((2, 3), np.array([[1], [-2]])), {}), (((), np.array([0, 3])), {})]),
    reference=np.ldexp,
    dtypes=HARDWARE,
)
register_op(
    "spacing",
    over([((2, 3), {}), ((), {})]),
    reference=np.spacing,
    dtypes=HARDWARE,
    skips={"K14": "CuPy has no spacing: on a GPU the call raises an error that says so"},
)


def _integers(*shapes):
    def samples(rng, dtype):
        args = tuple([rng.integers(-20, 20, shape) for shape in shapes])
        yield Sample(f"{shapes}", args)

    samples.__module__ = __name__
    return samples


for _name, _args in {
    "gcd": ((2, 3), (3,)),
    "lcm": ((2, 1), (3,)),
    "bitwise_count": ((4,),),
}.items():
    register_op(
        _name,
        _integers(*_args),
        reference=getattr(np, _name),
        dtypes=("float64",),
        differentiable=False,
    )


register_op(
    "binary_exponent",
    over([((2, 3), {}), ((), {})], _between_powers),
    reference=lambda x: np.frexp(x)[1],
    dtypes=HARDWARE,
    differentiable=False,
)
