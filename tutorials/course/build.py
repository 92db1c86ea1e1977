"""Builds the course pack's pages: python tutorials/course/build.py [folder, default course-output]

For each session the slides, the questions with and without answers, and a step-through; and an
index. Each page is one file without network.

Slides are Markdown; `---` stands between two of them, and speaker notes follow "Note:". A line
that is only a link to a notebook, with a title, shows what the notebook's cell with this text has:

    [a caption](../../01_scalar_engine.ipynb "as_graph(L")    its picture
    [code](../../01_scalar_engine.ipynb "def __mul__")        the lines around the text
    [output](../../01_scalar_engine.ipynb "print(moved")      what it printed
"""

import ast
import base64
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from textwrap import dedent

from markdown_it import MarkdownIt

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[2] / "viz"))
sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))

from mathml import with_mathml
from minigrad_viz.cli import main as minigrad_viz

from tutorials.course.recordings import RECORDINGS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SESSIONS = range(1, 9)
PAGE = Template((HERE / "page.html").read_text(encoding="utf-8"))
QUOTED = re.compile(r'^\[(.+)\]\(\S*?(\w+\.ipynb) "(.+)"\)$', re.MULTILINE)


@cache
def cells(notebook: str) -> list[dict]:
    """The code cells of a tutorial's notebook, as it was run."""
    text = (HERE.parent / notebook).read_text(encoding="utf-8")
    return [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]


def quote(words: str, notebook: str, text: str) -> str:
    """The Markdown of what a cell has: its code, its output, or its picture with these words."""
    found = [cell for cell in cells(notebook) if text in "".join(cell["source"])]
    if len(found) != 1:
        raise SystemExit(f"{notebook}: {len(found)} cells have {text!r}; quote a text of one cell")
    [cell] = found
    if words == "code":
        return f"```\n{around(text, ''.join(cell['source']))}\n```"
    if words == "output":
        printed = ["".join(output.get("text", "")) for output in cell["outputs"]]
        return f"```\n{''.join(printed).rstrip()}\n```"
    pictures = [
        (kind, "".join(data))
        for output in cell["outputs"]
        for kind, data in output.get("data", {}).items()
        if kind.startswith("image/")
    ]
    if not pictures:
        raise SystemExit(f"{notebook}: the cell with {text!r} shows no picture")
    # of several pictures that which is named by the words
    kind, data = next((p for p in pictures if f"<title>{words}<" in p[1]), pictures[0])
    shape = ""
    if kind == "image/svg+xml":
        data, shape = without_legend(data)
        data = base64.b64encode(data.encode()).decode()
    return f'<img{shape} alt="{escape(words)}" src="data:{kind};base64,{data.strip()}">\n'


def around(text: str, source: str) -> str:
    """The smallest function or class with this text, or else its lines up to empty ones."""
    lines = source.splitlines()
    parts = ["\n".join(lines[start:stop]) for start, stop in definitions(source)]
    parts = [part for part in parts if text in part] or re.split(r"\n\n+", source)
    return dedent(min((part for part in parts if text in part), key=len))


def definitions(source: str) -> Iterator[tuple[int, int]]:
    """The first line of each function and class, decorators too, and the line after its last."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            first = min([node, *node.decorator_list], key=lambda part: part.lineno)
            yield first.lineno - 1, node.end_lineno or node.lineno


def without_legend(svg: str) -> tuple[str, str]:
    """The viewer's picture, cut to its boxes and so larger; and the class of a tall one."""
    left, top = map(float, re.findall(r"translate\(([\d.]+) ([\d.]+)\)", svg)[0])
    drawing = svg[svg.index("<g transform") : svg.rindex('<g class="leaf">')]
    boxes = re.findall(r'x="([-\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', drawing)
    wide, high = (max(float(b[i]) + float(b[i + 2]) for b in boxes) for i in (0, 1))
    wide, high = wide + 40, high + 40  # a margin, and the line of text below the last box
    view = f'viewBox="{left - 20} {top - 15} {wide} {high}"'
    size = f'width="{wide}" height="{high}"'
    svg = re.sub(r'width="\d+" height="\d+" viewBox="[^"]*"', f"{size} {view}", svg, count=1)
    return svg, ' class="tall"' if high > wide else ""


def html(markdown: str) -> str:
    """The HTML of a page's Markdown, with its formulas and what it quotes from notebooks."""
    text = QUOTED.sub(lambda found: quote(*found.groups()), with_mathml(markdown))
    return MarkdownIt("commonmark", {"html": True}).enable("table").render(text)


def slides(markdown: str) -> str:
    """A section for each slide, its speaker notes in an aside."""
    sections = []
    for slide in re.split(r"(?m)^---$", markdown):
        shown, _, note = slide.partition("\nNote:")
        sections.append(f"<section>{html(shown)}</section>\n<aside>{html(note)}</aside>")
    return "\n".join(sections)


def without_answers(questions: str) -> str:
    """The page of questions for students: an answer and its program end at the next question."""
    return re.sub(r"(?ms)^\*\*Answer.*?(?=^### |\Z)", "", questions)


def page(kind: str, body: str) -> str:
    title = re.sub("<[^>]*>", "", body[body.index("<h1>") : body.index("</h1>")])
    return PAGE.substitute(kind=kind, title=title, body=body)


def links(markdown: str) -> str:
    """Links of the plan and of the README, as the built pages have them; a notebook is named."""
    text = re.sub(r"\(questions/(\d)\.md\)", r"(\1-answers.html)", markdown)
    text = re.sub(r"\(slides/(\d)\.md\)", r"(\1-slides.html)", text)
    text = re.sub(r"`(\d-\w+\.html)`", r"[\1](\1)", text).replace("(plan.md", "(plan.html")
    return re.sub(r"\[([^\]]+)\]\(\.\./[^)]+\)", r"\1", text)


def main(folder: str = str(ROOT / "course-output")) -> None:
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)

    def write(name: str, kind: str, body: str) -> None:
        (out / name).write_text(page(kind, body), encoding="utf-8")

    write("index.html", "text", html(links((HERE / "README.md").read_text(encoding="utf-8"))))
    write("plan.html", "text", html(links((HERE / "plan.md").read_text(encoding="utf-8"))))
    for n in SESSIONS:
        title = RECORDINGS[n].__doc__ or ""
        deck = (HERE / "slides" / f"{n}.md").read_text(encoding="utf-8")
        questions = (HERE / "questions" / f"{n}.md").read_text(encoding="utf-8")
        write(f"{n}-slides.html", "slides", slides(deck))
        write(f"{n}-answers.html", "text", html(questions))
        write(f"{n}-questions.html", "text", html(without_answers(questions)))
        record, dump = RECORDINGS[n](), out / f"{n}-step.json"
        record.save(dump)
        if minigrad_viz(["step", str(dump), "-o", str(out / f"{n}-step.html"), "--title", title]):
            raise SystemExit(f"minigrad-viz refused the recording of session {n}")
        dump.unlink()
    print(f"{out / 'index.html'}: open it in a browser")


if __name__ == "__main__":
    main(*sys.argv[1:])
