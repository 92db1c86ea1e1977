"""A griffe extension that docs/build_site.py names: arguments in two columns become a list."""

import runpy
from pathlib import Path

import griffe

listed = runpy.run_path(str(Path(__file__).with_name("two_columns.py")))["listed"]


class AlignedLists(griffe.Extension):
    def on_instance(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = listed(obj.docstring.value)
