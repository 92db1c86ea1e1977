"""A row's random numbers depend on the seed, the pass and the row, and on nothing else."""

import pickle
import random
import subprocess
import sys
import textwrap
import threading
from random import choice, randint

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minigrad as mg
from minigrad import data
from minigrad.data.randomness import ROW, numbers_of, shared

pytestmark = pytest.mark.promise(
    "a row's random numbers (np.random, random, mg) depend on the seed, the pass and the "
    "row alone. The program's generators are as without a loader"
)

KINDS = {
    "none": {},
    "one thread": {"num_workers": 1},
    "threads": {"num_workers": 3},
    "processes": {"num_workers": 2, "worker_kind": "process"},
    "far ahead": {"num_workers": 3, "prefetch_factor": 7},
}
ways = pytest.mark.parametrize("way", KINDS)


def drawn():
    """From all that a row may draw from; random numbers of every kind, and of every import."""
    return [
        np.random.rand(), np.random.randn(), *np.random.permutation(4), np.random.randint(1 << 30),
        np.random.choice(9), random.random(), random.gauss(0, 1), randint(0, 1 << 30),
        choice(range(99)), *random.sample(range(99), 2), mg.rand().item(), mg.randn().item(),
        mg.randint(0, 1 << 30).item(), mg.dropout(mg.ones(9), 0.5).sum().item(),
    ]  # fmt: skip


class Rows(data.Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, i):
        return np.array([float(i), *drawn()])


def mixed(rows):
    return np.stack(rows), np.array([len(rows), *drawn()])


class Stream(data.IterableDataset):
    def __iter__(self):
        info = data.get_worker_info()
        for i in np.random.permutation(5):
            yield np.array([float(info.id if info else 0), float(i), *drawn()])


def seed_everything():
    mg.manual_seed(4)
    np.random.seed(5)
    random.seed(6)


def passes(dataset=None, *, batch_size=3, collate=mixed, **options):
    """Two passes' rows by their first number, what their collate_fn drew, what is drawn after."""
    seed_everything()
    loader = data.DataLoader(dataset or Rows(), batch_size, collate_fn=collate, **options)
    rows, others = [], []
    for _ in range(2):
        batches = list(loader)
        rows.append({tuple(row.tolist()) for batch, _ in batches for row in batch})
        others.append([extra.tolist() for _, extra in batches])
    return rows, others, drawn()


@ways
def test_they_are_the_same_whatever_fetches_them(way):
    assert passes(**KINDS[way]) == passes()
    assert passes(shuffle=True, **KINDS[way]) == passes(shuffle=True)


def test_each_row_and_each_pass_has_its_own():
    (one, other), others, _ = passes()
    assert len(one | other) == 20
    assert len({row[1:] for row in one | other} | {tuple(x[1:]) for x in sum(others, [])}) == 28


@pytest.mark.parametrize("batch_size", [1, 4, 10])
def test_they_do_not_depend_on_the_size_of_batches(batch_size):
    assert passes(batch_size=batch_size)[0] == passes()[0]


@settings(max_examples=10, deadline=None)
@given(st.permutations(range(10)), st.integers(1, 10))
def test_they_do_not_depend_on_the_order_or_on_which_rows_are_made(order, count):
    some = passes(sampler=order[:count])[0]
    assert all(part <= whole for part, whole in zip(some, passes()[0], strict=True))


@ways
def test_the_generators_of_the_program_are_as_without_a_loader(way):
    seed_everything()
    np.random.randn(), random.gauss(0, 1)  # so that the second of the pair is waiting
    np.random.rand(), random.random(), np.random.randn(), random.gauss(0, 1)
    expected = np.random.rand(), np.random.randn(), random.random(), random.gauss(0, 1)
    seed_everything()
    loader, options = Rows(), KINDS[way]
    np.random.randn(), random.gauss(0, 1)
    for n, _ in enumerate(data.DataLoader(loader, 4, collate_fn=mixed, **options)):
        if n == 1:  # in the middle of the pass
            np.random.rand(), random.random()
    np.random.randn(), random.gauss(0, 1)
    assert expected == (np.random.rand(), np.random.randn(), random.random(), random.gauss(0, 1))


@ways
def test_what_a_row_seeds_or_sets_back_is_its_own(way):
    class Seeding(Rows):
        def __getitem__(self, i):
            np.random.seed(i)
            random.seed(i)
            mg.manual_seed(i)
            first = np.array(drawn())
            state = np.random.get_state(), random.getstate()
            second = np.random.randn(), random.random()
            np.random.set_state(state[0]), random.setstate(state[1])
            assert second == (np.random.randn(), random.random())
            return first

    np.random.seed(3), random.seed(3), mg.manual_seed(3)
    expected = np.array(drawn())
    one, other = (list(data.DataLoader(Seeding(), None, **KINDS[way])) for _ in range(2))
    np.testing.assert_array_equal(one[3], expected)
    np.testing.assert_array_equal(one, other)


def test_a_resumed_run_goes_on_with_the_numbers_of_the_run():
    loader = data.DataLoader(Rows(), 4, num_workers=2)
    seed_everything()
    list(loader)
    state = mg.get_rng_state()
    second = [batch.tolist() for batch in loader]
    np.random.seed(77)
    mg.set_rng_state(state)
    again = data.DataLoader(Rows(), 4)
    assert [batch.tolist() for batch in again] == second


def test_the_generator_of_a_worker_is_of_the_row():
    class Noisy(Rows):
        def __getitem__(self, i):
            return np.array([i, *data.get_worker_info().generator.random(2)])

    def rows(**options):
        mg.manual_seed(0)
        batches = list(data.DataLoader(Noisy(), shuffle=True, **options))
        return sorted(row.tolist() for batch in batches for row in batch)

    assert rows(num_workers=1) == rows(num_workers=3, batch_size=4)
    assert rows(num_workers=1) == rows(num_workers=2, batch_size=3, worker_kind="process")


@ways
def test_a_stream_has_numbers_of_its_place_and_its_worker(way):
    options = KINDS[way]
    rows, _, after = passes(Stream(), **options)
    threads = {**options, "worker_kind": "thread"} if options else {"num_workers": 1}
    assert rows == passes(Stream(), **threads)[0]
    assert len(set().union(*rows)) == 10 * options.get("num_workers", 1)
    assert after == passes(Stream())[2]


@ways
def test_rows_by_name_have_numbers_too(way):
    class Named(Rows):
        def __getitem__(self, name):
            return np.array(drawn())

    def rows(names, **options):
        mg.manual_seed(0)
        return [x.tolist() for x in data.DataLoader(Named(), None, sampler=names, **options)]

    names = ["a", "b", ("c", 1), -1]
    found = rows(names, **KINDS[way])
    assert found == rows(names) and found[::-1] == rows(names[::-1])
    assert len(set(map(tuple, found))) == 4


def test_a_loader_inside_a_row_has_numbers_that_follow_from_the_row():
    class Outer(Rows):
        def __getitem__(self, i):
            first = drawn()
            inner = [row.tolist() for row in data.DataLoader(Rows(), 4, shuffle=True)]
            return first, str(inner), drawn()

    def rows(**options):
        mg.manual_seed(0)
        return [str(row) for row in data.DataLoader(Outer(), None, **options)]

    assert rows() == rows(num_workers=3) and len(set(rows())) == 10


def test_arrays_take_nothing_from_the_generator():
    mg.manual_seed(1)
    expected = mg.rand().item()
    mg.manual_seed(1)
    list(data.DataLoader(data.ArrayDataset(np.arange(6)), 2, num_workers=2))
    assert mg.rand().item() == expected


def test_nothing_is_left_in_the_place_of_what_it_replaces():
    before = [np.random.get_bit_generator(), random.random, vars(random._inst).keys()]
    kept = [random.random, np.random.get_bit_generator()]
    for _ in data.DataLoader(Rows(), 2, num_workers=2):
        break
    loader = iter(data.DataLoader(Rows(), 2))
    next(loader)
    del loader
    for thread in threading.enumerate():
        if thread.name.startswith("loader-"):
            thread.join(10)
    assert [random.random, np.random.get_bit_generator()] == kept
    assert before[2] == vars(random._inst).keys() and "random" not in vars(random._inst)


def test_the_generators_can_be_copied_and_pickled_meanwhile():
    np.random.seed(1)
    expected = np.random.RandomState(1).rand()
    with shared():
        copies = [pickle.loads(pickle.dumps(np.random.mtrand._rand))]
        state = np.random.get_state(), random.getstate()
        with numbers_of(1, ROW, 2):
            drawn()
    assert type(copies[0]._bit_generator) is np.random.MT19937
    assert [copied.rand() for copied in copies] == [expected]
    assert pickle.dumps(state) == pickle.dumps((np.random.get_state(), random.getstate()))


def test_a_global_bit_generator_of_another_kind_is_left_alone():
    code = """
        import numpy as np
        np.random.set_bit_generator(np.random.PCG64(3))
        from tests.data.test_row_randomness import data, Rows
        list(data.DataLoader(Rows(), 3, num_workers=2))
        print(type(np.random.get_bit_generator()).__name__)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (told.stdout, told.stderr) == ("PCG64\n", "")


def test_threads_that_draw_at_once_each_get_the_numbers_of_their_row():
    def numbers(row, out, rounds=50):
        for _ in range(rounds):
            with numbers_of(7, ROW, row) as current:
                out.append([drawn() for _ in range(3)])
                current.change(7, ROW, row + 100)
                out.append([drawn()])

    seed_everything()
    own = [drawn() for _ in range(20)]
    seed_everything()
    found = [[] for _ in range(4)]
    with shared():
        threads = [threading.Thread(target=numbers, args=(i, out)) for i, out in enumerate(found)]
        for thread in threads:
            thread.start()
        assert [drawn() for _ in range(20)] == own
        for thread in threads:
            thread.join(60)
    alone = []
    numbers(2, alone, 1)
    assert all(out == out[:2] * 50 for out in found) and found[2][:2] == alone
    assert len({str(out[0]) for out in found}) == 4
