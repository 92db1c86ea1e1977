"""docs/ops.md is what the registry says now; every op explains itself; docstring examples run."""

import ast
import doctest
import importlib
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import minigrad_profiler
import minigrad_viz
import pytest

import minigrad
import minigrad.testing.samples  # registers the specs
from minigrad.engine.primitive import Primitive
from minigrad.engine.registry import op
from minigrad.testing.checks import CHECKS
from minigrad.testing.spec import specs

pytestmark = pytest.mark.promise(
    "an installed package has all that it reads; examples in docstrings run; the site has a "
    "page for each link"
)

ROOT = Path(__file__).parents[1]


def test_the_page_of_ops_is_up_to_date():
    program = "import runpy; print(runpy.run_path('docs/make_ops.py')['page'](), end='')"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    written = (ROOT / "docs" / "ops.md").read_text(encoding="utf-8")
    assert done.stdout == written, "run: python docs/make_ops.py"


def test_the_index_of_ops_leads_to_each_of_them():
    page = (ROOT / "docs" / "ops.md").read_text(encoding="utf-8")
    index, _, entries = page.partition("\n## Families")
    places = set(re.findall(r'<a id="(op-\w+)">', entries))
    assert places == {f"op-{name}" for name in specs} == set(re.findall(r"\(#(op-\w+)\)", index))
    assert set(re.findall(r"\(#(family-[\w.]+)\)", page)) == set(
        re.findall(r'<a id="(family-[\w.]+)">', page)
    )


@pytest.mark.parametrize(
    ("name", "calls"),
    [("mul", "`mg.mul`, `mg.multiply`, `np.multiply`"), ("jv", "`mg.special.jv`, `mg.special.jn`"),
     ("det", "`mg.linalg.det`, `np.linalg.det`"), ("conv_dx", "inner")],
)  # fmt: skip
def test_the_page_of_ops_says_how_to_call_each(name, calls):
    page = (ROOT / "docs" / "ops.md").read_text(encoding="utf-8")
    entry = page.partition(f'<a id="op-{name}">')[2]
    assert entry.splitlines()[1].startswith(f"<sub>{calls} · ")


def test_the_example_on_the_page_of_ops_runs():
    done = doctest.testfile(str(ROOT / "docs/ops.md"), module_relative=False, encoding="utf-8")
    assert done.attempted >= 4 and done.failed == 0


def test_the_examples_in_docstrings_run_as_they_stand():
    packages, attempted = (minigrad, minigrad_profiler, minigrad_viz), 0
    for package in packages:
        for file in Path(package.__file__).parent.rglob("*.py"):
            if ">>> " in file.read_text(encoding="utf-8"):
                inside = file.relative_to(Path(package.__file__).parents[1]).with_suffix("").parts
                name = ".".join(inside).removesuffix(".__init__")
                done = doctest.testmod(importlib.import_module(name))
                assert done.failed == 0, name
                attempted += done.attempted
    assert attempted > 10


def test_the_page_of_promises_is_what_the_tests_say():
    page = runpy.run_path(str(ROOT / "docs" / "make_promises.py"))["page"]()
    written = (ROOT / "docs" / "design" / "promises.md").read_text(encoding="utf-8")
    assert page == written, "run: python docs/make_promises.py"


def test_the_page_of_gradcheck_lists_every_check():
    page = (ROOT / "docs" / "gradcheck.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| (K\d+) \| (.+) \|$", page)
    assert rows == [(check.id, check.title) for check in CHECKS]


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md", "tutorials/README.md", "docs"])
def test_each_name_of_the_package_in_a_page_is_there(page):
    files = sorted((ROOT / page).glob("*.md")) if page == "docs" else [ROOT / page]
    names = {n for f in files for n in re.findall(r"\bmg(?:\.[A-Za-z_]\w*)+", f.read_text("utf-8"))}
    assert names
    for name in names - {"mg.cat"}:  # PyTorch's, in an error that a page shows
        value = minigrad
        for part in name.split(".")[1:]:
            value = getattr(value, part)


@pytest.mark.layer("courtesy")  # to import it is to switch it on
def test_each_function_that_a_walk_through_the_source_names_is_there():
    pages = [ROOT / "ARCHITECTURE.md", *(ROOT / "docs" / "design").glob("*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    named = re.findall(r"`([\w/]+)\.py: ([\w.]+)`", text)
    assert len(named) > 20
    for module, name in named:
        found = importlib.import_module(f"minigrad.{module.replace('/', '.')}")
        for part in name.split("."):
            found = getattr(found, part)
        assert found.__module__ == f"minigrad.{module.replace('/', '.')}", name


def test_every_op_has_a_formula():
    assert specs
    assert not [name for name in specs if not (getattr(op, name).__doc__ or "").strip()]


def test_every_primitive_is_reached_by_one_name():
    for entry in op:
        name = entry.name if isinstance(entry, Primitive) else entry.__name__
        assert getattr(op, name) is entry


def test_the_site_has_the_pictures_of_tutorials_beside_their_pages(tmp_path):
    pytest.importorskip("yaml")
    runpy.run_path(str(ROOT / "docs" / "build_site.py"))["gather"](tmp_path)
    for notebook in (tmp_path / "tutorials").glob("*.ipynb"):
        for picture in re.findall(r"\]\((pictures/[^)]+)\)", notebook.read_text("utf-8")):
            assert (notebook.parent / picture).is_file(), notebook.name
    assert not list((tmp_path / "pictures").glob("*.py")), "each would be a page"


def test_the_site_has_the_formulas_of_tutorials_as_mathml(tmp_path):
    pytest.importorskip("yaml")
    runpy.run_path(str(ROOT / "docs" / "build_site.py"))["gather"](tmp_path)
    for notebook in (tmp_path / "tutorials").glob("*.ipynb"):
        cells = json.loads(notebook.read_text("utf-8"))["cells"]
        text = "\n\n".join(c["source"] for c in cells if c["cell_type"] == "markdown")
        assert "$" not in re.sub(r"`[^`]*`", "", text), notebook.name
        for formula in re.findall(r"<math.*?</math>", text):
            ElementTree.fromstring(formula)


def test_the_headings_of_tutorials_are_whole_in_the_site_s_tables_of_contents(tmp_path):
    pytest.importorskip("yaml")
    runpy.run_path(str(ROOT / "docs" / "build_site.py"))["gather"](tmp_path)
    for notebook in (tmp_path / "tutorials").glob("*.ipynb"):
        cells = json.loads(notebook.read_text("utf-8"))["cells"]
        text = "\n".join(c["source"] for c in cells if c["cell_type"] == "markdown")
        headings = re.findall("^#.*", text, flags=re.MULTILINE)
        assert headings and "`" not in "".join(headings), notebook.name


@pytest.mark.parametrize("space", ["nn", "optim", "data", "func", "distributed", "train", "cuda"])
def test_the_reference_has_an_entry_for_each_name_that_users_reach(space, tmp_path):
    pytest.importorskip("yaml")
    runpy.run_path(str(ROOT / "docs" / "build_site.py"))["gather"](tmp_path)
    pages = "".join(page.read_text("utf-8") for page in (tmp_path / "api").glob("*.md"))
    module = importlib.import_module(f"minigrad.{space}")
    names = getattr(module, "__all__", dir(module))
    reached = [vars(module)[n] for n in names if not n.startswith("_") and n in vars(module)]
    home = f"minigrad.{space}"
    ours = [v for v in reached if f"{getattr(v, '__module__', '')}.".startswith(f"{home}.")]
    assert len(ours) > 3
    assert [v.__name__ for v in ours if f'"{v.__name__}"' not in pages] == []


def test_the_reference_leaves_out_what_only_the_engine_uses(tmp_path):
    pytest.importorskip("yaml")
    runpy.run_path(str(ROOT / "docs" / "build_site.py"))["gather"](tmp_path)
    pages = "".join(page.read_text("utf-8") for page in (tmp_path / "api").glob("*.md"))
    assert '"Tensor"' in pages and '"no_grad"' in pages
    assert '"refuse_left_behind"' not in pages and '"Outer"' not in pages


def test_the_site_has_a_page_for_every_link(tmp_path):
    pytest.importorskip("yaml")
    runpy.run_path(str(ROOT / "docs" / "build_site.py"))["gather"](tmp_path)
    pages = [*tmp_path.glob("*.md"), *tmp_path.glob("design/*.md")]
    for page in [*pages, tmp_path / "tutorials" / "README.md"]:
        text = re.sub(r"`[^`\n]*`|```.*?```", "code", page.read_text("utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", text):
            assert ":" in target or (page.parent / target).is_file(), (page.name, target)
        assert page.name != "ops.md" or "][" not in text, "Markdown takes x[i][j] for a link"


def test_no_docstring_has_what_markdown_takes_for_a_link():
    for file in Path(minigrad.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = re.sub(r"`[^`]*`", "code", ast.get_docstring(node) or "")
                text = re.sub(r"^ {4}.*$", "", text, flags=re.MULTILINE)  # code too
                assert "](" not in text, file


def test_the_site_names_fonts_for_its_formulas(tmp_path):
    pytest.importorskip("yaml")
    site = runpy.run_path(str(ROOT / "docs" / "build_site.py"))
    navigation = site["gather"](tmp_path)
    (sheet,) = site["settings"](tmp_path, tmp_path, navigation)["extra_css"]
    assert "DejaVu Math TeX Gyre" in (tmp_path / sheet).read_text("utf-8")


@pytest.mark.parametrize(
    ("tex", "drawn"),
    [
        (r"\frac12 x", "<mfrac><mn>1</mn><mn>2</mn></mfrac><mi>x</mi>"),
        (r"x_i^2", "<msubsup><mi>x</mi><mi>i</mi><mrow><mn>2</mn></mrow></msubsup>"),
        (r"\sqrt{ab}", "<msqrt><mrow><mi>a</mi><mi>b</mi></mrow></msqrt>"),
    ],
)
def test_a_formula_is_drawn(tex, drawn):
    mathml = runpy.run_path(str(ROOT / "docs" / "mathml.py"))["mathml"]
    assert mathml(tex) == f"<math><mrow>{drawn}</mrow></math>"


def test_a_word_that_no_formula_has_used_is_an_error():
    mathml = runpy.run_path(str(ROOT / "docs" / "mathml.py"))["mathml"]
    with pytest.raises(ValueError, match="does not know"):
        mathml(r"\notaword x")
