"""The calculus table: one file a family, each op's forward and derivative side by side."""

from importlib import import_module as _import_module
from pkgutil import iter_modules as _iter_modules

__all__: list[str] = []
for _family in _iter_modules(__path__):
    _module = _import_module(f".{_family.name}", __name__)
    for _name in getattr(_module, "__all__", []):
        globals()[_name] = getattr(_module, _name)
        __all__.append(_name)
