"""The parallel backward: vertices that do not depend on each other run at once, in several threads.

It gives the bits of the serial engine, whichever thread does what and when. Each vertex counts its
consumers, and each consumer has its turn among them in the serial order. Contributions are added in
that order, each as soon as all before it have arrived (`scheduler.Sum`). After the last turn the
vertex is ready. Ready vertices wait in a heap, the one with the longest path of work still ahead
first. If a vertex has too little work to be worth a transfer, the thread that made it ready runs
it: chains of small nodes stay together. While a thread is still waking up, a large vertex goes
before small ones: it releases the interpreter lock for long enough.

What may not happen:
- a hang: a vertex counts as done in a `finally`, also after an error. All state changes under one
  lock, and the end and errors also wake a waiting thread. The calling thread could do everything
  alone (backends/pool.py), so no vertex waits for a thread to be free.
- an error lost or changed: after an error nothing new begins. The error of the first failed vertex
  in serial order is raised unchanged; the others are in its notes and `also_raised`.
- half a gradient: `on_gradient` is called once for each leaf, with the total. Leaves that were
  complete before an error keep their new value, the others their old.

Hooks run one at a time: at one vertex in their order, and a consumer's before its producers'. After
Ctrl-C in the calling thread nothing new begins, and rules that are running finish.

BLAS uses one thread during the backward, so the bits are those of the serial engine at one BLAS
thread. With create_graph, inside another parallel backward (in a hook) and in transforms the serial
engine runs. A second backward over the same nodes from a hook is refused unless both retain the
graph.
"""

import os
from time import perf_counter_ns

from ..backends import blas, pool
from ..backends.locks import Lock
from ..engine import backward
from ..engine.backward import BackwardRun, engines
from ..tensor_api.tensor import Tensor
from .report import Report, keep
from .scheduler import Scheduler
from .streams import measured, scheduler_for, usable
from .work import MIN_WORK, Estimate, learning, trial_of


def walk(work: BackwardRun) -> None:
    """Run one backward, in parallel where that is possible and worth it."""
    workers = pool.get_num_threads() if work.workers is None else int(work.workers)
    forced, min_work = work.min_work == 0, MIN_WORK if work.min_work is None else work.min_work
    trial = None if forced else trial_of(work.order, workers, min_work)
    if trial is not None and trial.settled:  # known to gain nothing: no estimate is made
        trial.runs += 1
        keep(trial.report)
        return backward.walk(work)
    reason = _why_serial(work, workers, forced)
    if reason:
        keep(Report("serial", reason, workers, len(work.order)))
        return backward.walk(work)
    outside = blas.threads()
    if not forced and usable(work):
        return measured(work, workers, lambda report: _run(
            work, Estimate(work.order, work.needed, outside or 1), report, work.min_work or 0.0
        ))  # fmt: skip
    if trial is None:
        estimate = Estimate(work.order, work.needed, outside or 1)
        report = Report("parallel", "min_work=0", workers, len(work.order), blas_outside=outside)
        return _run(work, estimate, report, min_work)
    estimate = trial.estimate  # of an earlier graph that looked like this one
    if trial.stale:
        estimate = Estimate(work.order, work.needed, outside or 1)
        trial.consider(estimate, workers, min_work)
    parallel, learns = trial.choose(), trial.learns
    report = Report(
        "parallel" if parallel else "serial", trial.reason(), workers, len(work.order),
        min_work=min_work, blas_threads=outside, blas_outside=outside,
    )  # fmt: skip
    if learns and work.vjp is not None:
        work.vjp = learning(work.vjp, perf_counter_ns, parallel or outside == 1)
    started = perf_counter_ns()
    if parallel:
        _run(work, estimate or Estimate(work.order, work.needed, outside or 1), report, min_work)
    else:
        trial.report = report
        keep(report)
        backward.walk(work)
    trial.note(parallel, (perf_counter_ns() - started) / 1000)


def _why_serial(work: BackwardRun, workers: int, forced: bool) -> str:
    """Why this backward cannot be a parallel one; "" if it can."""
    if work.create_graph:
        return "create_graph records nodes, which are numbered in the serial order"
    if any(isinstance(g, Tensor) for g in work.cotangents.values()):
        return "inside a transform rules are recorded"
    if pool.sharing():
        return "inside another parallel computation"
    return "one worker" if workers == 1 and not forced else ""


def _run(work: BackwardRun, estimate: Estimate, report: Report, min_work: float) -> None:
    report.work, report.span, report.min_work = estimate.work, estimate.span, min_work
    report.heavy = sum(cost >= min_work for cost in estimate.costs)
    keep(report)
    with blas.one_thread() as report.blas_threads:
        scheduler = scheduler_for(work, report.workers)(work, estimate, min_work)
        _running.add(scheduler)
        try:
            scheduler.run(report.workers)
        finally:
            _running.discard(scheduler)
            report.lanes = scheduler.lanes


engines["parallel"] = walk


# -- fork ------------------------------------------------------------------------------------------

_running: set[Scheduler] = set()
_forking = Lock()  # one thread forks at a time
_held: list[Scheduler] = []  # whose locks it holds meanwhile, so that no child inherits one locked


def _before_fork() -> None:
    _forking.acquire()
    _held[:] = list(_running)
    for scheduler in _held:
        scheduler.lock.acquire()


def _after_fork(child: bool = False) -> None:
    for scheduler in _held:
        if child and not scheduler.stopped:
            scheduler.stopped = True
            scheduler.interrupt = RuntimeError(
                "fork in the middle of a parallel backward: the child has not the threads that "
                "take part in it. Leave it with os._exit, or fork outside of backward."
            )
        scheduler.lock.release()
    _held.clear()
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork,
        after_in_child=lambda: _after_fork(child=True),
    )  # fmt: skip
