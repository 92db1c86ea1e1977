"""Clipping, parameters as a vector, and weights in another form: PyTorch's numbers."""

import copy

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.nn import utils

rng = np.random.default_rng(0)


def leaves(grads):
    found = [mg.tensor(np.zeros_like(g), requires_grad=True) for g in grads]
    for p, g in zip(found, grads, strict=True):
        p.grad = mg.tensor(g)
    return found


@pytest.mark.parametrize("norm_type", [0.5, 1.0, 2.0, 3.0, np.inf, -np.inf, "inf"])
@pytest.mark.parametrize("max_norm", [0.5, 100.0])
def test_clipping_by_the_norm_equals_pytorchs(norm_type, max_norm):
    torch = pytest.importorskip("torch")
    grads = [rng.standard_normal(s) for s in ((3, 4), (5,))]
    ours, theirs = leaves(grads), [torch.zeros(g.shape, dtype=torch.float64) for g in grads]
    for p, g in zip(theirs, grads, strict=True):
        p.grad = torch.tensor(g)
    total = utils.clip_grad_norm_(ours, max_norm, norm_type)
    expected = torch.nn.utils.clip_grad_norm_(theirs, max_norm, norm_type)
    assert np.isclose(total.item(), expected.item(), rtol=1e-12)
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-12)


def test_half_precision_gradients_are_summed_in_float32():
    (p,) = leaves([np.full(70_000, 1.0, np.float16)])
    assert np.isclose(utils.clip_grad_norm_(p, 1.0).item(), 70_000**0.5)
    assert p.grad.dtype == np.float16


@pytest.mark.parametrize("norm_type", [1.0, 2.0, np.inf])
@pytest.mark.parametrize("wrong", [np.inf, np.nan])
def test_a_norm_that_is_no_number_is_an_error_when_asked(wrong, norm_type):
    params = leaves([np.array([2.0, 1.0]), np.array([wrong, 1.0])])
    with pytest.raises(RuntimeError, match=f"norm of the gradients is {wrong}.*detect_anomaly"):
        utils.clip_grad_norm_(params, 1.0, norm_type, error_if_nonfinite=True)


@pytest.mark.parametrize("norm_type", [2.0, np.inf, -np.inf])
def test_a_gradient_without_elements_has_no_share_in_the_norm(norm_type):
    assert utils.get_total_norm([mg.zeros(0), mg.tensor([3.0])], norm_type) == 3


def test_pytorchs_choice_of_an_implementation_changes_nothing():
    (p,) = leaves([np.array([3.0, 4.0])])
    assert nn.utils.clip_grad_norm_([p], 1.0, foreach=True).item() == 5
    nn.utils.clip_grad_value_([p], 0.5, foreach=False)
    np.testing.assert_allclose(p.grad.numpy(), [0.5, 0.5])


def test_clipping_by_value_cuts_each_element():
    (p,) = leaves([np.array([-3.0, 0.5, 2.0])])
    utils.clip_grad_value_(p, 1.0)
    assert p.grad.tolist() == [-1, 0.5, 1]


def test_parameters_become_a_vector_and_back():
    net = nn.Linear(2, 3)
    vector = utils.parameters_to_vector(net.parameters())
    assert vector.shape == (9,) and vector.requires_grad
    utils.vector_to_parameters(np.ones(9), net.parameters())
    assert net.bias.tolist() == [1, 1, 1]
    utils.vector_to_parameters(mg.arange(9.0), net.parameters())
    assert net.weight.tolist() == [[0, 1], [2, 3], [4, 5]] and net.bias.tolist() == [6, 7, 8]
    with pytest.raises(ValueError, match=r"needs a vector \(9,\), got \(8,\)"):
        utils.vector_to_parameters(mg.arange(8.0), net.parameters())


@pytest.mark.parametrize("dim", [0, 1, None])
@pytest.mark.filterwarnings("ignore")
def test_weight_norm_equals_pytorchs(dim):
    torch = pytest.importorskip("torch")
    theirs = torch.nn.utils.weight_norm(torch.nn.Linear(4, 3).double(), dim=dim)
    ours = utils.weight_norm(nn.Linear(4, 3, dtype=np.float64), dim=dim)
    assert {n for n, _ in ours.named_parameters()} == {n for n, _ in theirs.named_parameters()}
    for q in theirs.parameters():
        torch.nn.init.normal_(q)
    ours.load_state_dict(theirs.state_dict())
    x = rng.standard_normal((2, 4))
    y, z = ours(mg.tensor(x)), theirs(torch.tensor(x))
    np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), rtol=1e-9)
    (y * y).sum().backward(), (z * z).sum().backward()
    for name, q in theirs.named_parameters():
        g = ours.get_parameter(name).grad.numpy()
        np.testing.assert_allclose(g, q.grad.numpy(), rtol=1e-9)
    twin = copy.deepcopy(ours)
    twin.weight_g.data[...] *= 2
    assert not np.allclose(twin(mg.tensor(x)).detach().numpy(), y.detach().numpy())
    utils.remove_weight_norm(ours)
    assert set(ours.state_dict()) == {"weight", "bias"}
    np.testing.assert_allclose(ours(mg.tensor(x)).detach().numpy(), y.detach().numpy())


def test_spectral_norm_makes_the_largest_singular_value_one():
    layer = utils.spectral_norm(nn.Linear(6, 5, dtype=np.float64), n_power_iterations=200)
    layer(mg.ones(1, 6)).sum().backward()
    assert np.isclose(np.linalg.svd(layer.weight.detach().numpy())[1][0], 1)
    assert layer.weight_orig.grad is not None
    assert set(layer.state_dict()) == {"bias", "weight_orig", "weight_u", "weight_v"}
    before = layer.weight_u.numpy().copy()
    layer.eval()(mg.ones(1, 6))
    assert np.array_equal(before, layer.weight_u.numpy())


def test_spectral_norm_of_a_complex_weight_makes_the_largest_singular_value_one():
    layer, rng = nn.Linear(3, 4, bias=False), np.random.default_rng(0)
    weight = rng.standard_normal((4, 3)) + 1j * rng.standard_normal((4, 3))
    layer.weight = nn.Parameter(weight)
    utils.spectral_norm(layer, n_power_iterations=100)
    largest = np.linalg.norm(weight, 2)
    np.testing.assert_allclose(layer.weight.detach().numpy(), weight / largest, rtol=1e-12)


def test_a_weight_of_spectral_norm_is_the_same_however_often_it_is_read():
    layer = utils.spectral_norm(nn.Linear(6, 5))
    before, u = layer.weight.tolist(), layer.weight_u.tolist()
    assert layer.weight.tolist() == before and layer.weight_u.tolist() == u
    layer(mg.ones((1, 6), dtype=mg.float32))
    assert layer.weight_u.tolist() != u


def test_a_weight_that_a_norm_computes_is_never_that_of_the_last_forward():
    layer = utils.weight_norm(nn.Linear(3, 2))
    before = layer.weight.numpy()
    layer.load_state_dict({**layer.state_dict(), "weight_g": 2 * layer.weight_g.numpy()})
    np.testing.assert_array_equal(layer.weight.numpy(), 2 * before)
    with pytest.raises(AttributeError, match="Linear.weight is computed from weight_g, weight_v"):
        layer.weight = mg.zeros((2, 3))


def test_a_spectral_norm_is_taken_away_again_and_leaves_the_weight_as_it_is():
    layer = utils.spectral_norm(nn.Linear(6, 5))
    x = mg.ones((1, 6), dtype="float32")
    layer(x)
    layer.eval()
    before = layer(x).numpy()
    assert utils.remove_spectral_norm(layer.train()) is layer and layer.training
    assert set(layer.state_dict()) == {"weight", "bias"}
    assert isinstance(layer.weight, nn.Parameter)
    np.testing.assert_allclose(layer(x).detach().numpy(), before, rtol=1e-6)
    with pytest.raises(ValueError, match="'weight' of Linear.* has no spectral_norm"):
        utils.remove_spectral_norm(layer)


def test_gradients_are_clipped_by_a_norm_that_is_known():
    p = nn.Parameter(np.zeros(2))
    p.grad = mg.tensor([3.0, 4.0])
    utils.clip_grads_with_norm_([p], 10.0, utils.get_total_norm([p.grad]))
    assert p.grad.tolist() == [3, 4]
    utils.clip_grads_with_norm_([p], 1.0, mg.tensor(5.0))
    np.testing.assert_allclose(p.grad.numpy(), [0.6, 0.8], rtol=1e-6)


def test_gradients_of_parameters_that_come_one_by_one_are_clipped():
    model = nn.Linear(4, 1)
    (100 * model(mg.ones((1, 4), dtype="float32"))).sum().backward()
    utils.clip_grad_norm_(model.parameters(), 1.0)
    norm = utils.get_total_norm([p.grad for p in model.parameters()])
    np.testing.assert_allclose(norm, 1, rtol=1e-5)


def test_a_total_norm_that_is_not_finite_is_an_error_where_asked_for():
    gradients = [mg.tensor([3.0, np.inf])]
    assert utils.get_total_norm(gradients) == np.inf
    with pytest.raises(RuntimeError, match="get_total_norm: the norm is inf"):
        utils.get_total_norm(gradients, error_if_nonfinite=True)


def test_complex_gradients_which_have_no_order_are_not_cut_by_value():
    p = nn.Parameter(mg.zeros(2, dtype="complex128"))
    p.grad = mg.tensor([3 + 4j, -5j])
    with pytest.raises(TypeError, match="clip_grad_value_: a gradient is complex.*clip_grad_norm_"):
        utils.clip_grad_value_([p], 1.0)


@pytest.mark.parametrize(
    ("clip", "name"), [(utils.clip_grad_norm_, "max_norm"), (utils.clip_grad_value_, "clip_value")]
)
def test_a_bound_below_zero_would_turn_gradients_and_is_refused(clip, name):
    p = nn.Parameter(mg.ones(2))
    p.grad = mg.ones(2)
    with pytest.raises(ValueError, match=f"{name} must be 0 or more, got -1"):
        clip([p], -1.0)
    assert p.grad.tolist() == [1, 1]


def test_a_model_in_place_of_its_parameters_is_answered_with_the_call():
    with pytest.raises(TypeError, match=r"pass model.parameters\(\)"):
        utils.clip_grad_norm_(nn.Sequential(nn.Linear(2, 2)), 1.0)


def test_spectral_norm_of_a_complex_weight_makes_its_largest_singular_value_one():
    layer = nn.Linear(2, 4, dtype=np.complex128)
    layer.weight.data[...] = np.random.default_rng(1).standard_normal((4, 2, 2)) @ [1, 1j]
    utils.spectral_norm(layer, n_power_iterations=100)
    values = np.linalg.svd(layer.weight.detach().numpy(), compute_uv=False)
    np.testing.assert_allclose(values[0], 1, rtol=1e-8)
