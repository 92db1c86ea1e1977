"""The gradcheck harness: for your own functions, for your own ops, for every op of minigrad.

    gradcheck(fn, inputs)        the gradient against finite differences
    gradgradcheck, jvpcheck      second order, forward mode
    register_op(name, samples)   put your own op under all checks (see spec.py)
    run_check(op, check)         repeat one check of one op, as a failure's snippet says

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
