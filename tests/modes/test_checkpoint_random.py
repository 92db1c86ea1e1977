"""A checkpoint's random numbers: the same again, whatever other threads draw from the generator."""

import copy
import pickle
import threading

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.backends import random

pytestmark = pytest.mark.promise(
    "checkpointing frees memory, repeats random numbers (with other threads running too),"
    " and stops when it has the needed values"
)

checkpoint = mg.checkpoint


def leaf(values):
    return mg.tensor(values, requires_grad=True)


def another_thread(draw):
    thread = threading.Thread(target=draw)
    thread.start()
    thread.join(timeout=10)


def dropped_twice(x, between=lambda: None):
    y = mg.dropout(x, 0.5)
    between()
    return mg.dropout(y, 0.5)


@pytest.mark.parametrize("early_stop", [True, False])
def test_what_another_thread_draws_in_between_does_not_change_the_mask(early_stop):
    x, often = leaf(np.ones(200)), iter([1, 0, 3, 0, 0])

    def between():
        for _ in range(next(often)):
            another_thread(lambda: mg.rand(7))

    with mg.set_checkpoint_early_stop(early_stop):
        y = checkpoint(dropped_twice, x, between)
        y.sum().backward()
    assert y.tolist() == x.grad.tolist() and 0 < np.count_nonzero(x.grad.numpy()) < 200


def test_a_checkpoint_draws_what_the_function_alone_would_draw():
    x = leaf(np.ones(50))
    mg.manual_seed(3)
    plain, after = dropped_twice(x).tolist(), mg.rand(2).tolist()
    mg.manual_seed(3)
    assert checkpoint(dropped_twice, x).tolist() == plain and mg.rand(2).tolist() == after


def test_a_recomputation_takes_nothing_from_the_generator_of_others():
    x = leaf(np.ones(50))
    mg.manual_seed(3)
    numbers = [mg.rand(1).item() for _ in range(4)]
    mg.manual_seed(3)
    taken, again = [], []

    def fn(x):
        again.append(mg.rand(1).item())
        another_thread(lambda: taken.append(mg.rand(1).item()))
        return x * again[-1] * x

    checkpoint(fn, x).sum().backward()
    assert again == numbers[:1] * 2 and taken == [numbers[1], numbers[2]]
    assert mg.rand(1).item() == numbers[3]


def test_nested_checkpoints_that_are_computed_again_twice_get_the_same_numbers():
    x = leaf(np.ones(100))

    def inner(x):
        return mg.dropout(x, 0.3) * 2.0

    def outer(x):
        y = checkpoint(inner, mg.dropout(x, 0.3))
        another_thread(lambda: mg.rand(5))
        return checkpoint(inner, mg.dropout(y, 0.3))

    y = checkpoint(outer, x)
    another_thread(lambda: mg.rand(5))
    y.sum().backward()
    np.testing.assert_array_equal(y.numpy(), x.grad.numpy())


def test_a_seed_set_inside_holds_afterwards_and_is_not_set_again():
    x = leaf(np.ones(20))

    def fn(x):
        mg.manual_seed(5)
        return mg.dropout(x, 0.5) * x

    y = checkpoint(fn, x)
    went_on = mg.rand(1).item()
    y.sum().backward()
    later = mg.rand(1).item()
    mg.manual_seed(5)
    mg.dropout(x, 0.5)
    assert [went_on, later] == [mg.rand(1).item(), mg.rand(1).item()]
    np.testing.assert_allclose(x.grad.numpy(), 2 * y.numpy())


def test_a_function_that_draws_in_other_ways_gets_the_same_again():
    x, seen = leaf(np.ones(6)), []

    def fn(x):
        drawn = [mg.randn(3), mg.randint(0, 9, (3,)), mg.generator().normal(size=2)]
        drawn += [nn.init.uniform_(mg.zeros(2, 2)).tolist()]
        seen.append([np.asarray(part).tolist() for part in drawn])
        return x * x

    checkpoint(fn, x).sum().backward()
    assert len(seen) == 2 and seen[0] == seen[1]


def test_the_generator_is_the_plain_one_again_also_after_an_error():
    def fn(x):
        assert not isinstance(mg.generator(), np.random.Generator)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        checkpoint(fn, leaf([1.0]))
    assert mg.generator() is random._generator


def copies_of(generator):
    return [copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))]


def test_a_copy_of_the_generator_inside_gives_the_numbers_that_come_next_in_both_runs():
    x, seen = leaf(np.ones(3)), []

    def fn(x):
        mg.rand(1)
        ahead = [one.random() for one in copies_of(mg.generator())]
        seen.append([*ahead, copy.copy(mg.generator()).random(), mg.rand(1).item()])
        return x * x

    mg.manual_seed(3)
    checkpoint(fn, x).sum().backward()
    mg.manual_seed(3)
    _, second, third = [mg.rand(1).item() for _ in range(3)]
    assert seen == [[second, second, second, third]] * 2


def test_spawned_generators_are_children_of_the_seed_and_the_same_in_both_runs():
    x, seen = leaf(np.ones(3)), []

    def fn(x):
        children = mg.generator().spawn(2)
        seen.append([child.random() for child in children] + [mg.rand(1).item()])
        return x * x

    mg.manual_seed(3)
    checkpoint(fn, x).sum().backward()
    expected = [child.random() for child in mg.manual_seed(3).spawn(2)] + [mg.rand(1).item()]
    assert seen == [expected] * 2


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_inside_gives_the_same_batches_in_both_runs(workers):
    x, seen = leaf(np.ones(3)), []
    loader = mg.data.DataLoader(range(6), 2, shuffle=True, num_workers=workers)

    def fn(x):
        batches = [batch.tolist() for batch in loader]
        seen.append(batches)
        return x * x * sum(batch[0] for batch in batches)

    mg.manual_seed(3)
    checkpoint(fn, x).sum().backward()
    mg.manual_seed(3)
    assert seen == [[batch.tolist() for batch in loader]] * 2
