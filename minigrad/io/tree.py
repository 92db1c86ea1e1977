"""A nested state as named arrays and a description in JSON, and back again.

A dictionary of arrays is its own description. Anything deeper (a model's, an optimizer's and a
generator's state, the number of the epoch) is written as arrays and a JSON tree of tagged values.
The arrays' names are paths, such as "optimizer.state.0.exp_avg"; in the tree:

    {"dict": [[key, value], ...]}  {"list": [...]}  {"tuple": [...]}  {"array": name}
    {"float": "nan"}               numbers, strings, true, false and null as they are
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..engine.errors import describe
from ..errors import FormatError
from ..tensor_api.tensor import Tensor

VERSION = [1, 0]
_PLAIN = (bool, int, str, type(None))


def is_array(value: Any) -> bool:
    """Whether a value is saved as an array: a tensor, a NumPy array, or an array on a GPU."""
    return isinstance(value, Tensor | np.ndarray) or hasattr(value, "__cuda_array_interface__")


def as_numpy(value: Any) -> np.ndarray:
    """The values as a contiguous NumPy array, from a GPU too; TypeError for one with a mask."""
    data = value.data if isinstance(value, Tensor) else value
    if isinstance(data, np.ma.MaskedArray):
        raise TypeError(
            "save: a file has no place for the mask of a masked array; save x.filled(value) and "
            "np.ma.getmaskarray(x) under two names"
        )
    data = data.get() if hasattr(data, "get") else data  # CuPy's
    return np.ascontiguousarray(data).reshape(data.shape)  # which makes 0-d arrays 1-d


def flatten(state: Any) -> tuple[dict[str, np.ndarray], str | None]:
    """(arrays by name, description); None describes a plain dictionary of arrays."""
    if not isinstance(state, Mapping):
        raise TypeError(
            f"save: the state must be a dictionary, got {describe(state)}; "
            'write {"x": x}, or model.state_dict()'
        )
    if all(isinstance(k, str) and is_array(v) for k, v in state.items()):
        return {name: as_numpy(value) for name, value in state.items()}, None
    arrays: dict[str, np.ndarray] = {}
    try:
        tree = _described(state, "", arrays)
        description = {"version": VERSION, "tree": tree}
        return arrays, json.dumps(description, allow_nan=False, separators=(",", ":"))
    except RecursionError:
        raise ValueError("save: the state is nested too deeply, or contains itself") from None


def _described(value: Any, path: str, arrays: dict[str, np.ndarray]) -> Any:
    """One value's description; nesting is as deep as the state that the user wrote."""
    if is_array(value):
        name, number = path, 1
        while name in arrays:
            number += 1
            name = f"{path}#{number}"
        arrays[name] = as_numpy(value)
        return {"array": name}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        items = [(int(k) if isinstance(k, np.integer) else k, v) for k, v in value.items()]
        wrong = [key for key, _ in items if not isinstance(key, str | int)]
        if wrong:
            raise TypeError(f"save: {path or 'the state'} has the key {wrong[0]!r}; a key is a "
                            "string or an integer")  # fmt: skip
        return {"dict": [[k, _described(v, _below(path, k), arrays)] for k, v in items]}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        parts = enumerate(value)
        return {kind: [_described(v, _below(path, i), arrays) for i, v in parts]}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, _PLAIN):
        return value
    raise TypeError(
        f"save: {path or 'the state'} is a {type(value).__name__}; a file holds arrays, numbers, "
        "strings, booleans, None, and dictionaries, lists and tuples of these"
    )


def _below(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def rebuild(arrays: dict[str, Any], description: str | None, what: str) -> Any:
    """The state again; FormatError where the description does not fit the arrays."""
    if description is None:
        return arrays
    try:
        document = json.loads(description)
        major = document["version"][0]
        if not isinstance(major, int) or major < 1:
            raise ValueError(f"version {major!r}")
        if major > VERSION[0]:
            raise FormatError(
                f"{what}: its state has version {major}, this minigrad reads up to {VERSION[0]}; "
                "install a newer one"
            )
        state = _built(document["tree"], arrays)
        if not isinstance(state, dict):
            raise ValueError(f"a {type(state).__name__}, no dictionary")
        return state
    except FormatError:
        raise
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
        raise FormatError(f"{what}: the description of its state is damaged ({error!r})") from None


def _built(node: Any, arrays: dict[str, Any]) -> Any:
    if not isinstance(node, dict):
        if isinstance(node, (*_PLAIN, float)):
            return node
        raise ValueError(f"unexpected {type(node).__name__}")
    ((kind, content),) = node.items()
    if kind == "array":
        return arrays[content]
    if kind == "float":
        return float(content)
    if not isinstance(content, list):
        raise ValueError(f"{kind} of a {type(content).__name__}")
    if kind == "dict":
        found = {key: _built(child, arrays) for key, child in content}
        if len(found) < len(content):
            raise ValueError("a name comes twice")
        return found
    built = [_built(child, arrays) for child in content]
    return {"list": list, "tuple": tuple}[kind](built)
