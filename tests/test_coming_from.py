"""docs/coming-from.md: its examples run, and what it says of PyTorch is so."""

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg

pytestmark = pytest.mark.promise(
    "examples for those who come from PyTorch, JAX or NumPy run, and statements about "
    "PyTorch are true"
)

PAGE = Path(__file__).parents[1] / "docs" / "coming-from.md"
ROWS = [[3.0, 1.0, 2.0], [4.0, 9.0, 7.0]]
# the call in both, and what gives PyTorch's result here
SAME_CALL = {
    "transpose": (lambda m, x: x.transpose(0, 1), lambda x: x.swapaxes(0, 1)),
    "std": (lambda m, x: x.std(), lambda x: x.std(ddof=1)),
    "var": (lambda m, x: x.var(), lambda x: x.var(ddof=1)),
    "var_mean": (lambda m, x: m.var_mean(x)[0], lambda x: mg.var_mean(x, ddof=1)[0]),
    "split": (lambda m, x: m.split(x, 2)[0], lambda x: mg.split(x, range(2, len(x), 2))[0]),
    "repeat": (lambda m, x: x[0].repeat(2), lambda x: mg.tile(x[0], 2)),
    "norm": (lambda m, x: x.norm(1), lambda x: mg.linalg.vector_norm(x, ord=1)),
    "nonzero": (lambda m, x: m.nonzero(x), lambda x: mg.argwhere(x)),
    "meshgrid": (
        lambda m, x: m.meshgrid(x[0], x[1])[0],
        lambda x: mg.meshgrid(x[0], x[1], indexing="ij")[0],
    ),
    "equal": (lambda m, x: m.equal(x, x), lambda x: mg.array_equal(x, x)),
}


def values(result):
    return np.asarray(result if isinstance(result, tuple | bool) else result.numpy())


@pytest.mark.layer("courtesy")
def test_the_examples_of_the_page_run():
    done = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert done.attempted > 10 and done.failed == 0


@pytest.mark.filterwarnings("ignore:torch.meshgrid")
@pytest.mark.parametrize("name", SAME_CALL)
def test_a_call_that_means_something_else_in_pytorch_has_the_replacement_named(name):
    torch = pytest.importorskip("torch")
    call, replacement = SAME_CALL[name]
    there = values(call(torch, torch.tensor(ROWS, dtype=torch.float64)))
    x = mg.tensor(ROWS)
    np.testing.assert_allclose(values(replacement(x)), there)
    here = call(mg, x)
    same_shape = not isinstance(here, tuple) and values(here).shape == there.shape
    assert not same_shape or not np.array_equal(values(here), there)


@pytest.mark.parametrize("call", ["max", "min", "sort"])
def test_pytorch_gives_indices_too_where_numpy_gives_values(call):
    torch = pytest.importorskip("torch")
    found, indices = getattr(torch.tensor(ROWS, dtype=torch.float64), call)(0)
    x = mg.tensor(ROWS)
    assert getattr(x, call)(0).tolist() == found.tolist()
    by = {"max": x.argmax, "min": x.argmin, "sort": x.argsort}[call]
    assert by(0).tolist() == indices.tolist()


def test_each_name_of_the_page_is_there():
    names = set(re.findall(r"`@?(mg(?:\.\w+)+)", PAGE.read_text("utf-8")))
    assert len(names) > 30
    for name in names:
        value = mg
        for part in name.split(".")[1:]:
            value = getattr(value, part)
