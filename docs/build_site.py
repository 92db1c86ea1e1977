"""Build the static site of the documentation: python docs/build_site.py [folder, default site]

The pages are README.md, ARCHITECTURE.md, CHANGELOG.md, docs/*.md, the tutorials' notebooks as they
were run, and the docstrings. MkDocs does the work (`pip install -e '.[docs]'`); here they are
brought together, links made to fit, and a page made for each room of the package.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
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
        (pages / f"{name}.md").write_text(_links(text), encoding="utf-8")
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = page.read_text(encoding="utf-8").replace("](../tutorials/", "](tutorials/")
        text = re.sub(r"\[([^\]]+)\]\(\.\./[^)]+\)", r"\1", text)  # source files have no page
        (pages / page.name).write_text(_links(text), encoding="utf-8")
    programs = shutil.ignore_patterns("*.py", "__pycache__")  # else each would be a page
    shutil.copytree(ROOT / "docs" / "pictures", pages / "pictures", ignore=programs)
    (pages / "tutorials").mkdir()
    notebooks = sorted((ROOT / "tutorials").glob("[0-9]*.ipynb"))
    for notebook in notebooks:
        shutil.copy(notebook, pages / "tutorials")
        for picture in set(re.findall(r"\]\((pictures/[^)]+)\)", notebook.read_text("utf-8"))):
            beside = pages / "tutorials" / notebook.stem / picture  # its page is a folder there
            beside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / "tutorials" / picture, beside)
    (pages / "api").mkdir()
    for name, (title, modules) in ROOMS.items():
        parts = [f"# {title}\n", *[f"::: minigrad.{module}\n" for module in modules]]
        (pages / "api" / f"{name}.md").write_text("\n".join(parts), encoding="utf-8")
    guides = [p.name for p in sorted(pages.glob("*.md"))]
    guides = [p for p in guides if p not in ("index.md", "architecture.md", "changelog.md")]
    return [
        {"minigrad": "index.md"},
        {"Tutorials": [f"tutorials/{notebook.name}" for notebook in notebooks]},
        {"Guides": guides},
        {"Reference": [{title: f"api/{name}.md"} for name, (title, _) in ROOMS.items()]},
        {"Architecture": "architecture.md"},
        {"Changes": "changelog.md"},
    ]


def _links(text: str) -> str:
    """Links of a page of the root, for the same page in the site."""
    text = text.replace("](docs/", "](").replace("](ARCHITECTURE.md", "](architecture.md")
    text = text.replace("](CHANGELOG.md", "](changelog.md")
    return re.sub(r"\]\((tutorials/[0-9]\w+)\.(py|ipynb)\)", r"](\1.ipynb)", text)


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
        command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--config-file", str(config)]
        quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # an advertisement of a successor
        code = subprocess.run(command, check=False, env=quiet).returncode
    if code == 0:
        print(f"{site / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
