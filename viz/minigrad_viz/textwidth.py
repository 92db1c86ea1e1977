"""How wide a text is, without a font at hand.

Advances are those of a wide sans serif (in thousandths of the type size). A text that fits by this
table fits in any common font.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

_CLASSES = {
    320: "ijl|!'.,:;`",
    400: '()[]{}/\\"-ftrI ',
    590: "sczJ^~*",
    620: "abcdeghknopquvxyTLEFZ_=+<>?$0123456789·×…→",
    720: "ABCDGHKNOPQRSUVXY&#",
    960: "mwMW%@",
}
_ADVANCE = {ord(char): advance for advance, chars in _CLASSES.items() for char in chars}
_BOLD = 1.1


@lru_cache(maxsize=16_384)  # the same few words stand in thousands of boxes
def text_width(text: str, size: float, bold: bool = False) -> float:
    """The width of `text` in pixels at type size `size`."""
    total = 0
    for char in text:
        total += _ADVANCE.get(ord(char)) or _other(char)
    return total * size / 1000 * (_BOLD if bold else 1)


def _other(char: str) -> int:
    return 1050 if unicodedata.east_asian_width(char) in "WF" else 800
