"""Tells right answers of the tutorials' exercises from wrong ones, which get a hint.

@exercise(1)
def check(slope):  # each parameter is the name of an answer in the notebook
    assert slope(2.0) == 4.0, "Differentiate x², not x."
"""

import dis
from collections.abc import Callable
from inspect import signature
from types import FunctionType
from typing import Any


def exercise(number: int) -> Callable[[Callable], None]:
    """Run a check on the answers that its parameters name, and print what it found.

    An answer that is `...`, a function without a body, or missing is not answered yet. An assertion
    that fails makes the answer wrong; its message is the hint. No answer stops the notebook.
    """

    def run(check: Callable) -> None:
        answers = {name: check.__globals__.get(name, ...) for name in signature(check).parameters}
        print(f"Exercise {number}:", _verdict(check, answers))

    return run


def _verdict(check: Callable, answers: dict[str, Any]) -> str:
    if any(map(_is_empty, answers.values())):
        return "not answered yet."
    try:
        check(**answers)
    except AssertionError as error:
        return f"not right yet. {error}"
    except Exception as error:  # an answer may fail in any way; the notebook goes on
        name = type(error).__name__
        return f"not right yet. The check raises {name}: {error}\nCall your answer to see where."
    return "right."


def _is_empty(answer: Any) -> bool:
    if isinstance(answer, FunctionType):
        return _steps(answer) == _steps(lambda: None)
    return answer is ...


def _steps(function: FunctionType) -> list[tuple[str, Any]]:
    """What a function does; `def f(x): ...` does the same as `lambda: None`."""
    return [(step.opname, step.argval) for step in dis.get_instructions(function)]
