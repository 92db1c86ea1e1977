"""NumPy's functions on tensors are recorded; what has no rule is refused by name."""

import numpy as np
import pytest

import minigrad as mg


@pytest.fixture
def x():
    return mg.tensor([[0.5, 1.0], [2.0, 3.0]], requires_grad=True)


@pytest.mark.parametrize(
    "call",
    [
        np.exp, np.tanh, np.sum, np.mean, np.transpose, np.negative, np.max,
        lambda t: np.sum(t, axis=0), lambda t: np.sum(t, 1, keepdims=True),
        lambda t: np.add(t, 1.0), lambda t: np.multiply(np.ones((2, 2)), t),
        lambda t: np.concatenate([t, t], axis=1), lambda t: np.stack((t, t)),
        lambda t: np.reshape(t, (4,)), lambda t: np.matmul(t, t),
        lambda t: np.where(t.data > 1, t, 0),
        lambda t: np.add.reduce(t, axis=1), lambda t: np.clip(t, 0.6, 2.5),
        lambda t: np.vstack((t, t), dtype=None, casting="same_kind"),
    ],
)  # fmt: skip
def test_numpy_functions_are_recorded_and_agree_with_numpy(x, call):
    y = call(x)
    assert isinstance(y, mg.Tensor) and y.requires_grad
    np.testing.assert_array_equal(y.detach().numpy(), call(x.detach()).numpy())


def test_an_array_on_the_left_gives_a_tensor(x):
    y = np.ones((2, 2)) * x
    assert isinstance(y, mg.Tensor) and y.requires_grad
    assert isinstance(np.float64(2.0) * x, mg.Tensor)


def gradient(call, x):
    return mg.grad(call(x).sum(), x).numpy()


@pytest.mark.parametrize(
    "call",
    [
        lambda t: np.add.reduce(t), lambda t: np.add.reduce(t, axis=None),
        lambda t: np.add.reduce(t, axis=1, keepdims=True, initial=3.0),
        lambda t: np.multiply.reduce(t, initial=2.0), lambda t: np.maximum.reduce(t, axis=1),
        lambda t: np.minimum.reduce(t, initial=1.5), lambda t: np.logaddexp.reduce(t),
        lambda t: np.fmax.reduce(t), lambda t: np.add.reduce(t, dtype=np.float32),
        lambda t: np.add.accumulate(t), lambda t: np.multiply.accumulate(t, axis=1),
        lambda t: np.logaddexp.accumulate(t, 1), lambda t: np.multiply.outer(t, t[0]),
        lambda t: np.subtract.outer(2.0, t), lambda t: np.add(t, t, dtype=np.float32),
    ],
)  # fmt: skip
def test_the_methods_of_ufuncs_are_recorded_and_agree_with_numpy(x, call):
    y, expected = call(x), call(x.detach().numpy())
    assert y.requires_grad and y.dtype == expected.dtype
    np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-12)


def test_gradients_pass_through_the_methods_of_ufuncs(x):
    assert gradient(lambda t: np.add.reduce(t, initial=3.0), x).tolist() == [[1, 1], [1, 1]]
    assert gradient(lambda t: np.add.accumulate(t), x).tolist() == [[2, 2], [1, 1]]
    assert gradient(lambda t: np.multiply.outer(t, [1.0, 2.0]), x).tolist() == [[3, 3], [3, 3]]
    assert gradient(lambda t: np.maximum.reduce(t, axis=0, initial=2.5), x).tolist() == [
        [0, 0],
        [0, 1],
    ]


def test_logical_reductions_answer_with_constants(x):
    assert np.logical_and.reduce(x > 1, axis=1).tolist() == [False, True]
    assert np.logical_or.reduce(x > 2.5, axis=None).item() is True


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: np.add.at(t, [0], 1.0), r"np\.add\.at is not recorded; use mg\.index_add"),
        (lambda t: np.add.at(np.zeros(2), [0], t[0, 0]), r"np\.add\.at is not recorded"),
        (lambda t: np.maximum.at(t, [0], 1.0), r"use mg\.index_reduce\(x, .* 'amax'\), which"),
        (lambda t: np.divide.at(t, [0], 2.0), r"use x\[index\] = np\.divide\(x\[index\], values\)"),
        (lambda t: np.add.reduceat(t, [0, 1]), r"np\.add\.reduceat is not recorded"),
        (lambda t: np.remainder.reduce(t), r"np\.remainder\.reduce has no derivative rule"),
        (lambda t: np.add.reduce(t, where=[1, 0]), r"np\.add\.reduce: where= takes truths"),
        (lambda t: np.add.reduce(t, out=np.zeros(2)), r"np\.add\.reduce: out="),
        (lambda t: np.add(1.0, 2.0, out=t), r"np\.add: out="),
        (lambda t: np.add(t, np.float32(1), casting="no"), r"np\.add: dtype=None does not"),
        (lambda t: np.add(t, t, order="F"), r"np\.add: order=.*memory is not part of"),
        (lambda t: np.add(t, t, sig="dd->d"), r"np\.add: signature=.*write dtype="),
        (lambda t: np.less(t, t, dtype=object), r"np\.less: dtype="),
        (lambda t: np.matmul(t, t, axes=[(0, 1)] * 3), r"np\.matmul: axes=.*mg\.moveaxis"),
        (lambda t: np.var(t, where=[1, 0]), r"np\.var: where= takes truths"),
        (lambda t: np.sum(t, out=np.zeros(())), r"np\.sum: out="),
        # before NumPy 2.4 its concatenate has no signature to translate from
        (lambda t: np.concatenate([t, t], casting="unsafe"), r"concatenate.*casting"),
        (lambda t: np.full_like(t, 1, order="F"), r"np\.full_like: order=.*Leave order= out"),
        (lambda t: np.ones_like(t, device="cpu"), r"np\.ones_like: device=.*y\.to\(device\)"),
        (lambda t: np.reshape(t, 4, copy=True), r"np\.reshape: copy=.*y\.copy\(\)"),
        (lambda t: np.clip(t, 0, 1, dtype=np.float32), r"np\.clip: dtype=.*y\.astype\(dtype\)"),
        (lambda t: np.einsum("ij->i", t, dtype=np.float32), r"np\.einsum: dtype=.*y\.astype"),
        (lambda t: np.einsum("ij->i", t, out=np.zeros(2)), r"np\.einsum: out="),
        (lambda t: np.savez("numbers.npz", t), r"np\.savez has no derivative rule"),
    ],
)  # fmt: skip
def test_what_is_not_recorded_is_refused_by_name(x, call, message):
    with pytest.raises(TypeError, match=message):
        call(x)


def test_a_reduction_starts_from_initial_in_its_own_dtype():
    truths, nothing = np.array([[False, False]]), np.zeros((0, 2))
    for f, x, initial in (
        (np.maximum, truths, 2), (np.minimum, truths, 0), (np.add, np.int8([100, 100]), 300),
        (np.maximum, nothing, 3), (np.fmin, nothing, -1), (np.multiply, nothing, 2),
    ):  # fmt: skip
        y, expected = f.reduce(mg.tensor(x), initial=initial), f.reduce(x, initial=initial)
        assert y.dtype == expected.dtype and np.array_equal(y, expected), (f, x, initial)


def test_an_initial_of_another_dtype_takes_that_of_the_result():
    whole, narrow = np.array([1, 2, 3]), np.float32([1, 2, 3])
    for f, x, initial in (
        (np.sum, narrow, np.float64(2.5)), (np.max, narrow, np.array(9.0)),
        (np.sum, whole, 2.0), (np.max, whole, np.float32(7)), (np.prod, narrow, np.int64(2)),
    ):  # fmt: skip
        y, expected = f(mg.tensor(x), initial=initial), f(x, initial=initial)
        assert y.dtype == expected.dtype and y.item() == expected, (f, x, initial)
    first = mg.tensor(2.5, requires_grad=True)
    y = np.sum(mg.tensor(narrow), initial=first)
    y.backward()
    assert y.dtype == np.float32 and first.grad.item() == 1


@pytest.mark.parametrize("initial", [2.5, np.inf, 1j, np.float32(0.5), mg.tensor(1.5)])
@pytest.mark.parametrize("f", [np.sum, np.prod, np.max, np.nanmin, np.add.reduce])
def test_an_initial_that_a_result_of_integers_cannot_hold_is_refused(f, initial):
    with pytest.raises(TypeError, match="initial=.* does not fit into the result's int64"):
        f(mg.tensor([1, 2, 3]), initial=initial)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.float16, np.float32, np.complex64])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "any", "all"])
def test_a_reduction_of_chosen_elements_is_numpys(name, dtype):
    x, f = np.array([[3, 0, 1, 2], [5, 4, 7, 6]]).astype(dtype), getattr(np, name)
    extremum = {"initial": 1} if name in ("max", "min") else {}
    for mask in (x != 0, np.array([True, False, True, False])):
        for options in ({}, {"axis": 0, "keepdims": True}, {"axis": (0, 1)}, {"axis": -1}):
            options = {**options, **extremum, "where": mask}
            y, expected = f(mg.tensor(x), **options), f(x, **options)
            assert y.dtype == expected.dtype and y.shape == expected.shape
            np.testing.assert_allclose(y.numpy(), expected, rtol=1e-3)


def test_what_a_reduction_does_not_choose_gets_no_gradient(x):
    mask = np.array([[True, False], [True, True]])
    assert gradient(lambda t: np.sum(t, where=mask), x).tolist() == mask.astype(float).tolist()
    assert gradient(lambda t: np.max(t, where=mask[::-1], initial=-1.0), x)[1, 1] == 0
    assert gradient(lambda t: np.mean(t, where=mask, axis=0).sum(), x).tolist() == [
        [0.5, 0],
        [0.5, 1],
    ]
    with pytest.raises(ValueError, match="give initial="):
        np.max(x, where=mask)


def test_a_ufuncs_dtype_is_that_of_a_loop_numpy_has_or_an_error():
    z, n = mg.tensor([3 + 4j, 1j], dtype=mg.complex64), mg.tensor([6, 5])
    assert np.absolute(z, dtype=np.float64).tolist() == [5, 1]
    assert np.bitwise_and(n, 3, dtype=np.int32).dtype == np.int32
    assert np.less(n, n[::-1], dtype=bool).tolist() == [False, True]
    assert np.ldexp(n, n, dtype=np.float64).tolist() == [384, 160]
    half = np.add(mg.tensor([1.0], dtype="bfloat16"), 0.5, dtype=mg.bfloat16)
    assert half.dtype == mg.bfloat16 and half.tolist() == [1.5]
    for narrowed in (
        lambda: np.add(mg.tensor([1.5]), 2.0, dtype=np.int32),
        lambda: np.power(z, z, dtype=np.float64),
        lambda: np.sqrt(n, dtype=np.int64),
    ):
        with pytest.raises(TypeError, match=r"np\.(add|power|sqrt): dtype=(int|float)\d+ does not"):
            narrowed()


def test_numpys_names_and_places_of_arguments_are_understood(x):
    assert np.sum(a=x, axis=0).shape == np.sum(x, 0, None, None).shape == (2,)
    assert np.sum(x, 0, None, None, True).shape == np.max(x, 0, None, True).shape == (1, 2)
    assert np.std(x, 0, None, None, 1, True).shape == (1, 2)
    assert np.transpose(a=x, axes=(1, 0)).shape == (2, 2)
    assert np.clip(x, a_min=1.0, a_max=2.0).tolist() == [[1, 1], [2, 2]]
    assert np.take(a=x, indices=[0], axis=1).shape == (2, 1)


def test_an_option_that_asks_for_nothing_is_taken(x):
    assert np.einsum("ij->i", x, out=None, dtype=None, order="K", optimize=True).shape == (2,)
    assert np.clip(x, 0, 1, where=True, casting="same_kind", dtype=None).shape == (2, 2)
    assert np.median(x, overwrite_input=True).item() == np.median(x).item()
    assert np.exp(x, subok=False).shape == np.zeros_like(x, subok=False).shape == (2, 2)
    assert all(y.shape == (2, 2) for y in np.broadcast_arrays(x, x[0], subok=True))


def test_casting_decides_which_dtypes_a_ufunc_casts(x):
    assert np.add(x, 1.5, dtype=np.float32, casting="unsafe").dtype == np.float32
    assert np.add(x, x, casting="safe").tolist() == (x + x).tolist()
    with pytest.raises(TypeError, match="Cannot cast"):
        np.add(x, x, dtype=np.float32, casting="safe")


def test_np_clip_takes_one_bound_by_each_name_and_place(x):
    for y in (np.clip(x, None, 1.0), np.clip(x, max=1.0), np.clip(x, a_min=None, a_max=1.0)):
        assert y.tolist() == [[0.5, 1], [1, 1]]
    for y in (np.clip(x, 1.0, None), np.clip(x, min=1.0), np.clip(x, a_min=1.0, a_max=None)):
        assert y.tolist() == [[1, 1], [2, 3]]
    with pytest.raises(ValueError, match="another spelling; give one pair"):
        np.clip(x, 0.0, 1.0, min=0.5)


@pytest.mark.layer("courtesy")
def test_an_ops_error_says_its_own_name_of_numpys_argument(x):
    for call, here in (
        (lambda: mg.clip(x, a_min=0, a_max=1), "min="), (lambda: mg.hstack(tup=[x, x]), "arrays="),
        (lambda: mg.round(a=x), "x="), (lambda: mg.array_equal(a1=x, a2=x), "a="),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=f"here it is {here}"):
            call()


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize("name", ["cumsum", "argmax", "round", "trace"])
def test_out_of_an_op_is_refused_with_what_to_write(x, name):
    with pytest.raises(TypeError, match="no gradient can follow: write y = "):
        getattr(mg, name)(x, out=np.zeros(4))


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize(
    "call, instead",
    [
        (lambda t: mg.ptp(t, where=t > 0), r"mg\.where\(mask, a, b\)"),
        (lambda t: mg.concatenate([t, t], casting="unsafe"), r"y\.astype\(dtype\)"),
        (lambda t: mg.zeros_like(t, order="F"), r"Leave order= out"),
        (lambda t: mg.median(t, overwrite_input=True), r"no argument is overwritten"),
        (lambda t: t.reshape(4, copy=True), r"write y\.copy\(\)"),
    ],
)
def test_an_op_says_what_to_write_instead_of_an_option_of_numpys(x, call, instead):
    with pytest.raises(TypeError, match=rf"its arguments are .*{instead}"):
        call(x)


def test_text_of_an_array_takes_numpys_options(x):
    y, values = x / 3, (x / 3).detach().numpy()
    for f in (np.array_repr, np.array_str, np.array2string):
        assert f(y, precision=2) == f(values, precision=2)
        assert f(y, 40, 2) == f(values, 40, 2)


def test_hstack_and_vstack_cast_to_a_dtype_as_concatenate_does(x):
    for f in (np.hstack, np.vstack, mg.hstack, mg.vstack):
        assert f([x, x], dtype=np.float32).dtype == np.float32


def test_an_unknown_function_is_named(x):
    with pytest.raises(TypeError, match=r"np\.lib\.\w+\.logn has no derivative rule"):
        np.emath.logn(2, x)
    with pytest.raises(TypeError, match=r"np\.savetxt has no derivative rule"):
        np.savetxt("numbers.txt", x)


def test_out_and_where_and_in_place_array_updates_are_refused(x):
    with pytest.raises(TypeError, match="out="):
        np.exp(x, out=np.empty((2, 2)))
    with pytest.raises(TypeError, match="out="):
        array = np.ones((2, 2))
        array += x
    with pytest.raises(TypeError, match=r"mg\.where"):
        np.exp(x, where=np.ones((2, 2), bool))


def test_an_array_takes_a_constant_in_place_as_scipys_solvers_do_with_results():
    array = np.ones(2)
    array += mg.tensor([1.0, 2.0])
    array *= mg.tensor(2.0)
    assert type(array) is np.ndarray and array.tolist() == [4, 6]


def test_what_has_a_tangent_or_a_value_for_each_example_does_not_vanish_in_an_array():
    def into_an_array(x):
        array = np.zeros(2)
        array += x
        return x

    for transform in (mg.func.grad, mg.func.vmap, lambda f: lambda x: mg.func.jvp(f, (x,), (x,))):
        with pytest.raises(TypeError, match="out="):
            transform(into_an_array)(mg.ones(2))


def test_newtons_method_of_scipy_takes_derivatives_made_here():
    optimize = pytest.importorskip("scipy.optimize")

    def rosenbrock(x):
        return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2

    gradient, hessian = mg.func.grad(rosenbrock), mg.func.hessian(rosenbrock)
    found = optimize.minimize(
        rosenbrock, np.zeros(2), jac=gradient, hess=hessian, method="Newton-CG"
    )
    np.testing.assert_allclose(found.x, [1, 1], rtol=1e-4)


def test_never_an_object_array(x):
    for call in (np.array, np.sum, np.asarray):
        with pytest.raises(TypeError, match=r"mg\.stack"):
            call([x, x])
    assert np.array([x.detach(), x.detach()]).dtype == np.float64
    with pytest.raises(TypeError, match="object array"):
        np.array(x.detach(), dtype=object)


def test_comparisons_of_numpy_work_on_tracked_tensors_or_say_detach(x):
    assert np.array_equal(x, x) and np.allclose(x, x * 1.0)
    assert repr(np.array_equal(x, x)) == "tensor(True)"
    np.testing.assert_allclose(x.detach(), x.detach())
    np.testing.assert_array_equal(x.detach(), x.detach().numpy())
    with pytest.raises(TypeError, match="detach"):
        np.testing.assert_allclose(x, x)


def test_questions_about_shape_are_answered(x):
    assert np.shape(x) == (2, 2) and np.ndim(x) == 2 and np.size(x) == 4
    assert np.isrealobj(x) and not np.iscomplexobj(x) and np.isreal(x).all()
    assert np.result_type(x, np.complex64) == np.complex128 and np.can_cast(x, np.float64)
    assert np.shares_memory(x, x[0]) and np.may_share_memory(x, x)
    assert np.array2string(x, precision=1) == "[[0.5 1. ]\n [2.  3. ]]"


def test_a_number_has_no_axis_to_accumulate_along():
    for ufunc in (np.add, np.maximum):
        with pytest.raises(TypeError, match=r"accumulate: a number has no axis"):
            ufunc.accumulate(mg.tensor(1.0))


@pytest.mark.parametrize("split", [np.split, np.hsplit, np.array_split])
def test_a_split_into_no_parts_says_so(split, x):
    with pytest.raises(ValueError, match="at least 1 part, got 0"):
        split(x, 0)


def test_zeros_like_and_its_kin_take_a_shape(x):
    for like in (np.zeros_like, np.ones_like, np.empty_like):
        assert like(x, shape=(3, 1)).shape == (3, 1) and like(x, shape=()).shape == ()
    assert np.full_like(x, 7, shape=2, dtype=int).tolist() == [7, 7]
    y = mg.func.vmap(lambda row: np.full_like(row, 7, shape=3))(x.detach())
    assert y.tolist() == [[7, 7, 7], [7, 7, 7]]


@pytest.mark.parametrize("axis", [0, -1])
def test_a_number_is_repeated_along_its_only_axis(axis):
    assert np.repeat(mg.tensor(3.0), 2, axis=axis).tolist() == [3, 3]
