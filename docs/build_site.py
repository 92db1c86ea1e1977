"""Build the static site of the documentation: python docs/build_site.py [folder, default site]

The pages are README.md, ARCHITECTURE.md, CHANGELOG.md, docs/*.md, the tutorials' notebooks as they
were run, and the docstrings. MkDocs does the work (`pip install -e '.[docs]'`); here they are
brought together, links made to fit, and a page made for each room of the package. A link that leads
nowhere ends it with an error.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parent))
from mathml import with_mathml

ROOT = Path(__file__).parents[1]
# Browsers find no font with what formulas need (how deep an index stands, parentheses that grow)
# by themselves on every system; these are what systems have.
FONTS = """math {
  font-family: "Latin Modern Math", "STIX Two Math", "Cambria Math", "Libertinus Math",
    "DejaVu Math TeX Gyre", "Noto Sans Math", math;
}
"""
ROOMS = {  # page: (title, modules)
    "tensors": ("Tensors and modes", ["core.create", "core.tensor", "core.modes", "core.events"]),
    "ops": ("The kinds of op", ["core.primitive", "core.custom", "core.extension"]),
    "engine": (
        "Engine",
        ["engine.api", "engine.gradients", "engine.tape", "engine.report", "engine.checkpoint",
         "engine.anomaly", "engine.saved_hooks", "core.hooks"],
    ),
    "func": ("Transforms", ["func.reverse", "func.forward", "func.batching", "func.derived",
                            "func.implicit", "func.control", "func.modules"]),
    "cuda": ("GPUs and fusion", ["cuda", "fusion.fuse"]),
    "nn": ("Layers", ["nn.module", "nn.linear", "nn.conv", "nn.pool", "nn.norm", "nn.recurrent",
                      "nn.attention", "nn.transformer", "nn.loss", "nn.init", "nn.utils"]),
    "optim": ("Optimizers, data, files, training", ["optim", "data", "io", "train"]),
    "instrument": ("Instruments", ["instrument.profile", "instrument.event_log",
                                   "instrument.graph_dump", "instrument.recorder"]),
    "distributed": ("Several processes", ["distributed.ranks", "distributed.collectives",
                    "distributed.data_parallel", "distributed.sampler", "distributed.checkpoint",
                    "distributed.zero", "distributed.simulate"]),
    "testing": ("Gradcheck", ["testing.gradcheck", "testing.spec", "testing.strategies"]),
}  # fmt: skip


def gather(pages: Path) -> list:
    """Write all pages into a folder; returns the navigation."""
    for source, name in (("README", "index"), ("ARCHITECTURE", "architecture"),
                         ("CHANGELOG", "changelog")):  # fmt: skip
        text = (ROOT / f"{source}.md").read_text(encoding="utf-8")
        (pages / f"{name}.md").write_text(_links(text, ROOT), encoding="utf-8")
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = _links(page.read_text(encoding="utf-8"), page.parent)
        (pages / page.name).write_text(text, encoding="utf-8")
    programs = shutil.ignore_patterns("*.py", "__pycache__")  # else each would be a page
    shutil.copytree(ROOT / "docs" / "pictures", pages / "pictures", ignore=programs)
    (pages / "tutorials").mkdir()
    shutil.copy(ROOT / "tutorials" / "README.md", pages / "tutorials")
    notebooks = sorted((ROOT / "tutorials").glob("[0-9]*.ipynb"))
    for notebook in notebooks:
        text = _with_formulas(notebook.read_text(encoding="utf-8"))
        (pages / "tutorials" / notebook.name).write_text(text, encoding="utf-8")
        for picture in set(re.findall(r"\]\((pictures/[^)]+)\)", notebook.read_text("utf-8"))):
            beside = pages / "tutorials" / notebook.stem / picture  # its page is a folder there
            beside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / "tutorials" / picture, beside)
    (pages / "formulas.css").write_text(FONTS, encoding="utf-8")
    (pages / "api").mkdir()
    for name, (title, modules) in ROOMS.items():
        parts = [f"# {title}\n", *[f"::: minigrad.{module}\n" for module in modules]]
        (pages / "api" / f"{name}.md").write_text("\n".join(parts), encoding="utf-8")
    guides = [p.name for p in sorted(pages.glob("*.md"))]
    guides = [p for p in guides if p not in ("index.md", "architecture.md", "changelog.md")]
    return [
        {"minigrad": "index.md"},
        {"Tutorials": ["tutorials/README.md", *[f"tutorials/{n.name}" for n in notebooks]]},
        {"Guides": guides},
        {"Reference": [{title: f"api/{name}.md"} for name, (title, _) in ROOMS.items()]},
        {"Architecture": "architecture.md"},
        {"Changes": "changelog.md"},
    ]


def _with_formulas(notebook: str) -> str:
    """A notebook whose formulas are drawn: the site fetches no program that would do it."""
    document = json.loads(notebook)
    for cell in document["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = with_mathml("".join(cell["source"]))
    return json.dumps(document, ensure_ascii=False)


def _links(text: str, folder: Path) -> str:
    """The text of a page that lies in this folder, its links as the site has them.

    A file that is no page (a source, notes) is named, not linked to.
    """

    def link(found: re.Match) -> str:
        name, target = found.groups()
        path, mark, part = target.partition("#")
        if ":" in path or not path:
            return found[0]
        file = Path(os.path.normpath(folder / path)).relative_to(ROOT)
        if file.parent == Path() and file.suffix == ".md":
            place = file.name.lower()
        elif file.parts[0] == "docs":
            place = file.relative_to("docs").as_posix()
        elif file.parts[0] == "tutorials" and file.suffix in (".md", ".ipynb"):
            place = file.as_posix()
        else:
            return name
        return f"[{name}]({place}{mark}{part})"

    return re.sub(r"(?<![\w`])\[([^\]]+)\]\(([^)\s]+)\)", link, text)


def settings(pages: Path, site: Path, navigation: list) -> dict:
    reader = {
        "options": {
            "docstring_style": None,
            "extensions": [f"{ROOT / 'docs' / 'aligned_lists.py'}"],
            "show_source": True,
            "show_root_heading": True,
            "show_if_no_docstring": False,
            "members_order": "source",
            "heading_level": 2,
        },
        "paths": [str(ROOT)],
    }
    return {
        "site_name": "minigrad",
        "docs_dir": str(pages),
        "site_dir": str(site),
        "nav": navigation,
        "theme": {
            "name": "material",
            "font": False,  # nothing is fetched from elsewhere
            "features": ["navigation.tabs", "content.code.copy"],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default",
                 "primary": "indigo"},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "primary": "indigo"},
            ],
        },
        "extra_css": ["formulas.css"],
        "validation": {"links": {"anchors": "warn", "unrecognized_links": "warn"}},
        "plugins": ["search", {"mkdocs-jupyter": {"execute": False}},
                    {"mkdocstrings": {"handlers": {"python": reader}}}],
        "markdown_extensions": ["tables", "fenced_code", "toc", "pymdownx.highlight",
                                "pymdownx.superfences"],
    }  # fmt: skip


def main() -> int:
    site = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site").resolve()
    with tempfile.TemporaryDirectory() as folder:
        pages = Path(folder) / "pages"
        pages.mkdir()
        config = Path(folder) / "mkdocs.yml"
        text = yaml.safe_dump(settings(pages, site, gather(pages)), sort_keys=False)
        config.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict"]
        command += ["--config-file", str(config)]
        quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # an advertisement of a successor
        code = subprocess.run(command, check=False, env=quiet).returncode
    if code == 0:
        print(f"{site / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
