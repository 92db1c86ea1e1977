"""The gradcheck harness: for your own functions, for your own ops, for every op there is.

    gradcheck(fn, inputs)        the gradient against finite differences
    gradgradcheck, jvpcheck      second order, forward mode
    register_op(name, samples)   put an op of yours under all checks (see spec.py)
    run_check(op, check)         make one check of one op again, as a failure's snippet says

`minigrad-gradcheck` runs every check on every op and prints the matrix.
"""

from .errors import Entry, GradcheckError, Inconclusive
from .gradcheck import gradcheck, gradgradcheck, jvpcheck
from .run import run_check
from .spec import ErrorSample, OpSpec, Point, Sample, register_op, specs

__all__ = [
    "Entry", "ErrorSample", "GradcheckError", "Inconclusive", "OpSpec", "Point", "Sample",
    "gradcheck", "gradgradcheck", "jvpcheck", "register_op", "run_check", "specs",
]  # fmt: skip
