"""minigrad-profile records the ops of any script into an event log, and shows such logs.

The commands live in cli: run (script -> event log), view (event log -> tables) and others. The
format of the log and its conversions live in minigrad.instrument.
"""

from .compare import Comparison, compare

__version__ = "0.1.0"
