"""Distances of all pairs of rows: the digits of their differences, however they are computed."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.ops import distances

RNG = np.random.default_rng(0)
inf, nan = np.inf, np.nan


def exact(a, b, g, p=2.0):
    """Distances and the gradients of Σ g y, from differences in long double."""
    a, b, g = (np.asarray(x).astype(np.longdouble) for x in (a, b, g))
    x = a[..., :, None, :] - b[..., None, :, :]
    y = (np.abs(x) ** p).sum(-1) ** (1 / np.longdouble(p))
    share = np.abs(x) / np.where(y == 0, 1, y)[..., None]
    h = g[..., None] * np.sign(x) * share ** (p - 1)
    return y, h.sum(-2), -h.sum(-3)


def found(a, b, g, p=2.0):
    a, b = (mg.tensor(x, requires_grad=True) for x in (a, b))
    y = mg.cdist(a, b, p)
    return [x.numpy() for x in (y.detach(), *mg.grad(y, (a, b), g))]


def agree(a, b, g, p=2.0, ulps=8):
    """Each number within a few units in the last place of the size of what it sums."""
    y, *gradients = exact(a, b, g, p)
    eps = np.finfo(a.dtype).eps
    ours, *our_gradients = found(a, b, g, p)
    np.testing.assert_allclose(ours, y.astype(float), rtol=ulps * eps)
    for h, e, axis in zip(our_gradients, gradients, (-1, -2), strict=True):
        size = np.abs(g).astype(float).sum(axis)[..., None]
        assert (np.abs(h - e) <= ulps * eps * size).all()


def rows(shape, dtype, shift=0.0):
    return (RNG.standard_normal(shape) + shift).astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("distance", [1e-2, 1e-4, 1e-6])
def test_near_rows_keep_the_digits_of_their_differences(dtype, distance):
    a = rows((12, 40), dtype)
    b = rows((16, 40), dtype)
    b[3:6] = a[1:4] + distance * RNG.standard_normal((3, 40)).astype(dtype)  # a few are near
    agree(a, b, rows((12, 16), dtype))
    agree(b, b + dtype_of(distance, dtype), rows((16, 16), dtype))


def dtype_of(x, dtype):
    return np.dtype(dtype).type(x)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rows_far_from_the_origin_keep_the_digits_of_their_differences(dtype):
    """|a|² is 10⁸ times the squares of the distances of them all."""
    agree(rows((12, 30), dtype, 1e4), rows((9, 30), dtype, 1e4), rows((12, 9), dtype))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rows_with_themselves_have_distance_and_gradient_zero(dtype):
    a = rows((20, 30), dtype)
    agree(a, a.copy(), rows((20, 20), dtype))
    y, ga, _ = found(a, a.copy(), np.eye(20, dtype=dtype))
    assert (np.diagonal(y) == 0).all() and (ga == 0).all()


@pytest.mark.parametrize("p", [1, 2, 3.0])
def test_no_bit_depends_on_the_number_of_threads(p):
    a, b = rows((700, 6), "float32"), rows((500, 6), "float32")
    g, before = rows((700, 500), "float32"), mg.get_num_threads()
    results = []
    try:
        for count in (1, 2, 4):
            mg.set_num_threads(count)
            results.append([x.tobytes() for x in found(a, b, g, p)])
    finally:
        mg.set_num_threads(before)
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("p", [1, 0.5, 1.5, 3.0])
def test_other_norms_are_those_of_the_differences(p):
    a, b = rows((6, 4), "float64"), rows((5, 4), "float64")
    a[0] = b[1]
    a[1, 2] = b[2, 2]
    g = rows((6, 5), "float64")

    def plain(a, b):
        return mg.linalg.vector_norm(a[:, None] - b[None], axis=-1, ord=p)

    ta, tb = (mg.tensor(x, requires_grad=True) for x in (a, b))
    y = plain(ta, tb)
    expected = [y.detach().numpy(), *[x.numpy() for x in mg.grad(y, (ta, tb), g)]]
    for x, e in zip(found(a, b, g, p), expected, strict=True):
        np.testing.assert_allclose(x, e, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("value", [inf, -inf, nan])
def test_rows_with_infinities_and_nan_change_no_other_distance(value):
    a, b = rows((8, 5), "float64"), rows((9, 5), "float64")
    a[2, 3] = b[4, 3] = value
    with np.errstate(invalid="ignore"):
        y = np.sqrt(((a[:, None] - b[None]) ** 2).sum(-1))
    np.testing.assert_allclose(mg.cdist(a, b), y, rtol=1e-14)


def test_squares_beyond_the_largest_number_are_no_distance_beyond_it():
    y = mg.cdist(np.array([[1e200, 1.0]]), np.array([[1e200, 3.0], [1e200, 1.0]]))
    np.testing.assert_array_equal(y, [[2.0, 0.0]])
    y = mg.cdist(np.array([[3e30, 0]], "float32"), np.array([[0, 4e30]], "float32"))
    np.testing.assert_allclose(y, [[5e30]], rtol=1e-6)


def test_an_infinite_cotangent_stays_with_its_pair():
    a, b, g = rows((4, 3), "float64"), rows((5, 3), "float64"), np.ones((4, 5))
    g[1, 2] = inf
    _, ga, gb = found(a, b, g)
    np.testing.assert_array_equal(ga[1], inf * np.sign(a[1] - b[2]))
    np.testing.assert_array_equal(gb[2], inf * np.sign(b[2] - a[1]))
    assert np.isfinite(np.delete(ga, 1, 0)).all() and np.isfinite(np.delete(gb, 2, 0)).all()


def test_whole_numbers_are_subtracted_as_numbers():
    y = mg.cdist(np.array([[1, 2]], np.uint8), np.array([[4, 6]], np.uint8))
    np.testing.assert_array_equal(y, [[5.0]])
    np.testing.assert_array_equal(distances.row_distances(np.array([[1, 2]]), [[2, 1]]), [[2**0.5]])


def test_complex_rows_have_the_distances_of_their_differences():
    a, b = rows((3, 4), "complex128") + 1j, rows((2, 4), "complex128")
    expected = np.sqrt((np.abs(a[:, None] - b[None]) ** 2).sum(-1))
    np.testing.assert_allclose(mg.cdist(a, b), expected, rtol=1e-14)
    with pytest.raises(TypeError, match=r"needs real rows, got complex128"):
        distances.row_distances(a, b)


def test_examples_of_either_input_are_mapped():
    a, b = rows((3, 2, 4, 5), "float64"), rows((6, 5), "float64")
    mapped = mg.func.vmap(mg.cdist, in_dims=(0, None))(mg.tensor(a), mg.tensor(b))
    np.testing.assert_allclose(mapped.numpy(), mg.cdist(a, b))
    other = rows((3, 6, 5), "float64")  # one axis fewer in each example
    mapped = mg.func.vmap(mg.cdist)(mg.tensor(a), mg.tensor(other))
    np.testing.assert_allclose(mapped.numpy(), mg.cdist(a, other[:, None]))


def test_no_rows_and_rows_of_nothing():
    for shape, other in (((0, 3), (2, 3)), ((2, 3), (0, 3)), ((2, 0), (3, 0)), ((0, 2, 3), (4, 3))):
        a, b = (mg.tensor(np.ones(s), requires_grad=True) for s in (shape, other))
        y = mg.cdist(a, b)
        y.sum().backward()
        assert (
            (y.numpy() == 0).all() and (a.grad.numpy() == 0).all() and (b.grad.numpy() == 0).all()
        )


@pytest.mark.parametrize(
    "distances_of", [lambda x: mg.cdist(x, x + 1, p=0), lambda x: mg.pdist(x, p=0)]
)
def test_how_many_entries_differ_has_gradient_zero(distances_of):
    x = mg.tensor(np.eye(2), requires_grad=True)
    assert not mg.grad(distances_of(x).sum(), x).numpy().any()


def test_rows_next_to_each_other_at_the_end_of_float32_have_finite_slopes():
    a = mg.tensor(np.array([[3e-40, -4e-40, 0]], "float32"), requires_grad=True)
    y = mg.cdist(a, mg.zeros((1, 3), dtype="float32"))
    np.testing.assert_allclose(mg.grad(y.sum(), a).numpy(), [[0.6, -0.8, 0]], rtol=1e-5)
