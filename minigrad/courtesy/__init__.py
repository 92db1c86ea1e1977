"""Help, which changes no result. Delete this folder, and everything still runs.

explain.py         errors that name the call, the argument, the shapes, and the next step
hints.py           what an error may add: the mistake behind it
foreign_names.py   errors for names and arguments of PyTorch and NumPy that differ here
foreign_tables.py  the tables of these names
options.py         options held against their annotations

Importing it puts these in the places of the plain ones of engine/help.py and tensor_api/help.py.
"""

from ..engine import help as _engines
from ..tensor_api import help as _calls
from . import explain, foreign_names, foreign_tables, hints, options

_engines.install(
    explain=explain.explain, signature_error=explain.signature_error, held=options.held
)
_calls.install(
    of_call=explain.of_call, with_call_context=explain.with_call_context,
    without_call_context=explain.without_call_context, method_of_op=explain.method_of_op,
    unfit=explain.unfit,
    with_class_context=explain.with_class_context, WithClassContext=explain.WithClassContext,
    Checked=explain.Checked,
    Options=options.Options, no_operand=hints.no_operand, several_tensors=hints.several_tensors,
    stand_in=foreign_names.MissingName.stand_in, missing_names_of=foreign_names.missing_names_of,
    MissingName=foreign_names.MissingName, INSTEAD_OF=foreign_tables.INSTEAD_OF,
)  # fmt: skip
