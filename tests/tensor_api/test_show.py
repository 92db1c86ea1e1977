"""What a tensor looks like; and that looking never raises."""

import numpy as np
import pytest

import minigrad as mg

pytestmark = pytest.mark.promise("a notebook never shows a traceback for a value")


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (mg.tensor(1.5), "tensor(1.5)"),
        (mg.tensor([1, 2]), "tensor([1, 2])"),
        (mg.tensor([True]), "tensor([ True])"),
        (mg.tensor([1, 2], dtype="uint16"), "tensor([1, 2], dtype=uint16)"),
        (mg.tensor([1 + 2j]), "tensor([1.+2.j])"),
        (mg.tensor([[1.0], [20.0]]), "tensor([[ 1.],\n        [20.]])"),
        (mg.zeros(0), "tensor([], dtype=float64)"),
        (mg.zeros(0, 3), "tensor([], shape=(0, 3), dtype=float64)"),
        (mg.zeros(2000), "tensor([0., 0., 0., ..., 0., 0., 0.])"),
        (mg.tensor(2.0, requires_grad=True), "tensor(2., requires_grad=True)"),
    ],
)
def test_the_text_is_numpys_with_what_numpy_does_not_know(x, text):
    assert repr(x) == text


def test_bfloat16_shows_its_values():
    pytest.importorskip("ml_dtypes")
    assert repr(mg.tensor([1.0, 2.5], dtype="bfloat16")) == "tensor([1, 2.5], dtype=bfloat16)"


def test_notes_that_pass_the_line_width_stand_on_a_line_of_their_own():
    x = mg.tensor(np.full(5, 1 / 3), dtype="float32", requires_grad=True)
    lines = repr(mg.sin(x)).split("\n")
    assert lines[-1].startswith("       dtype=float32, grad_fn=<sin #")
    assert all(len(line) <= 75 for line in lines)


def test_numpys_print_options_are_followed():
    with np.printoptions(precision=2):
        assert repr(mg.tensor([1 / 3])) == "tensor([0.33])"


def test_tensors_inside_transforms_show_what_they_hold():
    texts = []

    def f(x):
        texts.extend([repr(x), x._repr_html_(), f"{x.sum()}"])
        return (x * x).sum()

    x = mg.tensor([1.0, 2.0])
    mg.func.grad(f)(x)
    mg.func.jvp(f, (x,), (x,))
    mg.func.vmap(f)(mg.stack([x, x]))
    mg.func.grad(mg.func.grad(lambda x: f(x) * 1.0))(mg.tensor(3.0))
    assert len(texts) == 12 and all("tensor(" in text for text in texts)


def test_a_notebook_shows_the_text_escaped_under_its_size():
    page = (mg.ones(2, 3, requires_grad=True) * 2)._repr_html_()
    assert page.startswith("<small>shape (2, 3) · float64 · cpu · 48 bytes</small><pre>tensor(")
    assert "grad_fn=&lt;mul #" in page


def test_a_notebook_shows_something_also_for_a_broken_tensor():
    x = mg.ones(2)
    x._data = "not an array"
    assert "Tensor object at" in x._repr_html_()


def test_a_number_takes_a_format():
    loss = mg.tensor(0.123456, requires_grad=True)
    assert f"{loss:.3f}" == "0.123" and f"{mg.tensor(7):>4d}" == "   7"
    assert f"{loss}" == repr(loss)
    with pytest.raises(TypeError, match=r"shape \(2,\); reduce it first"):
        f"{mg.ones(2):.3f}"


class TestNotebook:
    """Text always; the small graph behind a tensor where the viewer is installed."""

    def graph_of(self, x):
        return x._repr_mimebundle_(include=None, exclude=None)["text/html"].partition("<details>")[
            2
        ]

    def test_a_tensor_with_a_history_unfolds_its_small_graph(self):
        a = mg.tensor(2.0, requires_grad=True)
        shown = self.graph_of(mg.tanh(a * a) + a)
        assert "data:image/svg+xml;base64," in shown and "<script" not in shown

    def test_leaves_constants_and_large_graphs_show_none(self):
        a = h = mg.tensor(2.0, requires_grad=True)
        for _ in range(100):
            h = h * a
        assert [self.graph_of(x) for x in (a, mg.ones(2), h)] == ["", "", ""]

    def test_without_the_viewer_or_with_a_broken_one_the_text_stays(self, monkeypatch):
        from minigrad.instrument import notebook

        def fails(name):
            raise ImportError(name)

        monkeypatch.setattr(notebook.importlib, "import_module", fails)
        y = mg.tensor(2.0, requires_grad=True) * 3
        assert self.graph_of(y) == ""
        assert y._repr_mimebundle_()["text/plain"] == repr(y)

    def test_nothing_raises_for_a_broken_tensor(self):
        x = mg.tensor(2.0, requires_grad=True) * 3
        x._data = "not an array"
        assert "Tensor object at" in x._repr_mimebundle_()["text/plain"]

    def test_after_a_backward_the_graph_is_still_drawn(self):
        a = mg.tensor(2.0, requires_grad=True)
        y = mg.tanh(a * a)
        y.backward()
        assert "base64," in self.graph_of(y)

    def test_a_recorded_backward_and_a_profile_show_themselves(self):
        a = mg.tensor(2.0, requires_grad=True)
        rec = mg.record_backward({"a": a})
        assert rec._repr_mimebundle_() == {"text/plain": "<record_backward: no backward yet>"}
        with mg.profile() as prof, rec:
            (a * a).backward()
        forms = rec._repr_mimebundle_()
        assert forms["text/plain"] == "<record_backward: 2 nodes, 1 steps>"
        assert "<iframe" in forms["text/html"]
        assert "mul" in prof._repr_mimebundle_()["text/html"]
