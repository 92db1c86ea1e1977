"""Ops are one object each: copies share them, and pickles have their names."""

import copy
import os
import pickle
import subprocess
import sys

import pytest

import minigrad as mg
import minigrad.nn.functional as F
from minigrad.engine.primitive import Primitive, primitive
from minigrad.engine.registry import op


def test_every_op_comes_back_from_a_pickle_and_a_copy_as_itself():
    ops = [entry for entry in op if isinstance(entry, Primitive)]
    assert len(ops) > 300
    for entry in ops:
        assert pickle.loads(pickle.dumps(entry)) is entry
        assert copy.deepcopy([entry])[0] is entry and copy.copy(entry) is entry


def test_every_function_of_nn_functional_does():
    names = [name for name in F.__all__ if callable(getattr(F, name))]
    assert len(names) > 100
    for name in names:
        assert pickle.loads(pickle.dumps(getattr(F, name))) is getattr(F, name), name


def test_a_layer_that_holds_an_op_is_pickled_and_its_copies_share_the_op():
    layer = mg.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, activation="gelu")
    x = mg.ones(3, 2, 4)
    for other in (pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer)):
        assert other.activation is layer.activation is mg.gelu
        assert (other(x).numpy() == layer(x).numpy()).all()


def test_a_pickle_imports_the_module_that_registers_the_op(tmp_path):
    (tmp_path / "my_ops.py").write_text(
        "from minigrad.engine.primitive import primitive\n"
        "@primitive\n"
        "def cube_of_mine(x):\n"
        "    return x**3\n"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])

    def run(code: str, given: bytes = b"") -> bytes:
        done = subprocess.run(
            [sys.executable, "-c", code], input=given, capture_output=True, timeout=120,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        assert not done.returncode, done.stderr.decode()
        return done.stdout

    written = run(
        "import sys, pickle, my_ops; sys.stdout.buffer.write(pickle.dumps(my_ops.cube_of_mine))"
    )
    read = "import sys, pickle; print(pickle.load(sys.stdin.buffer)(2.0))"
    assert run(read, written).strip() == b"8.0"


def test_an_op_that_is_not_registered_says_so():
    private = Primitive(lambda x: x, "private", ["x"])
    with pytest.raises(TypeError, match="pickled by their registered names"):
        pickle.dumps(private)
    assert copy.deepcopy(private) is private


def test_a_pickle_of_an_op_that_is_gone_says_which():
    @primitive
    def soon_gone(x):
        return x

    written = pickle.dumps(soon_gone)
    del op.__dict__["soon_gone"]
    with pytest.raises(LookupError, match="'soon_gone'"):
        pickle.loads(written)
