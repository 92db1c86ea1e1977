"""A number that does not fit an integer dtype is an error wherever a dtype is asked for."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad as mg
import minigrad.array_api as xp
import minigrad.nn.functional as F
from minigrad.backends.philox import DeviceGenerator, _scaled

DTYPES = "uint8 int8 uint16 int16 int32 uint32 int64 uint64".split()
MASK = np.array([True, False, True])
FIRST = mg.tensor([0])


def held(dtype):
    """A tensor to write into."""
    return mg.ones(3, dtype=dtype)


def written(dtype, index, value):
    x = held(dtype)
    x[index] = value
    return x


MAKERS = {  # from a number and a dtype, how a tensor comes to hold the number
    "tensor": lambda v, t: mg.tensor(v, dtype=t),
    "tensor of a list": lambda v, t: mg.tensor([[0, v]], dtype=t),
    "tensor of NumPy's number": lambda v, t: mg.tensor([np.asarray(v)[()]], dtype=t),
    "as_tensor": lambda v, t: mg.as_tensor([v], dtype=t),
    "asarray": lambda v, t: xp.asarray([v], dtype=t),
    "full": lambda v, t: mg.full(2, v, dtype=t),
    "full of the standard": lambda v, t: xp.full(2, v, dtype=t),
    "full_like": lambda v, t: mg.full_like(held(t), v),
    "np.full_like": lambda v, t: np.full_like(held(t), v),
    "full_like with a dtype": lambda v, t: mg.full_like(mg.ones(2), v, dtype=t),
    "fill_": lambda v, t: held(t).fill_(v),
    "copy_": lambda v, t: held(t).copy_([v, v, v]),
    "x[i] = v": lambda v, t: written(t, 0, v),
    "x[mask] = v": lambda v, t: written(t, MASK, v),
    "x[...] = [v]": lambda v, t: written(t, ..., [v]),
    "setitem": lambda v, t: mg.setitem(held(t), v, index=0),
    "index_put": lambda v, t: mg.index_put(held(t), (FIRST,), v),
    "index_fill": lambda v, t: mg.index_fill(held(t), 0, [0], v),
    "index_copy": lambda v, t: mg.index_copy(held(t), 0, FIRST, [v]),
    "scatter": lambda v, t: mg.scatter(held(t), 0, FIRST, v),
    "masked_scatter": lambda v, t: mg.masked_scatter(held(t), MASK, [v, v]),
    "put_along_axis": lambda v, t: mg.put_along_axis(held(t), FIRST, v, axis=0),
    "pad": lambda v, t: mg.pad(held(t), 1, constant_values=v),
    "constant_": lambda v, t: mg.nn.init.constant_(held(t), v),
    "linspace": lambda v, t: mg.linspace(v, v, 2, dtype=t),
}
AMONG = {  # where a Python integer stands beside an array, and a float makes floats
    "where": lambda v, t: mg.where(MASK, held(t), v),
    "where, the other way": lambda v, t: mg.where(MASK, v, held(t)),
    "masked_fill": lambda v, t: mg.masked_fill(held(t), MASK, v),
    "add": lambda v, t: held(t) + v,
    "maximum": lambda v, t: mg.maximum(held(t), v),
    "select": lambda v, t: mg.select([MASK], [held(t)], v),
    "insert": lambda v, t: mg.insert(held(t), 0, v),
    "fuse": lambda v, t: mg.fuse(lambda a: mg.where(a > 1, a, v))(held(t)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*MAKERS, *AMONG])
def test_a_number_beyond_the_dtype_is_an_error(name, dtype):
    limits = np.iinfo(dtype)
    for number in (int(limits.max) + 1, int(limits.min) - 1, 2**70):
        with pytest.raises((OverflowError, TypeError)):  # TypeError: NumPy has no integer as large
            (MAKERS | AMONG)[name](number, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [name for name in MAKERS if name != "linspace"])
def test_the_ends_of_the_dtype_fit(name, dtype):
    for end in (int(np.iinfo(dtype).max), int(np.iinfo(dtype).min)):
        y = MAKERS[name](end, dtype)
        assert y.dtype == dtype and end in y.reshape(-1).tolist()


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.filterwarnings("error")
def test_nan_and_infinity_are_no_integers(name):
    for dtype in ("uint8", "int64"):
        with pytest.raises(ValueError, match="NaN"):
            MAKERS[name](math.nan, dtype)
        if name != "linspace":  # NumPy warns of inf − inf
            with pytest.raises(OverflowError):
                MAKERS[name](math.inf, dtype)


@pytest.mark.parametrize("name", MAKERS)
def test_what_becomes_true_or_false_need_not_fit(name):
    assert MAKERS[name](300, bool).dtype == bool


@given(
    st.integers(-300, 600), st.integers(-300, 600), st.sampled_from([1, -1, 2, 7, -50, 0.5, 2.5]),
    st.sampled_from(["uint8", "int8"]),
)  # fmt: skip
def test_arange_holds_its_numbers_or_is_an_error(start, stop, step, dtype):
    whole = np.arange(start, stop, step)
    limits = np.iinfo(dtype)
    kept = np.trunc(whole)
    if ((kept < limits.min) | (kept > limits.max)).any():
        with pytest.raises(OverflowError):
            mg.arange(start, stop, step, dtype=dtype)
        return
    try:
        expected = np.arange(start, stop, step, dtype=dtype)
    except OverflowError:  # NumPy's own, of a stop that is not reached
        return
    assert mg.arange(start, stop, step, dtype=dtype).tolist() == expected.tolist()


def test_evenly_spaced_numbers_hold_or_are_an_error():
    assert mg.linspace(0, 256, 256, endpoint=False, dtype="uint8").tolist() == [*range(256)]
    for tensor in (False, True):
        start = mg.tensor(0.0) if tensor else 0
        for stop in (256, -1, 300.5):
            with pytest.raises(OverflowError, match="out of bounds for uint8"):
                mg.linspace(start, stop, 3, dtype="uint8")
    with pytest.raises(OverflowError, match="1000 is out of bounds"):
        np.geomspace(mg.tensor(1.0), 1000, 4, dtype="uint8")
    with pytest.raises(OverflowError, match="1000 is out of bounds"):
        np.logspace(mg.tensor(0.0), 3, 4, dtype="uint8")


def test_arrays_are_cast_as_numpy_casts_them():
    for x in (np.array([300, -1]), mg.tensor([300, -1])):
        assert mg.tensor(x, dtype="uint8").tolist() == [44, 255]
        assert mg.as_tensor(x, dtype="uint8").tolist() == [44, 255]
        assert mg.as_tensor(x).astype("uint8").tolist() == [44, 255]
        assert mg.as_tensor(x).to("uint8").tolist() == [44, 255]


def test_numbers_among_floats_keep_all_their_digits():
    assert mg.tensor([2**62 + 1, 1.5], dtype="int64").tolist() == [2**62 + 1, 1]
    assert mg.tensor(2**64 - 1, dtype="uint64").item() == 2**64 - 1


# -- draws -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*DTYPES, "bool"])
def test_a_range_beyond_the_dtype_cannot_be_drawn_from(dtype):
    least, most = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    for low, high in ((int(least) - 1, 1), (0, int(most) + 2), (0, 2**70)):
        with pytest.raises(ValueError, match="randint: .* holds the integers from"):
            mg.randint(low, high, (3,), dtype=dtype)
        with pytest.raises(ValueError, match="holds the integers from"):
            mg.randint_like(mg.ones(3, dtype=dtype), low, high)
    y = mg.randint(int(least), int(most) + 1, (50,), dtype=dtype)
    assert y.dtype == dtype and len({*y.tolist()}) > (1 if dtype == "bool" else 10)


def test_floats_hold_integers_up_to_their_digits():
    for dtype, most in (("float16", 2**11), ("float32", 2**24), ("float64", 2**53)):
        assert mg.randint(most, most + 1, (), dtype=dtype).item() == most
        with pytest.raises(ValueError, match=f"{dtype} holds the integers"):
            mg.randint(0, most + 2, (3,), dtype=dtype)


def test_uint64_is_drawn_from_the_whole_of_its_range():
    mg.manual_seed(0)
    y = mg.randint(0, 2**64 - 1, (4000,), dtype="uint64").numpy()
    counts = np.bincount((y >> np.uint64(61)).astype(int), minlength=8)
    assert counts.min() > 400 and counts.max() < 600  # 500 each, a deviation is 21
    assert mg.randint(2**64 - 1, 2**64, (), dtype="uint64").item() == 2**64 - 1


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "float64"])
def test_the_numbers_are_those_of_int64_in_every_dtype(dtype):
    mg.manual_seed(3)
    expected = np.random.default_rng(3).integers(0, 100, 20)
    assert mg.randint(0, 100, (20,), dtype=dtype).tolist() == expected.tolist()


def test_an_order_that_the_dtype_does_not_hold_is_an_error():
    assert sorted(mg.randperm(256, dtype="uint8").tolist()) == [*range(256)]
    for n, dtype in ((257, "uint8"), (129, "int8"), (3, "bool"), (2050, "float16")):
        with pytest.raises(ValueError, match=f"randperm: {dtype} holds integers to"):
            mg.randperm(n, dtype=dtype)


def test_counts_that_do_not_fit_the_rate_are_an_error():
    with pytest.raises(OverflowError, match="out of bounds for int8"):
        mg.poisson(mg.full((1000,), 120, dtype="int8"))


@given(st.integers(0, 2**64 - 1), st.integers(1, 2**64))
def test_a_gpus_wide_ranges_are_the_product_of_whole_numbers(word, span):
    high, low = np.array([word >> 32], np.uint64), np.array([word & 0xFFFFFFFF], np.uint64)
    assert int(_scaled(high, low, span)[0]) == word * span >> 64


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [(0, 2**64, "uint64"), (2**63, 2**64, "uint64"), (-(2**63), 2**63, "int64"), (-5, 6, "int64")],
)
def test_a_gpus_generator_covers_its_range(low, high, dtype):
    y = DeviceGenerator(np, 0).integers(low, high, (4000,), dtype=dtype)
    assert y.dtype == dtype and low <= int(y.min()) and int(y.max()) < high
    middle = np.asarray((low + high) // 2, dtype)
    assert 0.4 < (y < middle).mean() < 0.6


def test_labels_of_eight_bits_name_more_classes_than_they_hold():
    y = F.one_hot(mg.tensor([255, 1], dtype="uint8"), 300)
    assert y.shape == (2, 300) and y.argmax(1).tolist() == [255, 1]
