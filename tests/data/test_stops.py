"""A data set that stops the loop or the program is named, whoever makes its rows."""

import sys

import numpy as np
import pytest

from minigrad.data import DataLoader

KINDS = [
    {},
    {"num_workers": 2},
    {"num_workers": 2, "worker_kind": "process"},
]


class Rows:
    def __init__(self, stop):
        self.stop = stop

    def __len__(self):
        return 6

    def __getitem__(self, i):
        return self.stop() if i == 3 else np.ones(2)


def no_more(*_):
    raise StopIteration("no more")


def leave(*_):
    sys.exit(3)


def collected(loader):
    return list(loader)


@pytest.mark.parametrize("kind", KINDS)
def test_stop_iteration_of_a_row_names_the_data_set_and_the_batch(kind):
    with pytest.raises(RuntimeError, match="the Rows or what .* StopIteration as batch 1 was made"):
        collected(DataLoader(Rows(no_more), batch_size=2, **kind))


@pytest.mark.parametrize("kind", KINDS)
def test_stop_iteration_of_a_collate_function_names_it(kind):
    with pytest.raises(RuntimeError, match="what collates its rows raised StopIteration"):
        collected(DataLoader(Rows(lambda: np.ones(2)), batch_size=2, collate_fn=no_more, **kind))


@pytest.mark.parametrize("kind", KINDS[1:])
def test_stop_iteration_of_the_start_of_a_worker_names_it(kind):
    with pytest.raises(RuntimeError, match="worker_init_fn raised StopIteration"):
        collected(DataLoader(Rows(lambda: np.ones(2)), 2, worker_init_fn=no_more, **kind))


@pytest.mark.parametrize("kind", KINDS[1:])
def test_the_exit_of_a_worker_is_an_error_of_the_loop(kind):
    with pytest.raises(RuntimeError, match=r"called sys\.exit\(3\) as it made batch 1"):
        collected(DataLoader(Rows(leave), batch_size=2, **kind))


def test_the_exit_of_a_data_set_in_the_program_itself_ends_the_program():
    with pytest.raises(SystemExit):
        collected(DataLoader(Rows(leave), batch_size=2))
