"""What a name of PyTorch's is called here, for the error that a newcomer gets."""

_NAMES = {
    "cat": "mg.concatenate", "clamp": "clip", "numel": "size", "nelement": "size", "dim": "ndim",
    "type": "astype", "float": "astype(np.float32)", "double": "astype(np.float64)",
    "half": "astype(np.float16)", "long": "astype(np.int64)", "bool": "astype(bool)",
    "cpu": 'to("cpu")', "cuda": 'to("cuda")', "from_numpy": "mg.tensor", "mm": "matmul",
    "bmm": "matmul", "mv": "matmul", "t": "T", "expand_as": "broadcast_to",
    "element_size": "itemsize", "randperm": "mg.generator().permutation",
}  # fmt: skip


def no_such_name(owner: str, name: str) -> AttributeError:
    """The error for a name that is not there; it says what to write, where that is known."""
    hint = _NAMES.get(name)
    if hint is None and name.endswith("_") and not name.startswith("_"):
        hint = f"the new value of {name[:-1]}, or an operator such as x += v"
    tail = f"; here it is {hint}" if hint else ""
    return AttributeError(f"{owner} has no attribute {name!r}{tail}", name=name)
