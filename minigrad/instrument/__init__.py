"""Instruments: listeners that count, log and draw what the engine does, and the formats they write.

profile         how often each op ran and how long it took, forward and backward
event_log       every event of a run, in a file for `minigrad-profile`
dump_graph      the graph behind a loss, in a file for `minigrad-viz`; graph_dict gives it as a dict
record_backward the same, with what each step of the backward did
"""

from .event_log import event_log
from .graph_dump import dump_graph, graph_dict, record_backward
from .profile import profile

__all__ = ["dump_graph", "event_log", "graph_dict", "profile", "record_backward"]
