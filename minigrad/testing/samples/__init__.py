"""Samples of every op, one module for each family of ops; importing this imports them all."""

import importlib
import pkgutil

modules = []  # names of the modules found, including packages of modules
_waiting = [(__path__, __name__)]
while _waiting:
    _path, _prefix = _waiting.pop()
    for _info in pkgutil.iter_modules(_path):
        _module = importlib.import_module(f"{_prefix}.{_info.name}")
        modules.append(_module.__name__)
        if _info.ispkg:
            _waiting.append((_module.__path__, _module.__name__))
