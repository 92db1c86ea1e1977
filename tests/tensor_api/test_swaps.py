"""What exchanges rows of a tensor does so, or is refused before it has lost one."""

import operator
import random

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.errors import InPlaceError


def rows(*shape):
    shape = shape or (6, 2)
    return mg.tensor(np.arange(np.prod(shape), dtype=float).reshape(shape))


SHUFFLES = {
    "Generator.shuffle": lambda t: np.random.default_rng(0).shuffle(t),
    "RandomState.shuffle": lambda t: np.random.RandomState(0).shuffle(t),
    "np.random.shuffle": lambda t: np.random.shuffle(t),
    "random.shuffle": lambda t: random.shuffle(t),
    "random.Random.shuffle": lambda t: random.Random(0).shuffle(t),
}


@pytest.mark.filterwarnings("ignore:you are shuffling a 'Tensor'")
@pytest.mark.parametrize("name", SHUFFLES)
@pytest.mark.parametrize(
    "make", [rows, lambda: rows(6, 2, 3), lambda: rows(6, 1), lambda: rows(8, 4)[2:, ::2],
             lambda: rows(2, 6).T, lambda: rows().astype("int8")],
)  # fmt: skip
def test_a_shuffle_of_rows_is_refused_with_what_to_write(name, make):
    t = make()
    before = t.tolist()
    with pytest.raises(
        InPlaceError, match=r"nothing is written.* x\[rng.permutation\(len\(x\)\)\]"
    ):
        SHUFFLES[name](t)
    assert t.tolist() == before


@pytest.mark.filterwarnings("ignore:you are shuffling a 'Tensor'")
@pytest.mark.parametrize("name", SHUFFLES)
def test_a_shuffle_of_numbers_keeps_them_all(name):
    t = rows(50)
    SHUFFLES[name](t)
    assert sorted(t.tolist()) == list(range(50)) != t.tolist()


def test_what_the_error_says_to_write_shuffles():
    t, rng = rows(), np.random.default_rng(0)
    t[...] = t[rng.permutation(len(t))]
    y = t[mg.randperm(len(t))]
    assert sorted(t.tolist()) == sorted(y.tolist()) == rows().tolist() != t.tolist()
    t = rows()
    t[[0, 1]] = t[[1, 0]]
    assert t.tolist() == rows()[[1, 0, 2, 3, 4, 5]].tolist()


def two(t):
    t[0], t[1] = t[1], t[0]


def three(t):
    t[0], t[1], t[2] = t[2], t[0], t[1]


def four(t):
    t[0], t[1], t[2], t[3] = t[2], t[0], t[3], t[1]


def slices(t):
    t[:3], t[3:] = t[3:], t[:3]


def columns(t):
    t[:, 0], t[:, 1] = t[:, 1], t[:, 0]


def by_variables(t):
    for i in range(5):
        t[i], t[i + 1] = t[i + 1], t[i]


@pytest.mark.parametrize("swap", [two, three, four, slices, columns, by_variables])
def test_an_exchange_in_one_statement_is_refused_before_it_has_written(swap):
    t = rows()
    with pytest.raises(InPlaceError, match=r"x\[\[i, j\]\] = x\[\[j, i\]\]"):
        swap(t)
    assert t.tolist() == rows().tolist()


def from_a_copy(t):
    t[0], t[1] = t[1], t[0].copy()


def beside_a_name(t):
    t[0], last = t[1], t[5]
    assert last.shape == (2,)


def between_two(t):
    other = t.copy()
    t[0], other[0] = other[1], t[0]


def one_after_the_other(t):
    kept = t[3]
    t[0] = t[1]
    t[1] = t[2]
    assert kept.shape == (2,)


def in_place(t):
    kept = t[0]
    t[0] += t[1]
    t[1] *= 2
    assert kept.shape == (2,)


def by_function(t):
    operator.setitem(t, 0, t[1])
    t.__setitem__(2, t[3])


def overlapping(t):
    t[1:] = t[:-1]
    t[:] = t[::-1]


@pytest.mark.parametrize(
    "write",
    [from_a_copy, beside_a_name, between_two, one_after_the_other, in_place, by_function,
     overlapping],
)  # fmt: skip
def test_other_writes_of_rows_are_numpys(write):
    t, array = rows(), rows().numpy().copy()
    write(t)
    write(array)
    assert t.tolist() == array.tolist()


NUMPYS = {  # what writes into its first argument
    "put": lambda a: np.put(a, [0, 3, -1], [7, 8]),
    "put, clipped": lambda a: np.put(a, [0, 100], [7, 8], mode="clip"),
    "place": lambda a: np.place(a, np.asarray(a) > 3, [1.5, 2.5, 3.5]),
    "putmask": lambda a: np.putmask(a, np.asarray(a) > 3, [1.5, 2.5, 3.5]),
    "copyto": lambda a: np.copyto(a, 7.0, where=np.asarray(a) > 3),
    "copyto itself": lambda a: np.copyto(a, a[::-1]),
    "fill_diagonal": lambda a: np.fill_diagonal(a, [7, 8]),
    "put_along_axis": lambda a: np.put_along_axis(a, np.zeros((1, 2), int), 7, axis=0),
}


@pytest.mark.parametrize("name", NUMPYS)
@pytest.mark.parametrize("make", [rows, lambda: rows(2, 6).T, lambda: rows(12, 4)[::2, ::2]])
def test_numpys_writing_functions_write_into_a_tensor(name, make):
    t = make()
    array = t.numpy().copy()
    NUMPYS[name](t)
    NUMPYS[name](array)
    assert t.tolist() == array.tolist()


@pytest.mark.parametrize(
    "write",
    [
        lambda a: np.put(a, [0], [300]),
        lambda a: np.place(a, np.ones(a.shape, bool), [300]),
        lambda a: np.putmask(a, np.ones(a.shape, bool), [300]),
        lambda a: np.fill_diagonal(a, 300),
        lambda a: np.copyto(a, 300),
    ],
)
def test_they_refuse_numbers_that_do_not_fit(write):
    for a in (mg.ones((3, 3), dtype="uint8"), np.ones((3, 3), "uint8")):
        with pytest.raises(OverflowError, match="out of bounds for uint8"):
            write(a)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: np.random.default_rng(0).permuted(t, axis=0, out=t),
        lambda t: np.random.default_rng(0).random(out=t),
        lambda t: np.add(t, 1, out=t),
        lambda t: np.cumsum(t, axis=0, out=t),
        lambda t: np.concatenate([t], out=t),
    ],
)
def test_a_tensor_as_out_is_refused_and_stays(call):
    t = rows()
    with pytest.raises((TypeError, ValueError), match="out"):
        call(t)
    assert t.tolist() == rows().tolist()


@pytest.mark.parametrize("seed", range(3))
def test_numpys_permutations_keep_every_row(seed):
    for rng in (np.random.default_rng(seed), np.random.RandomState(seed)):
        assert sorted(rng.permutation(rows()).tolist()) == rows().tolist()
    drawn = np.random.default_rng(seed).choice(rows(), 6, replace=False)
    assert sorted(drawn.tolist()) == rows().tolist()
