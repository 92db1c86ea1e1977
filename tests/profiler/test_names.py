"""Names and numbers in tables: which part of a long name is left out, what unit a number has."""

import pytest
from minigrad_profiler.cli import main
from minigrad_profiler.names import fitted, scaled

import minigrad as mg


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (40, "/a/project/models/blocks.py:42 forward"),
        (26, "…/blocks.py:42 forward"),
        (20, "blocks.py:42 forward"),
        (18, "…/blocks.py:42 fo…"),
        (16, "blocks.py:42"),
        (12, "blocks.py:42"),
        (9, "bl….py:42"),
    ],
)
def test_of_a_place_the_file_and_its_line_are_cut_last(width, shown):
    assert fitted("/a/project/models/blocks.py:42 forward", width) == shown


@pytest.mark.parametrize(
    ("number", "shown"), [(0.5, "0.5 "), (999.6, "1 k"), (3.3e10, "33 G"), (1.99e15, "1.99e+03 T")]
)
def test_a_number_has_three_digits_and_a_prefix(number, shown):
    assert scaled(number) == shown


def test_operations_in_a_wide_table_have_prefixes_as_in_the_roofline(tmp_path, capsys):
    with mg.event_log(tmp_path / "log.jsonl"):
        x = mg.ones((300, 300))
        x @ x
    assert main(["view", str(tmp_path / "log.jsonl"), "--width", "200"]) == 0
    out = capsys.readouterr().out
    assert " 54 M " in out and "e+07" not in out


def test_long_scopes_of_one_name_are_told_apart_by_what_is_around_them():
    first, second = (fitted(f"Model/blocks/{i}/normalisation_of_the_input", 25) for i in (0, 1))
    assert (first, second) == ("0/normal…ion_of_the_input", "1/normal…ion_of_the_input")


def test_an_indented_name_keeps_its_indent_and_its_line():
    name = fitted("  /home/a/project/models/blocks.py:42 forward", 24)
    assert name == "  …/blocks.py:42 forward"
