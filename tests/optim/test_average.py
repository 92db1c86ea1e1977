"""The moving average of parameters."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim


def leaf(*values):
    return mg.tensor(values, requires_grad=True)


def test_the_average_follows_its_formula():
    p = leaf(0.0)
    ema, expected = optim.EMA([p], decay=0.9), 0.0
    for value in (1.0, 5.0, -2.0):
        p.data[...] = value
        ema.update()
        expected = 0.9 * expected + 0.1 * value
    np.testing.assert_allclose(ema.averages[0], [expected])


@pytest.mark.parametrize("dtype", [mg.float16, mg.bfloat16])
def test_the_average_of_sixteen_bit_parameters_is_kept_in_float32(dtype):
    p = mg.tensor([1.0], dtype=dtype, requires_grad=True)
    ema = optim.EMA([p], decay=0.999)
    p.data[...] = 2.0
    for _ in range(3000):
        ema.update()
    np.testing.assert_allclose(ema.averages[0], [2 - 0.999**3000], rtol=1e-4)
    with ema.applied():
        assert p.dtype == dtype and np.isclose(p.item(), 1.95, rtol=1e-2)


def test_with_warmup_the_first_updates_count_more():
    p = leaf(0.0)
    ema = optim.EMA([p], decay=0.999, warmup=True)
    p.data[...] = 11.0
    ema.update()
    np.testing.assert_allclose(ema.averages[0], [11 * (1 - 2 / 11)])


def test_the_averages_stand_in_for_a_while_and_an_error_restores_too():
    p = leaf(1.0)
    ema = optim.EMA([p], decay=0.5)
    p.data[...] = 3.0
    ema.update()
    with pytest.raises(ZeroDivisionError), ema.applied():
        assert p.item() == 2.0
        raise ZeroDivisionError
    assert p.item() == 3.0


def test_a_saved_average_goes_on():
    p = leaf(1.0)
    ema = optim.EMA([p], decay=0.5, warmup=True)
    ema.update()
    other = optim.EMA([leaf(9.0)], decay=0.5, warmup=True)
    other.load_state_dict(ema.state_dict())
    assert other.updates == 1 and np.array_equal(other.averages[0], ema.averages[0])
    with pytest.raises(ValueError, match=r"shapes \[\(1,\)\] given, \[\(2,\)\] needed"):
        optim.EMA([leaf(1.0, 2.0)]).load_state_dict(ema.state_dict())


@pytest.mark.parametrize("params", [nn.Sequential(nn.Linear(2, 2)), nn.Linear(2, 2)])
def test_a_model_in_place_of_its_parameters_is_answered_with_the_call(params):
    with pytest.raises(TypeError, match=r"(?s)EMA: params is .*pass model.parameters\(\)"):
        optim.EMA(params)


def test_parameters_that_are_used_up_already_are_refused():
    with pytest.raises(ValueError, match="EMA got no parameters to average; .* read once"):
        optim.EMA(iter([]))


def test_parameters_keep_their_values_where_the_averages_cannot_be_applied():
    first, second = leaf(1.0), leaf(1.0, 2.0)
    ema = optim.EMA([first, second], decay=0.5)
    with mg.no_grad():
        first += 1
    ema.averages[1] = np.ones(3)  # of another shape, as after an error elsewhere
    with pytest.raises(ValueError):
        with ema.applied():
            pass
    assert first.tolist() == [2.0]
