"""Build the static site of the documentation: python docs/build_site.py [folder, default site]

The page that it names at the end opens in a browser as it is; only its search needs a server.

The pages are README.md, ARCHITECTURE.md, CHANGELOG.md, docs/*.md, docs/design/*.md, the tutorials'
notebooks as they were run, the course, and the docstrings. MkDocs does the work (`pip install -e
'.[docs]'`); here they are brought together, links made to fit, and a page made for each room of the
package. A link that leads nowhere ends it with an error.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

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
# The pages of docs/ in the order of a first reading; what is not named here follows.
GUIDES = ["first-five-minutes", "coming-from", "transforms", "profiling", "viewer", "compile",
          "compiled", "gpu", "distributed", "comparison", "features", "settings",
          "ops"]  # fmt: skip
# page: (title, rooms). A room is a module, or a package with all its modules. A page shows what
# users reach: the names of the namespaces below.
ROOMS = {
    "tensors": (
        "Tensors and modes",
        ["tensor_api.create", "tensor_api.random_tensors", "tensor_api.tensor", "engine.graph",
         "tensor_api.inplace", "modes.hooks", "modes.recording", "modes.session", "modes.scopes",
         "engine.events", "modes.deterministic", "backends.caches", "backends.random",
         "backends.pool", "errors", "engine.errors"],
    ),
    "ops": ("The kinds of op", ["engine.primitive", "custom.custom", "custom.extension"]),
    "namespaces": (
        "linalg, fft, special, stats",
        ["linalg", "fft", "special", "stats"],
    ),
    "engine": (
        "Engine",
        ["tensor_api.derivatives", "tensor_api.gradients", "modes.anomaly", "modes.checkpoint",
         "modes.saved_hooks", "modes.saving", "parallel", "tape"],
    ),
    "func": ("Transforms", ["func"]),
    "cuda": (
        "GPUs, fusion, precision",
        ["replay.compile", "cuda", "backends.device", "fusion", "compiled", "modes.autocast",
         "amp"],
    ),  # fmt: skip
    "nn": ("Layers", ["nn"]),
    "optim": ("Optimizers, data, files, training", ["optim", "data", "io", "train"]),
    "instrument": ("Instruments", ["instrument"]),
    "distributed": ("Several processes", ["distributed"]),
    "testing": ("Gradcheck", ["testing"]),
}  # fmt: skip
NAMESPACES = [
    "", "amp", "cuda", "data", "distributed", "distributed.simulate",
    "engine", "fft", "func", "instrument", "io", "linalg", "nn", "nn.init", "nn.utils",
    "nn.utils.parametrizations", "nn.utils.parametrize", "nn.utils.prune", "nn.utils.rnn", "optim",
    "optim.lr_scheduler", "optim.swa_utils", "special", "stats", "testing", "testing.strategies",
    "train",
]  # fmt: skip
# What users are handed, or what tutorials take from where it is defined.
ALSO = [
    ("engine.events", "listen"), ("engine.events", "unlisten"), ("engine.graph", "TensorBase"),
    ("modes.hooks", "HookHandle"),
]  # fmt: skip


def gather(pages: Path) -> list:
    """Write all pages into a folder; returns the navigation."""
    for source, name in (("README", "index"), ("ARCHITECTURE", "architecture"),
                         ("CHANGELOG", "changelog")):  # fmt: skip
        text = (ROOT / f"{source}.md").read_text(encoding="utf-8")
        (pages / f"{name}.md").write_text(_links(text, ROOT), encoding="utf-8")
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = _links(page.read_text(encoding="utf-8"), page.parent)
        (pages / page.name).write_text(text, encoding="utf-8")
    (pages / "design").mkdir()
    designs = sorted((ROOT / "docs" / "design").glob("*.md"))
    for page in designs:
        text = _links(page.read_text(encoding="utf-8"), page.parent, "design")
        (pages / "design" / page.name).write_text(text, encoding="utf-8")
    programs = shutil.ignore_patterns("*.py", "__pycache__")  # else each would be a page
    shutil.copytree(ROOT / "docs" / "pictures", pages / "pictures", ignore=programs)
    (pages / "tutorials").mkdir()
    shutil.copy(ROOT / "tutorials" / "README.md", pages / "tutorials")
    notebooks = sorted((ROOT / "tutorials").glob("[0-9]*.ipynb"))
    for notebook in notebooks:
        text = _as_page(notebook.read_text(encoding="utf-8"))
        (pages / "tutorials" / notebook.name).write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "tutorials" / "pictures", pages / "tutorials" / "pictures")
    course = [
        page.relative_to(ROOT) for page in sorted((ROOT / "tutorials" / "course").rglob("*.md"))
    ]
    for page in course:
        (pages / page).parent.mkdir(exist_ok=True)
        (pages / page).write_text(with_mathml((ROOT / page).read_text(encoding="utf-8")), "utf-8")
    (pages / "formulas.css").write_text(FONTS, encoding="utf-8")
    (pages / "api").mkdir()
    for name, page in _reference().items():
        (pages / "api" / f"{name}.md").write_text(page, encoding="utf-8")
    found = {p.stem for p in pages.glob("*.md")} - {"index", "architecture", "changelog"}
    guides = [f"{name}.md" for name in [*GUIDES, *sorted(found - {*GUIDES})]]
    return [
        {"minigrad": "index.md"},
        {"Tutorials": ["tutorials/README.md", *[f"tutorials/{n.name}" for n in notebooks]]},
        {"Course": [page.as_posix() for page in course]},
        {"Guides": guides},
        {"Reference": [{title: f"api/{name}.md"} for name, (title, _) in ROOMS.items()]},
        {"Architecture": ["architecture.md", *[f"design/{page.name}" for page in designs]]},
        {"Changes": "changelog.md"},
    ]


def _reference() -> dict[str, str]:
    """{page: its text}: of each module of its rooms the names that users reach."""
    spaces = [import_module(f"minigrad.{name}".rstrip(".")) for name in NAMESPACES]
    reached = {(v.__module__, v.__qualname__) for space in spaces for v in _public(space)}
    reached |= {(f"minigrad.{module}", name) for module, name in ALSO}
    errors = vars(import_module("minigrad.errors")).values()
    reached |= {
        (e.__module__, e.__qualname__)
        for e in errors
        if isinstance(e, type) and issubclass(e, Exception)
    }
    pages = {}
    for page, (title, rooms) in ROOMS.items():
        parts = [f"# {title}\n", "Ops are on a page of their own: [Every op](../ops.md).\n"]
        for module in [module for room in rooms for module in _modules(f"minigrad.{room}")]:
            names = [
                value.__name__
                for value in vars(module).values()
                if (module.__name__, getattr(value, "__qualname__", None)) in reached
                and value.__module__ == module.__name__
            ]
            if names:
                members = json.dumps(list(dict.fromkeys(names)))
                parts.append(f"::: {module.__name__}\n    options:\n      members: {members}\n")
        pages[page] = "\n".join(parts)
    return pages


def _public(space: ModuleType) -> list[Any]:
    """The functions and classes that a namespace gives, and what its classes inherit from.

    For another object, such as a distribution of mg.stats, its class.
    """
    names = getattr(space, "__all__", None) or [n for n in vars(space) if not n.startswith("_")]
    values = [vars(space)[name] for name in names]
    ours = [v for v in values if not isinstance(v, ModuleType) and _home(v).startswith("minigrad")]
    found = [v if hasattr(v, "__qualname__") else type(v) for v in ours]
    bases = [base for v in found if isinstance(v, type) for base in v.__mro__]
    return [*found, *[base for base in bases if _home(base).startswith("minigrad")]]


def _home(value: Any) -> str:
    """The module that defines a function, a class, or the class of an object."""
    return getattr(value, "__module__", None) or ""


def _modules(name: str) -> list[ModuleType]:
    """A module; of a package all modules too, in the order of their names."""
    room = import_module(name)
    inside = walk_packages(getattr(room, "__path__", ()), f"{name}.")
    return [room, *[import_module(info.name) for info in inside]]


def _as_page(notebook: str) -> str:
    """A notebook whose formulas are drawn: the site fetches no program that would do it.

    Code in a heading is plain text: the page's table of contents would leave it out.
    """
    document = json.loads(notebook)
    for cell in document["cells"]:
        if cell["cell_type"] == "markdown":
            text = with_mathml("".join(cell["source"]))
            cell["source"] = re.sub("^#.*", lambda h: h[0].replace("`", ""), text, flags=re.M)
    return json.dumps(document, ensure_ascii=False)


def _links(text: str, folder: Path, place_of_page: str = "") -> str:
    """The text of a page that lies in this folder, its links as the site has them.

    The site keeps the page in its folder place_of_page. A file that is no page (a source, notes)
    is named, not linked to.
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
        return f"[{name}]({os.path.relpath(place, place_of_page or '.')}{mark}{part})"

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
        "use_directory_urls": False,  # else each link would open a folder where there is no server
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
        print(
            f"{site / 'index.html'}: open it in a browser; for its search field, serve the folder:"
        )
        print(f"{sys.executable} -m http.server --directory {site}")
    return code


if __name__ == "__main__":
    sys.exit(main())
