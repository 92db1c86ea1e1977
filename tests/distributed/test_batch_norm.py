"""SyncBatchNorm between real ranks, and alone, where it is BatchNorm."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.distributed import SyncBatchNorm

pytestmark = pytest.mark.promise(
    "SyncBatchNorm on batches of different sizes is batch norm of the joined batch, to second order"
)


@pytest.mark.parametrize("ranks", [2, 3])
def test_it_is_batch_norm_of_the_joined_batch(right, ranks):
    assert right(ranks, "batch_norm").output.count("all of rank") == ranks


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 5), (4, 3, 5, 5), (2, 3, 2, 2, 2)])
def test_one_rank_has_batch_norm(alone, shape):
    kinds = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
    x = mg.tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    one, other = SyncBatchNorm(3), kinds[len(shape)](3)
    np.testing.assert_array_equal(one(x).numpy(), other(x).numpy())
    np.testing.assert_array_equal(one.running_var.numpy(), other.running_var.numpy())


def test_it_needs_no_init_where_there_is_one_process():
    assert SyncBatchNorm(2)(mg.ones(3, 2)).shape == (3, 2)


def test_converting_keeps_parameters_buffers_and_mode():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2, eps=0.1))).eval()
    norm = model[1][0]
    converted = SyncBatchNorm.convert_sync_batchnorm(model)
    synced = converted[1][0]
    assert converted is model and type(synced) is SyncBatchNorm and synced.eps == 0.1
    assert synced.weight is norm.weight and synced.running_mean is norm.running_mean
    assert not synced.training and synced.weight.name == "1.0.weight"


def test_a_norm_in_two_places_stays_one():
    norm = nn.BatchNorm1d(2)
    model = SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(norm, nn.ReLU(), norm))
    assert type(model[0]) is SyncBatchNorm and model[0] is model[2]


def test_a_norm_by_itself_is_converted_to_a_new_one():
    norm = nn.BatchNorm2d(3)
    synced = SyncBatchNorm.convert_sync_batchnorm(norm)
    assert type(synced) is SyncBatchNorm and synced.weight is norm.weight


def test_a_group_of_ranks_is_refused():
    with pytest.raises(ValueError, match="one group here, of all ranks"):
        SyncBatchNorm(2, process_group="half")
