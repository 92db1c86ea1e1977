"""The watchdog: a fault of one rank ends the job in bounded time, and its cause is named.

Each rank has a thread that reports to rank 0 several times a second: the rank's phase, how many
collectives it has begun, and which one it waits in. Rank 0 compares. A rank may raise, leave while
others wait, fall silent, or keep the others waiting for longer than the time-out. Rank 0 then sends
one verdict to all. Every rank prints it, gives its main thread a moment to leave (a wait raises
DistributedError), and the job is aborted. A rank that is killed cannot do that: the witness of its
machine speaks for it (witness.py).
"""

import atexit
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any

from ..backends.leaving import contextmanager
from ..backends.locks import Lock
from . import witness

INTERVAL = 0.1  # seconds between two notes of a rank
_OLD = 5 * INTERVAL  # a note of this age does not tell what the rank does now
_GRACE = 1.0  # seconds for the main thread to leave after a verdict
_BYTES = 2048  # of a note on its way
_NOTE, _WORD = 1, 2  # tags: from a rank to rank 0, and back


class Watchdog:
    """Watches this rank for the others; `verdict` says why the job ends, "" while it goes on.

    comm   an MPI communicator, or None where there is no rank to watch
    """

    def __init__(self, world: Any, comm: Any):
        self.world = world
        self.verdict = ""
        self._comm = comm.Dup() if comm is not None else None
        self._phase = "what follows init()"
        self._waits: tuple[str, float] | None = None
        self._raised = ""
        self._left = False
        self._ended = threading.Event()  # all have left
        self._wake = threading.Event()
        self._sent: list[Any] = []
        self._witness: subprocess.Popen | None = None
        self._pipe: int | None = None  # to the witness
        self._file: int | None = None  # with the note for it
        self._farewell = Lock()

    # -- what the rank tells -----------------------------------------------------------------

    def phase(self, name: str) -> None:
        """Say what this rank does from here on, such as "forward"."""
        if name != self._phase:
            self._phase = name
            self._write()

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Around a wait for other ranks."""
        if self._comm is None:
            yield
            return
        outer, self._waits = self._waits, (what, time.monotonic())
        self._write()
        try:
            yield
        finally:
            self._waits = outer
            self._write()

    def _where(self) -> str:
        waits = self._waits
        return f"in {waits[0]} ({self._phase})" if waits else f"in {self._phase}"

    def _write(self) -> None:
        """Leave a note for the witness."""
        if self._file is not None:
            text = f"{self._where()}, collective {self.world.collectives}"
            os.pwrite(self._file, text.encode()[:400].ljust(400, b"\0"), 0)

    # -- start and end -----------------------------------------------------------------------

    def start(self) -> None:
        """Begin to watch: thread, witness, and what happens at the end of the program."""
        if self._comm is None:
            return
        self._start_witness()
        self._thread = threading.Thread(target=self._watch, name="minigrad-watchdog", daemon=True)
        self._thread.start()
        self._previous_hook, sys.excepthook = sys.excepthook, self._on_exception
        self._previous_exit, os._exit = os._exit, self._on_exit
        self._process = os.getpid()
        atexit.register(self._leave)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _start_witness(self) -> None:
        """One for the ranks of a machine; where none can be had, the job runs without."""
        assert self._comm is not None
        here = self._comm.Split_type(_mpi().COMM_TYPE_SHARED)
        folder = _shared_folder(here)
        with contextlib.suppress(OSError):  # a full disk, a folder that takes no pipes
            note, pipe = (os.path.join(folder, f"{x}-{self.world.rank}") for x in ("rank", "pipe"))
            self._file = os.open(note, os.O_CREAT | os.O_WRONLY, 0o600)
            self._write()
            os.mkfifo(pipe, 0o600)
            self._pipe = os.open(pipe, os.O_RDWR)  # to write alone, it would need its reader now
        here.Barrier()
        if here.Get_rank() == 0 and folder:
            self._witness = _witness(self.world.size, folder)
        here.Free()
        # No rank may fall before all are watched: the launcher would end the others.
        self._comm.Barrier()

    def _on_exception(self, kind: Any, error: Any, trace: Any) -> None:
        """The rank raises: show it as always, tell the others, and end the job."""
        self._previous_hook(kind, error, trace)
        sys.stderr.flush()
        if os.getpid() != self._process:  # a forked child
            return
        last = traceback.format_exception_only(kind, error)[-1].strip()
        self._end_the_job(f"{last[:600]} ({self._where()})")

    def _on_exit(self, status: int) -> None:
        """os._exit of a rank: a job without it is no success, even if the launcher would say so."""
        if os.getpid() == self._process and not self._ended.is_set():
            sys.stderr.write(
                f"minigrad.distributed: rank {self.world.rank} of {self.world.size} called "
                f"os._exit({status}) {self._where()}: the job ends; leave by sys.exit\n"
            )
            self._end_the_job(f"os._exit({status}) ({self._where()})")
        self._previous_exit(status)

    def _end_the_job(self, raised: str) -> None:
        """Tell the others why, give them a moment to say so, and abort."""
        if not self.verdict:
            self._raised = raised
            self._wake.set()
        self._ended.wait(_GRACE + 20 * INTERVAL)
        self._abort()

    def _leave(self) -> None:
        """At the end of the program: wait for the others, who may still need this rank's thread."""
        if os.getpid() != self._process:
            return
        self._left = True
        self._wake.set()
        self._ended.wait()
        self._dismiss_witness()
        if self._witness is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._witness.wait(5)
        self._thread.join(5)

    def _forget(self) -> None:
        """In a forked child: the rank is its parent, at whose end the pipe must close."""
        pipe, self._pipe, self._witness, self._comm = self._pipe, None, None, None
        if pipe is not None:
            os.close(pipe)

    def _dismiss_witness(self) -> None:
        with self._farewell:
            pipe, self._pipe = self._pipe, None
            if pipe is not None:
                with contextlib.suppress(OSError):
                    os.write(pipe, witness.FAREWELL)
                os.close(pipe)

    def _abort(self) -> None:
        self._dismiss_witness()
        sys.stderr.flush()
        _mpi().COMM_WORLD.Abort(1)

    # -- the thread --------------------------------------------------------------------------

    def _watch(self) -> None:
        try:
            judge = Judge(self.world.size, self.world.timeout) if self.world.rank == 0 else None
            heard = time.monotonic()  # from rank 0
            while not self.verdict:
                note = self._note()
                if judge is not None:
                    judge.hear(0, note)
                    for source, other in self._received(_NOTE):
                        judge.hear(source, other)
                    word = judge.word()
                    for other in range(1, self.world.size):
                        self._send(word, other, _WORD)
                else:
                    self._send(note, 0, _NOTE)
                    word = {}
                    for _, latest in self._received(_WORD):
                        word, heard = {**word, **latest}, time.monotonic()
                    silent = time.monotonic() - heard
                    if silent > self.world.timeout + 10 * INTERVAL:
                        word = {"verdict": f"rank 0 has not been heard of for {silent:.0f} s"}
                if word.get("over"):
                    self._finish_sends()
                    self._ended.set()
                    return
                self.verdict = word.get("verdict", "")
                self._wake.wait(INTERVAL / 10 if self._left else INTERVAL)
                self._wake.clear()
            self._stop_the_job()
        except Exception:  # MPI itself failed: the others are gone
            traceback.print_exc()
            self._abort()

    def _note(self) -> dict[str, Any]:
        waits = self._waits
        return {
            "phase": self._phase,
            "count": self.world.collectives,
            "waits": waits[0][:300] if waits else None,
            "since": time.monotonic() - waits[1] if waits else 0.0,
            "raised": self._raised,
            "left": self._left,
        }

    def _stop_the_job(self) -> None:
        """Say why on this rank, let the main thread leave, abort."""
        self._finish_sends()
        where = "it had ended its program" if self._left else f"it was {self._where()}"
        if not self._raised:
            sys.stderr.write(
                f"minigrad.distributed: rank {self.world.rank} of {self.world.size} stops, because "
                f"{self.verdict}; {where}\n"
            )
            sys.stderr.flush()
        self._dismiss_witness()
        if self.world.rank == 0:
            self._await_the_others()
        else:
            self._send({**self._note(), "stopped": True}, 0, _NOTE)
            time.sleep(2 * _GRACE)  # rank 0 ends the job for all
        self._ended.set()
        self._abort()

    def _await_the_others(self) -> None:
        """Until every rank has printed the verdict, at most the grace: those that hang cannot."""
        stopped, until = {0}, time.monotonic() + _GRACE
        while len(stopped) < self.world.size and time.monotonic() < until:
            stopped |= {rank for rank, note in self._received(_NOTE) if note.get("stopped")}
            time.sleep(0.01)
        time.sleep(0.2)  # for main threads that are on their way out

    # -- messages ----------------------------------------------------------------------------

    def _send(self, note: dict, to: int, tag: int) -> None:
        self._sent = [entry for entry in self._sent if not entry[0].Test()]
        if len(self._sent) > 4 * self.world.size and not note.get("verdict"):
            return  # no rank takes them: important notes are sent when there is room
        text = json.dumps(note).encode()[:_BYTES].ljust(_BYTES)
        assert self._comm is not None
        self._sent.append((self._comm.Isend(bytearray(text), to, tag), text))

    def _finish_sends(self) -> None:
        until = time.monotonic() + 1
        while self._sent and time.monotonic() < until:
            self._sent = [entry for entry in self._sent if not entry[0].Test()]
            time.sleep(0.001)

    def _received(self, tag: int) -> Iterator[tuple[int, dict]]:
        assert self._comm is not None
        MPI, status = _mpi(), _mpi().Status()
        while self._comm.Iprobe(MPI.ANY_SOURCE, tag, status):
            text = bytearray(_BYTES)
            self._comm.Recv(text, status.Get_source(), tag)
            yield status.Get_source(), json.loads(bytes(text))


class Judge:
    """Rank 0's view of all ranks; `word()` is what it tells them."""

    def __init__(self, size: int, timeout: float):
        self.notes: dict[int, dict] = {}
        self.heard = dict.fromkeys(range(size), time.monotonic())
        self.timeout = timeout

    def hear(self, rank: int, note: dict) -> None:
        """Take in what a rank tells."""
        self.notes[rank] = note
        self.heard[rank] = time.monotonic()

    def word(self) -> dict[str, Any]:
        """{"over": True} when all have left, {"verdict": why} when the job must end, else {}."""
        notes = self.notes
        if len(notes) == len(self.heard) and all(note["left"] for note in notes.values()):
            return {"over": True}
        verdict = self._raised() or self._left() or self._silent() or self._behind()
        return {"verdict": verdict} if verdict else {}

    def _raised(self) -> str:
        found = [(r, note["raised"]) for r, note in sorted(self.notes.items()) if note["raised"]]
        return f"rank {found[0][0]} raised {found[0][1]}" if found else ""

    def _left(self) -> str:
        """A rank has ended its program, and others wait in a collective that it never began."""
        left = [r for r, note in self.notes.items() if note["left"]]
        for rank, note in self.notes.items():
            gone = [r for r in left if self.notes[r]["count"] < note["count"]]
            if note["waits"] and note["since"] > 1 and gone:
                return (
                    f"{_named(gone)} ended the program while rank {rank} waits in {note['waits']}: "
                    "every rank must make the same calls"
                )
        return ""

    def _silent(self) -> str:
        now = time.monotonic()
        silent = [r for r, at in self.heard.items() if now - at > self.timeout]
        if not silent:
            return ""
        note = self.notes.get(silent[0], {"phase": "init"})
        return (
            f"{_named(silent)} has not been heard of for {self.timeout:g} s (last: in "
            f"{note['phase']}): the process is stopped, hangs, or its machine is gone"
        )

    def _behind(self) -> str:
        """Some wait for longer than the time-out: who keeps them waiting?"""
        waiting = {
            r: note for r, note in self.notes.items()
            if note["waits"] and note["since"] > self.timeout
        }  # fmt: skip
        if not waiting:
            return ""
        front = max(waiting, key=lambda r: waiting[r]["count"])
        count, what = waiting[front]["count"], waiting[front]["waits"]
        late = [r for r, note in self.notes.items() if note["count"] < count]
        late = late or [r for r, note in self.notes.items() if not note["waits"]]
        since = f"rank {front} has waited in {what} for {self.timeout:g} s"
        if not late:
            calls = {note["waits"] or note["phase"] for note in self.notes.values()}
            return f"{since}; the ranks are in {' and in '.join(sorted(calls))}"
        if time.monotonic() - self.heard[late[0]] > _OLD:
            return ""  # it may not run at all: soon it is heard of again, or it counts as silent
        note = self.notes[late[0]]
        return f"{_named(late)} falls behind (in {note['waits'] or note['phase']}): {since}"


def _shared_folder(here: Any) -> str:
    """A folder for the ranks of one machine, which their witness removes; "": there is none."""
    name = bytearray(512)
    if here.Get_rank() == 0:
        with contextlib.suppress(OSError):
            folder = os.fsencode(tempfile.mkdtemp(prefix="minigrad-job-"))
            name[: len(folder)] = folder
    here.Bcast(name, 0)
    return os.fsdecode(bytes(name).rstrip(b"\0"))


def _witness(size: int, folder: str) -> subprocess.Popen | None:
    """A witness that has opened the pipes; None where none can start, and the folder is gone."""
    command = [sys.executable, "-S", "-E", witness.__file__, str(size), folder]
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
        )
    except OSError:  # no further process allowed
        shutil.rmtree(folder, ignore_errors=True)
        return None
    assert process.stdout is not None
    with process.stdout as ready:
        ready.read()
    return process


def _named(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


def _mpi() -> Any:
    from mpi4py import MPI

    return MPI
