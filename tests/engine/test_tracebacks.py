"""What a traceback of an error shows: the message once, each call once, generated code by name."""

import traceback

import pytest

import minigrad as mg


def of(*shape):
    return mg.ones(shape, requires_grad=True)


class Refused(mg.Function):
    @staticmethod
    def forward(ctx, x):
        raise ValueError("refused")

    @staticmethod
    def backward(ctx, g):
        return g


class FailsBackward(mg.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g @ of(2, 2)


class NoItems(mg.data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return of(2, 3) @ of(2, 3)


def cube_with_a_wrong_rule(x):
    op = mg.primitive(lambda x: x**3, name="cube_of_tracebacks")
    op.vjp("x")(lambda g, x: g @ x[:2])
    return op(x)


CALLS = {
    "x @ y": lambda: of(2, 3) @ of(2, 3),
    "x + y": lambda: of(2, 3) + of(2, 2),
    "a reduction": lambda: of(2, 3).sum(axis=5),
    "an index": lambda: of(2, 3)[5],
    "a NumPy function": lambda: mg.concatenate([of(2, 3), of(2, 2)]),
    "a function of ops": lambda: mg.std_mean(of(2, 3), axis=5),
    "fuse": lambda: mg.fuse(lambda x, y: mg.tanh(x) * y)(of(2, 3), of(2, 2)),
    "compile": lambda: mg.compile(lambda x, y: (x @ y).sum())(of(2, 3), of(2, 3)),
    "vmap": lambda: mg.func.vmap(lambda x, y: x @ y)(of(4, 3), of(4, 2)),
    "grad": lambda: mg.func.grad(lambda x: (x @ of(5)).sum())(of(3)),
    "jvp": lambda: mg.func.jvp(lambda x: x @ of(5), (of(3),), (of(3),)),
    "checkpoint": lambda: mg.checkpoint(lambda x: x @ of(5, 5), of(2, 3)),
    "a Function's forward": lambda: Refused.apply(of(3)),
    "a Function's backward": lambda: FailsBackward.apply(of(3)).sum().backward(),
    "a rule": lambda: cube_with_a_wrong_rule(of(3)).sum().backward(),
    "modules": lambda: mg.nn.Sequential(mg.nn.Linear(3, 4), mg.nn.Linear(5, 2))(of(2, 3)),
    "a layer of one op": lambda: mg.nn.Embedding(3, 4)(mg.tensor([5])),
    "DataLoader": lambda: list(mg.data.DataLoader(NoItems())),
    "a DataLoader's worker": lambda: list(mg.data.DataLoader(NoItems(), num_workers=1)),
}


def error_of(call):
    with pytest.raises((ValueError, IndexError)) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_traceback_says_the_message_once(call):
    error = error_of(call)
    shown = "".join(traceback.format_exception(error))
    assert shown.count("Traceback (most recent call last)") == 1
    assert shown.count(f"Error: {error}") == 1


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_traceback_shows_each_call_once(call):
    frames = [frame for frame, _ in traceback.walk_tb(error_of(call).__traceback__)]
    assert len(frames) == len({id(frame) for frame in frames})


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_generated_code_in_a_traceback_is_named_after_what_the_user_called(call):
    files = {frame.filename for frame in traceback.extract_tb(error_of(call).__traceback__)}
    assert "<generated>" not in files and "<string>" not in files


def test_a_traceback_ends_in_the_users_own_line_that_failed():
    last = traceback.extract_tb(error_of(lambda: Refused.apply(of(3))).__traceback__)[-1]
    assert (last.name, last.line) == ("forward", 'raise ValueError("refused")')


def test_the_cause_that_a_user_gave_an_error_is_shown():
    def forward(x):
        raise ValueError("cannot scale") from KeyError("scale")

    error = error_of(lambda: mg.primitive(forward, name="scaled_of_tracebacks")(of(3)))
    assert isinstance(error.__cause__, KeyError)
