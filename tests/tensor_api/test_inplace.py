"""In-place changes are recorded, or written and noted, or refused: never silently wrong."""

import gc
import sys
import threading
from collections import deque

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine import versions
from minigrad.engine.errors import InPlaceError

pytestmark = pytest.mark.promise("a changed saved array is an error, never a wrong number")


def leaf(values):
    return mg.tensor(values, requires_grad=True)


def test_assignment_to_a_result_is_differentiable_in_both():
    x, v = leaf([1.0, 2.0, 3.0]), leaf(5.0)
    h = x * 2
    h[1] = v
    (h * h).sum().backward()
    assert h.tolist() == [2, 5, 6]
    assert x.grad.tolist() == [8, 0, 24] and v.grad.item() == 10


def test_arithmetic_in_place_is_differentiable():
    x = leaf([1.0, 2.0])
    h = x * 2
    same = h
    h += x
    h *= x
    h.sum().backward()
    assert same is h and x.grad.tolist() == [6, 12]


def test_what_was_saved_before_a_recorded_change_keeps_its_values():
    x = leaf([0.0, 1.0])
    h = np.exp(x)  # saves its result
    h[0] = 7.0
    h.sum().backward()
    np.testing.assert_allclose(x.grad.data, [0, np.e])


def test_a_constant_becomes_tracked_when_a_tracked_value_is_written_into_it():
    x, total = leaf([1.0, 2.0]), mg.zeros(2)
    for _ in range(3):
        total += x
    total.sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_a_constant_is_written_in_its_memory_so_views_see_it():
    x = mg.zeros(2, 2)
    row, address = x[0], x.data.ctypes.data
    x[0, 1] = 3.0
    x += 1.0
    assert row.tolist() == [1, 4] and x.data.ctypes.data == address


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda x: x.copy_(mg.tensor([5.0, 6.0])), [5, 6]),
        (lambda x: x.fill_(4), [4, 4]),
        (lambda x: x.zero_(), [0, 0]),
        (lambda x: x.__isub__(1), [1, 3]),
        (lambda x: x.__itruediv__(2), [1, 2]),
        (lambda x: x.__ipow__(2), [4, 16]),
        (lambda x: x.__ifloordiv__(3), [0, 1]),
        (lambda x: x.__imod__(3), [2, 1]),
    ],
)
def test_each_form_changes_the_tensor_itself(change, expected):
    x = mg.tensor([2.0, 4.0])
    data = x.data
    assert change(x) is x and x.data is data and x.tolist() == expected


def test_in_place_keeps_the_dtype_and_refuses_another_kind():
    x = mg.tensor([1.0], dtype="float32")
    x += mg.tensor([1.0])
    assert x.dtype == np.float32
    with pytest.raises(TypeError, match="float64 values do not fit"):
        n = mg.tensor([1])
        n += 0.5


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "bfloat16", "complex64"])
def test_every_dtype_may_be_written(dtype):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    x = mg.ones(3, dtype=dtype)
    x[1:] = 0
    x[:0] = 1
    x.fill_(1)
    assert x.dtype == mg.ones(1, dtype=dtype).dtype and x.tolist() == [1, 1, 1]


def test_in_place_refuses_a_result_of_another_shape():
    x = mg.zeros(2)
    with pytest.raises(ValueError, match=r"shape \(3, 2\)"):
        x += mg.ones(3, 2)


@pytest.mark.parametrize(
    "change",
    [
        lambda w: w.__setitem__(0, 9.0),
        lambda w: w.__iadd__(1),
        lambda w: w.copy_(np.zeros(2)),
        lambda w: w.fill_(2),
        lambda w: w.zero_(),
    ],
)
def test_a_changed_argument_is_named_with_both_versions_and_the_line(change):
    x, w = leaf([1.0, 2.0]), mg.tensor([3.0, 4.0])
    y = (x * w).sum()
    change(w)
    change(w)
    with pytest.raises(InPlaceError, match=r"mul: its argument 'b'.*version 0.*version 2.*") as e:
        y.backward()
    assert "test_inplace.py" in str(e.value) and x.grad is None


def test_a_changed_result_is_named():
    x = leaf([1.0])
    y = np.exp(x)
    with mg.no_grad():
        y.zero_()
    with pytest.raises(InPlaceError, match="exp: its result"):
        y.sum().backward()


def test_views_share_the_version():
    x, w = leaf([1.0, 2.0]), mg.tensor([[3.0, 4.0], [5.0, 6.0]])
    row = w[1]
    y = (x * row).sum()
    w.T[0, 1] = 0.0
    with pytest.raises(InPlaceError, match="'b'"):
        y.backward()


@pytest.mark.parametrize(
    "windows", [lambda w: mg.sliding_window_view(w, 2), lambda w: mg.unfold(w, 0, 2, 1)]
)
def test_windows_share_the_version_of_what_they_show(windows):
    x, w = leaf([1.0, 2.0]), mg.tensor([3.0, 4.0, 5.0])
    y = (x * windows(w)).sum()
    w[0] = 0.0
    with pytest.raises(InPlaceError, match="'b'"):
        y.backward()


def test_a_write_beside_what_was_saved_is_no_fault():
    x, w = leaf([1.0, 2.0]), mg.tensor([[3.0, 4.0], [5.0, 6.0]])
    y = (x * w[1]).sum()
    w[0].zero_()
    y.backward()
    assert x.grad.tolist() == [5, 6]


def test_many_writes_are_remembered_in_bounded_memory():
    x, w = leaf([1.0]), mg.tensor([3.0])
    y = (x * w).sum()
    for _ in range(1000):
        w += 1
    with pytest.raises(InPlaceError, match="now"):
        y.backward()
    z = (x * w).sum()
    z.backward()
    assert x.grad.tolist() == [1003]
    assert len(versions._writes[id(w.data)].recent) <= 64


def test_the_record_of_writes_dies_with_the_memory():
    w = mg.zeros(3)
    w += 1
    key = id(w.data)
    assert key in versions._writes
    del w
    gc.collect()
    assert key not in versions._writes


def test_an_optimizer_step_between_forward_and_backward_is_noticed():
    w = leaf([1.0, 2.0])
    optimizer = mg.optim.SGD([w], lr=0.1)
    (w * w).sum().backward()
    y = (w * w).sum()
    optimizer.step()
    with pytest.raises(InPlaceError, match=r"SGD\.step\(\)"):
        y.backward()
    (w * w).sum().backward()


def test_loading_a_state_between_forward_and_backward_is_noticed():
    layer = mg.nn.Linear(2, 2)
    x = leaf(np.ones((1, 2)))
    y = layer(x).sum()
    layer.load_state_dict(layer.state_dict())
    with pytest.raises(InPlaceError, match="load_state_dict"):
        y.backward()


def test_only_nodes_that_a_gradient_passes_are_checked():
    x, w = leaf([1.0]), mg.tensor([3.0])
    h = x * w
    y = (h * h).sum()
    w += 1
    assert mg.grad(y, h).tolist() == [6]


def test_a_leaf_is_not_changed_while_recording_but_under_no_grad():
    x = leaf([1.0, 2.0])
    for change in (lambda: x.__setitem__(0, 1.0), lambda: x.__iadd__(1), x.zero_):
        with pytest.raises(InPlaceError, match="is a leaf that requires a gradient"):
            change()
    with mg.no_grad():
        x -= 1
    assert x.tolist() == [0, 1] and x.is_leaf and x.requires_grad


def test_a_view_of_a_tracked_tensor_is_refused():
    h = leaf([[1.0, 2.0]]) * 2
    row = h[0]
    with pytest.raises(InPlaceError, match="shares its memory"):
        row += 1


def test_arithmetic_in_place_on_a_slice_is_recorded_in_the_tensor_it_is_a_slice_of():
    x = leaf([1.0, 2.0, 3.0])
    h = x * 2
    same = h
    h[:2] += x[1:]
    h[1:] *= x[1:]
    h[...] -= 1
    h.sum().backward()
    assert same is h and h.tolist() == [3, 13, 17]
    assert x.grad.tolist() == [2, 12, 14]


def test_a_slice_of_a_constant_takes_a_tracked_value():
    buffer, x = mg.zeros(3), leaf([1.0, 2.0])
    buffer[1:] += x
    buffer[:2] += x
    (buffer * np.array([1.0, 10.0, 100.0])).sum().backward()
    assert buffer.tolist() == [1, 3, 2] and x.grad.tolist() == [11, 110]


@pytest.mark.parametrize("trace", [None, lambda *event: trace_on])
def test_a_view_that_is_kept_anywhere_is_refused(trace):
    h = leaf([1.0, 2.0]) * 2
    rows, kept = [h[:1]], {"view": h[:1]}
    before = sys.gettrace()
    try:
        sys.settrace(trace or before)
        with pytest.raises(InPlaceError, match=r"change y itself by .* y\[i\] \+= b"):
            rows[0] += 1
        with pytest.raises(InPlaceError, match=r"or begin with x = y\[i\]\.copy\(\)"):
            kept["view"] += 1
        for view in (h[:1], h[1:]):
            with pytest.raises(InPlaceError, match="shares its memory"):
                view += 1
    finally:
        sys.settrace(before)
    assert h.tolist() == [2, 4]


def trace_on(*event):
    return trace_on


@pytest.mark.parametrize("see", [lambda h: h[0], lambda h: h.detach(), lambda h: h.T.numpy()])
def test_a_tracked_tensor_with_a_view_alive_is_refused(see):
    h = leaf([[1.0, 2.0]]) * 2
    view = see(h)
    with pytest.raises(InPlaceError, match="shares its memory"):
        h += 1
    del view
    h += 1
    assert h.tolist() == [[3, 5]]


def test_a_tracked_value_is_not_written_into_a_view_of_a_constant():
    buffer, x = mg.zeros(2, 2), leaf([1.0, 2.0])
    with pytest.raises(InPlaceError, match="view"):
        buffer[0].copy_(x)
    buffer[0] = x
    assert buffer.requires_grad and buffer.tolist() == [[1, 2], [0, 0]]


def test_second_order_passes_through_an_assignment():
    x = leaf([1.0, 2.0])
    h = x**3
    h[0] = 0.0
    (g,) = mg.grad(h.sum(), [x], create_graph=True)
    assert mg.grad(g.sum(), x).tolist() == [0, 12]


@pytest.mark.parametrize(
    "write", [lambda x: x.fill_(1.0), lambda x: x.__setitem__(0, 1.0), lambda x: x.__iadd__(1.0)]
)
def test_a_write_into_a_read_only_view_says_what_to_do(write):
    for view in (mg.diagonal(mg.ones((3, 3))), mg.broadcast_to(mg.ones(3), (2, 3))):
        with pytest.raises(ValueError, match=r"is a read-only view.*Begin with x = x.copy\(\)"):
            write(view)


@pytest.mark.parametrize(
    ("index", "value", "error", "why"),
    [
        (3, 1.0, IndexError, "value 1.0: index 3 is out of bounds"),
        ("a", 1.0, IndexError, "value 1.0: only integers, slices"),
        (0, 1j, TypeError, "value 1j: float.. argument must be"),
    ],
)
def test_a_write_that_cannot_be_names_what_it_was(index, value, error, why):
    x = mg.zeros(3)
    with pytest.raises(error, match=rf"x\[index\] = value: x is float64 \(3,\), {why}"):
        x[index] = value


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize("x", [mg.zeros(3), leaf([1.0, 2.0, 3.0]) * 1], ids=["plain", "recorded"])
def test_an_array_written_to_one_element_is_told_to_be_no_number(x):
    with pytest.raises(
        ValueError, match=r"float64 \(1,\).* is not one number; value.squeeze\(\) is"
    ):
        x[0] = mg.tensor([1.0])
    with pytest.raises(ValueError, match=r"float64 \(2,\).* is not one number$"):
        x[0] = mg.tensor([1.0, 2.0])


def test_a_backward_may_look_for_writes_while_another_thread_writes():
    shared, writers = np.zeros(3), []

    class Slow(deque):
        def __iter__(self):
            for write in super().__iter__():
                if not writers:
                    writers.append(threading.Thread(target=versions.note_write, args=(shared, "w")))
                    writers[0].start()
                    writers[0].join(timeout=0.2)
                yield write

    versions.note_write(shared, "w")
    writes = versions._writes[id(shared)]
    writes.recent = Slow(writes.recent)
    assert versions.written_after(shared, 0)[:2] == (0, 1)
    writers[0].join(timeout=10)
    assert versions.written_after(shared, 0)[:2] == (0, 2)


def test_a_value_that_is_no_number_is_told_where_it_was_written():
    x = mg.ones(2)
    with pytest.raises(
        ValueError, match=r"^x\[index\] = value: x is float64 \(2,\): could not con"
    ):
        x[0] = "a"


def test_an_element_is_not_deleted_in_place_and_the_error_says_what_makes_a_tensor_without():
    x = mg.tensor([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(TypeError, match=r"del x\[index\].*mg.delete\(x, index, axis=0\)"):
        del x[0]
    assert mg.delete(x, 0, axis=0).tolist() == [[3, 4]]
