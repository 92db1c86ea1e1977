"""The comparison says in plain words why an engine is left out."""

import peers
import pytest
from engines import ENGINES, Engine, Missing

import minigrad as mg


def said(capsys, engine, workload):
    peers.serve(engine, mg.get_num_threads(), workload)
    return capsys.readouterr().out


def test_an_engine_gives_its_reason_for_a_name_that_it_has_not():
    f = Engine(tanh=abs, why={"gelu": "it has no erf"})
    assert f.tanh is abs
    with pytest.raises(Missing, match=r"^it has no erf$"):
        f.gelu  # noqa: B018
    with pytest.raises(Missing, match=r"^it has no conv2d$"):
        f.conv2d  # noqa: B018


def test_a_workload_that_an_engine_cannot_run_is_left_out_with_the_reason(capsys):
    loader = next(name for name in peers.WORKLOADS if "DataLoader" in name)
    assert said(capsys, "minigrad tape", loader) == "left out: loading data is not on a tape\n"


def test_an_engine_that_is_not_installed_is_left_out(capsys, monkeypatch):
    def absent(threads):
        raise ModuleNotFoundError("No module named 'absent'", name="absent")

    monkeypatch.setitem(ENGINES, "absent", absent)
    assert (
        said(capsys, "absent", next(iter(peers.WORKLOADS))) == "left out: absent is not installed\n"
    )
