"""BLAS's own threads, and which kernels it has."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from minigrad.backends import blas


@pytest.fixture
def libraries(monkeypatch):
    """BLAS libraries that only say what they are."""

    class Library(SimpleNamespace):
        def get_num_threads(self):
            return self.count

        def set_num_threads(self, count):
            self.count = count

    def pretend(*architectures, count=2):
        found = [Library(architecture=name, count=count) for name in architectures]
        monkeypatch.setattr(blas, "_controllers", found)
        blas.packs_no_small_factors.cache_clear()
        return found

    yield pretend
    blas.packs_no_small_factors.cache_clear()


def test_a_limit_holds_inside_and_what_was_there_comes_back(libraries):
    (library,) = libraries("Haswell", count=3)
    assert not blas.on_one_thread()
    with blas.one_thread() as limited, blas.one_thread():
        assert limited == library.count == 1 and blas.on_one_thread()
    assert library.count == 3 and not blas.on_one_thread()


def test_a_library_of_one_thread_is_on_one(libraries):
    libraries("Haswell", count=1)
    assert blas.on_one_thread()


@pytest.mark.parametrize(
    "architectures, expected",
    [(["SkylakeX"], True), (["SkylakeX", "Haswell"], False), (["Zen"], False), ([], False)],
)
def test_small_products_are_quick_where_all_libraries_have_kernels(
    libraries, architectures, expected
):
    libraries(*architectures)
    assert blas.packs_no_small_factors() is expected


def test_a_limit_holds_from_there_on_and_never_gives_more_threads():
    code = (
        "from minigrad.backends import blas\n"
        "before = blas.threads()\nblas.limit(10_000)\nassert blas.threads() == before\n"
        "blas.limit(1)\nassert blas.threads() in (1, None)\n"
        "with blas.one_thread():\n    pass\n"
        "assert blas.threads() in (1, None)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
