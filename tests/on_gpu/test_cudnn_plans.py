"""How a plan of cuDNN is run: by the front end, or by the graph behind it, without a GPU."""

from types import SimpleNamespace

import pytest

from minigrad.on_gpu.cudnn_plans import runner

pytestmark = pytest.mark.promise(
    "kernels agree with float64; cuDNN and products agree; a captured step gives the eager "
    "numbers (on a GPU)"
)


class Graph:
    """A graph of the front end that notes how it is run."""

    def __init__(self, engine=None, number=3, lowered=True):
        self.calls, self.selected_engine, self._plan_index = [], engine, 1
        self._plans = [SimpleNamespace(cpp_index=7), SimpleNamespace(cpp_index=number)]
        if lowered:
            self._lowered_graph = SimpleNamespace(_execute_plan_at_index=self.at_index)

    def execute(self, pointers, memory, handle=None):
        self.calls.append(("execute", pointers, memory, handle))

    def at_index(self, *args):
        self.calls.append(("at index", *args))


HANDLE = SimpleNamespace(backend_handle=99)


def test_the_plan_that_the_front_end_has_chosen_is_run_at_once():
    graph = Graph()
    runner(graph)({1: 10}, 20, HANDLE)
    assert graph.calls == [("at index", {1: 10}, 20, 3, 99, None, None, None)]


@pytest.mark.parametrize(
    "graph",
    [Graph(engine="of Python"), Graph(number=None), Graph(lowered=False)],
    ids=["an engine of Python", "a plan without a number", "an older front end"],
)
def test_other_graphs_are_run_by_the_front_end(graph):
    runner(graph)({1: 10}, 20, HANDLE)
    assert graph.calls == [("execute", {1: 10}, 20, HANDLE)]
