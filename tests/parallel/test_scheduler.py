"""Which vertex a thread of the parallel backward takes next."""

import threading
from types import SimpleNamespace

import numpy as np

import minigrad as mg
from minigrad.engine import backward
from minigrad.engine.graph import backward_order
from minigrad.engine.primitive import primitive
from minigrad.parallel import work
from minigrad.parallel.report import Lane
from minigrad.parallel.scheduler import Scheduler


@primitive
def watched(x, *, look=None):
    return x * 1.0


@watched.vjp("x")
def watched_dx(g, look):
    look()
    return g


def scheduled(look, cost):
    """A scheduler of two branches whose vertices take `cost` µs each, too little on their own."""
    x = mg.tensor([1.0], requires_grad=True)
    loss = sum(watched(x * float(i), look=look) for i in range(2)).sum()
    seeds = {loss.node: np.ones(loss.shape)}
    order = backward_order(seeds)
    costs = [cost] * len(order)
    estimate = SimpleNamespace(costs=costs, priority=work.priorities(order, costs))
    job = backward.BackwardRun(order, seeds, lambda vertex, g: None, vjp=backward.array_vjp)
    return x, Scheduler(job, estimate, min_work=1.5 * cost)


def test_a_thread_that_has_several_small_vertices_offers_those_that_others_may_have():
    meeting = threading.Barrier(2, timeout=20)
    _, scheduler = scheduled(meeting.wait, cost=50.0)
    assert all(scheduler.small)
    scheduler.offered = [True] * len(scheduler.small)
    scheduler.run(2)  # with one thread in both branches the barrier would break
    assert len(scheduler.lanes) == 2


def test_while_a_thread_is_still_to_wake_up_a_large_vertex_goes_before_small_ones():
    _, scheduler = scheduled(lambda: None, cost=50.0)
    scheduler.workers, scheduler.lanes = 2, [Lane(0)]
    scheduler.small = [i > 3 for i in range(len(scheduler.small))]
    scheduler.ready, small = [(-2.0, 1), (-1.0, 2)], [4, 5]
    assert scheduler._next(small, Lane(0)) == 1
    assert scheduler._next(small, Lane(0)) == 5, "the other large one is for the sleeper"
    scheduler.ready, scheduler.lanes = [(-2.0, 1), (-1.0, 2)], [Lane(0), Lane(1)]
    assert scheduler._next(small, Lane(0)) == 4, "all are awake"
