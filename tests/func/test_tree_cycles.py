"""A tree that contains itself has no leaves to give: that is said, whoever walks it."""

import pytest

import minigrad as mg
from minigrad.errors import TransformError
from minigrad.func import grad, ravel_pytree, tree_leaves, tree_map, vmap


def in_a_list():
    tree = [1.0]
    tree.append(tree)
    return tree


def in_a_dictionary_of_tuples():
    tree = {"a": (1.0, {})}
    tree["a"][1]["b"] = tree
    return tree


def among_many():
    tree = [1.0] * 300_000
    tree.append(tree)
    return tree


@pytest.mark.parametrize("cycle", [in_a_list, in_a_dictionary_of_tuples, among_many])
@pytest.mark.parametrize(
    "walk",
    [
        tree_leaves,
        ravel_pytree,
        lambda tree: tree_map(lambda x: x, tree),
        lambda tree: grad(lambda t: mg.ones(()))(tree),
        lambda tree: vmap(lambda t: t)(tree),
    ],
)
def test_a_tree_without_an_end_is_refused(cycle, walk):
    with pytest.raises(TransformError, match="contains itself"):
        walk(cycle())


def test_a_large_tree_may_hold_one_container_many_times():
    shared = [1.0, {"a": 2.0}] * 1_000
    assert len(tree_leaves([shared] * 20)) == 40_000
