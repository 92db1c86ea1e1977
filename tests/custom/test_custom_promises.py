"""mg.Function keeps the promises of the engine: versions, hooks, checkpoints, threads, engines."""

import gc
import json
import threading
import weakref

import pytest

import minigrad as mg
from minigrad.engine.errors import InPlaceError
from minigrad.errors import HookError
from minigrad.testing import gradcheck


class Square(mg.Function):
    """y = x²"""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


def leaf(*values):
    return mg.tensor(list(values), dtype=mg.float64, requires_grad=True)


def test_a_saved_tensor_that_was_changed_is_an_error():
    x = leaf(1, 2)
    a = x * 1
    y = Square.apply(a)
    with mg.no_grad():
        a[0] = 5.0
    with pytest.raises(InPlaceError, match="Square: its argument 'x'.* was changed in place"):
        y.sum().backward()


class Increment(mg.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x += 1
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


def test_an_argument_marked_dirty_becomes_the_result():
    x = leaf(1, 2)
    a = x * 1
    memory = a.data.ctypes.data
    y = Increment.apply(a)
    assert y is a and a.data.ctypes.data == memory and a.tolist() == [2, 3]
    assert a.grad_fn.op.name == "Increment"
    a.sum().backward()
    assert x.grad.tolist() == [2, 3]


def test_dirty_is_refused_where_it_would_lose_a_gradient():
    x = leaf(1, 2)
    with pytest.raises(InPlaceError, match="is a leaf that requires a gradient"):
        Increment.apply(x)
    a = x * 1
    view = a[:1]
    with pytest.raises(InPlaceError, match="another object shares its memory"):
        Increment.apply(a)
    assert x.tolist() == [1, 2] and view.tolist() == [1]
    with mg.no_grad():
        Increment.apply(x)
    assert x.tolist() == [2, 3]


def test_a_change_that_was_not_marked_is_an_error():
    class Sly(mg.Function):
        @staticmethod
        def forward(ctx, x):
            x += 1
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(InPlaceError, match=r"call ctx.mark_dirty\(x\) and return it"):
        Sly.apply(leaf(1) * 1)


def test_hooks_see_it_like_any_op():
    x = leaf(1, 2)
    y = Square.apply(x)
    seen = []
    y.register_hook(lambda g: seen.append(("tensor", g.tolist())))
    y.grad_fn.register_hook(lambda gs, outputs: seen.append(("node", gs[0].tolist())))
    y.sum().backward()
    assert seen == [("tensor", [1, 1]), ("node", [2, 4])]


def test_checkpoints_compute_it_again():
    runs = []

    class Counted(Square):
        @staticmethod
        def forward(ctx, x):
            runs.append(1)
            return Square.forward(ctx, x)

    x = leaf(1, 2)
    mg.checkpoint(lambda x: Counted.apply(x * 2), x).sum().backward()
    assert len(runs) == 2 and x.grad.tolist() == [8, 16]


def test_saved_tensor_hooks_see_what_it_saves():
    packed = []

    def pack(x):
        packed.append(x.shape)
        return x.astype("float32")

    x = leaf(1, 2)
    with mg.saved_tensors_hooks(pack, lambda x: x.astype("float64")):
        y = Square.apply(x)
    assert packed == [(2,)]
    y.sum().backward()
    assert x.grad.tolist() == [2, 4]
    with mg.saved_tensors_hooks(pack, lambda x: x):
        y = Square.apply(x)
    with pytest.raises(HookError, match="saved 'x' of Square"):
        y.sum().backward()


def test_it_shows_by_its_class_name_in_profiles_and_graphs():
    x = leaf(1, 2)
    with mg.profile() as profile:
        y = Square.apply(x)
        graph = json.dumps(mg.graph_dict(y), ensure_ascii=False)
        y.sum().backward()
    assert "Square" in profile.table()
    assert "Square" in graph and "y = x²" in graph
    assert "Square" in repr(y)


def test_saved_arrays_are_freed_by_the_backward():
    class Big(mg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x * 2)
            kept.append(weakref.ref(ctx))
            return x * x

        @staticmethod
        def backward(ctx, g):
            (twice,) = ctx.saved_tensors
            arrays.append(weakref.ref(twice.data))
            return g * twice

    kept, arrays = [], []
    gc.disable()
    try:
        x = leaf(1, 2)
        y = Big.apply(x)
        y.sum().backward()
        assert arrays[0]() is None  # while y and its node are alive
        del y
        assert kept[0]() is None  # and no cycle
    finally:
        gc.enable()


def test_mistakes_in_writing_the_class_are_told():
    with pytest.raises(TypeError, match="Bad.forward must be a @staticmethod"):

        class Bad(mg.Function):
            def forward(ctx, x):
                return x

    class Lists(mg.Function):
        @staticmethod
        def forward(ctx, xs):
            return xs[0]

    with pytest.raises(TypeError, match="not instantiated; call it with .apply"):
        Square()
    with pytest.raises(TypeError, match="list of tensors that require gradients.*one by one"):
        Lists.apply([leaf(1)])

    class Texts(mg.Function):
        @staticmethod
        def forward(ctx, x):
            return "text"

    with pytest.raises(TypeError, match="Texts.forward returned 'text'"):
        Texts.apply(leaf(1))

    class SavesText(mg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward("text")
            return x

    with pytest.raises(
        TypeError, match="save_for_backward takes tensors, got 'text' at position 0"
    ):
        SavesText.apply(leaf(1))


def test_without_any_tensor_the_result_is_a_constant_tensor():
    class Ones(mg.Function):
        @staticmethod
        def forward(ctx, n):
            return mg.ones(n)

    y = Ones.apply(3)
    assert y.tolist() == [1, 1, 1] and not y.requires_grad


def test_a_profile_counts_what_runs_inside_the_forward_once():
    x = leaf(1, 2)
    with mg.profile() as profile:
        Square.apply(x)
    assert [(row.op, row.calls) for row in profile.rows()] == [("Square", 1)]


def test_a_tape_records_the_call_and_walks_it():
    x = leaf(1, 2)
    with mg.Tape() as tape:
        y = Square.apply(x * 2).sum()
    assert [entry.op.name for entry in tape] == ["mul", "Square", "sum"]
    assert "backward(ctx, " in tape.backward_listing(y)
    tape.backward(y)
    assert x.grad.tolist() == [8, 16]
    with mg.Tape() as tape:
        y = Square.apply(x * 2).sum()
    with pytest.raises(mg.errors.TapeError, match="a call of the mg.Function Square"):
        tape.compile(inputs=[x], outputs=[y])


def test_the_parallel_engine_gives_the_same_gradients():
    x = leaf(0.5, -0.25)
    y = (Square.apply(x) * Square.apply(x + 1)).sum()
    serial = mg.grad(y, [x], retain_graph=True)[0]
    parallel = mg.grad(y, [x], engine="parallel", workers=2, min_work=0)[0]
    assert serial.tolist() == parallel.tolist()


def test_threads_may_call_one_class_at_once():
    wrong = []

    def work(k):
        x = leaf(k, k + 1)
        for _ in range(50):
            x.grad = None
            Square.apply(x).sum().backward()
            if x.grad.tolist() != [2 * k, 2 * k + 2]:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_under_no_grad_nothing_is_kept():
    alive = []

    class Keeps(mg.Function):
        @staticmethod
        def forward(ctx, x):
            twice = x * 2
            ctx.save_for_backward(twice)
            alive.append(weakref.ref(twice.data))
            return x + 1

    with mg.no_grad():
        y = Keeps.apply(leaf(1))
    assert not y.requires_grad and alive[0]() is None


def test_a_complex_function_has_the_gradient_of_the_convention():
    class ComplexSquare(mg.Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx, g):
            (z,) = ctx.saved_tensors
            return g * (2 * z).conj()

    z = mg.tensor([1 + 2j, -0.5j], requires_grad=True)
    gradcheck(ComplexSquare.apply, (z,))


def test_an_attribute_of_any_plain_name_comes_back_as_it_was():
    class Scaled(mg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.wanted, ctx.order = 3.0, "up"
            return x * 3

        @staticmethod
        def backward(ctx, g):
            assert ctx.order == "up"
            return g * ctx.wanted

    x = mg.tensor([1.0, 2.0], requires_grad=True)
    assert mg.grad(Scaled.apply(x).sum(), x).tolist() == [3.0, 3.0]


def cubed_with(name):
    """x³ whose forward keeps x as an attribute of this name."""

    class Cubed(mg.Function):
        @staticmethod
        def forward(ctx, x):
            setattr(ctx, name, x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            return 3 * getattr(ctx, name) ** 2 * g

    return Cubed.apply


@pytest.mark.parametrize("name", ["x", "name", "materialize"])
def test_a_tensor_kept_as_an_attribute_has_a_second_derivative(name):
    x = leaf(2.0)
    g = mg.grad(cubed_with(name)(x), x, leaf(1.0), create_graph=True)
    assert mg.grad(g, x, leaf(1.0)).tolist() == [12.0]


@pytest.mark.parametrize("name", ["saved_roles", "settle", "forget", "constant_outputs"])
def test_an_attribute_with_a_name_of_the_engine_is_refused_and_not_lost(name):
    with pytest.raises(TypeError, match=f"ctx.{name} is what ctx itself uses under this name"):
        cubed_with(name)(leaf(2.0))
