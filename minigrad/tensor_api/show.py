"""How a tensor looks in the terminal and in a notebook. Nothing here may raise."""

import html
from typing import Any

import numpy as np

from ..backends.device import to_host
from ..engine.graph import Leaf
from ..engine.registry import engine as functions

_PREFIX = "tensor("
# dtypes that values show by themselves
_PLAIN = frozenset(map(np.dtype, (bool, int, float, complex)))


def tensor_text(x: Any) -> str:
    """NumPy's print of the values, then what NumPy does not know: dtype, device, history.

    The notes go on a new line where they would pass NumPy's line width.
    """
    body, *notes = _parts(x)
    text = ", ".join([_PREFIX + body, *notes])
    width = np.get_printoptions()["linewidth"]
    if notes and len(text) - text.rfind("\n") > width:
        text = f"{_PREFIX}{body},\n{' ' * len(_PREFIX)}{', '.join(notes)}"
    return text + ")"


def tensor_html(x: Any) -> str:
    """The same text for a notebook, under a line with shape, dtype, device and size.

    Below it, folded, the graph behind the tensor, if it is small and the viewer is installed.
    """
    try:
        head = f"shape {x.shape} · {x.dtype} · {x.device} · {x.nbytes:,} bytes"
        page = f"<small>{html.escape(head)}</small><pre>{html.escape(tensor_text(x))}</pre>"
    except Exception:  # else the notebook would show a traceback instead of the value
        return f"<pre>{html.escape(object.__repr__(x))}</pre>"
    try:
        return page + functions.small_graph(x)  # of instrument/, which stands above this room
    except Exception:
        return page


def tensor_bundle(x: Any) -> dict[str, str]:
    """Text and HTML of a tensor, as `_repr_mimebundle_` gives them."""
    try:
        text = tensor_text(x)
    except Exception:
        text = object.__repr__(x)
    return {"text/plain": text, "text/html": tensor_html(x)}


def _parts(x: Any) -> list[str]:
    """The values, then the notes. A tensor of a transform holds, as its values, another tensor."""
    notes = []
    if x.level:
        body = repr(x.data)
    else:
        values = to_host(x.data)
        body = np.array2string(values, separator=", ", prefix=_PREFIX)
        if not x.size and x.ndim != 1:
            notes.append(f"shape={x.shape}")
        if x.dtype not in _PLAIN or not x.size:
            notes.append(f"dtype={x.dtype}")
        if x.device != "cpu":
            notes.append(f"device={x.device}")
    return [body, *notes, *filter(None, [_history(x)])]


def _history(x: Any) -> str:
    if x.node is None:
        return ""
    return "requires_grad=True" if x.node.__class__ is Leaf else f"grad_fn={x.node!r}"
