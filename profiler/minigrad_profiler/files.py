"""What is read stays: no result takes the place of its own source."""

import os


def not_over(out: str | None, *sources: str) -> None:
    """ValueError where a result would replace what it is made of, whatever name leads there."""
    for source in sources if out else ():
        if os.path.realpath(out or "") == os.path.realpath(source):
            raise ValueError(f"{out}: would replace {source} itself; name another file")
