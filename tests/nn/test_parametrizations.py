"""nn.utils.parametrizations: weights that stay orthogonal, weights divided by a norm of theirs."""

import copy

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim
from minigrad.nn.utils import parametrize
from minigrad.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm

MAPS = ["matrix_exp", "cayley", "householder"]
SIZES = [(4, 4), (5, 3), (3, 5)]


def layer_of(rows, columns, *args, **kwargs):
    return orthogonal(nn.Linear(columns, rows).double(), "weight", *args, **kwargs)


def distance_from_orthogonal(w):
    w = w.numpy() if w.shape[-2] >= w.shape[-1] else np.swapaxes(w.numpy(), -1, -2)
    return np.abs(np.swapaxes(w, -1, -2) @ w - np.eye(w.shape[-1])).max()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("how", MAPS)
@pytest.mark.parametrize("from_base", [True, False])
def test_a_weight_is_orthogonal_and_stays_so_while_it_is_learned(size, how, from_base):
    layer = layer_of(*size, how, use_trivialization=from_base)
    x, first = mg.ones((2, size[1])), layer.weight.numpy()
    steps = optim.SGD(layer.parameters(), 0.01)
    for _ in range(3):
        assert distance_from_orthogonal(layer.weight) < 1e-12
        steps.zero_grad()
        (layer(x) ** 4).sum().backward()
        steps.step()
    assert np.abs(layer.weight.numpy() - first).max() > 1e-3


@pytest.mark.parametrize("size", SIZES)
def test_it_begins_with_an_orthogonal_weight_as_it_was_and_takes_another(size):
    layer = nn.Linear(size[1], size[0]).double()
    nn.init.orthogonal_(layer.weight)
    before = layer.weight.numpy().copy()
    orthogonal(layer)
    np.testing.assert_allclose(layer.weight.numpy(), before, atol=1e-12)
    layer.weight = -before
    np.testing.assert_allclose(layer.weight.numpy(), -before, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("how", MAPS)
def test_states_and_gradients_are_pytorchs(size, how):
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Linear(size[1], size[0]).double()
    torch.nn.utils.parametrizations.orthogonal(theirs, orthogonal_map=how)
    with torch.no_grad():
        original = theirs.parametrizations.weight.original
        below = torch.randn(size[::-1] if size[0] < size[1] else size).double().tril(-1)
        original += below.T if size[0] < size[1] else below
    ours = layer_of(*size, how)
    ours.load_state_dict(theirs.state_dict())
    np.testing.assert_allclose(ours.weight.numpy(), theirs.weight.detach().numpy(), atol=1e-12)
    x = np.arange(2.0 * size[1]).reshape(2, -1)
    (ours(mg.tensor(x)) ** 3).sum().backward()
    (theirs(torch.tensor(x)) ** 3).sum().backward()
    grads = (rows.parametrizations.weight.original.grad for rows in (ours, theirs))
    np.testing.assert_allclose(*(g.numpy() for g in grads), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [*SIZES, (4, 1), (1, 1), (2, 5, 3), (2, 3, 5)])
@pytest.mark.parametrize("from_base", [True, False])
def test_reflections_begin_where_pytorchs_do_and_take_another_weight(size, from_base):
    torch = pytest.importorskip("torch")

    class Ours(nn.Module):
        def __init__(self, w):
            self.w = nn.Parameter(mg.tensor(w))

    w = np.random.default_rng(1).standard_normal((2, *size))
    ours, theirs = Ours(w[0]), torch.nn.Module()
    theirs.w = torch.nn.Parameter(torch.tensor(w[0]))
    how = {"orthogonal_map": "householder", "use_trivialization": from_base}
    orthogonal(ours, "w", **how)
    torch.nn.utils.parametrizations.orthogonal(theirs, "w", **how)
    np.testing.assert_allclose(ours.w.detach(), theirs.w.detach().numpy(), atol=1e-12)
    q = np.linalg.qr(w[1] if size[-2] >= size[-1] else w[1].swapaxes(-1, -2))[0]
    q = q if size[-2] >= size[-1] else q.swapaxes(-1, -2)
    ours.w = q
    np.testing.assert_allclose(ours.w.detach(), q, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_matrices_that_are_not_square_are_made_of_reflections_as_pytorch_does(size):
    how = layer_of(*size).parametrizations.weight[0].orthogonal_map
    assert how == ("matrix_exp" if size == (4, 4) else "householder")


@pytest.mark.parametrize("how", ["matrix_exp", "cayley"])
def test_without_a_base_nothing_can_be_assigned(how):
    layer = layer_of(3, 3, how, use_trivialization=False)
    with pytest.raises(
        RuntimeError, match="has no right_inverse, so its result cannot be assigned"
    ):
        layer.weight = np.eye(3)


@pytest.mark.parametrize("how", ["matrix_exp", "householder"])
def test_a_matrix_of_another_shape_cannot_be_assigned_to_an_orthogonal_weight(how):
    layer = layer_of(4, 3, how)
    with pytest.raises(ValueError, match=r"the shape of the weight, \(4, 3\); got \(5, 5\)"):
        layer.weight = np.eye(5)
    assert layer.weight.shape == (4, 3)


def test_complex_matrices_and_batches_of_them_are_made_orthogonal():
    class Holder(nn.Module):
        def __init__(self, value):
            self.w = nn.Parameter(value)

    draw = np.random.default_rng(0).standard_normal
    w = orthogonal(Holder(mg.tensor(draw((2, 4, 3)))), "w").w
    assert w.shape == (2, 4, 3) and distance_from_orthogonal(w) < 1e-12
    w = orthogonal(Holder(mg.tensor(draw((3, 3)) + 1j * draw((3, 3)))), "w").w.numpy()
    np.testing.assert_allclose(w.conj().T @ w, np.eye(3), atol=1e-12)


def test_a_copy_is_learned_by_itself_and_a_removed_one_keeps_its_value():
    layer = layer_of(3, 3)
    twin = copy.deepcopy(layer)
    twin.weight = -layer.weight.detach()
    kept = layer.weight.numpy()
    np.testing.assert_allclose(twin.weight.numpy(), -kept, atol=1e-12)
    parametrize.remove_parametrizations(layer, "weight")
    np.testing.assert_array_equal(layer.weight.numpy(), kept)


def test_reflections_are_for_real_matrices():
    layer = nn.Linear(3, 3)
    layer.weight = nn.Parameter(mg.tensor(np.eye(3, dtype=complex)))
    with pytest.raises(ValueError, match="'householder' is for real matrices, and weight is compl"):
        orthogonal(layer, orthogonal_map="householder")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("bias",), r"orthogonal: needs a matrix, .* got shape \(3,\)"),
        (("w",), "orthogonal: Linear has no parameter 'w'"),
        (
            ("weight", "qr"),
            "orthogonal_map is 'matrix_exp', 'cayley' or 'householder', got 'qr'",
        ),
    ],
)
def test_what_cannot_be_orthogonal_is_refused(args, said):
    layer = nn.Linear(3, 3)
    with pytest.raises(ValueError, match=said):
        orthogonal(layer, *args)
    assert type(layer) is nn.Linear


# -- divided by a norm --------------------------------------------------------------------------

NORMS = [
    ("weight_norm", {}),
    ("weight_norm", {"dim": 1}),
    ("weight_norm", {"dim": None}),
    ("weight_norm", {"name": "bias"}),
    ("spectral_norm", {}),
    ("spectral_norm", {"dim": -1, "n_power_iterations": 3}),
    ("spectral_norm", {"name": "bias", "dim": 0}),
]
MADE = {"weight_norm": weight_norm, "spectral_norm": spectral_norm}


@pytest.mark.parametrize("kind", ["Conv2d", "ConvTranspose2d"])
@pytest.mark.parametrize(("norm", "how"), NORMS)
def test_norms_have_pytorchs_states_values_and_gradients(norm, how, kind):
    torch = pytest.importorskip("torch")
    ours, theirs = (getattr(lib, kind)(3, 4, 3).double() for lib in (nn, torch.nn))
    MADE[norm](ours, **how)
    getattr(torch.nn.utils.parametrizations, norm)(theirs, **how)
    shapes = {key: tuple(x.shape) for key, x in theirs.state_dict().items()}
    assert {key: x.shape for key, x in ours.state_dict().items()} == shapes
    ours.load_state_dict(theirs.state_dict())
    x = np.random.default_rng(2).standard_normal((2, 3, 6, 6))
    for training in (True, False, True):
        ys = []
        for layer, tensor in ((ours, mg.tensor), (theirs, torch.tensor)):
            layer.train(training).zero_grad()
            ys.append(layer(tensor(x)))
            (ys[-1] ** 3).sum().backward()
        np.testing.assert_allclose(*[y.detach().numpy() for y in ys], rtol=1e-9, atol=1e-11)
        for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
            np.testing.assert_allclose(p.grad, q.grad.numpy(), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(("norm", "how"), NORMS)
def test_a_norm_can_be_copied_and_taken_away(norm, how):
    layer = MADE[norm](nn.Conv1d(3, 4, 2).eval(), **how)
    x, name = mg.ones((2, 3, 5)), how.get("name", "weight")
    y = layer(x).detach().numpy()
    np.testing.assert_array_equal(copy.deepcopy(layer)(x).detach(), y)
    parametrize.remove_parametrizations(layer, name)
    np.testing.assert_array_equal(layer(x).detach(), y)
    assert type(layer) is nn.Conv1d and sorted(layer.state_dict()) == ["bias", "weight"]


def test_a_weight_that_is_assigned_has_its_norm_in_original0():
    layer = weight_norm(nn.Linear(2, 2))
    layer.weight = [[3.0, 4.0], [0.0, 2.0]]
    np.testing.assert_allclose(layer.weight.detach(), [[3, 4], [0, 2]], rtol=1e-6)
    np.testing.assert_allclose(layer.parametrizations.weight.original0.detach(), [[5], [2]])


def test_states_of_the_older_weight_norm_are_taken_also_inside_a_model():
    old, new = nn.utils.weight_norm(nn.Linear(3, 2)), weight_norm(nn.Linear(3, 2))
    nn.Sequential(nn.ReLU(), new).load_state_dict(nn.Sequential(nn.ReLU(), old).state_dict())
    np.testing.assert_array_equal(new.weight.detach(), old.weight.detach())


def test_the_largest_singular_value_comes_to_one_in_training_and_stays_in_evaluation():
    layer = spectral_norm(nn.Linear(20, 10).double())
    for _ in range(300):
        layer.weight  # noqa: B018 (each reading is an iteration)
    assert np.isclose(np.linalg.norm(layer.weight.detach().numpy(), 2), 1)
    layer.eval()
    before = layer.weight.detach().numpy().copy()
    np.testing.assert_array_equal(layer.weight.detach(), before)


@pytest.mark.parametrize(
    ("kind", "how", "said"),
    [
        (ValueError, {"name": "w"}, "Linear has no parameter 'w'"),
        (ValueError, {"n_power_iterations": 0}, "must be 1 or more"),
        (IndexError, {"dim": 2}, r"dim=2 is not an axis of weight \(3, 3\)"),
    ],
)
def test_what_has_no_spectral_norm_is_refused(kind, how, said):
    with pytest.raises(kind, match=said):
        spectral_norm(nn.Linear(3, 3), **how)


# -- the axis of a norm -------------------------------------------------------------------------

OLDER = {"weight_norm": nn.utils.weight_norm, "spectral_norm": nn.utils.spectral_norm}


@pytest.mark.parametrize("made", [MADE, OLDER], ids=["parametrized", "older"])
@pytest.mark.parametrize("norm", list(MADE))
@pytest.mark.parametrize("dim", [3, -4])
def test_an_axis_that_the_weight_has_not_is_named(norm, made, dim):
    layer = nn.Conv1d(3, 4, 2)
    with pytest.raises(
        IndexError, match=rf"{norm}: dim={dim} is not an axis of weight \(4, 3, 2\)"
    ):
        made[norm](layer, dim=dim)
    assert sorted(layer.state_dict()) == ["bias", "weight"]


@pytest.mark.parametrize("made", [weight_norm, nn.utils.weight_norm])
def test_an_axis_below_zero_is_counted_from_the_end(made):
    layer = made(nn.Conv1d(3, 4, 2), dim=-1)
    assert next(p for p in layer.parameters() if p.ndim == 3 and p.size == 2).shape == (1, 1, 2)


@pytest.mark.parametrize("made", [weight_norm, nn.utils.weight_norm])
def test_the_norm_of_a_complex_weight_is_real(made):
    layer = made(nn.Linear(3, 2, dtype=mg.complex128))
    weight = layer.weight.detach().numpy()
    lengths = np.linalg.norm(weight, axis=1, keepdims=True)
    g = next(p for p in layer.parameters() if p.shape == (2, 1))
    assert g.dtype == np.float64
    np.testing.assert_allclose(g.detach(), lengths)
    g.data[...] = 1
    np.testing.assert_allclose(layer.weight.detach(), weight / lengths)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_spectral_norm_of_16_bits_is_that_of_float32_but_for_rounding(dtype):
    weight = np.random.default_rng(0).standard_normal((40, 600))
    layer = nn.Linear(600, 40, bias=False, dtype=dtype)
    layer.weight = nn.Parameter(mg.tensor(weight, dtype=dtype))
    spectral_norm(layer, n_power_iterations=50)
    assert str(layer.weight.dtype) == dtype
    largest = np.linalg.norm(layer.weight.detach().astype("float32").numpy(), 2)
    assert largest == pytest.approx(1, abs=0.02)


def test_orthogonal_of_bfloat16_says_that_linear_algebra_needs_more_bits():
    layer = nn.Linear(3, 2, bias=False, dtype="bfloat16")
    with pytest.raises(TypeError, match="no linear algebra in bfloat16.*float32"):
        orthogonal(layer)
