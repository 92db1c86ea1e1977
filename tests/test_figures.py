"""Figures on pages are those that commands printed; those that no machine changes are today's."""

import os
import re
import runpy
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
MAKE = runpy.run_path(str(DOCS / "make_figures.py"))
AGAIN = "run: make figures"
MEASURED = r"\d[\d,.]* ?(?:ns|µs|ms|%|KiB|MiB|GFLOP)(?!\w)"


def text_of(page: str) -> str:
    return (DOCS / f"{page}.md").read_text(encoding="utf-8")


def outputs_of(page: str) -> list[tuple[str, list[str]]]:
    return MAKE["commands"]((DOCS / "outputs" / f"{page}.txt").read_text(encoding="utf-8"))


def prose(page: str) -> str:
    """A page without its code and outputs."""
    return re.sub(r"(?ms)^```.*?^```\n|^    .*?\n(?!    )", "", page)


def fresh(tmp_path: Path, command: str, program: str = "first.py", code: int = 0) -> str:
    """What a command of a page prints now, with its exit code."""
    (tmp_path / program).write_text(MAKE["programs"]()[program], encoding="utf-8")
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, timeout=120,
        env=MAKE["environment"]() | {k: v for k, v in os.environ.items() if k == "MINIGRAD_PLAIN"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert done.returncode == code, done.stdout
    return done.stdout


def calls(table: str) -> dict[tuple[str, str], int]:
    """The calls of each op and phase, of a profile's table."""
    rows = re.findall(r"(?m)^(\w+) +(forward|backward) +([\d,]+) ", table)
    return {(op, phase): int(count.replace(",", "")) for op, phase, count in rows}


@pytest.mark.parametrize("page", MAKE["PAGES"])
def test_a_page_shows_what_its_commands_printed(page):
    shown, outputs = MAKE["shown"](text_of(page)), outputs_of(page)
    assert [command for command, _ in shown] == [command for command, _ in outputs], AGAIN
    for (command, lines), (_, output) in zip(shown, outputs, strict=True):
        assert {*lines} - {"…"} <= {*output}, f"{command}: {AGAIN}"
        assert not lines or lines == MAKE["excerpt"](lines, output), f"{command}: {AGAIN}"


def test_each_figure_in_the_text_of_the_first_lesson_stands_in_an_output():
    page = prose(text_of("first-five-minutes"))
    tables = "\n".join(line for _, output in outputs_of("first-five-minutes") for line in output)
    assert [figure for figure in re.findall(MEASURED, page) if figure not in tables] == []
    counts = re.findall(r"`(\w+)`(?: has|, with)? (\d+)(?= |\.)", page)
    assert len(counts) == 4
    assert [c for c in counts if not re.search(rf"(?m)^{c[0]} +forward +{c[1]} ", tables)] == []


def test_the_figures_beside_pytorch_s_stand_in_an_output():
    table = text_of("profiling").partition("| question | `torch.profiler` | `minigrad-profile` |")[
        2
    ]
    ours = "".join(row.split(" | ")[2] for row in table.splitlines() if row.count(" | ") == 2)
    printed = "\n".join(line for _, output in outputs_of("profiling") for line in output)
    assert len(re.findall(MEASURED, ours)) > 4
    assert [figure for figure in re.findall(MEASURED, ours) if figure not in printed] == []


def test_the_events_of_the_slow_script_are_today_s(tmp_path):
    rows = r"(?m)^(slow\.py:\d+ \S+) +([\d,]+)"
    outputs = {command: "\n".join(output) for command, output in outputs_of("profiling")}
    fresh(tmp_path, "minigrad-profile run slow.py", "slow.py")
    command = "minigrad-profile view minigrad-profile.jsonl --by line"
    now = re.findall(rows, fresh(tmp_path, command, "slow.py"))
    assert sorted(now) == sorted(re.findall(rows, outputs[command])) and len(now) > 8


@pytest.mark.parametrize("program", ["first.py", "second.py"])
def test_the_first_lesson_has_the_losses_and_calls_of_today(program, tmp_path):
    [written] = [
        "\n".join(output)
        for command, output in outputs_of("first-five-minutes")
        if command == f"MINIGRAD_PROFILE=1 python {program}"
    ]
    now = fresh(tmp_path, f"MINIGRAD_PROFILE=1 python {program}", program)
    assert calls(now) == calls(written) and len(calls(now)) > 10
    losses = [[float(x) for x in re.findall(r"loss ([\d.]+)", text)] for text in (now, written)]
    # Single precision: BLAS on another machine may round the fourth decimal the other way.
    assert losses[0] == pytest.approx(losses[1], abs=2e-4) and len(losses[0]) == 2


def test_the_repair_of_the_first_lesson_changes_no_loss():
    outputs = dict(outputs_of("first-five-minutes"))
    assert outputs["python first.py"] == outputs["python second.py"]


def test_the_graph_of_the_first_lesson_is_today_s(tmp_path):
    fresh(tmp_path, "MINIGRAD_GRAPH_OUT=graph.json python first.py")
    counts = fresh(tmp_path, "minigrad-viz info graph.json")
    rows = r"(?m)^(?:graph|ops|hash) .*$"
    outputs = dict(outputs_of("first-five-minutes"))
    written = "\n".join(outputs["minigrad-viz info graph.json"])
    assert re.findall(rows, counts) == re.findall(rows, written)
    nodes, edges = re.findall(r"(\d+) nodes|(\d+) edges", counts)[:2]
    drawn = (DOCS / "pictures" / "first.svg").read_text(encoding="utf-8")
    assert f"{nodes[0]} nodes · {edges[1]} edges" in drawn


def test_the_verdicts_on_the_viewer_s_page_are_today_s(tmp_path):
    program = (DOCS / "pictures" / "programs.py").read_text(encoding="utf-8")
    (tmp_path / "programs.py").write_text(program, encoding="utf-8")
    record = "import programs\nprograms.wrong_rule().save('checks.json')\n"
    (tmp_path / "record.py").write_text(record, encoding="utf-8")
    fresh(tmp_path, "python record.py")
    now = fresh(tmp_path, "minigrad-viz check checks.json", code=1)
    rows = r"(?m)^[✗✓] (\w+) +#\d+ +(\S+) +(right|wrong), error .* (programs.py:\d+)$"
    written = text_of("viewer")
    assert sorted(re.findall(rows, now)) == sorted(re.findall(rows, written)) != []
    assert re.findall(r"wrong, error \S+", now) == re.findall(r"wrong, error \S+", written)


def test_each_picture_on_a_page_is_there():
    pages = [ROOT / "README.md", *DOCS.glob("*.md")]
    links = [
        (page, at)
        for page in pages
        for at in re.findall(r"\]\(([^)]*pictures/[^)]+)\)", page.read_text("utf-8"))
    ]
    assert len(links) > 20
    assert [at for page, at in links if not (page.parent / at).is_file()] == []


def test_each_picture_of_the_docs_is_on_a_page():
    pages = [ROOT / "README.md", *DOCS.glob("*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    drawn = {p.name for p in (DOCS / "pictures").iterdir() if p.suffix in (".svg", ".png", ".gif")}
    assert {name for name in drawn if f"pictures/{name}" not in text} == set()
