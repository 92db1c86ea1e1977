"""The arrays that recorded ops read and that need no gradient: images, targets, masks.

A graph holds only what a gradient flows through. While a recorder listens, this keeps for each
node which of its arguments were other arrays: their shapes and small values, never the arrays.
"""

from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary, ref

from ..backends.device import device_of
from ..engine.graph import raw
from ..tensor_api.tensor import Tensor
from .graph_dump import array_record
from .numbers import small_values, spread


class UntrackedInputs:
    """Hears forward calls; `records` and `edges` tell what some nodes read."""

    def __init__(self) -> None:
        self._arrays: dict[int, tuple[ref, int]] = {}  # id of an array -> itself, its number
        self._references: dict[int, ref] = {}  # number -> the array, while it lives
        self._records: dict[int, dict[str, Any]] = {}
        self._sources: dict[int, str] = {}  # number -> the op outside of the graph that made it
        self._reads: WeakKeyDictionary[Any, list[tuple[int, int]]] = WeakKeyDictionary()

    def heard(self, op: str, node: Any, inputs: Iterable, outputs: Iterable) -> None:
        """Keep what one forward call read."""
        if node is None:
            for made in outputs:
                number = self._number(made)
                if number is not None:
                    self._sources[number] = op
            return
        reads = []
        for slot, x in enumerate(inputs):
            number = self._number(x) if _is_untracked(x) else None
            if number is not None:
                reads.append((slot, number))
                if number not in self._records:
                    self._records[number] = self._record(number, x)
        if reads:
            self._reads[node] = reads

    def _number(self, x: Any) -> int | None:
        """The number of an array, below 0; None for what is no array."""
        array = raw(x)
        known = self._arrays.get(id(array))
        if known is not None and known[0]() is array:
            return known[1]
        try:
            reference = ref(array)
        except TypeError:  # a number
            return None
        number = -1 - len(self._references)
        self._arrays[id(array)] = reference, number
        self._references[number] = reference
        return number

    def _record(self, number: int, x: Any) -> dict[str, Any]:
        array = raw(x)
        record = {
            "id": number,
            "kind": "leaf",
            "op": None,
            "seq": number,
            **array_record(array.shape, array.dtype),
            "device": device_of(array),
            "scope": "",
            "site": None,
            "name": None,
            "saved": [],
            "params": {},
            "formula": "",
            "requires_grad": False,
            **spread(array),
        }
        values = small_values(array)
        if number in self._sources:
            record["source"] = self._sources[number]
        return record if values is None else {**record, "values": values}

    def of(self, nodes: Iterable, names: Mapping[str, Tensor]) -> tuple[list[dict], list[dict]]:
        """(records, edges) of all that these nodes read; `names` says what to call some of it."""
        named = {id(raw(tensor)): name for name, tensor in names.items()}
        records: dict[int, dict[str, Any]] = {}
        edges = []
        for node in sorted(nodes, key=lambda node: node.number):
            for slot, number in self._reads.get(node, ()):
                array = self._references[number]()
                name = None if array is None else named.get(id(array))
                records[number] = {**self._records[number], "name": name}
                ends = {"producer": number, "output": 0, "consumer": node.number, "slot": slot}
                edges.append(ends)
        return list(records.values()), edges


def _is_untracked(x: Any) -> bool:
    if isinstance(x, Tensor):
        return x.node is None
    return hasattr(x, "dtype") and isinstance(getattr(x, "shape", None), tuple)
