"""Event logs of several ranks, merged into one trace and one table."""

import json

from minigrad_profiler import cli
from minigrad_profiler.merge import common, length, merged, united


def test_logs_of_two_ranks_become_one_trace_with_a_group_of_lanes_each(right, tmp_path, capsys):
    right(2, "recorded", tmp_path / "run.jsonl")
    logs = [str(tmp_path / f"run.rank-{rank}.jsonl") for rank in (1, 0)]  # in any order
    assert cli.main(["merge", *logs, "--chrome", str(tmp_path / "trace.json")]) == 0
    table = capsys.readouterr().out
    assert "0 of 2" in table and "hidden" in table
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {1: "rank 0 of 2", 2: "rank 1 of 2"}
    for pid in names:
        mine = [e for e in events if e["pid"] == pid and e["ph"] == "X"]
        buckets = [e for e in mine if e["args"].get("what") == "communication"]
        assert len(buckets) >= 6 and all("all_reduce bucket" in e["name"] for e in buckets)
        assert {e["tid"] for e in buckets}.isdisjoint(
            e["tid"] for e in mine if e["cat"] == "cpu_op"
        )
        starts = [e["ts"] for e in mine if e["args"].get("what") == "rank"]
        assert starts == [next(e["ts"] for e in events if e["args"].get("what") == "rank")]
    arrows = [e["id"] for e in events if e["ph"] == "s"]
    assert len(arrows) == len(set(arrows))  # an arrow never leads to another rank

    for rank in merged(logs).ranks:
        assert rank.steps == 3 and 0 <= rank.exposed <= rank.communication
        assert rank.exposed <= rank.waiting and 0 <= rank.hidden <= 1


def test_a_missing_log_is_one_line(capsys, tmp_path):
    assert cli.main(["merge", str(tmp_path / "no.jsonl")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_stretches_of_time():
    assert united([(5, 6), (0, 2), (1, 3)]) == [(0, 3), (5, 6)]
    assert common([(0, 3), (5, 9)], [(2, 6), (8, 20)]) == [(2, 3), (5, 6), (8, 9)]
    assert length([(0, 3), (5, 9)]) == 7
