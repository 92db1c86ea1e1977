"""Random tensors by likeness and by probability: shapes, moments, seeds, and what is refused."""

import numpy as np
import pytest

import minigrad as mg

P = mg.tensor([0.2, 0.0, 0.5, 0.3])


@pytest.mark.parametrize("draw", [mg.rand_like, mg.randn_like, lambda x: mg.randint_like(x, 5)])
def test_a_draw_like_x_has_its_shape_and_dtype_and_repeats_with_the_seed(draw):
    x = mg.zeros(3, 4, dtype="float32")
    mg.manual_seed(1)
    first = draw(x)
    mg.manual_seed(1)
    assert first.shape == x.shape and first.dtype == x.dtype
    np.testing.assert_array_equal(draw(x).numpy(), first.numpy())


@pytest.mark.parametrize(
    "draw",
    [mg.rand_like, mg.randn_like, lambda x, dtype: mg.randint_like(x, 5, dtype=dtype)],
    ids=["rand_like", "randn_like", "randint_like"],
)
def test_a_draw_like_x_may_have_another_dtype(draw):
    assert draw(mg.zeros(3, dtype="float32"), dtype=mg.float16).dtype == mg.float16


def test_a_permutation_holds_every_number_once():
    assert sorted(mg.randperm(20).tolist()) == list(range(20))


def test_frequencies_are_the_probabilities():
    mg.manual_seed(0)
    drawn = mg.multinomial(P, 20_000, replacement=True).numpy()
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / drawn.size, P.numpy(), atol=0.02)
    assert abs(mg.bernoulli(mg.full((20_000,), 0.3)).mean().item() - 0.3) < 0.02
    assert abs(mg.poisson(mg.full((20_000,), 3.0)).mean().item() - 3) < 0.1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("replacement", [True, False])
def test_weights_of_few_digits_are_drawn_by_as_exactly_as_longer_ones(dtype, replacement):
    p = mg.tensor(np.arange(1.0, 301.0) ** 2 % 61 + 1, dtype=dtype)
    draws = []
    for weights in (p, p.astype(np.float64)):
        mg.manual_seed(0)
        draws.append(mg.multinomial(weights, 300, replacement=replacement).tolist())
    assert draws[0] == draws[1]


def test_without_replacement_nothing_comes_twice_and_what_has_no_weight_never():
    rows = mg.multinomial(mg.stack([P, P]), 3)
    assert [sorted(row) for row in rows.tolist()] == [[0, 2, 3]] * 2


def test_a_normal_draw_is_differentiable_in_its_mean_and_scale():
    mean, std = mg.tensor([1.0, 2.0], requires_grad=True), mg.tensor([3.0, 4.0], requires_grad=True)
    y = mg.normal(mean, std)
    y.sum().backward()
    assert mean.grad.tolist() == [1, 1]
    np.testing.assert_allclose((mean + std * std.grad).detach().numpy(), y.detach().numpy())
    assert mg.normal(size=(2, 3)).shape == (2, 3)


def test_a_normal_draw_of_numbers_is_a_new_tensor_of_the_dtype_asked_for():
    w = mg.normal(0, 0.01, size=(2, 3), dtype=np.float32, requires_grad=True)
    assert w.shape == (2, 3) and w.dtype == np.float32 and w.is_leaf and w.requires_grad


def test_a_normal_draw_has_the_dtype_of_its_mean_and_no_other():
    mean = mg.zeros(2, dtype=np.float32)
    assert mg.normal(mean, 1.0).dtype == np.float32
    with pytest.raises(
        TypeError, match=r"leave dtype= and device= out, and cast the draw by y\.to\(dtype\)"
    ):
        mg.normal(mean, 1.0, dtype=np.float64)


def test_inside_vmap_the_policy_decides():
    x = mg.zeros(4, 3)
    different = mg.func.vmap(mg.rand_like, randomness="different")(x)
    same = mg.func.vmap(mg.rand_like, randomness="same")(x)
    assert (different[0] != different[1]).all() and (same[0] == same[1]).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mg.multinomial(P, 4), "4 samples without replacement, but .* only 3 weights"),
        (lambda: mg.multinomial(-P, 1), "weights of 0 or more, not all 0"),
        (lambda: mg.multinomial([1.0, np.inf, 1.0], 1), "a weight is infinite.* mg.softmax"),
        (lambda: mg.bernoulli([0.5, 1.5]), "probabilities between 0 and 1"),
        (lambda: mg.poisson([-1.0]), "negative numbers or NaN"),
    ],
)
def test_what_is_no_probability_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_uniform_numbers_stay_below_one_in_few_digits(dtype):
    mg.manual_seed(0)
    x = mg.rand(200_000, dtype=dtype)
    assert str(x.dtype) == dtype and 0.99 < float(x.max()) < 1


def test_the_state_of_a_gpu_that_has_not_drawn_waits_for_it():
    state = mg.get_rng_state()
    try:
        mg.set_rng_state(state | {"devices": {3: (12345, 7)}})
        assert mg.get_rng_state()["devices"][3] == (12345, 7)
        mg.manual_seed(0)
        assert 3 not in mg.get_rng_state()["devices"]
    finally:
        mg.set_rng_state(state)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_draws_have_two_parts_that_do_not_depend_on_each_other(dtype):
    mg.manual_seed(0)
    normal = mg.randn(100_000, dtype=dtype).numpy()
    uniform = mg.rand_like(mg.zeros(100_000, dtype=dtype)).numpy()
    assert normal.dtype == uniform.dtype == dtype
    assert np.mean(abs(normal) ** 2) == pytest.approx(1, abs=0.02)
    for part in (uniform.real, uniform.imag):
        assert part.min() >= 0 and part.max() < 1 and part.mean() == pytest.approx(0.5, abs=0.01)
    for x in (normal, uniform):
        assert abs(np.corrcoef(x.real, x.imag)[0, 1]) < 0.02


def test_complex_draws_differ_between_examples_or_are_the_same():
    mg.manual_seed(0)
    draw = lambda x: mg.randn(2, dtype="complex128") + x
    for randomness, several in (("different", 3), ("same", 1)):
        y = mg.func.vmap(draw, randomness=randomness)(mg.zeros(3)).numpy()
        assert y.dtype == "complex128" and len(np.unique(y[:, 0].imag)) == several


@pytest.mark.parametrize("shape", [(), (20,), (5, 5)])
def test_randint_takes_no_shape_for_a_bound(shape):
    with pytest.raises(TypeError, match=r"randint: low and high are one number each.*size="):
        mg.randint(10, shape)


@pytest.mark.parametrize("state", [None, 7, {"host": {}}, [1, 2]])
def test_what_is_no_state_of_the_generators_changes_none(state):
    before = mg.get_rng_state()
    with pytest.raises(TypeError, match=r"^set_rng_state takes a state from mg.get_rng_state"):
        mg.set_rng_state(state)
    assert mg.get_rng_state() == before
