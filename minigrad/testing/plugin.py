"""The pytest plugin: your own rules under every check, one test item for each (op, check).

In your test file:

    from minigrad.testing import Sample, register_op

    def samples(rng, dtype):
        yield Sample("vector", (rng.standard_normal(5).astype(dtype),))

    register_op("my_op", samples, call=my_op, reference=np.sin)

    def test_my_ops(gradcheck_case):        # once for each op this file registered, and check
        gradcheck_case()

`@pytest.mark.gradcheck(ops=["exp", "my_op"], checks=["K2", "K3"], level="full")` chooses others.
`--gradcheck-level` and `--gradcheck-seed` set the level and the seed of all of them.
"""

from collections.abc import Sequence
from typing import Any

import pytest


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("minigrad", "derivative checks of minigrad")
    group.addoption("--gradcheck-level", choices=("fast", "full"), default="fast")
    group.addoption("--gradcheck-seed", type=int, default=0)


def pytest_configure(config: Any) -> None:
    config.addinivalue_line(
        "markers",
        "gradcheck(ops, checks, level): the ops and checks for a test that uses gradcheck_case",
    )


def pytest_generate_tests(metafunc: Any) -> None:
    """One test item for each op and check."""
    if "gradcheck_case" not in metafunc.fixturenames:
        return
    from .checks import CHECKS
    from .spec import specs

    marker = metafunc.definition.get_closest_marker("gradcheck")
    wanted = marker.kwargs if marker else {}
    own = [name for name, spec in specs.items() if spec.module == metafunc.module.__name__]
    ops: Sequence[str] = wanted.get("ops") or own
    ids: Sequence[str] = wanted.get("checks") or [check.id for check in CHECKS]
    level = wanted.get("level") or metafunc.config.getoption("--gradcheck-level")
    seed = metafunc.config.getoption("--gradcheck-seed")
    params = [(op, check, level, seed) for op in ops for check in ids]
    names = [f"{op}-{check}" for op in ops for check in ids]
    metafunc.parametrize("gradcheck_case", params, ids=names, indirect=True)


class GradcheckCase:
    """One op and one check. Calling it makes the check: it fails, skips with a reason or passes."""

    def __init__(self, op: str, check: str, level: str, seed: int):
        self.op, self.check, self.level, self.seed = op, check, level, seed

    def __call__(self) -> int:
        """The number of comparisons made."""
        from .case import Context
        from .checks import CHECKS
        from .report import failure_text
        from .run import check_spec, load_samples
        from .spec import specs

        if self.op not in specs:
            load_samples()
        if self.op not in specs:
            pytest.fail(f"the op {self.op!r} has no samples: register_op({self.op!r}, ...)")
        chosen = [check for check in CHECKS if check.id == self.check]
        if not chosen:
            pytest.fail(f"there is no check {self.check!r}; see minigrad-gradcheck --list")
        [outcome] = check_spec(specs[self.op], Context(self.level, self.seed), chosen)
        if outcome.status == "fail":
            pytest.fail(failure_text(outcome), pytrace=False)
        if outcome.status in ("skip", "n/a"):
            pytest.skip(f"{outcome.status}: {outcome.reason}")
        return outcome.comparisons


@pytest.fixture
def gradcheck_case(request: Any) -> GradcheckCase:
    """Call it to make one check of one op; see this module."""
    return GradcheckCase(*request.param)
