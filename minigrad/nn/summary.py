"""A model as a table: each module, the shape of its result, how many parameters it holds itself."""

from typing import Any

from ..backends.leaving import ended_by
from ..modes.recording import no_grad
from ..tensor_api.tensor import Tensor


def summary_of(module: Any, inputs: tuple) -> str:
    """The table as text. Inputs run through the model once, in evaluation mode, unrecorded."""
    shapes = _result_shapes(module, inputs) if inputs else {}
    rows = [("module", "result", "parameters")]
    for path, part in module.named_modules():
        depth = path.count(".") + bool(path)
        name = (
            f"{'  ' * depth}{path.rpartition('.')[2] + ': ' if path else ''}{type(part).__name__}"
        )
        own = [value for value in vars(part).values() if getattr(value, "is_parameter", False)]
        rows.append((name, shapes.get(id(part), ""), f"{sum(p.size for p in own):,}"))
    if not inputs:
        rows = [(name, count) for name, _, count in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [_line(row, widths) for row in rows]
    rule = "─" * len(lines[0])
    return "\n".join([lines[0], rule, *lines[1:], rule, _totals(module)])


def _line(row: tuple, widths: list[int]) -> str:
    *left, count = row
    parts = [text.ljust(width) for text, width in zip(left, widths, strict=False)]
    return "  ".join([*parts, count.rjust(widths[-1])])


def _totals(module: Any) -> str:
    parameters = list(module.parameters())
    learned = sum(p.size for p in parameters if p.requires_grad)
    size = sum(p.nbytes for p in parameters) + sum(b.nbytes for b in module.buffers())
    total = sum(p.size for p in parameters)
    return f"{total:,} parameters, {learned:,} of them learned; {size / 1e6:,.2f} MB with buffers"


def _result_shapes(module: Any, inputs: tuple) -> dict[int, str]:
    shapes: dict[int, str] = {}
    parts = list(module.modules())

    def note(part: Any, _: tuple, result: Any) -> None:
        shapes.setdefault(id(part), _shape(result))

    before = [(part, part._hooks, part.training) for part in parts]

    def put_back() -> None:
        for part, hooks, training in before:
            part._hooks, part.training = hooks, training

    with ended_by(put_back):
        for part in parts:
            part.register_forward_hook(note)
        module.eval()
        with no_grad():
            module(*inputs)
    return shapes


def _shape(result: Any) -> str:
    if isinstance(result, Tensor):
        return str(tuple(result.shape))
    if isinstance(result, tuple | list):
        return ", ".join(filter(None, map(_shape, result)))
    return type(result).__name__ if result is not None else ""
