"""docs/transforms.md does what it says."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "transforms.md"


def test_the_examples_of_the_page_of_transforms_run():
    done = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert done.attempted > 10 and done.failed == 0


def test_every_transform_is_on_the_page():
    from minigrad import func

    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in func.__all__ if name not in text] == []
