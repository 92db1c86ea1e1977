"""DataParallel between real ranks: the gradients of the joined batch, the same bits on all."""

import re

import pytest

import minigrad as mg
from minigrad import distributed
from minigrad.distributed import buckets
from minigrad.errors import HookError
from minigrad.modes import hooks

pytestmark = pytest.mark.promise(
    "data-parallel gradients are those of the joined batch, the same bits on all ranks"
)


@pytest.mark.parametrize("ranks", [2, 4])
def test_gradients_are_those_of_the_joined_batch_and_the_same_bits_on_all_ranks(right, ranks):
    done = right(ranks, "parallel")
    assert done.output.count("all of rank") == ranks


def test_the_digits_reach_the_same_accuracy_on_two_ranks(right):
    accuracies = []
    for ranks in (1, 2):
        output = right(ranks, "digits").output
        accuracies.append(float(re.search(r"accuracy (\S+)", output)[1]))
    assert min(accuracies) > 0.9
    assert abs(accuracies[0] - accuracies[1]) < 0.015


def test_one_rank_trains_as_without(alone):
    model = mg.nn.Linear(3, 2)
    wrapped = distributed.DataParallel(model, bucket_mb=0)
    x = mg.ones((4, 3))
    (wrapped(x) ** 2).sum().backward()
    mine = [p.grad.numpy().copy() for p in model.parameters()]
    wrapped.close()
    model.zero_grad()
    (model(x) ** 2).sum().backward()
    assert all((a == p.grad.numpy()).all() for a, p in zip(mine, model.parameters()))


def test_gradients_that_the_user_holds_do_not_change(alone):
    model = mg.nn.Linear(3, 2)
    wrapped = distributed.DataParallel(model)
    wrapped(mg.ones((4, 3))).sum().backward()
    held = model.weight.grad
    before = held.numpy().copy()
    wrapped(mg.ones((4, 3))).sum().backward()
    assert (held.numpy() == before).all() and (model.weight.grad.numpy() == 2 * before).all()


@pytest.mark.parametrize(
    "said, overlaps",
    [("0", False), ("false", False), ("No", False), ("off", False), ("1", True), ("", True)],
)
def test_the_environment_says_off_in_the_words_of_every_switch(alone, monkeypatch, said, overlaps):
    monkeypatch.setenv("MINIGRAD_DISTRIBUTED_OVERLAP", said)
    assert distributed.DataParallel(mg.nn.Linear(3, 2)).overlap is overlaps


def test_a_model_without_anything_to_learn_is_refused(alone):
    with pytest.raises(ValueError, match="no parameter"):
        distributed.DataParallel(mg.nn.ReLU())
    with pytest.raises(ValueError, match="bucket_mb"):
        distributed.DataParallel(mg.nn.Linear(2, 2), bucket_mb=-1)


def test_buckets_follow_the_order_and_keep_dtypes_apart():
    parameters = [
        mg.ones(10, dtype=dtype) for dtype in ("float32", "float64", "float32", "float32")
    ]
    assert buckets.plan([3, 2, 1, 0], parameters, 1000, 1000) == [[3, 2, 0], [1]]
    assert buckets.plan([3, 2, 1, 0], parameters, 1, 1) == [[3], [2], [1], [0]]
    assert buckets.plan([0, 2, 3, 1], parameters, 80, 40) == [[0], [2, 3], [1]]


def test_what_a_hook_wants_done_is_called_once_at_the_end_of_the_backward():
    seen = []
    x, z = (mg.tensor([1.0], requires_grad=True) for _ in range(2))

    def done():
        seen.append((x.grad.item(), z.grad.item()))

    for leaf in (x, z):
        leaf.register_leaf_ready_hook(lambda leaf: hooks.call_after_backward(done))
    for engine in ("serial", "parallel"):
        (x * z * 2).sum().backward(engine=engine)
    assert seen == [(2, 2), (4, 4)]
    with pytest.raises(HookError, match="leaf-ready"):
        hooks.call_after_backward(done)


def test_after_an_error_nothing_is_called_at_the_end():
    seen = []
    x = mg.tensor([1.0], requires_grad=True)
    h = x * 2
    h.register_hook(lambda g: 1 / 0)
    w = mg.tensor([1.0], requires_grad=True)
    w.register_leaf_ready_hook(lambda _: hooks.call_after_backward(lambda: seen.append(1)))
    with pytest.raises(ZeroDivisionError):
        (h * w).sum().backward()
    assert seen == []
