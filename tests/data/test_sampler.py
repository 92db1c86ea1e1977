"""Samplers say which rows come, and in which order."""

import numpy as np
import pytest

from minigrad import data


class Numbers(data.Dataset):
    def __init__(self, n=20):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return np.float32(i), i


def test_samplers_give_the_order():
    loader = data.DataLoader(Numbers(), 2, sampler=[5, 1, 9])
    assert [x.tolist() for x, _ in loader] == [[5, 1], [9]]
    loader = data.DataLoader(Numbers(), batch_sampler=[[3], [1, 2]])
    assert [x.tolist() for x, _ in loader] == [[3], [1, 2]] and len(loader) == 2
    rows = data.DataLoader(Numbers(3), batch_size=None)
    assert [float(x) for x, _ in rows] == [0, 1, 2]


def test_a_random_order_of_some_rows_draws_each_once_and_anew_in_every_pass():
    loader = data.DataLoader(Numbers(), 2, sampler=data.SubsetRandomSampler(np.arange(3, 12)))
    passes = [[int(x) for batch, _ in loader for x in batch] for _ in range(2)]
    assert len(loader) == 5 and passes[0] != passes[1]
    assert [sorted(order) for order in passes] == [list(range(3, 12))] * 2


def test_a_sampler_of_ones_own_gives_the_order():
    class Backwards(data.Sampler):
        def __iter__(self):
            return iter([3, 2, 1])

    assert [x.tolist() for x, _ in data.DataLoader(Numbers(), 2, sampler=Backwards())] == [
        [3, 2],
        [1],
    ]
    with pytest.raises(NotImplementedError, match=r"Sampler has no __iter__; define __iter__"):
        iter(data.Sampler())


def test_weighted_draws_follow_the_weights():
    draws = data.WeightedRandomSampler([0, 1, 3], 4000, generator=np.random.default_rng(0))
    counts = np.bincount(list(draws), minlength=3)
    assert counts[0] == 0 and abs(counts[1] - 1000) < 5 * (4000 * 3 / 16) ** 0.5
    once = data.WeightedRandomSampler([1, 1, 1], 3, replacement=False)
    assert sorted(once) == [0, 1, 2]
    more = data.RandomSampler(Numbers(4), replacement=True, num_samples=50)
    assert len(list(more)) == 50 and set(more) <= {0, 1, 2, 3}


@pytest.mark.parametrize("weights", [[1, np.inf], [1, np.nan], [1, -1], [0, 0], [], [[1]]])
def test_weights_that_give_no_probabilities_are_refused_at_once(weights):
    with pytest.raises(ValueError, match="weights must be a vector of finite numbers ≥ 0"):
        data.WeightedRandomSampler(weights, 3)


def test_weights_whose_sum_is_beyond_the_numbers_there_are_can_be_drawn_by():
    draws = data.WeightedRandomSampler([1e308, 1e308, 0], 50, generator=np.random.default_rng(0))
    assert set(draws) == {0, 1}


def test_the_length_of_a_shuffled_order_is_that_of_the_rows_there_are():
    rows = [1, 2, 3, 4]
    loader = data.DataLoader(rows, 2, shuffle=True)
    rows.append(5)
    assert len(loader) == 3
    assert sorted(x for batch in loader for x in batch.tolist()) == rows


def test_the_order_of_rows_is_at_hand_and_fixed():
    order = data.SequentialSampler(Numbers())
    assert data.DataLoader(Numbers(), 2, sampler=order).sampler is order
    assert data.DataLoader(Numbers(), None, sampler=order).sampler is order
    loader = data.DataLoader(Numbers(), 2)
    for name in ("dataset", "batch_size", "drop_last", "sampler", "batch_sampler"):
        with pytest.raises(ValueError, match=f"{name} cannot be set any more"):
            setattr(loader, name, 1)
    loader.num_workers = 1  # it has no part in the order
    assert [len(x) for x, _ in loader] == [2] * 10


def test_draws_with_replacement_come_from_all_rows():
    drawn = data.RandomSampler(Numbers(4), replacement=True, num_samples=200)
    assert sorted(set(drawn)) == [0, 1, 2, 3]
