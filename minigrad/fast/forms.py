"""The forms of ops in a file: variants, asked in the order of the file."""

from collections.abc import Callable
from typing import Any

from ..custom.variants import Variant, add


class Forms:
    """A decorator that collects forms; `install` gives them to their ops at the end of the file."""

    def __init__(self) -> None:
        self._listed: list[tuple[Any, Variant]] = []

    def __call__(
        self, op: Any, name: str, when: Callable[..., bool] | None = None, on: str = "cpu"
    ) -> Callable:
        """Decorator: a form of an op, asked after those before it."""

        def append(fn: Callable) -> Callable:
            self._listed.append((op, Variant(fn, on, when, name=name)))
            return fn

        return append

    def install(self) -> None:
        for op, variant in reversed(self._listed):  # the last one added is asked first
            add(op, variant)
