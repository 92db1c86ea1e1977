"""Checkpoints of a job, sharded optimizer state, and samplers."""

import json
import re

import pytest

import minigrad as mg
from minigrad import distributed, nn, optim
from minigrad.distributed import checkpoint
from minigrad.distributed.checkpoint import complete_steps
from minigrad.distributed.zero import _dealt
from minigrad.errors import FormatError, StateError


def test_a_sharded_optimizer_is_the_plain_one_and_resumes_on_another_number_of_ranks(
    right, tmp_path
):
    def total(ranks, folder, last):
        return float(re.search(r"sum (\S+)", right(ranks, "shards", folder, last).output)[1])

    through = total(1, tmp_path / "through", 5)
    total(2, tmp_path / "parts", 3)
    assert total(3, tmp_path / "parts", 5) == pytest.approx(through, rel=1e-9)


def test_old_checkpoints_go_when_the_new_one_is_complete(alone, tmp_path):
    for step in range(4):
        distributed.save_checkpoint(tmp_path, step, {"w": mg.ones(2) * step}, keep=2)
    assert complete_steps(tmp_path) == [2, 3]
    assert distributed.load_checkpoint(tmp_path)[1]["w"].tolist() == [3, 3]
    assert distributed.load_checkpoint(tmp_path, step=2)[1]["w"].tolist() == [2, 2]
    with pytest.raises(FileNotFoundError, match=r"step 1; it has \[2, 3\]"):
        distributed.load_checkpoint(tmp_path, step=1)
    assert distributed.load_checkpoint(tmp_path / "empty") is None


def damage_sizes(folder):
    (folder / "state.npz").write_bytes(b"half")


def damage_json(folder):
    (folder / "complete.json").write_text('{"format": "minigrad.checkpoint"')


def damage_version(folder):
    document = json.loads((folder / "complete.json").read_text())
    (folder / "complete.json").write_text(json.dumps(document | {"version": [9, 0]}))


def damage_count(folder):
    document = json.loads((folder / "complete.json").read_text())
    (folder / "complete.json").write_text(json.dumps(document | {"shards": 1 << 40}))


def damage_fraction(folder):
    document = json.loads((folder / "complete.json").read_text())
    (folder / "complete.json").write_text(json.dumps(document | {"shards": 1.0}))


def damage_truth(folder):
    document = json.loads((folder / "complete.json").read_text())
    (folder / "complete.json").write_text(json.dumps(document | {"shards": True}))


def damage_depth(folder):
    (folder / "complete.json").write_text("[" * 100_000)


def damage_kind(folder):
    (folder / "complete.json").unlink()
    (folder / "complete.json").mkdir()


def damage_names(folder):
    """As many shards as nobody wrote, of which no sizes are told."""
    document = json.loads((folder / "complete.json").read_text())
    (folder / "complete.json").write_text(json.dumps(document | {"shards": 7, "bytes": {}}))


DAMAGES = [
    damage_sizes, damage_json, damage_version, damage_count, damage_fraction, damage_truth,
    damage_depth, damage_kind, damage_names,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_one_clear_error(alone, tmp_path, damage):
    folder = distributed.save_checkpoint(tmp_path, 7, {"w": mg.ones(2)}, {"own": 1})
    assert distributed.load_checkpoint(tmp_path)[2] == [{"own": 1}]
    damage(folder)
    with pytest.raises(FormatError, match="this checkpoint is damaged"):
        distributed.load_checkpoint(tmp_path)


def test_parts_of_the_optimizer_weigh_about_the_same():
    parts = _dealt([8, 1, 1, 1, 5, 4], 2)
    assert sorted(sum(parts, [])) == [0, 1, 2, 3, 4, 5]
    assert [sum([8, 1, 1, 1, 5, 4][i] for i in part) for part in parts] == [10, 10]


def test_a_sharded_optimizer_of_one_rank_and_a_schedule(alone):
    p = mg.nn.Parameter(mg.ones(3))
    optimizer = distributed.ZeroRedundancyOptimizer([p], mg.optim.SGD, lr=1.0)
    mg.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5)
    p.sum().backward()
    optimizer.step()
    assert p.tolist() == [0.5] * 3
    optimizer.zero_grad()
    assert p.grad is None
    with pytest.raises(ValueError, match="no parameters"):
        distributed.ZeroRedundancyOptimizer([], mg.optim.SGD, lr=1.0)


def test_the_closure_of_a_sharded_optimizer_is_recorded_as_that_of_any_other(alone):
    p = mg.nn.Parameter(mg.ones(3))
    optimizer = distributed.ZeroRedundancyOptimizer([p], mg.optim.SGD, lr=1.0)

    def closure():
        loss = p.sum()
        loss.backward()
        return loss

    with mg.no_grad():
        assert optimizer.step(closure).item() == 3.0
    assert p.tolist() == [0.0] * 3


def test_an_optimizer_of_matrices_alone_can_be_sharded(alone):
    p, q = (mg.nn.Parameter(mg.ones(2, 3)) for _ in range(2))
    optimizer = distributed.ZeroRedundancyOptimizer([p], mg.optim.Muon, lr=0.1)
    for x, one in ((p, optimizer), (q, mg.optim.Muon([q], lr=0.1))):
        x.sum().backward()
        one.step()
    assert p.tolist() == q.tolist() != mg.ones(2, 3).tolist()


@pytest.mark.parametrize("n", [0, 1, 7, 8, 23])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_samplers_share_the_rows_as_pytorch_does(n, drop_last, ranks):
    torch = pytest.importorskip("torch")
    data = list(range(n))
    for rank in range(ranks):
        mine = distributed.DistributedSampler(data, ranks, rank, False, drop_last=drop_last)
        theirs = torch.utils.data.DistributedSampler(
            data, ranks, rank, shuffle=False, drop_last=drop_last
        )
        assert list(mine) == list(theirs) and len(mine) == len(theirs)


def test_shuffled_samplers_take_each_row_once_and_change_with_the_epoch():
    samplers = [distributed.DistributedSampler(range(12), 3, rank, seed=5) for rank in range(3)]
    assert [*samplers[0]] != [*distributed.DistributedSampler(range(12), 3, 0, seed=6)]
    first = [list(sampler) for sampler in samplers]
    assert sorted(sum(first, [])) == list(range(12))
    assert [list(sampler) for sampler in samplers] == first
    for sampler in samplers:
        sampler.set_epoch(1)
    assert [list(sampler) for sampler in samplers] != first
    with pytest.raises(ValueError, match="rank=3, num_replicas=3"):
        distributed.DistributedSampler(range(3), 3, 3)


def test_a_new_checkpoint_stays_beside_those_of_higher_steps(alone, tmp_path):
    for step in (8, 9, 1):
        distributed.save_checkpoint(tmp_path, step, {"w": mg.ones(2)}, keep=2)
    assert complete_steps(tmp_path) == [1, 9]


@pytest.mark.parametrize(("step", "keep"), [(-1, 2), ("3", 2), (3, 0)])
def test_a_checkpoint_that_nobody_would_find_is_not_written(alone, tmp_path, step, keep):
    with pytest.raises(ValueError, match="step must be an integer, 0 or more, and keep 1 or more"):
        distributed.save_checkpoint(tmp_path, step, {"w": mg.ones(2)}, keep=keep)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: shards(nn.Linear(2, 2)), r"params is Linear.*pass model.parameters\(\)"),
        (lambda: shards(nn.Linear(2, 2).named_parameters()), r"params\[0\] is a tuple, not a"),
        (lambda: distributed.DataParallel(3), "DataParallel wraps a module, got 3"),
        (lambda: distributed.broadcast_([1.0]), r"broadcast_ overwrites a tensor, got \[1.0\]"),
    ],
)
def test_a_call_with_another_thing_says_what_it_takes(alone, call, said):
    with pytest.raises(TypeError, match=said):
        call()


@pytest.mark.parametrize("state", [[], {}, {"weight": mg.ones(2)}])
def test_what_is_no_shard_is_answered_with_what_one_holds(alone, state):
    with pytest.raises(StateError, match="needs what its state_dict.. gave"):
        shards([mg.ones(2, requires_grad=True)]).load_state_dict(state)


def shards(params):
    return distributed.ZeroRedundancyOptimizer(params, optim.Adam)


def test_a_shard_that_was_cut_is_noticed(tmp_path):
    for name in ("state.npz", "rank-0-of-2.npz", "rank-1-of-2.npz"):
        (tmp_path / name).write_bytes(b"12345")
    checkpoint._complete(tmp_path, 3, 2)
    assert checkpoint._read_complete(tmp_path)["step"] == 3
    (tmp_path / "rank-1-of-2.npz").write_bytes(b"1")
    with pytest.raises(FormatError, match="rank-1-of-2.npz has 1 bytes, not 5"):
        checkpoint._read_complete(tmp_path)
