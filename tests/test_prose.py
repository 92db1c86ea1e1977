"""Pages keep to the rules of prose: short sentences, plain constructions, no code unexplained.

`python tests/test_prose.py docs/viewer.md` prints each line of a page that breaks a rule.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 25  # words of a sentence
# Left out: docs/ops.md, which docs/make_ops.py writes from docstrings, and the lab notebook.
PAGES = [
    page.relative_to(ROOT).as_posix()
    for pattern in (
        "*.md",
        "docs/*.md",
        "docs/design/*.md",
        "benchmarks/*.md",
        "tutorials/*.md",
        "tutorials/course/**/*.md",
    )
    for page in sorted(ROOT.glob(pattern))
    if page.name != "ops.md"
]

BEFORE_A_NOUN = r"^|[,;:(] ?|\b(of|than|for|to|with|from|by|on|in|at|is|are|and|all) "
BANNED = {
    "'what' as a noun": rf"({BEFORE_A_NOUN})what ",
    "'beside'": r"\bbeside\b",
    "'apart' without 'from'": r"\bapart\b(?! from)",
    "'meanwhile'": r"\bmeanwhile\b",
    "'told' where a page or a command says something": r"\b(is|are) told\b",
    "'put off' for deferred": r"\bput off\b",
}


def units(page: str) -> Iterator[tuple[int, str]]:
    """Each paragraph, list item, table cell and heading of a page, with the number of its line."""
    line, unit, fenced = 0, [], False
    for number, text in enumerate([*page.splitlines(), ""], 1):
        fence = text.lstrip().startswith("```")
        fenced ^= fence
        starts = re.match(r"\s*([-*+]|\d+\.|#+|>) ", text)
        code = fence or fenced or (text.startswith("    ") and not unit)
        if unit and (code or starts or not text.strip() or text.startswith("|")):
            yield line, " ".join(unit)
            unit = []
        if code or not text.strip():
            continue
        if text.startswith("|"):
            cells = re.split(r"(?<!\\)\|", re.sub(r"`[^`]*`", "`code`", text))
            yield from ((number, cell.strip()) for cell in cells)
            continue
        line = line if unit else number
        unit.append(text[starts.end() :] if starts else text.strip())


def plain(unit: str) -> str:
    """A unit without its markup: a code span is one word, a link is its text."""
    text = re.sub(r"`[^`]*`", "code", unit)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"<[^>]*>|[*_]", "", text)


def sentences(text: str) -> list[str]:
    """A sentence ends at a full stop, question mark or exclamation mark before a space."""
    return re.split(r"(?<=[.!?])\)?\s+", text)


def words(sentence: str) -> int:
    """How many words: a sign alone, such as a dash or a plus, is none."""
    return sum(any(c.isalnum() for c in word) for word in sentence.split())


def unexplained(page: str) -> set[str]:
    """The codes of checks (K1, K2 …) that a page uses and does not explain.

    It explains one in parentheses next to it, after a colon, in a row of a table, or by a link.
    """
    text = re.sub(r"(?ms)^```.*?^```", "", page)
    used = set(re.findall(r"\bK\d+\b", text))
    return {
        k for k in used if not re.search(rf"\({k}\)|\b{k} \(|\b{k}: |\| {k} \||\[{k}\]\(", text)
    }


def faults(page: str) -> list[str]:
    """All that breaks a rule in the text of a page."""
    found = [f"{code} is not explained" for code in sorted(unexplained(page))]
    for line, unit in units(page):
        for sentence in sentences(plain(unit)):
            if words(sentence) > LONGEST:
                found.append(f"line {line}: {words(sentence)} words: {sentence}")
            for rule, pattern in BANNED.items():
                if not sentence.endswith("?") and re.search(pattern, sentence, re.IGNORECASE):
                    found.append(f"line {line}: {rule}: {sentence}")
    return found


@pytest.mark.parametrize("page", PAGES)
def test_a_page_keeps_to_the_rules(page):
    found = faults((ROOT / page).read_text(encoding="utf-8"))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("start", ["", "- ", "1. ", "| cell | ", "# "])
def test_a_long_sentence_is_found_wherever_it_stands(start):
    assert faults(start + "word " * 25 + "end.") and not faults(start + "word " * 24 + "end.")


def test_each_list_item_and_each_cell_counts_alone():
    assert not faults("- " + "word " * 20 + "\n- " + "word " * 20)
    assert not faults("| " + "word " * 20 + "| " + "word " * 20 + "|")


def test_a_code_span_is_one_word_and_a_block_of_code_none():
    assert not faults("Type `" + "word " * 40 + "` now.")
    assert not faults("```\n" + "word " * 40 + "\n```") and not faults("    " + "word " * 40)


@pytest.mark.parametrize(
    "sentence",
    ["What is put off is made there.", "It depends on what was read.", "Beside it stands another.",
     "Threads stand apart.", "Meanwhile they wait.", "The user is told the cause."],
)  # fmt: skip
def test_a_banned_construction_is_found(sentence):
    assert faults(sentence)


@pytest.mark.parametrize(
    "sentence", ["An error says what happened.", "What is a node?", "Apart from that it holds."]
)
def test_an_ordinary_sentence_passes(sentence):
    assert not faults(sentence)


def test_a_code_needs_an_explanation_on_its_page():
    assert unexplained("As K14 asks.") == {"K14"}
    assert not unexplained("Parity on a GPU (K14) holds, as K14 asks.")


def test_the_changelog_has_the_kinds_of_change_that_keep_a_changelog_names():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "\n## [Unreleased]\n" in changes
    kinds = set(re.findall(r"(?m)^### (.*)$", changes))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


if __name__ == "__main__":
    for name in sys.argv[1:] or PAGES:
        print(name, *faults((ROOT / name).read_text(encoding="utf-8")), sep="\n    ")
