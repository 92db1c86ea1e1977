"""Numbers about a graph, as text or as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from minigrad_viz.checks import check_counts
from minigrad_viz.collapse import census
from minigrad_viz.critical import critical_path
from minigrad_viz.escape import finite, shown
from minigrad_viz.graph import Graph, Step, topological_order
from minigrad_viz.structure import structural_hash
from minigrad_viz.wording import (
    byte_text,
    census_text,
    count_of,
    count_text,
    nanoseconds_text,
)


def statistics(graph: Graph) -> dict[str, Any]:
    """Counts and sizes of a graph; every value is plain JSON."""
    nodes = graph.nodes
    # An array saved by two nodes is counted twice: the dump does not say that it is one.
    result: dict[str, Any] = {
        "written_by": {key: text for key, text in graph.header.items() if text},
        "nodes": len(nodes),
        "edges": len(graph.edges),
        "roots": len(graph.roots),
        "kinds": census(nodes),
        "depth": depth(graph),
        "parameter_bytes": sum(n.outputs[0].bytes for n in nodes if n.kind == "parameter"),
        "result_bytes": sum(out.bytes for n in nodes if n.kind == "op" for out in n.outputs),
        "saved_bytes": sum(array.bytes for n in nodes for array in n.saved),
        "ops": dict(Counter(n.op for n in nodes if n.kind == "op").most_common()),
        "scopes": dict(Counter(n.scope for n in nodes if n.scope).most_common()),
        "flops": _finite_sum(n.flops for n in nodes),
        "backward_flops": _finite_sum(n.backward_flops for n in nodes),
        "checks": check_counts(graph),
        "hash": structural_hash(graph),
        "backward": None,
    }
    if graph.backward is not None and graph.backward.steps:
        steps = graph.backward.steps
        result["backward"] = {
            "engine": graph.backward.engine,
            "workers": graph.backward.workers,
            "steps": len(steps),
            "elapsed_ns": elapsed(steps),
            "busy_ns": sum(step.t1 - step.t0 for step in steps),
            "nonfinite": sum(step.nonfinite is not None for step in steps),
        }
        path = critical_path(graph)
        if path is not None:
            result["backward"] |= {"span_ns": path.span, "path": len(path.path)}
    return result


def _finite_sum(values: Iterable[float | None]) -> float:
    """The sum of what JSON has a word for: a dump may hold NaN, or a sum be infinite."""
    return finite(sum(filter(None, map(finite, values)))) or 0


def elapsed(steps: list[Step]) -> int:
    """Nanoseconds from the first step to the last, without the recording between a worker's steps.

    With several workers what recording took from the whole is not known, and stays in.
    """
    whole = max(step.t1 for step in steps) - min(step.t0 for step in steps)
    if len({step.worker for step in steps}) > 1:
        return whole
    last = max(steps, key=lambda step: step.t1)
    busy = sum(step.t1 - step.t0 for step in steps)
    return max(busy, whole - sum(step.looking for step in steps if step is not last))


def depth(graph: Graph) -> int:
    """Nodes on the longest path."""
    length = [1] * len(graph.nodes)
    inputs: list[list[int]] = [[] for _ in graph.nodes]
    for edge in graph.edges:
        inputs[edge.consumer].append(edge.producer)
    for at in topological_order(graph.nodes, graph.edges):
        length[at] = 1 + max((length[source] for source in inputs[at]), default=0)
    return max(length, default=0)


def statistics_text(numbers: dict[str, Any], top: int = 10) -> str:
    """The numbers as a short text."""
    kinds = census_text(numbers["kinds"])
    rows = [
        ("graph", count_text(numbers["nodes"], "node") + (f" ({kinds})" if kinds else "")),
        ("", f"{count_text(numbers['edges'], 'edge')}, {count_text(numbers['roots'], 'root')}"),
        ("longest path", count_text(numbers["depth"], "node")),
        ("parameters", byte_text(numbers["parameter_bytes"])),
        ("op results", byte_text(numbers["result_bytes"])),
        ("saved arrays", byte_text(numbers["saved_bytes"])),
        ("work", _work_text(numbers)),
        ("ops", _ranking(numbers["ops"], top)),
        ("scopes", _ranking(numbers["scopes"], top)),
        ("checks", ", ".join(f"{count:,} {word}" for word, count in numbers["checks"].items())),
        ("hash", numbers["hash"]),
        ("written by", _ranking(numbers["written_by"], 10)),
    ]
    if numbers["backward"]:
        run = numbers["backward"]
        words = f"{count_text(run['steps'], 'step')} in {nanoseconds_text(run['elapsed_ns'])}"
        workers = f"{shown(run['engine'], 20)}, {count_text(run['workers'], 'worker')}"
        bad = f", {run['nonfinite']} with NaN or Inf" if run["nonfinite"] else ""
        rows.append(("backward", f"{words} ({workers}){bad}"))
        rows.append(("critical path", _span_text(run)))
    return "\n".join(f"{name:<13} {text}" for name, text in rows if text) + "\n"


def _work_text(numbers: dict[str, Any]) -> str:
    forward, backward = numbers["flops"], numbers["backward_flops"]
    if not forward + backward:
        return ""
    return f"{count_of(forward)}FLOP forward, {count_of(backward)}FLOP backward"


def _span_text(run: dict[str, Any]) -> str:
    work, span = run["busy_ns"], run["span_ns"]
    most = f"; at most {work / span:.3g}× faster with many workers" if span else ""
    times = f"{nanoseconds_text(span)} of work {nanoseconds_text(work)}"
    return f"{count_text(run['path'], 'node')}, {times}{most}"


def _ranking(counts: dict[str, Any], top: int) -> str:
    shown_first = list(counts.items())[:top]
    words = [
        f"{shown(name, 30, 'tail') or '?'} {shown(str(value), 24)}" for name, value in shown_first
    ]
    more = len(counts) - len(shown_first)
    return ", ".join(words) + (f", … {more:,} more" if more else "")
