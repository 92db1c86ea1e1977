"""Tensors kept beyond the run of the transform that made them."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import minigrad as mg
from minigrad import func
from minigrad.errors import TransformError
from minigrad.func import levels

pytestmark = pytest.mark.promise(
    "a tensor kept beyond the run of the transform that made it is refused; the error names the fix"
)


def kept(transform):
    """What a function has put into a list while it was transformed."""
    found = []
    transform(lambda x: found.append(x * 2) or x.sum())
    return found[0]


def mapped(fn):
    return func.vmap(fn)(mg.ones(3, 2))


def pushed(fn):
    return func.jvp(fn, (mg.ones(2),), (mg.ones(2),))


def differentiated(fn):
    return func.grad(fn)(mg.ones(2))


def plainly(fn):
    return fn(mg.ones(2))


@pytest.mark.parametrize("transform", [mapped, pushed])
@pytest.mark.parametrize("later", [mapped, pushed, differentiated, plainly])
def test_a_tensor_kept_after_its_run_is_refused_with_what_to_do(transform, later):
    x = kept(transform)
    with pytest.raises(TransformError, match="mul: a tensor made inside vmap or jvp was kept"):
        later(lambda y: (x * y).sum())


USES = {
    "product": lambda x: x @ mg.ones(2, 2),
    "softmax": lambda x: mg.softmax(x),
    "copy": lambda x: x.copy(),
    "contiguous": lambda x: mg.contiguous(x),
    "unique": lambda x: mg.unique(x),
    "several results": lambda x: mg.modf(x),
    "factors": lambda x: mg.linalg.eigh(mg.stack([x, x])),
    "write": lambda x: x.__setitem__(0, 1.0),
    "write of it": lambda x: mg.zeros(2).__setitem__(0, x),
    "fill": lambda x: x.zero_(),
    "sum in place": lambda x: x.__iadd__(1.0),
}


@pytest.mark.parametrize("transform", [mapped, pushed])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_ops_of_arrays_refuse_it_with_the_same_words(transform, use):
    x = kept(transform)
    with pytest.raises(TransformError, match="a tensor made inside vmap or jvp was kept"):
        use(x)
    with pytest.raises(TransformError, match="a tensor made inside vmap or jvp was kept"):
        x * 1  # and it is what it was


@pytest.mark.skipif(
    not levels._OBJECTS_COUNT, reason="without the GIL a class does not tell how many it has left"
)
@pytest.mark.parametrize("transform", [mapped, pushed])
def test_a_run_that_leaves_nothing_behind_needs_no_class_of_its_own(transform):
    transform(lambda x: x * 2)
    before = {id(kind) for kind in levels._classes.made.values()}
    transform(lambda x: x * 2)
    assert {id(kind) for kind in levels._classes.made.values()} == before


def test_threads_that_map_at_once_do_not_end_each_others_runs():
    inside, results = threading.Barrier(2, timeout=10), []

    def work(waits):
        def fn(x):
            y = x * 2
            inside.wait()
            if waits:
                other.join(timeout=10)
            return y * 2

        results.append(float(func.vmap(fn)(mg.ones(3)).sum()))

    other = threading.Thread(target=work, args=(False,))
    one = threading.Thread(target=work, args=(True,))
    other.start()
    one.start()
    one.join(timeout=10)
    assert results == [12.0, 12.0]


def test_a_tensor_of_a_run_that_goes_on_is_used_by_a_function_inside():
    result = func.vmap(lambda x: func.vmap(lambda y: x * y)(mg.ones(2)))(mg.ones(3))
    assert result.shape == (3, 2)


def in_a_thread(fn):
    """fn, which runs in a thread of its own."""

    def run(*args):
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(fn, *args).result(timeout=10)

    return run


RUNNING = {
    "grad": lambda f, x: func.grad(f)(x),
    "vjp": lambda f, x: func.vjp(f, x),
    "jvp": lambda f, x: func.jvp(f, (x,), (x,)),
    "vmap": lambda f, x: func.vmap(f)(x),
    "nested": lambda f, x: func.vmap(func.grad(f))(x),
}


@pytest.mark.parametrize("transform", RUNNING.values(), ids=RUNNING)
@pytest.mark.parametrize("of", [mg.ones, np.ones])
@pytest.mark.parametrize(
    "use",
    [
        lambda x: (x * x).sum(),
        lambda x: func.grad(lambda y: (x * y).sum())(mg.ones(2)).sum(),
        lambda x: func.vmap(lambda y: (y * x).sum())(mg.ones((3, 2))).sum(),
        lambda x: func.jvp(lambda y: (y * x).sum(), (mg.ones(2),), (mg.ones(2),))[1],
    ],
    ids=["plainly", "in a grad", "in a vmap", "in a jvp"],
)
def test_a_tensor_of_a_run_that_goes_on_is_refused_in_another_thread(transform, of, use):
    with pytest.raises(TransformError, match="used in another thread than that in which"):
        transform(in_a_thread(use), of((2, 2)))
    assert func.grad(lambda x: (x * x).sum())(mg.ones(2)).tolist() == [2, 2]


def test_other_threads_compute_on_while_a_transform_runs():
    outside = mg.tensor([1.0, 2.0], requires_grad=True)

    def loss(x):
        (g,) = in_a_thread(lambda: mg.grad((outside**2).sum(), [outside]))()
        return (x * g).sum() + in_a_thread(func.grad(lambda y: y**3))(mg.tensor(2.0))

    assert func.grad(loss)(mg.ones(2)).tolist() == [2, 4]


def test_the_function_of_vjp_may_be_called_in_another_thread():
    _, vjp_fn = func.vjp(lambda x: x * x, mg.tensor([1.0, 2.0]))
    assert in_a_thread(vjp_fn)(mg.ones(2))[0].tolist() == [2, 4]
