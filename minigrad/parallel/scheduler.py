"""The scheduler of the parallel backward: which thread runs which vertex when, and ordered sums.

parallel.py states what it guarantees.
"""

import heapq
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from time import perf_counter_ns, thread_time_ns
from typing import Any

from ..backends import pool, processors
from ..backends.leaving import contextmanager
from ..backends.locks import Lock
from ..engine import backward, modes
from ..engine import backward as seam
from ..engine.backward import BackwardRun, conform, require_array
from ..engine.graph import Leaf, Node, Port
from .report import Lane, detail_wanted
from .work import Estimate


class Sum:
    """What arrives at one vertex that has several consumers, to be added in their order.

    turns   the number of consumers
    parts   turn -> what the consumer of that turn has sent, while it is not added yet
    next    the first turn that has not been added
    adding  whether a thread is adding; no other thread may then
    """

    __slots__ = ("turns", "parts", "next", "adding")

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.parts: dict[int, list] = {}
        self.next = 0
        self.adding = False

    def take(self) -> list:
        """All parts that can be added now, in order. Under the lock."""
        found: list = []
        while self.next in self.parts:
            found += self.parts.pop(self.next)
            self.next += 1
        return found


class Scheduler:
    """One parallel backward.

    links      for each vertex its parents: (rank, turn, slots), rank being the index in the order
    sums       for each vertex with several consumers, its Sum
    ready      a heap of (−priority, rank) of vertices that any thread may run
    small      for each vertex whether it stays with the thread that has made it ready
    offered    for each small vertex whether other threads may take it while that thread has another
               one to go on with. False here: threads that all run small rules only compete for the
               interpreter lock (StreamScheduler differs)
    lanes      what each thread did; all is done when their node counts add up to the vertices
    stopped    nothing new may begin (an error, Ctrl-C)
    """

    def __init__(self, work: BackwardRun, estimate: Estimate, min_work: float):
        self.work = work
        self.priority = estimate.priority
        self.small = [cost < min_work for cost in estimate.costs]
        self.lock = Lock()
        self.changed = threading.Condition(self.lock)
        self.stopped = False
        self.failed: list[tuple[int, BaseException]] = []
        self.interrupt: BaseException | None = None
        self.idle = 0
        self.inside: set[int] = set()  # threads in their loop; an interrupt may leave it anywhere
        self.lanes: list[Lane] = []
        self.caller = threading.get_ident()
        self.modes = modes.state.all()
        self.detail = detail_wanted()
        self._link()
        self.offered = [False] * len(work.order)

    def _link(self) -> None:
        """Count consumers and give each its turn."""
        order = self.work.order
        rank = {vertex: i for i, vertex in enumerate(order)}
        turns = [0] * len(order)
        self.links: list[list[tuple[int, int, list[int]]]] = []
        for vertex in order:
            links: list[tuple[int, int, list[int]]] = []
            slots: dict[int, list[int]] = {}
            for slot, parent in enumerate(vertex.parents):
                i = rank.get(parent)
                if i in slots:
                    slots[i].append(slot)
                elif i is not None:
                    slots[i] = [slot]
                    links.append((i, turns[i], slots[i]))
                    turns[i] += 1
            self.links.append(links)
        self.sums = {i: Sum(count) for i, count in enumerate(turns) if count > 1}
        self.ready = [(-self.priority[i], i) for i, count in enumerate(turns) if not count]
        heapq.heapify(self.ready)

    # -- threads ---------------------------------------------------------------------------------

    def run(self, workers: int) -> None:
        """Run everything, on this thread and on workers − 1 others; raise what went wrong."""
        self.workers = workers
        try:
            pool.together(self._loop, workers)
            self._raise()
        finally:  # tracebacks refer to frames, and frames to this object: leave no cycle
            self.failed.clear()
            self.interrupt = None

    def _raise(self) -> None:
        if self.interrupt is not None:
            raise self.interrupt
        if not self.failed:
            return
        self.failed.sort(key=lambda pair: pair[0])
        (_, first), *others = self.failed
        try:
            _attach(first, [(self.work.order[i], e) for i, e in others if e is not first])
            raise first
        finally:  # its traceback refers to this frame: leave no cycle
            del first, others

    def _loop(self) -> None:
        """The loop of each thread: run ready vertices until all are done or one has failed."""
        started, before = perf_counter_ns(), self._given()
        me = threading.get_ident()
        here = me == self.caller
        small: list[int] = []  # ready, and to be run by this thread
        lane = Lane(0)
        try:
            with self.lock:
                lane.lane = len(self.lanes)
                self.lanes.append(lane)
                self.inside.add(me)
            with nullcontext() if here else _modes_of(self.modes):
                self._do_all(small, lane)
        except BaseException as error:  # Ctrl-C between vertices
            self._stop()
            self.interrupt = error
        finally:
            lane.alive = perf_counter_ns() - started
            now = self._given()
            lane.computed, lane.queued = now[0] - before[0], now[1] - before[1]
            with self.lock:
                self.inside.discard(me)

    def _given(self) -> tuple[int, int]:
        """With detail, how long this thread has computed, and waited for a processor; else 0, 0."""
        return (thread_time_ns(), processors.queued() or 0) if self.detail else (0, 0)

    def _do_all(self, small: list[int], lane: Lane) -> None:
        while (i := self._next(small, lane)) is not None:
            self._do(i, small, lane)

    def _next(self, small: list[int], lane: Lane) -> int | None:
        """The rank of a vertex to run; waits for one; None when there will be no more."""
        if small and not self.stopped and not self._large_first():
            return small.pop()
        started, waited = perf_counter_ns(), 0
        with self.lock:
            lane.locked += perf_counter_ns() - started
            while True:
                if self.stopped or self._all_done():
                    self.changed.notify_all()
                    lane.waited, lane.over = lane.waited - waited, waited
                    return None
                if self.ready:
                    return heapq.heappop(self.ready)[1]
                if small:
                    return small.pop()
                if self.idle + 1 == len(self.inside):
                    self.stopped = True
                    self.changed.notify_all()
                    raise RuntimeError("parallel backward: no vertex is ready; please report this")
                self.idle += 1
                queued, started = self._given()[1], perf_counter_ns()
                try:
                    self.changed.wait()
                finally:
                    self.idle -= 1
                    spent = perf_counter_ns() - started + queued - self._given()[1]
                    lane.waited, waited = lane.waited + spent, waited + spent

    def _large_first(self) -> bool:
        """Whether to run a large vertex before small ones, because a thread is still asleep.

        Rules of small vertices ask for the interpreter lock again before a woken thread has got it.
        They may keep that thread out until all of them are done; a large rule leaves it the time.
        """
        if not self.idle and len(self.lanes) == self.workers:
            return False
        with self.lock:
            return len(self.ready) > 1 and not self.small[self.ready[0][1]]

    def _all_done(self) -> bool:
        return sum([lane.nodes for lane in self.lanes]) == len(self.work.order)

    def _stop(self) -> None:
        with self.lock:
            self.stopped = True
            self.changed.notify_all()

    # -- one vertex -------------------------------------------------------------------------------

    def _do(self, i: int, small: list[int], lane: Lane) -> None:
        """Run a vertex and pass on what it sends; count it as done in any case."""
        complete: list[int] = []  # parents that have received everything
        try:
            self._send(i, self._vjp(i, lane), complete, lane)
        except BaseException as error:
            self._fail(i, error)
        finally:
            self._hand_over(complete, small)
            lane.nodes += 1

    def _fail(self, i: int, error: BaseException) -> None:
        with self.lock:
            self.stopped = True
            if isinstance(error, KeyboardInterrupt) and threading.get_ident() == self.caller:
                self.interrupt = error  # Ctrl-C is not the vertex's failure
            else:
                self.failed.append((i, error))
            self.changed.notify_all()

    def _hand_over(self, complete: list[int], small: list[int]) -> None:
        """Keep ready small vertices, put others on the heap; wake as many threads as have work."""
        given = []
        for i in complete:
            if self.small[i] and not (small and self.offered[i]):
                small.append(i)
            else:
                given.append(i)
        if not given:
            return
        with self.lock:
            for i in given:
                heapq.heappush(self.ready, (-self.priority[i], i))
            if self.idle:  # this thread takes one, unless it has small ones
                more = len(self.ready) - (not small)
                if more > 0:
                    self.changed.notify(more)

    def _sent_by(self, i: int) -> Any:
        """A vertex's contributions to its parents, in order, as backward.run; () for nothing."""
        work = self.work
        vertex = work.order[i]
        kind = vertex.__class__
        g = work.cotangents.pop(vertex, None)
        hooks = work.hooks
        if hooks is not None and hooks.stands_at(vertex):
            with hooks.lock:
                g = hooks.before(vertex, g)
        contributions: Any = ()
        if g is not None:
            if kind is Leaf if work.wanted is None else vertex in work.wanted:
                with nullcontext() if hooks is None else hooks.lock:
                    work.on_gradient(vertex, seam.private(g))
            if kind is not Leaf and (work.needed is None or vertex in work.needed):
                if kind is Port:
                    return ((vertex, g),)
                contributions = work.vjp(vertex, g, work.plan_of(vertex))  # type: ignore[misc]
                del g
                if work.release:
                    vertex.saved = None
                contributions = _conformed(vertex, contributions)
        if kind is Leaf and hooks is not None:
            with hooks.lock:
                hooks.after(vertex)
        return contributions

    def _vjp(self, i: int, lane: Lane) -> Any:
        """The same, with its time noted in the lane."""
        started, cpu = perf_counter_ns(), thread_time_ns() if self.detail else 0
        try:
            return self._sent_by(i)
        finally:
            lane.rules += perf_counter_ns() - started
            if self.detail:
                lane.cpu += thread_time_ns() - cpu

    def _send(self, i: int, sent: Any, complete: list[int], lane: Lane) -> None:
        """Deliver to each parent what was sent to it, and add what can be added."""
        began = perf_counter_ns()
        shared = []
        for parent, turn, slots in self.links[i]:
            parts = [sent[slot] for slot in slots if sent[slot] is not None] if sent else []
            if parent in self.sums:
                shared.append((parent, turn, parts))
            else:
                self._add(parent, parts)
                complete.append(parent)
        sent = parts = None  # only the sums then refer to it, and may add in place
        if shared:
            self._sum(shared, complete, lane)
        lane.sums += perf_counter_ns() - began

    def _sum(self, shared: list, complete: list[int], lane: Lane) -> None:
        """The same for parents with several consumers: each part in its turn."""
        started = perf_counter_ns()
        with self.lock:
            lane.locked += perf_counter_ns() - started
            to_add = self._arrive(shared)
        while to_add:
            parent, batch = to_add.pop()
            self._add(parent, batch)
            with self.lock:
                total = self.sums[parent]
                batch = total.take()
                if batch:
                    to_add.append((parent, batch))
                    continue
                total.adding = False
                if total.next == total.turns:
                    complete.append(parent)

    def _arrive(self, shared: list) -> list[tuple[int, list]]:
        """Give parts their turns; the sums that this thread is to add. Under the lock."""
        to_add = []
        while shared:
            parent, turn, parts = shared.pop()
            total = self.sums[parent]
            total.parts[turn] = parts
            if not total.adding:
                total.adding = True
                to_add.append((parent, total.take()))
        return to_add

    def _add(self, i: int, parts: list) -> None:
        """Add parts, in order, to what has arrived at a vertex."""
        cotangents, vertex = self.work.cotangents, self.work.order[i]
        parts.reverse()
        while parts:
            c = parts.pop()
            if c.__class__ is tuple:
                backward.into_slot(cotangents, *c)
            elif vertex in cotangents:
                seam.add_into(cotangents, vertex, c)
            else:
                cotangents[vertex] = c


def _attach(first: BaseException, others: list) -> None:
    """Note the errors of other vertices on the one that is raised."""
    for vertex, error in others:
        first.add_note(f"{vertex!r} failed too: {type(error).__name__}: {error}")
    if others:
        first.also_raised = tuple([error for _, error in others])  # type: ignore[attr-defined]


def _conformed(node: Node, contributions: Any) -> list:
    conformed = []
    for parent, c in zip(node.parents, contributions, strict=True):
        try:
            if c is not None and (c.shape != parent.shape or c.dtype is not parent.dtype):
                c = conform(c, parent, node)
        except AttributeError:
            require_array(c, parent, node)
            raise
        conformed.append(c)
    return conformed


@contextmanager
def _modes_of(state: dict) -> Iterator[None]:
    """In a helper thread: run in the calling thread's modes."""
    before = modes.state.all()
    modes.state.set(state)
    try:
        yield
    finally:
        modes.state.set(before)
