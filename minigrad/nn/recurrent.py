"""Recurrent layers and their cells: one scan over time, three kinds of step.

Names, argument order, defaults, state names (weight_ih_l0, weight_hh_l0_reverse ...) and the order
of the gates are PyTorch's.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..engine.errors import describe
from ..engine.registry import op
from ..ops.shape.splitting import unbind
from ..tensor_api import create
from ..tensor_api.tensor import Tensor
from .linear import draw_evenly, empty
from .module import Module
from .packed import PackedSequence, active_steps, pack_padded_sequence, pad_packed_sequence

State = tuple[Tensor, ...]

# -- one step ----------------------------------------------------------------------------------
#
# A step takes the parts of the gates from the input, a = W_ih x + b_ih, and from the state, r =
# W_hh h + b_hh. It also takes the state before it. It returns the next state, whose first tensor is
# the output.


def rnn_tanh(a: Tensor, r: Tensor, state: State) -> State:
    """h' = tanh(a + r): Elman, Finding structure in time, 1990"""
    return (op.tanh(a + r),)


def rnn_relu(a: Tensor, r: Tensor, state: State) -> State:
    """h' = max(a + r, 0)"""
    return (op.relu(a + r),)


def lstm(a: Tensor, r: Tensor, state: State) -> State:
    """c' = σ(f) c + σ(i) tanh(g) ;  h' = σ(o) tanh c', with (i, f, g, o) = a + r

    Hochreiter and Schmidhuber, 1997; the forget gate is Gers et al.'s, 2000.
    """
    return op.lstm_gates(a + r, state[1])[:2]


def gru(a: Tensor, r: Tensor, state: State) -> State:
    """h' = (1 − z) n + z h, n = tanh(a₃ + s r₃), s = σ(a₁ + r₁), z = σ(a₂ + r₂)

    Cho et al., 2014, in the form that applies the reset gate after the product.
    """
    return op.gru_gates(a, r, state[0])[:1]


# step -> (how many gates, how many tensors the state has)
_SIZES = {rnn_tanh: (1, 1), rnn_relu: (1, 1), lstm: (4, 2), gru: (3, 1)}


# -- the scan ----------------------------------------------------------------------------------


def scan(
    step: Callable, x: Tensor, state: State, weights: tuple, live: Any = None, reverse: bool = False
) -> tuple[Tensor, State]:
    """Outputs (T, N, H) and the last state, of x (T, N, input) from a first state.

    weights are (W_ih, W_hh, b_ih, b_hh), and W_hr where the output is projected. live (T, N, 1) is
    boolean: where it is False the state stays and the output is 0. With reverse the steps run from
    the last to the first.
    """
    w_ih, w_hh, b_ih, b_hh, *w_hr = weights
    if not w_hr:
        y, last = _whole(step, x, state, weights, live, reverse)
        return (y if live is None else op.where(live, y, 0.0)), last
    steps = unbind(op.linear(x, w_ih, b_ih), 0)
    outputs: list = [None] * len(steps)
    for t in reversed(range(len(steps))) if reverse else range(len(steps)):
        h, *others = step(steps[t], op.linear(state[0], w_hh, b_hh), state)
        after = (op.linear(h, *w_hr), *others)
        if live is not None:
            after = tuple(op.where(live[t], b, a) for a, b in zip(state, after, strict=True))
        outputs[t], state = after[0], after
    y = op.stack(outputs, axis=0)
    return (y if live is None else op.where(live, y, 0.0)), state


def _whole(
    step: Callable, x: Tensor, state: State, weights: tuple, live: Any, reverse: bool
) -> tuple[Tensor, State]:
    """The states h behind all steps, and the last state, by one op."""
    w_ih, w_hh, b_ih, b_hh = weights
    if step is gru:
        a = op.linear(x, w_ih, b_ih)
        *states, _ = op.gru_scan(a, w_hh, *state, b_hh, live, reverse=reverse)
    else:
        a = op.linear(x, w_ih, b_ih if b_hh is None else b_ih + b_hh)
        if step is lstm:
            *states, _ = op.lstm_scan(a, w_hh, *state, live, reverse=reverse)
        else:
            states = op.rnn_scan(a, w_hh, *state, live, relu=step is rnn_relu, reverse=reverse)
    last = 0 if reverse else -1
    return states[0], tuple([y[last] for y in states])


class _Recurrent(Module):
    """Layers of scans, in one direction or two; dropout is between them, so one layer has none."""

    step: Callable

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: str | None = None,
        dtype: Any = np.float32,
    ):
        if isinstance(dropout, str):
            raise TypeError(f"{type(self).__name__}: dropout cannot be a text, got {dropout!r}")
        if proj_size and (self._step() is not lstm or not 0 < proj_size < hidden_size):
            raise ValueError(
                f"{type(self).__name__}: proj_size is for LSTM, and smaller than hidden_size="
                f"{hidden_size}; got {proj_size}"
            )
        if num_layers < 1 or hidden_size < 1 or not 0 <= dropout <= 1:
            raise ValueError(
                f"{type(self).__name__}: needs hidden_size and num_layers of 1 or more and a "
                f"dropout from 0 to 1; got {hidden_size}, {num_layers}, {dropout}"
            )
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        outputs = proj_size or hidden_size
        gates = _SIZES[self._step()][0] * hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else outputs * (1 + bidirectional)
            for suffix in self._suffixes(layer):
                shapes: dict = {"weight_ih": (gates, width), "weight_hh": (gates, outputs)}
                if bias:
                    shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    setattr(self, name + suffix, empty(shape, device, dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        draw_evenly(self.hidden_size, *self.parameters(recurse=False))

    @property
    def mode(self) -> str:
        """Which recurrence it is: "LSTM", "GRU", "RNN_TANH" or "RNN_RELU"."""
        return self._step().__name__.upper()

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters of each layer and direction: weight_ih, weight_hh, bias_ih ..."""
        suffixes = [suffix for n in range(self.num_layers) for suffix in self._suffixes(n)]
        return [[w for w in self._weights(suffix) if w is not None] for suffix in suffixes]

    def flatten_parameters(self) -> None:
        """Nothing; PyTorch's scripts call it to lay parameters out for cuDNN."""

    def _step(self) -> Callable:
        return type(self).step

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"][: 1 + self.bidirectional]

    def _weights(self, suffix: str) -> tuple:
        kinds = ["weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"]
        kinds = kinds if self.proj_size else kinds[:-1]
        return tuple(getattr(self, kind + suffix, None) for kind in kinds)

    def forward(self, x: Any, hx: Any = None, lengths: Any = None) -> tuple[Any, Any]:
        """(outputs, last state) of x (T, N, input), (N, T, input) with batch_first, or (T, input).

        The state is h (layers · directions, N, hidden), for LSTM a pair (h, c), with proj_size
        instead of hidden for h; zeros if left out. With lengths (N,) sequence n has that many
        steps. Later outputs are 0, the state is that of its last step, and the reverse direction
        starts there. If x is a PackedSequence, which has its lengths, the outputs are one too.
        """
        if isinstance(x, PackedSequence):
            return self._packed(x, hx)
        name, single = type(self).__name__, x.ndim == 2
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            raise ValueError(
                f"{name}: x must be (T, N, input_size), batch and time exchanged with "
                f"batch_first, or (T, input_size), input_size={self.input_size}; got {describe(x)}"
            )
        if single:
            x = op.expand_dims(x, axis=1)
        elif self.batch_first:
            x = op.contiguous(op.swapaxes(x, axis1=0, axis2=1))  # for one large product, by rows
        if not x.shape[0]:
            raise ValueError(f"{name}: a sequence needs at least one step, got {describe(x)}")
        first = self._first_state(x, hx, single)
        y, last = self._layers(x, first, active_steps(lengths, x, name))
        if single:
            y, last = op.squeeze(y, axis=1), [op.squeeze(s, axis=1) for s in last]
        elif self.batch_first:
            y = op.swapaxes(y, axis1=0, axis2=1)
        return y, last[0] if len(last) == 1 else tuple(last)

    def _packed(self, x: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        """forward of the padded batch, its outputs packed again."""
        padded, lengths = pad_packed_sequence(x, self.batch_first)
        y, last = self.forward(padded, hx, lengths)
        packed = pack_padded_sequence(y, lengths, self.batch_first, x.sorted_indices is None)
        return x._replace(data=packed.data), last

    def _layers(self, x: Tensor, first: list[State], live: Any) -> tuple[Tensor, list[Tensor]]:
        last: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = op.dropout(x, self.dropout, self.training)
            sides = []
            for suffix in self._suffixes(layer):
                weights, reverse = self._weights(suffix), suffix.endswith("reverse")
                y, state = scan(self._step(), x, first[len(last)], weights, live, reverse)
                sides.append(y)
                last.append(state)
            x = op.concatenate(sides, axis=-1) if len(sides) > 1 else sides[0]
        return x, [op.stack(parts, axis=0) for parts in zip(*last, strict=True)]

    def _first_state(self, x: Tensor, hx: Any, single: bool) -> list[State]:
        """The state that each layer and direction starts from."""
        count, n = self.num_layers * (1 + self.bidirectional), x.shape[1]
        parts = _SIZES[self._step()][1]
        widths = [self.proj_size or self.hidden_size, self.hidden_size][:parts]
        if hx is None:
            zeros = [create.zeros(n, width, dtype=x.dtype, device=x.device) for width in widths]
            return [tuple(zeros)] * count
        given = [*hx] if isinstance(hx, tuple | list) else [hx]
        wanted = [(count, width) if single else (count, n, width) for width in widths]
        _require_shapes(type(self).__name__, "the state", given, wanted)
        given = [op.expand_dims(h, axis=1) if single else h for h in given]
        return [tuple(h[i] for h in given) for i in range(count)]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        text += f", num_layers={self.num_layers}" if self.num_layers != 1 else ""
        text += "" if self.bias else ", bias=False"
        text += ", batch_first=True" if self.batch_first else ""
        text += f", dropout={self.dropout}" if self.dropout else ""
        text += f", proj_size={self.proj_size}" if self.proj_size else ""
        return text + (", bidirectional=True" if self.bidirectional else "")


class RNN(_Recurrent):
    """h_t = tanh(W_ih x_t + b_ih + W_hh h_{t−1} + b_hh), or relu with nonlinearity="relu" """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh",
        bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, proj_size: int = 0, device: str | None = None,
        dtype: Any = np.float32,
    ):  # fmt: skip
        self.nonlinearity = _checked(nonlinearity, "RNN")
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            proj_size, device, dtype,
        )  # fmt: skip

    def _step(self) -> Callable:
        return rnn_relu if self.nonlinearity == "relu" else rnn_tanh


class LSTM(_Recurrent):
    """c_t = σ(f) c_{t−1} + σ(i) tanh(g) ;  h_t = σ(o) tanh c_t, for x and the states (h, c)

    (i, f, g, o) = W_ih x_t + b_ih + W_hh h_{t−1} + b_hh. With proj_size h_t is W_hr σ(o) tanh c_t,
    of that size (Sak, Senior and Beaufays, 2014).
    """

    step = staticmethod(lstm)


class GRU(_Recurrent):
    """h_t = (1 − z) n + z h_{t−1}, n = tanh(a₃ + s r₃), s = σ(a₁ + r₁), z = σ(a₂ + r₂)

    The parts (a₁, a₂, a₃) = W_ih x_t + b_ih come from the input, (r₁, r₂, r₃) = W_hh h_{t−1} + b_hh
    from the state. The reset gate is s, the update gate z, the candidate n (Cho et al., 2014).
    """

    step = staticmethod(gru)


# -- cells -------------------------------------------------------------------------------------


class _Cell(Module):
    """One step: x (N, input) or (input,), the state (N, hidden) or (hidden,)."""

    step: Callable

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = np.float32,
    ):
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates = _SIZES[self._step()][0] * hidden_size
        self.weight_ih = empty((gates, input_size), device, dtype)
        self.weight_hh = empty((gates, hidden_size), device, dtype)
        self.bias_ih = empty((gates,), device, dtype) if bias else None
        self.bias_hh = empty((gates,), device, dtype) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        draw_evenly(self.hidden_size, *self.parameters(recurse=False))

    def _step(self) -> Callable:
        return type(self).step

    def forward(self, x: Tensor, hx: Any = None) -> Any:
        """The state after one step: h, for LSTMCell (h, c); zeros come before when hx is None."""
        parts = _SIZES[self._step()][1]
        shape = (*x.shape[:-1], self.hidden_size)
        if hx is None:
            hx = (create.zeros(shape, dtype=x.dtype, device=x.device),) * parts
        state = tuple(hx) if isinstance(hx, tuple | list) else (hx,)
        what = f"the state of x {describe(x)}"
        _require_shapes(type(self).__name__, what, state, [shape] * parts)
        a = op.linear(x, self.weight_ih, self.bias_ih)
        after = self._step()(a, op.linear(state[0], self.weight_hh, self.bias_hh), state)
        return after if parts > 1 else after[0]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        text += "" if self.bias_ih is not None else ", bias=False"
        chosen = getattr(self, "nonlinearity", "tanh")
        return text if chosen == "tanh" else f"{text}, nonlinearity={chosen}"


class RNNCell(_Cell):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu with nonlinearity="relu" """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: str | None = None,
        dtype: Any = np.float32,
    ):
        self.nonlinearity = _checked(nonlinearity, "RNNCell")
        super().__init__(input_size, hidden_size, bias, device, dtype)

    def _step(self) -> Callable:
        return rnn_relu if self.nonlinearity == "relu" else rnn_tanh


class LSTMCell(_Cell):
    """(h', c') of x and (h, c): one step of LSTM"""

    step = staticmethod(lstm)


class GRUCell(_Cell):
    """h' of x and h: one step of GRU"""

    step = staticmethod(gru)


def _require_shapes(owner: str, what: str, state: Any, wanted: list) -> None:
    """ValueError unless a state, h or (h, c), has the wanted shapes."""
    if [np.shape(part) for part in state] != wanted:
        form = "a tensor" if len(wanted) == 1 else "tensors (h, c)"
        shapes, given = ", ".join(map(str, dict.fromkeys(wanted))), ", ".join(map(describe, state))
        raise ValueError(f"{owner}: {what} must be {form} of shape {shapes}, got {given}")


def _checked(nonlinearity: str, name: str) -> str:
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"{name}: nonlinearity is 'tanh' or 'relu', got {nonlinearity!r}")
    return nonlinearity
