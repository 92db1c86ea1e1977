"""What a module shows of itself: its tree of parts, and a table of shapes and counts."""

import pytest

import minigrad as mg
from minigrad import nn


def test_repr_is_a_tree():
    class Net(nn.Module):
        def __init__(self):
            self.features = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
            self.head = nn.Linear(3, 2, bias=False)
            self.register_buffer("mean", mg.zeros(4))

    assert repr(Net()) == (
        "Net(\n"
        "  (features): Sequential(\n"
        "    (0): Linear(in_features=4, out_features=3, bias=True)\n"
        "    (1): ReLU()\n"
        "  )\n"
        "  (head): Linear(in_features=3, out_features=2, bias=False)\n"
        ")"
    )


def test_repr_ends_where_a_part_knows_its_whole():
    net, part = nn.Module(), nn.Sequential(nn.ReLU())
    net.part, net.again, part.whole = part, part, net
    inner = "  ({}): Sequential(\n    (0): ReLU()\n    (whole): Module(...)\n  )"
    parts = inner.format("part"), inner.format("again")
    assert repr(net) == "Module(\n" + "\n".join(parts) + "\n)"


def test_three_thousand_nested_modules_are_walked_and_shown_without_recursion():
    net = nn.Module()
    for _ in range(3000):
        outer = nn.Module()
        vars(outer)["inner"] = net
        net = outer
    assert sum(1 for _ in net.modules()) == 3001
    assert len(repr(net).splitlines()) == 2 * 3000 + 1


def test_a_summary_lists_parts_shapes_and_counts():
    net = nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 2)))
    net[0].requires_grad_(False)
    lines = net.train().summary(mg.ones(5, 4, dtype="float32")).splitlines()
    assert lines[0].split() == ["module", "result", "parameters"]
    assert lines[3].split() == ["0:", "Linear", "(5,", "3)", "15"]
    assert lines[-2][0] == "─" and lines[-1].startswith("23 parameters, 8 of them learned")
    assert net.training and not net._hooks and "(5, 3)" not in net.summary()


def test_repr_is_pytorchs():
    torch = pytest.importorskip("torch")

    def make(lib):
        return lib.Sequential(
            lib.Conv2d(1, 2, 3, padding=1, groups=1), lib.BatchNorm2d(2), lib.ReLU(),
            lib.MaxPool2d(2), lib.Dropout(0.25), lib.Flatten(), lib.Linear(8, 4, bias=False),
            lib.LSTM(4, 3, num_layers=2, bidirectional=True), lib.LayerNorm(3),
            lib.Embedding(5, 2, padding_idx=0), lib.ConvTranspose2d(2, 2, 2, output_padding=1),
        )  # fmt: skip

    def plain(net):  # PyTorch writes False and 0.25 as here, and does not indent what has no parts
        return [" ".join(line.split()) for line in repr(net).splitlines()]

    ours, theirs = plain(make(nn)), plain(make(torch.nn))
    same = [a for a, b in zip(ours, theirs, strict=True) if a == b]
    assert len(same) >= 9, [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
