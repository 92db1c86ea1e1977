"""What newcomers get wrong first: each message says what was given and the next step."""

import math
import subprocess
import sys
import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad import data, nn, optim

pytestmark = pytest.mark.promise(
    "bad input names function, argument and rule; beginner errors name the fix"
)

X = mg.tensor([1.0, 2.0, 3.0])
P = mg.ones(2, requires_grad=True)


def message(call, kind):
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    ("call", "kind", "step"),
    [
        (lambda: mg.relu(nn.Linear(3, 2)), TypeError, "x is a module itself: call it"),
        (lambda: mg.linear(X, nn.Linear(3, 2)), TypeError, "w is a module itself: call it"),
        (lambda: X - X.grad, TypeError, "b is None, as a .grad is before a backward"),
        (lambda: mg.concatenate([X, None]), ValueError, r"arrays[1] is None, as a .grad is"),
        (lambda: "loss " + X, TypeError, "a is text, and an op computes with tensors"),
    ],
)
def test_what_is_nothing_to_compute_with_is_named(call, kind, step):
    assert step in message(call, kind)


@pytest.mark.parametrize("call", [lambda: X.sum([0, 1]), lambda: mg.logsumexp(X, axis=[0, 1])])
def test_a_list_of_axes_is_answered_with_the_tuple(call):
    assert message(call, TypeError).endswith("they are a tuple: axis=(0, 1)")


def test_a_bias_that_is_left_out_is_no_mistake():
    assert "None, as a" not in message(lambda: mg.linear(X, mg.ones(2, 4)), ValueError)


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: mg.softmax(X, axs=0), "'axs'; its arguments are x, axis"),
        (lambda: mg.sigmoid(X, dim=1), ": sigmoid() got an unexpected keyword argument 'dim'"),
        (lambda: mg.tensor([1.0], require_grad=True), "'require_grad'; here it is requires_grad="),
        (lambda: data.DataLoader([1], batchsize=2), "'batchsize'; here it is batch_size="),
        (lambda: data.DataLoader([1], batches=2), "'batches'; its arguments are dataset, batch_si"),
        (lambda: data.train_test_split(X, test_size=0.2), "'test_size'; here it is test="),
        (lambda: data.train_test_split(X, random_state=1), "'random_state'; here it is seed="),
        (lambda: X.sum(axs=0), "'axs'; its arguments are axis, dtype, out, keepdims"),
    ],
)
def test_a_misspelt_argument_shows_those_there_are(call, names):
    assert names in message(call, TypeError)


def test_a_misspelt_function_is_answered_with_the_one_that_is_meant():
    program = "import minigrad as mg; mg.sofmax"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.endswith("has no attribute 'sofmax'. Did you mean: 'softmax'?\n")


@pytest.mark.parametrize(
    ("call", "kind", "step"),
    [
        (lambda: float(X), TypeError, "float64 (3,) as one Python number: only "),
        (lambda: X.item(), ValueError, "reduce it to one, x.sum() or x.mean()"),
        (lambda: math.exp(X), TypeError, "or all, x.tolist()"),
        (lambda: 0 < X < 1, ValueError, "is (a < x) & (x < b)"),
        (lambda: X in [mg.ones(3)], ValueError, "any(x is t for t in tensors)"),
    ],
)
def test_many_numbers_where_python_wants_one_are_shown_with_what_to_write(call, kind, step):
    assert step in message(call, kind)


def test_a_number_that_python_refuses_is_still_explained_by_python():
    assert message(lambda: int(mg.tensor(math.nan)), ValueError).startswith("cannot convert float")


@pytest.mark.parametrize(
    ("call", "kind", "step"),
    [
        (lambda: mg.tensor(1.0, 2.0), TypeError, "mg.tensor takes all numbers as one argument"),
        (lambda: mg.zeros(2, dtype="flot32"), TypeError, "dtype='flot32' is not a dtype; write"),
        (lambda: X.astype("flot32"), TypeError, "dtype='flot32' is not a dtype; write"),
        (lambda: mg.zeros(2.5), TypeError, "integers, 0 or more; got 2.5"),
        (lambda: mg.randn((2, "3")), TypeError, "got '3' in (2, '3')"),
        (lambda: nn.Linear(-3, 2), ValueError, "integers, 0 or more; got -3 in (2, -3)"),
    ],
)
def test_what_a_tensor_cannot_be_made_of_is_named(call, kind, step):
    assert step in message(call, kind)


@pytest.mark.parametrize(
    ("call", "step"),
    [
        (lambda: mg.max(X, X), "of two arrays, element by element, it is mg.maximum(a, b)"),
        (lambda: mg.max(X, mg.tensor(0.0)), "of two arrays, element by element, it is mg.maximum"),
        (lambda: X.min(X), "of two arrays, element by element, it is mg.minimum(a, b)"),
        (lambda: mg.linalg.norm(mg.ones(2, 2), "fro", [0, 1]), "a tuple: axis=(0, 1)"),
        (lambda: mg.linalg.norm(mg.ones(2, 2), axis=[0, 1]), "a tuple: axis=(0, 1)"),
    ],
)
def test_what_is_no_axis_is_told_what_to_write(call, step):
    assert step in message(call, TypeError)


@pytest.mark.parametrize(
    ("call", "kind", "step"),
    [
        (lambda: X.sum().backward(), ValueError, "computed under mg.no_grad(), from detached"),
        (lambda: mg.argmax(X).backward(), ValueError, "since int64 has no derivative"),
        (lambda: mg.grad(lambda x: x.sum(), X), TypeError, "mg.func.grad(f)(x) takes the function"),
        (lambda: mg.grad(X, nn.Linear(3, 2)), TypeError, "pass list(model.parameters())"),
    ],
)
def test_a_gradient_that_cannot_be_taken_is_told_why(call, kind, step):
    assert step in message(call, kind)


@pytest.mark.parametrize(
    ("call", "kind", "step"),
    [
        (lambda: optim.SGD(nn.Linear(2, 2), lr=0.1), TypeError, "pass model.parameters()"),
        (lambda: optim.SGD(nn.Linear(2, 2).parameters, lr=0.1), TypeError, "pass model.param"),
        (lambda: optim.SGD([P], lr="0.1"), TypeError, "lr must be a number, 0 or more; got '0.1'"),
        (lambda: optim.Adam([P], betas=0.9), TypeError, "such as (0.9, 0.999); got 0.9"),
        (lambda: nn.utils.clip_grad_norm_(nn.ReLU(), 1.0), TypeError, "pass model.parameters()"),
        (lambda: nn.Dropout("0.5"), ValueError, "probability from 0 to 1, got '0.5'"),
        (lambda: data.DataLoader([1], batch_size=2.5), ValueError, "integer, 1 or more, got"),
        (
            lambda: optim.SGD(nn.Linear(2, 2).state_dict()),
            TypeError,
            "model.parameters(), not its s",
        ),
        (lambda: data.DataLoader(row for row in [1]), TypeError, "such as data.ArrayDataset(x, y)"),
        (
            lambda: next(iter(data.DataLoader((mg.ones(3, 1), X), 2))),
            ValueError,
            "as ArrayDataset(x, y)",
        ),
        (
            lambda: data.train_test_split(mg.ones(4, 3)),
            TypeError,
            "data.ArrayDataset(x, y); got a T",
        ),
        (lambda: optim.SGD(iter([])), ValueError, "call it anew, or keep list("),
        (lambda: nn.Sequential(nn.ReLU), TypeError, "ReLU is a class, and ReLU(...) makes one"),
        (lambda: nn.Sequential([nn.ReLU()]), TypeError, "Sequential(*modules) passes those of a l"),
        (lambda: nn.ReLU().load_state_dict("m.npz"), TypeError, "that of a file is mg.load(path)"),
        (lambda: mg.save("m.npz", {"w": P}), TypeError, "write mg.save(state, path)"),
    ],
)
def test_what_training_cannot_use_is_named(call, kind, step):
    assert step in message(call, kind)


def test_a_list_of_parameters_that_is_a_module_can_be_optimised_and_clipped():
    parameters = nn.ParameterList([nn.Parameter(mg.ones(2))])
    optim.SGD(parameters, lr=0.1)
    nn.utils.clip_grad_norm_(parameters, 1.0)
    assert mg.grad((parameters[0] ** 2).sum(), parameters)[0].tolist() == [2, 2]


def test_the_grad_of_a_result_warns_that_it_stays_none():
    w = mg.ones(2, requires_grad=True)
    w.sum().backward()
    w = w - 0.1 * w.grad  # a new tensor under the leaf's name
    w.sum().backward()
    with pytest.warns(UserWarning, match="of a result, here of <sub #.*retain_grad.*w -= step"):
        assert w.grad is None


def test_no_warning_comes_with_the_grad_of_leaves_and_of_results_that_retain_it():
    x = mg.ones(2, requires_grad=True)
    y = 2 * x
    y.retain_grad()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert x.grad is None and y.grad is None and mg.ones(2).grad is None


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "vjp", "vmap", "jacrev", "jacfwd"])
def test_a_transform_of_a_result_asks_for_the_function(name):
    def transform():
        made = getattr(mg.func, name)(X.sum())
        return made(X) if callable(made) else made

    assert "takes the function itself, f and not f(x); got float64 ()" in message(
        transform, TypeError
    )


@pytest.mark.parametrize("loss", [mg.cross_entropy, mg.nll])
@pytest.mark.parametrize(
    ("target", "step"),
    [([0, 3], "an index must lie in 0..2"), ([0, 1, 2], "target must have shape (2,)")],
)
def test_targets_that_do_not_fit_are_told_under_the_name_of_the_loss(loss, target, step):
    said = message(lambda: loss(mg.zeros(2, 3), mg.tensor(target)), ValueError)
    assert said.startswith(f"{loss.__name__}(x: float64 (2, 3), target: int64 ({len(target)},)): ")
    assert step in said


def test_a_package_that_is_not_there_is_told_once_with_the_call_as_a_note(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    with pytest.raises(ImportError, match="comes from scipy.special") as caught:
        mg.special.i0e(X)
    assert caught.value.__notes__ == ["in bessel_ie(x: float64 (3,), order=0)"]


def test_a_number_has_no_gradient():
    assert "3.0 is not a tensor" in message(lambda: mg.grad(3.0, P), TypeError)


def test_one_row_may_be_taken_by_a_plain_number():
    x = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (2 * mg.take(x, 1)).backward()
    assert x.grad.tolist() == [0, 2, 0]


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_fractions_as_row_numbers_ask_for_whole_ones(dtype):
    said = message(lambda: nn.Embedding(5, 3)(mg.tensor([1.0, 2.0], dtype=dtype)), TypeError)
    assert f"indices must be integers, got {dtype}" in said and "astype(mg.int64)" in said


def test_factors_of_unequal_inner_lengths_are_told_which_axes_must_agree():
    with pytest.raises(ValueError, match=r"a is 3 long .* of b 2; .* b\.T would fit"):
        mg.ones(2, 3) @ mg.ones(2, 3)
    with pytest.raises(ValueError, match=r"the last axis of a is 3 long and the one axis of b 4"):
        X @ mg.ones(4)
    with pytest.raises(ValueError, match="broadcast"):  # of batches, as NumPy says it
        mg.ones(2, 3, 3) @ mg.ones(4, 3, 3)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: mg.elementwise(np.exp, name="m1"), "m1: an elementwise op needs a partial"),
        (
            lambda: mg.elementwise(np.exp, name="m2", dx=3),
            "m2: dx=3 is no function; a partial is",
        ),
        (
            lambda: mg.elementwise(lambda x, b: x * b, name="m3", dx=lambda b: b),
            "m3: its forward has 2 arguments, and 1 of them has a partial (dx); give dx= and db=",
        ),
        (
            lambda: mg.elementwise(np.multiply, name="m4", da=lambda b: b),
            "has a partial (da); give da= and db=",
        ),
    ],
)
def test_an_elementwise_op_without_its_partials_is_told_which_it_needs(call, said):
    assert said in message(call, TypeError)


@pytest.mark.parametrize(
    ("call", "kind", "step"),
    [
        (lambda: mg.zeros((2, 3), np.float32), TypeError, "a dtype goes by name, dtype="),
        (lambda: mg.ones(3, "float32"), TypeError, "a dtype goes by name, dtype="),
        (lambda: mg.Tensor(2, 3), TypeError, "a tensor of a shape is mg.empty(shape)"),
        (lambda: P.requires_grad_("no"), TypeError, "requires_grad is True or False, got 'no'"),
        (lambda: nn.ReLU().train(X), TypeError, "train() only sets the mode, and mg.train.Trainer"),
        (lambda: setattr(nn.ReLU(), "train", False), TypeError, "train is a method: call it"),
        (
            lambda: setattr(nn.Linear(2, 2), "weight", np.ones((2, 2))),
            TypeError,
            "assign nn.Parameter(value)",
        ),
        (lambda: optim.SGD([P]).step(X.sum()), TypeError, "loss.backward() first, then step()"),
        (lambda: mg.save(X, "x.npz"), TypeError, 'write {"x": x}'),
        (lambda: (P * 2).backward([1.0, 1.0]), ValueError, "this one's is mg.tensor([...])"),
        (lambda: mg.dump_graph(3, "g.json"), TypeError, "takes a tensor or a list of tensors"),
        (lambda: mg.concatenate(X, X), TypeError, "one list, concatenate([a, b], axis=0)"),
        (lambda: mg.stack(X, X), TypeError, "one list, stack([a, b], axis=0)"),
        (
            lambda: mg.einsum(X, "i->"),
            TypeError,
            "the subscripts come first: einsum('i->', x, ...)",
        ),
    ],
)
def test_what_is_no_argument_there_is_answered_with_what_is(call, kind, step):
    assert step in message(call, kind)


@pytest.mark.parametrize(("seed", "kind"), [("a", TypeError), (1.5, TypeError), (-1, ValueError)])
def test_a_seed_that_is_none_is_shown_and_leaves_the_generator(seed, kind):
    before = mg.manual_seed(3)
    said = message(lambda: mg.manual_seed(seed), kind)
    assert said == f"manual_seed: seed is an integer, 0 or more; got {seed!r}"
    assert mg.backends.random.generator() is before


@pytest.mark.parametrize("call", [lambda: X.view(mg.int32), lambda: X.view(dtype="int32")])
def test_a_view_of_another_dtype_is_told_from_a_cast(call):
    assert "the same bits x.detach().numpy().view(dtype)" in message(call, TypeError)


@pytest.mark.parametrize("make", [mg.zeros, mg.ones, mg.rand, mg.empty])
def test_a_shape_within_a_shape_is_named(make):
    assert "a shape is made of integers" in message(lambda: make((2, 2), 2), TypeError)
    assert "a shape is made of integers" in message(lambda: make([[2, 2]]), TypeError)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: X.softmax(0, 1), "softmax: too many positional arguments; its arguments are axis"),
        (
            lambda: X.roll(),
            "roll: missing a required argument: 'shift'; its arguments are shift, a",
        ),
        (lambda: nn.functional.conv2d(X), "conv2d: missing a required argument: 'w'; its arg"),
        (lambda: mg.einsum(), "einsum: missing a required argument: 'subscripts'; its arguments"),
        (lambda: X.repeat(1, 1, 2), "of the whole array along each axis, is mg.tile(x, (1, 1, 2))"),
    ],
)
def test_too_many_or_too_few_arguments_show_those_there_are(call, said):
    assert said in message(call, TypeError)


LAYER = nn.Linear(3, 2)


@pytest.mark.parametrize(
    ("call", "step"),
    [
        (lambda: mg.clear_grads(LAYER), "is a module; pass model.parameters()"),
        (lambda: mg.clear_grads(None), "clear_grads takes tensors, got None"),
        (
            lambda: nn.init.xavier_uniform_(LAYER),
            "nn.init.xavier_uniform_(layer.weight) fills that",
        ),
        (lambda: nn.init.zeros_(None), "zeros_ fills a tensor, got None"),
        (lambda: mg.register_multi_grad_hook(P, print), "takes several tensors, [a, b], got float"),
        (
            lambda: mg.register_multi_grad_hook(LAYER, print),
            "model.parameters() has those of a mod",
        ),
        (lambda: mg.register_multi_grad_hook([P, 1.0], print), "takes tensors, got 1.0"),
        (lambda: mg.func.stack_module_state(LAYER), "takes a list of modules, [first, second"),
        (lambda: mg.func.stack_module_state([P]), "takes a list of modules, [first, second"),
        (lambda: mg.checkpoint_sequential(LAYER, 2, X), "takes a Sequential or a list of layers"),
    ],
)
def test_a_module_or_nothing_where_tensors_belong_is_told_what_to_pass(call, step):
    assert step in message(call, TypeError)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("cond", lambda f: mg.func.cond(True, f, f, X)),
        ("switch", lambda f: mg.func.switch(0, [f], X)),
        ("while_loop", lambda f: mg.func.while_loop(f, f, X)),
        ("fori_loop", lambda f: mg.func.fori_loop(0, 2, f, X)),
        ("scan", lambda f: mg.func.scan(f, X, X)),
        ("associative_scan", lambda f: mg.func.associative_scan(f, X)),
        ("odeint", lambda f: mg.func.odeint(f, X, [0.0, 1.0])),
        ("tree_map", lambda f: mg.func.tree_map(f, [X])),
    ],
)
def test_what_is_no_function_is_told_that_one_is_wanted(name, call):
    said = message(lambda: call(X), TypeError)
    assert said.startswith(f"mg.func.{name} takes the function itself, f and not f(x); got float64")


def test_switch_takes_a_list_of_functions():
    said = message(lambda: mg.func.switch(0, abs, X), TypeError)
    assert said.startswith("mg.func.switch takes a list of functions, got <built-in function abs>")
