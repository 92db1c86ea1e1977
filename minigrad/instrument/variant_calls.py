"""How often each variant of an op has computed a call while a profile counted."""

from ..custom.variants import called


class VariantCalls:
    """Counts between `start` and `pause`, over all threads; `reset` forgets them.

    A variant counts its calls (custom/variants.py); a profile only takes differences.
    """

    def __init__(self) -> None:
        self._counted: dict[tuple[str, str], int] = {}
        self._since: dict[tuple[str, str], int] | None = None

    def start(self) -> None:
        self._since = _calls()

    def pause(self) -> None:
        self._counted, self._since = self.by_op_and_variant(), None

    def reset(self) -> None:
        self._counted = {}
        if self._since is not None:
            self.start()

    def by_op_and_variant(self) -> dict[tuple[str, str], int]:
        """{(op, variant): calls}, the most frequent first; none without calls."""
        found = dict(self._counted)
        if self._since is not None:
            for key, calls in _calls().items():
                found[key] = found.get(key, 0) + max(0, calls - self._since.get(key, 0))
        return dict(sorted([kv for kv in found.items() if kv[1]], key=lambda kv: (-kv[1], kv[0])))


def _calls() -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for variant, op in list(called.items()):
        found[op, variant.name] = found.get((op, variant.name), 0) + variant.calls
    return found
