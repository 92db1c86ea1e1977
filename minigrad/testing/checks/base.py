"""A check: its id, its demand in one line, and the function that makes the comparisons."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Check:
    """One of K1–K34.

    body        runs on (case) or, with per="op", on (spec, context). It returns the number of
                comparisons. It raises GradcheckError for a failed one, DoesNotApply or Skipped if
                there is nothing to compare
    per         "double": each sample in float64 and complex128; "every": each sample of each dtype;
                "narrow": each sample of the dtypes below double; "op": once an op
    gradient    it needs an op with a derivative
    optional    it may have nothing to compare (no kinks, one argument); otherwise that is a failure
    """

    id: str
    title: str
    body: Callable[..., int]
    per: str = "double"
    gradient: bool = True
    optional: bool = False

    def __call__(self, *args: Any) -> int:
        return self.body(*args)


def check(id: str, title: str, **options: Any) -> Callable[[Callable[..., int]], Check]:
    """Decorator: make a Check of a function."""

    def make(body: Callable[..., int]) -> Check:
        return Check(id, title, body, **options)

    return make
