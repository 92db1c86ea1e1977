"""Numbers and tables as people read them."""

import io

from hypothesis import given
from hypothesis import strategies as st

from minigrad.instrument.table import (
    cells,
    counted,
    duration,
    shares,
    shortened,
    show,
    size,
    text_table,
)


def test_a_duration_has_three_digits_and_a_unit():
    expected = {
        0: "0 ns",
        950: "950 ns",
        120_400: "120 µs",
        12_340: "12.3 µs",
        999_600: "1.00 ms",
        12.3e9: "12.3 s",
    }
    assert {ns: duration(ns) for ns in expected} == expected


def test_one_thing_is_in_the_singular():
    assert [counted(n, "call") for n in (0, 1, 1728)] == ["0 calls", "1 call", "1,728 calls"]


def test_a_size_is_in_binary_units():
    assert [size(n) for n in (0, 999, 1024, 1536 * 1024)] == [
        "0 B",
        "999 B",
        "1.00 KiB",
        "1.50 MiB",
    ]


@given(st.lists(st.integers(0, 10**12), min_size=1).filter(any))
def test_shares_add_to_exactly_100_and_each_is_within_a_tenth(values):
    given_shares = shares(values)
    assert round(sum(given_shares), 6) == 100.0
    for value, share in zip(values, given_shares, strict=True):
        assert abs(share - 100 * value / sum(values)) <= 0.1 + 1e-9


def test_shares_of_nothing_are_zero():
    assert shares([]) == [] and shares([0, 0]) == [0.0, 0.0]


@given(st.text(), st.integers(1, 30))
def test_a_shortened_text_fits_and_cannot_move_the_cursor(text, width):
    short = shortened(text, width)
    assert cells(short) <= width and short.isprintable()


def test_the_first_column_gives_way_so_that_a_table_fits_80_columns():
    table = text_table(["<op", "calls"], [["x" * 200, "1"], ["add", "1,000"]])
    assert max(map(len, table.split("\n"))) == 80
    assert "…" in table and "add" in table


def test_columns_that_can_be_spared_go_where_a_terminal_is_narrow():
    columns, rows = ["<op", "calls", "self", "output"], [["x" * 40, "1,000", "1.00 ms", "1.00 MiB"]]
    left = {80: "op calls self output", 30: "op calls self", 24: "op self"}
    for width, titles in left.items():
        table = text_table(columns, rows, width, spare=("output", "calls")).splitlines()
        assert table[0].split() == titles.split() and max(map(cells, table)) <= width


def test_a_stream_that_is_no_terminal_gets_plain_text():
    stream = io.StringIO()
    show("title\na  b\n1  2", stream)
    assert stream.getvalue() == "title\na  b\n1  2\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_no_color_is_honoured_on_a_terminal(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    show("title\na  b\n1  2", stream)
    assert "\x1b" not in stream.getvalue()


def test_a_terminal_shows_the_same_words(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    show("title\na  b\n1  2", stream)
    assert stream.getvalue() == "title\na  b\n1  2\n"


def test_columns_stand_below_each_other_beside_wide_and_combining_characters():
    rows = [["模型/注意力", "1"], ["e\u0301te\u0301", "2"], ["plain", "3"]]
    lines = text_table(["<name", "n"], rows).split("\n")
    assert {cells(line) for line in lines} == {2 * 5 + 1 + 2 + 1}


@given(st.text("模型é\u0301ab", max_size=40), st.integers(4, 30))
def test_a_shortened_text_fits_whatever_its_characters(text, width):
    short = shortened(text, width)
    assert cells(short) <= width and (short == text or "…" in short)
