"""The checkout's own folder, and no part of minigrad: it leads an import to the package inside.

In the folder above a checkout named `minigrad`, Python takes the checkout for a package, before an
editable install of the package `minigrad/minigrad`. Without this file it would be an empty one.
"""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

if __name__ == "minigrad":
    _inside = Path(__file__).resolve().parent / "minigrad"
    _spec = spec_from_file_location(
        __name__, _inside / "__init__.py", submodule_search_locations=[str(_inside)]
    )
    assert _spec is not None and _spec.loader is not None
    # the import system returns what stands in sys.modules, so this module is dropped
    sys.modules[__name__] = _module = module_from_spec(_spec)
    _spec.loader.exec_module(_module)
