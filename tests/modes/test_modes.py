"""no_grad and its family: thread-local, nested, restored."""

import threading

import pytest

import minigrad as mg
from minigrad.engine import modes
from minigrad.modes.recording import inference_mode, is_inference_mode_enabled

pytestmark = pytest.mark.promise("modes are thread-local and restored")


@pytest.fixture
def x():
    return mg.tensor([1.0], requires_grad=True)


def test_no_grad_records_nothing(x):
    with mg.no_grad():
        y = x * 2
    assert not y.requires_grad and (x * 2).requires_grad


def test_enable_grad_records_inside_no_grad(x):
    with mg.no_grad(), mg.enable_grad():
        assert (x * 2).requires_grad


def test_set_grad_enabled_takes_a_value(x):
    with mg.set_grad_enabled(False):
        assert not (x * 2).requires_grad


def test_modes_are_restored_after_an_exception(x):
    with pytest.raises(KeyError), mg.no_grad():
        raise KeyError
    assert mg.is_grad_enabled() and (x * 2).requires_grad and modes.active == 0


def test_no_grad_is_also_a_decorator_and_may_recurse(x):
    @mg.no_grad()
    def countdown(n):
        return x * n if n == 0 else countdown(n - 1)

    assert not countdown(3).requires_grad
    assert mg.is_grad_enabled()


def test_one_thread_does_not_change_another(x):
    inside, leave, seen = threading.Event(), threading.Event(), []

    def other():
        with mg.no_grad():
            inside.set()
            leave.wait(5)
            seen.append((x * 2).requires_grad)

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(5)
    assert (x * 2).requires_grad
    leave.set()
    thread.join()
    assert seen == [False]


def test_inference_mode_of_false_lifts_it_for_a_block_or_a_function(x):
    with mg.inference_mode():
        with mg.inference_mode(False):
            assert (x * 2).requires_grad and not mg.is_inference_mode_enabled()
        assert mg.inference_mode(mode=False)(lambda: x * 2)().requires_grad
        assert not (x * 2).requires_grad and mg.is_inference_mode_enabled()
    assert not mg.inference_mode(True)(lambda: x * 2)().requires_grad
    assert mg.is_grad_enabled() and modes.active == 0


def test_the_choice_of_set_grad_enabled_has_the_name_mode(x):
    with mg.set_grad_enabled(mode=False):
        assert not (x * 2).requires_grad


def test_a_decorated_class_stays_one_and_is_made_in_the_mode(x):
    class Doubled:
        def __init__(self):
            self.y = x * 2

        def again(self):
            return x * 2

    with pytest.warns(UserWarning, match="Doubled is a class: of it only __init__"):
        same = mg.no_grad()(Doubled)
    assert same is Doubled and not Doubled().y.requires_grad and Doubled().again().requires_grad


@pytest.mark.parametrize("make", [mg.no_grad, mg.inference_mode, mg.detect_anomaly])
def test_threads_that_share_a_block_go_back_to_what_was_theirs(make):
    shared, entered, left, found = make(), threading.Barrier(2), threading.Event(), {}

    def here():
        return mg.is_grad_enabled(), mg.is_inference_mode_enabled(), modes.state.anomaly

    def first():
        with mg.no_grad(), mg.detect_anomaly():
            before = here()
            with shared:
                entered.wait(10)
            found["first"] = here() == before
            left.set()

    def second():
        before = here()
        with shared:
            entered.wait(10)
            left.wait(10)
        found["second"] = here() == before

    threads = [threading.Thread(target=run) for run in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"first": True, "second": True}


def test_inference_mode_records_nothing_and_is_restored(x):
    with pytest.raises(KeyError), inference_mode():
        assert is_inference_mode_enabled() and not (x * 2).requires_grad
        raise KeyError
    assert not is_inference_mode_enabled() and (x * 2).requires_grad


def test_inference_mode_refuses_to_record(x):
    y = (x * 2).sum()
    with inference_mode():
        with pytest.raises(RuntimeError, match="inside inference_mode"), mg.enable_grad():
            pass
        with pytest.raises(RuntimeError, match="inside inference_mode"):
            mg.func.grad(lambda x: (x * x).sum())(x)
        with inference_mode():
            pass
        assert is_inference_mode_enabled()
        y.backward()
    assert x.grad.tolist() == [2] and modes.active == 0


def test_inference_mode_is_also_a_decorator(x):
    assert not inference_mode()(lambda: x * 2)().requires_grad


@pytest.mark.parametrize(
    "decorate", [mg.no_grad(), mg.no_grad, lambda fn: mg.set_grad_enabled(False)(fn)]
)
def test_a_generator_runs_in_the_mode_and_its_user_does_not(x, decorate):
    @decorate
    def doubled():
        given = yield (x * 2).requires_grad
        try:
            yield (x * given).requires_grad
        except KeyError:
            yield (x * 3).requires_grad
        return (x * 4).requires_grad

    steps = doubled()
    assert next(steps) is False and (x * 2).requires_grad
    assert steps.send(5.0) is False and mg.is_grad_enabled()
    assert steps.throw(KeyError()) is False and (x * 2).requires_grad
    with pytest.raises(StopIteration) as stop:
        next(steps)
    assert stop.value.value is False
    doubled().close()
    assert mg.is_grad_enabled() and modes.active == 0


def test_what_a_user_throws_into_a_generator_arrives_there():
    @mg.no_grad()
    def steps():
        try:
            yield
        except KeyboardInterrupt:
            yield mg.is_grad_enabled()

    generator = steps()
    next(generator)
    assert generator.throw(KeyboardInterrupt) is False and mg.is_grad_enabled()


def test_a_generator_that_is_closed_ends_in_the_mode():
    @mg.no_grad()
    def steps():
        try:
            yield
        finally:
            seen.append(mg.is_grad_enabled())

    seen = []
    started = steps()
    next(started)
    started.close()
    assert seen == [False] and mg.is_grad_enabled() and modes.active == 0


def test_a_mode_decorates_with_and_without_brackets(x):
    for decorated in (mg.no_grad(lambda: x * 2), mg.no_grad()(lambda: x * 2)):
        assert not decorated().requires_grad
    with mg.no_grad():
        assert mg.enable_grad(lambda: x * 2)().requires_grad


def test_an_async_function_is_refused_since_other_tasks_would_run_in_its_mode():
    async def wait():
        pass

    with pytest.raises(TypeError, match="wait is async"):
        mg.no_grad()(wait)


def test_set_grad_enabled_as_a_plain_call_holds_from_there_on(x):
    try:
        mg.set_grad_enabled(False)
        mg.set_grad_enabled(False)
        assert not (x * 2).requires_grad
        with mg.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    finally:
        mg.set_grad_enabled(True)
    assert (x * 2).requires_grad and modes.active == 0


def test_set_grad_enabled_inside_a_block_ends_with_it(x):
    with mg.no_grad():
        mg.set_grad_enabled(True)
        assert (x * 2).requires_grad
        with mg.set_grad_enabled(False):
            assert not (x * 2).requires_grad
        assert (x * 2).requires_grad
    assert (x * 2).requires_grad and modes.active == 0
    with inference_mode(), pytest.raises(RuntimeError, match="inference"):
        mg.set_grad_enabled(True)
    assert mg.is_grad_enabled() and modes.active == 0
