"""detect_anomaly names the first bad op, and the line of its forward."""

import pickle
import threading

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine import modes
from minigrad.engine.errors import InPlaceError
from minigrad.errors import AnomalyError
from minigrad.modes.anomaly import detect_anomaly

pytestmark = [
    pytest.mark.promise("the first NaN or Inf is named, forward and backward"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


def leaf(values):
    return mg.tensor(values, requires_grad=True)


def test_the_first_bad_op_of_a_forward_is_named():
    x = leaf([1.0, -1.0])
    with detect_anomaly(), pytest.raises(AnomalyError, match=r"log.*NaN in 1 of 2.*\(1,\)") as e:
        np.exp(np.log(x))
    assert (e.value.op, e.value.phase, e.value.value) == ("log", "forward", "NaN")
    file, _, function = e.value.stack[0]
    assert file == __file__ and function == "test_the_first_bad_op_of_a_forward_is_named"


def test_inf_is_told_from_nan():
    with detect_anomaly(), pytest.raises(AnomalyError, match="log.*Inf in 1 of 1") as e:
        np.log(leaf([0.0]))
    assert e.value.value == "Inf"


def test_an_inf_that_only_passes_through_is_not_blamed():
    x = leaf([1.0, 2.0])
    with detect_anomaly():
        y = mg.masked_fill(x, np.array([True, False]), -np.inf)
        mg.softmax(y).sum().backward()
    assert np.isfinite(x.grad.data).all()


def test_inf_may_be_allowed():
    with detect_anomaly(inf=False):
        np.log(leaf([0.0]))


def test_a_nan_that_came_in_is_said_to_have_come_in():
    with detect_anomaly(), pytest.raises(AnomalyError, match="came in: an argument"):
        leaf([np.nan]) * 2


def test_a_large_but_finite_value_is_no_anomaly():
    with detect_anomaly():
        leaf([1e300]) * 1.0


def made_here(x):
    return np.sqrt(x)


def test_a_bad_gradient_shows_the_stack_of_the_forward_in_the_error():
    x = leaf([0.0])
    with detect_anomaly():
        y = made_here(x) * 0.0
        with pytest.raises(AnomalyError, match="(?s)backward of sqrt.*NaN.*made_here") as e:
            y.backward()
    assert e.value.phase == "backward"
    functions = [function for _, _, function in e.value.stack]
    assert functions[:2] == [
        "made_here",
        "test_a_bad_gradient_shows_the_stack_of_the_forward_in_the_error",
    ]


def test_a_forward_outside_the_mode_has_no_stack_and_says_so():
    y = np.sqrt(leaf([0.0])) * 0.0
    with detect_anomaly(), pytest.raises(AnomalyError, match="outside detect_anomaly"):
        y.backward()


def test_it_works_in_the_backward_of_a_backward():
    x = leaf([0.0])
    with detect_anomaly():
        y = x**1.5
        g = mg.grad(y.sum(), x, create_graph=True)
        with pytest.raises(AnomalyError) as e:
            g.sum().backward()
    assert e.value.phase == "backward" and e.value.stack


def test_a_recorded_rule_that_fails_names_the_op_it_belongs_to():
    x = leaf([0.0])
    with detect_anomaly():
        y = made_here(x)
        with pytest.raises(AnomalyError) as e:
            mg.grad(y.sum(), x, create_graph=True)
    assert "in the backward of <sqrt" in "".join(e.value.__notes__)
    assert e.value.stack[0][2] == "made_here"


def test_a_changed_numpy_operand_is_an_error():
    x, a = leaf([1.0, 2.0]), np.array([3.0, 4.0])
    with detect_anomaly():
        y = (x * a).sum()
        a[0] = 0
        with pytest.raises(InPlaceError, match="mul: its argument 'b'.*was changed after the call"):
            y.backward()
    assert x.grad is None


def test_the_mode_ends_with_an_exception_and_is_of_one_thread():
    with pytest.raises(KeyError), detect_anomaly():
        raise KeyError
    assert modes.state.anomaly is None and modes.active == 0
    errors = []

    def other():
        try:
            np.log(leaf([-1.0]))
        except AnomalyError as error:
            errors.append(error)

    with detect_anomaly():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert not errors


def test_it_is_also_a_decorator():
    @detect_anomaly()
    def run():
        return np.log(leaf([-1.0]))

    with pytest.raises(AnomalyError):
        run()
    np.log(leaf([-1.0]))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda x, w, y: w.data.__setitem__(0, 7.0), "mul: its argument 'b'"),
        (lambda x, w, y: w.detach().numpy().__setitem__(0, 7.0), "mul: its argument 'b'"),
        (lambda x, w, y: x.data.__setitem__(0, 7.0), "mul: its argument 'a'"),
        (lambda x, w, y: y.data.__setitem__(0, 7.0), "exp: its result"),
    ],
)
def test_a_change_that_no_version_counter_sees_is_an_error(change, named):
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    with detect_anomaly():
        y = np.exp(x * w)
        change(x, w, y)
        with pytest.raises(InPlaceError, match=f"{named}.*NumPy's memory"):
            y.sum().backward()
    assert x.grad is None and w.grad is None


def test_it_watches_a_generator_while_it_runs():
    @detect_anomaly()
    def steps():
        yield 1
        yield np.log(leaf([-1.0]))

    running = steps()
    next(running)
    np.log(leaf([-1.0]))
    with pytest.raises(AnomalyError):
        next(running)
    with pytest.raises(TypeError, match="brackets"):
        detect_anomaly(steps)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f, x: mg.func.grad(lambda x: f(x).sum())(x),
        lambda f, x: mg.func.jvp(f, (x,), (mg.ones(1),)),
        lambda f, x: mg.func.vmap(f)(x),
        lambda f, x: mg.func.vmap(mg.func.grad(f))(x),
    ],
)
def test_it_works_inside_transforms(transform):
    with detect_anomaly(), pytest.raises(AnomalyError) as error:
        transform(np.log, mg.tensor([0.0]))
    assert error.value.value == "Inf" and error.value.stack
    assert modes.active == 0 and modes.state.level == 0


def test_an_error_comes_whole_out_of_a_pickle_as_from_another_process():
    with detect_anomaly(), pytest.raises(AnomalyError) as error:
        np.log(mg.tensor([-1.0]))
    again = pickle.loads(pickle.dumps(error.value))
    assert type(again) is AnomalyError and vars(again) == vars(error.value)
    assert str(again) == str(error.value) and again.value == "NaN"


def functions(stack):
    return [function for _, _, function in stack]


def backward_here(y):
    y.backward()


def test_an_error_of_a_backward_holds_the_stacks_of_the_forward_and_of_the_backward():
    x = leaf([0.0])
    with detect_anomaly():
        y = made_here(x) * 0.0
        with pytest.raises(AnomalyError) as e:
            backward_here(y)
    assert functions(e.value.stack)[0] == "made_here"
    assert functions(e.value.backward_stack)[0] == "backward_here"
    assert e.value.recorded_by == []
    assert "the backward was called at" in "".join(e.value.__notes__)


def power_here(x, exponent):
    return x**exponent


def derivative_here(y, x):
    return mg.grad(y.sum(), x, create_graph=True)


def test_in_the_backward_of_a_backward_it_holds_the_first_forward_too():
    x = leaf([0.0])
    with detect_anomaly():
        g = derivative_here(power_here(x, 1.5), x)
        with pytest.raises(AnomalyError) as e:
            backward_here(g)
        h = derivative_here(derivative_here(power_here(x, 2.5), x), x)
        with pytest.raises(AnomalyError) as third:
            backward_here(h)
    assert functions(e.value.stack)[0] == "derivative_here"
    assert functions(e.value.backward_stack)[0] == "backward_here"
    assert [(op, functions(stack)[0]) for op, stack in e.value.recorded_by] == [
        ("pow", "power_here")
    ]
    assert "recorded by the backward of pow" in "".join(e.value.__notes__)
    names = [functions(stack)[0] for _, stack in third.value.recorded_by]
    assert names == ["derivative_here", "power_here"]


@pytest.mark.parametrize("options", [{}, {"engine": "parallel", "workers": 2, "min_work": 0}])
def test_any_error_of_a_rule_tells_both_stacks(options):
    class Broken(mg.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise KeyError("broken")

    with detect_anomaly(check_nan=False):
        y = Broken.apply(leaf([1.0]))
        with pytest.raises(KeyError, match="broken") as e:
            y.backward(**options)
    note = "".join(e.value.__notes__)
    assert "in the backward of <Broken" in note and "the backward was called at" in note
    assert note.count(f"{__file__}:") == 2


def test_with_check_nan_off_a_nan_passes_and_changed_memory_does_not():
    x, a = leaf([-1.0]), np.array([3.0])
    with detect_anomaly(False):
        y = np.log(x) * a
        assert np.isnan(y.item())
        y.backward(retain_graph=True)
        a[0] = 0.0
        with pytest.raises(InPlaceError, match="was changed after the call"):
            y.backward()
