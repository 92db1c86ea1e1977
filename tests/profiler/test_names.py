"""Names in tables: which part of a long one is left out."""

import pytest
from minigrad_profiler.names import fitted


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (40, "/a/project/models/blocks.py:42 forward"),
        (26, "…/blocks.py:42 forward"),
        (18, "…/blocks.py:42 fo…"),
        (16, "blocks.py:42"),
        (12, "blocks.py:42"),
        (9, "bl….py:42"),
    ],
)
def test_of_a_place_the_file_and_its_line_are_cut_last(width, shown):
    assert fitted("/a/project/models/blocks.py:42 forward", width) == shown
