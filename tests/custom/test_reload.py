"""What a module defines survives its reload, and who imported an op from it has the new one."""

import importlib
import os
import pickle
import sys
import time
from contextlib import suppress

import numpy as np
import pytest

import minigrad as mg
from minigrad.custom.reload import origins, replaced
from minigrad.engine import registry
from minigrad.testing.spec import specs

NAMES = "cube_again times_again bent_again scaled_again raised_again SquaredAgain"
SOURCE = """
import numpy as np
import minigrad as mg
from minigrad.testing import Sample, register_op

K = {k}

@mg.primitive(numpy=np.heaviside)
def cube_again(x, s):
    return K * x**3 + 0 * s
@cube_again.vjp("x")
def cube_again_dx(g, x):
    return 3 * K * x * x * g
@cube_again.vjp("s")
def cube_again_ds(g, x):
    return 0 * g
@cube_again.batch
def cube_again_batch(op, xs, batched, params):
    return op(*xs)

times_again = mg.elementwise(lambda x: K * x, name="times_again", dx=lambda g: K * g)
bent_again = mg.elementwise(np.arctan, name="bent_again", dx=lambda x: K / (1 + x * x))

@mg.extension
def scaled_again(x):
    ...
@scaled_again.implementation("cpu")
def on_cpu(x):
    return K * x
@scaled_again.vjp("x")
def scaled_again_dx(g):
    return K * g
weights = scaled_again.cache("weights", max_entries=3)

@mg.composite
def raised_again(x):
    return times_again(x) + 1

@mg.cbrt.implementation("cpu")
def cbrt_on_cpu(x):
    return K * np.cbrt(x)

class SquaredAgain(mg.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return K * x * x
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * K * x * g

def samples(rng, dtype):
    yield Sample("one", (rng.standard_normal(3).astype(dtype),))
register_op("times_again", samples, reference=lambda x: K * x)
"""
FACTORS = {  # the values and derivatives at 2 over K
    "cube_again": (8, 12), "times_again": (2, 1), "bent_again": (None, 0.2),
    "scaled_again": (2, 1), "raised_again": (None, 1), "SquaredAgain": (4, 4),
}  # fmt: skip


@pytest.fixture(autouse=True)
def as_before(tmp_path):
    """What these tests' modules register is gone after each, also where an import has failed; what
    it has replaced, as their ops of np.arctan and np.heaviside do, is there again.
    """
    op = registry.op
    tables = vars(op), origins[op], replaced, registry.numpy_table, specs
    kept = [dict(table) for table in tables]
    yield
    with suppress(KeyError):
        mg.cbrt.remove_implementation("cpu")
    for table, before in zip(tables, kept, strict=True):
        for name in table.keys() - before.keys():
            del table[name]
        table.update(before)
    for name in {path.stem for path in tmp_path.glob("*.py")} & sys.modules.keys():
        del sys.modules[name]


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of ops, imported, and how to write and reload it with another K."""
    name = f"ops_of_{tmp_path.name}"
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / f"{name}.py"
    path.write_text(SOURCE.format(k=2))
    found = importlib.import_module(name)

    def again(k):
        path.write_text(SOURCE.format(k=k))
        os.utime(path, (k * 1000, k * 1000))
        importlib.invalidate_caches()
        return importlib.reload(found)

    found.again = again
    return found


def seen(fn):
    """The value at 2 and the derivative there."""
    x = mg.tensor(2.0, requires_grad=True)
    name = getattr(fn, "__name__", "")
    y = fn(x, mg.tensor(1.0)) if name == "cube_again" else getattr(fn, "apply", fn)(x)
    return y.item(), mg.grad(y, x).item()


def agrees(name, fn, k):
    value, slope = FACTORS[name]
    y, dy = seen(fn)
    return (value is None or y == value * k) and dy == pytest.approx(slope * k)


def test_a_reload_replaces_every_kind_of_definition(module):
    for k in (2, 5, 7):
        module.again(k)
        assert all(agrees(name, getattr(module, name), k) for name in FACTORS)
        assert mg.cbrt(mg.tensor(8.0)).item() == 2 * k
        assert np.heaviside(mg.tensor(2.0), mg.tensor(1.0)).item() == 8 * k
        assert specs["times_again"].reference(1.0) == k


def test_who_imported_an_op_before_the_reload_has_the_new_one(module):
    held = {name: getattr(module, name) for name in NAMES.split()[:4]}
    copies = [held]
    for k in (3, 4):
        module.again(k)
        copies.append({name: getattr(module, name) for name in held})
        assert all(agrees(name, fn, k) for old in copies for name, fn in old.items())
    assert pickle.loads(pickle.dumps(held["scaled_again"])) is module.scaled_again


def test_a_clash_between_two_modules_stays_an_error(module, tmp_path):
    (tmp_path / "another_of_mine.py").write_text(
        "import minigrad as mg\nmg.elementwise(lambda x: x, name='times_again', dx=lambda g: g)\n"
    )
    with pytest.raises(ValueError, match="'times_again' is registered already"):
        importlib.import_module("another_of_mine")
    assert agrees("times_again", module.times_again, 2)


def test_a_module_that_gives_a_name_twice_as_it_is_imported_is_an_error(module, tmp_path):
    line = "mg.elementwise(lambda x: x, name='twice_named', dx=lambda g: g)\n"
    (tmp_path / "gives_it_twice.py").write_text(f"import minigrad as mg\n{line}{line}")
    with pytest.raises(ValueError, match="'twice_named' is registered already"):
        importlib.import_module("gives_it_twice")


def test_two_authors_of_one_name_clash_also_through_a_helper(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "helper_of_both.py").write_text(
        "import minigrad as mg\n"
        "def op_of(fn):\n"
        "    return mg.elementwise(fn, name='helped', dx=lambda g: g)\n"
    )
    for author in ("first_author", "second_author"):
        (tmp_path / f"{author}.py").write_text(
            "from helper_of_both import op_of\nhelped = op_of(lambda x: x)\n"
        )
    importlib.reload(importlib.import_module("first_author"))
    with pytest.raises(ValueError, match="'helped' is registered already"):
        importlib.import_module("second_author")


def test_another_function_for_a_device_is_an_error_still(module):
    with pytest.raises(ValueError, match="scaled_again has an implementation for cpu already"):
        module.scaled_again.implementation("cpu")(lambda x: x)


def test_autoreload_in_a_notebook_sees_an_edit(module):
    pytest.importorskip("IPython", reason="IPython is not installed")
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    names = NAMES.replace(" ", ", ")
    path = module.__file__

    def run(*cells):
        for cell in cells:
            done = shell.run_cell(cell)
            assert done.success, (done.error_before_exec, done.error_in_exec)

    try:
        run("%load_ext autoreload", "%autoreload 2", f"from {module.__name__} import {names}")
        for k in (3, 5):
            text = SOURCE.format(k=k).replace("K * x * x", "(K + 0) * x * x")
            with open(path, "w") as file:
                file.write(text)
            os.utime(path, (time.time() + 10 * k,) * 2)
            run("pass", "pass")
            assert all(agrees(name, shell.user_ns[name], k) for name in FACTORS)
    finally:
        run("%autoreload 0")
        InteractiveShell.clear_instance()


def test_the_modules_of_these_tests_leave_numpys_functions_as_they_were():
    x = mg.tensor(3.0, requires_grad=True)
    assert mg.grad(np.arctan(x), x).item() == pytest.approx(0.1)
    assert registry.numpy_table[np.heaviside] is mg.heaviside
