"""minigrad-profile: records any script's ops into an event log, and shows what is in one.

run (script -> event log) and view (event log -> tables by op, shape, line, scope, thread) are the
commands of cli; the log's format and its conversions are minigrad.instrument's.
"""

from .compare import Comparison, compare

__version__ = "0.1.0"
