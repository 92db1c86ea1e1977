"""The tape: the ops that a thread runs, as a flat list, and a backward that reads it from the end.

    with mg.Tape() as tape:
        loss = np.tanh(x @ w).sum()
    print(tape)            # one line for each op
    tape.backward(loss)    # the same bits as loss.backward()

Ops are recorded as they run: a call comes after the calls that made its inputs. Read from its end,
the list is a backward order, without sorting and without following the edges of the graph. The walk
itself is backward.run, as for every engine.

record.py records; listing.py prints; program.py replays on new inputs.
"""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ..backends.locks import Lock
from ..engine import backward, modes
from ..engine.backward import BackwardRun, engines, orders
from ..engine.graph import Leaf
from ..errors import TapeError
from ..tensor_api import derivatives
from ..tensor_api.tensor import Tensor
from .listing import backward_text, forward_text
from .program import Program, compile_program
from .record import Record

__all__ = ["Tape"]

_tapes: "weakref.WeakSet[Tape]" = weakref.WeakSet()  # all that are alive
_lock = Lock()


class Tape(Record):
    """Records the ops that this thread runs inside `with`, also those without a gradient.

    A tape is a sequence of entries: len(tape), tape[3].op, for entry in tape. It keeps the recorded
    graph until it is dropped or cleared. Tensors that no op made (from mg.rand, x.grad, x.numpy())
    are constants to it. Entering it again continues recording.

    It keeps nodes alive whose results were dropped. Changing an array in place that such a node has
    saved (print((y * y).sum()); y += 1) is therefore an InPlaceError here, but not without a tape.
    """

    def __init__(self) -> None:
        super().__init__()
        with _lock:
            _tapes.add(self)

    def __str__(self) -> str:
        return self.listing()

    def listing(self, limit: int = 60) -> str:
        """One line for each op: `%3 = mul(%1, w0)  float32[32,32]  model.py:12`.

        For a tape of more than `limit` ops it shows the first and the last ones, and the omitted
        number.
        """
        return forward_text(self, limit)

    def backward_listing(self, tensors: Tensor | Sequence[Tensor], limit: int = 60) -> str:
        """The steps of tape.backward(tensors), one line for each contribution: `g1 += g3 * w0`."""
        return backward_text(self, tensors, limit)

    # -- backward ------------------------------------------------------------------------------

    def backward(
        self,
        tensors: Tensor | Sequence[Tensor],
        gradients: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Tensor | Sequence[Tensor] | None = None,
        leaf_ready: Callable | None = None,
    ) -> None:
        """mg.backward(...), in the order of this tape. It also records the ops of create_graph.

        TapeError where `tensors` depend on results that this tape has not recorded.
        """
        derivatives.backward(
            tensors, gradients, retain_graph, create_graph, inputs, self, leaf_ready=leaf_ready
        )

    def grad(
        self,
        outputs: Tensor | Sequence[Tensor],
        inputs: Tensor | Sequence[Tensor],
        grad_outputs: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        allow_unused: bool = False,
        leaf_ready: Callable | None = None,
    ) -> Any:
        """mg.grad(...), in the order of this tape."""
        return derivatives.grad(
            outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, self,
            leaf_ready=leaf_ready,
        )  # fmt: skip

    def walk(self, work: BackwardRun) -> None:
        """Run one backward, as the serial engine does."""
        if work.create_graph and not self._recording:
            with self:
                backward.walk(work)
        else:
            backward.walk(work)

    # -- replay --------------------------------------------------------------------------------

    def compile(
        self,
        outputs: Tensor | Sequence[Tensor],
        inputs: Sequence[Any] = (),
        wrt: Tensor | Sequence[Tensor] | None = None,
        grad_outputs: Any = None,
        allow_unused: bool = False,
        copy: bool = True,
    ) -> Program:
        """The recorded program, which runs again on other inputs: see program.Program.

        outputs       the results: a tensor, or several
        inputs        the leaves or constants that get new values in each call
        wrt           with it, a call also returns the gradients for these tensors, as mg.grad would
        grad_outputs  cotangents of the outputs (constants, or tensors from `inputs`)
        allow_unused  None for tensors that the outputs do not depend on, in place of an error
        copy          False: a call returns its own buffers, which the next call overwrites
        """
        return compile_program(self, outputs, inputs, wrt, grad_outputs, allow_unused, copy)


def holding(seeds: dict) -> Tape:
    """The tape that recorded these roots: one that records now, else any that is alive."""
    with _lock:
        tapes = [*reversed(modes.state.tapes), *_tapes]
    results = [vertex for vertex in seeds if vertex.__class__ is not Leaf]
    for tape in tapes:
        if all(tape.value_of(vertex) is not None for vertex in results):
            return tape
    raise TapeError(
        'engine="tape": no tape has recorded this result. Run the forward inside '
        "`with mg.Tape() as tape:` and keep the tape until the backward."
    )


engines["tape"] = lambda work: holding(work.cotangents).walk(work)
orders["tape"] = lambda seeds: holding(seeds).order(seeds)
