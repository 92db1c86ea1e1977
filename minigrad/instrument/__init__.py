"""Instruments: listeners that count, log and draw what the engine does, and the formats they write.

profile         how often each op ran and how long it took, forward and backward
event_log       every event of a run, in a file for `minigrad-profile`
dump_graph      the graph behind a loss, in a file for `minigrad-viz`; graph_dict gives it as a dict
graph_text      the same graph as text, for the terminal
DeviceTimes     how long ops took on a GPU, from marks in its streams
record_backward the graph of each backward, with what each of its steps did
"""

from .device_time import DeviceTimes
from .event_log import event_log
from .graph_dump import dump_graph, graph_dict
from .profile import profile
from .recorder import record_backward
from .small_graph import small_graph as _small_graph  # for tensor_api/show.py
from .text_graph import graph_text

__all__ = [
    "DeviceTimes", "dump_graph", "event_log", "graph_dict", "graph_text", "profile",
    "record_backward",
]  # fmt: skip
