"""Memory shared with other libraries, and the refusal to share what has a history."""

import numpy as np
import pytest

import minigrad as mg


@pytest.fixture
def tracked():
    return mg.tensor([1.0, 2.0], requires_grad=True)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "uint64", "float32", "complex128"])
def test_numpy_takes_a_tensor_without_a_copy(dtype):
    x = mg.tensor([1, 0, 1], dtype=dtype)
    array = np.from_dlpack(x)
    assert array.dtype == x.dtype and np.shares_memory(array, x)


def test_a_tensor_takes_an_array_without_a_copy():
    array = np.arange(6.0).reshape(2, 3).T
    x = mg.from_dlpack(array)
    assert x.tolist() == array.tolist() and np.shares_memory(x, array)
    assert not np.shares_memory(mg.from_dlpack(array, copy=True), array)


def test_read_only_memory_stays_read_only():
    array = np.arange(3.0)
    array.flags.writeable = False
    x = mg.from_dlpack(array)
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 1.0
    assert not np.from_dlpack(mg.broadcast_to(mg.zeros(1), (3,))).flags.writeable


def test_torch_and_a_tensor_share_memory_both_ways():
    torch = pytest.importorskip("torch")
    x = mg.tensor([1.0, 2.0])
    theirs = torch.from_dlpack(x)
    theirs[0] = 5.0
    assert x.tolist() == [5, 2]
    y = mg.from_dlpack(theirs)
    y[1] = 7.0
    assert x.tolist() == [5, 7] and theirs.tolist() == [5, 7]


def test_a_torch_tensor_with_a_history_is_refused_by_torch():
    torch = pytest.importorskip("torch")
    with pytest.raises(BufferError, match="require gradient"):
        mg.from_dlpack(torch.ones(2, requires_grad=True))


def test_a_tracked_tensor_is_not_exported(tracked):
    for x in (tracked, tracked * 2):
        with pytest.raises(BufferError, match=r"x\.detach\(\)"):
            np.from_dlpack(x)
    assert np.shares_memory(np.from_dlpack(tracked.detach()), tracked)


def test_a_tensor_inside_a_transform_is_not_exported():
    def f(x):
        with pytest.raises(BufferError):
            np.from_dlpack(x)
        return x.sum()

    mg.func.grad(f)(mg.tensor([1.0]))


def test_the_device_is_told_in_dlpacks_numbers():
    assert mg.tensor([1.0]).__dlpack_device__() == (1, 0)
    with pytest.raises(ValueError, match="x is on cpu"):
        mg.from_dlpack(np.ones(2), device="cuda:0")
    with pytest.raises(TypeError, match=r"list has no __dlpack__; use mg\.tensor"):
        mg.from_dlpack([1.0])


def test_to_device_is_the_standards_spelling_of_to(tracked):
    assert tracked.to_device("cpu") is tracked
    with pytest.raises(ValueError, match="stream="):
        tracked.to_device("cpu", stream=1)


# -- writing into a constant ------------------------------------------------------------------


def test_a_constant_is_written_in_place():
    x = mg.zeros((2, 3))
    x[0, 1] = 4
    x[1] = mg.tensor([1.0, 2.0, 3.0])
    x[x == 2] = -1
    x[(mg.tensor([0]), mg.tensor([2]))] = 9
    assert x.tolist() == [[0, 4, 9], [1, -1, 3]]


def test_an_ndarray_subclass_beside_a_tensor_is_the_plain_array_of_its_values():
    x = mg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = x * np.matrix([[1.0, 2.0], [3.0, 4.0]])
    assert type(y.data) is np.ndarray
    assert mg.grad(y.sum(), x).numpy().tolist() == [[1, 2], [3, 4]]


def test_a_masked_array_is_refused_everywhere_for_its_mask_would_be_lost():
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    for call in (
        lambda: mg.tensor(masked),
        lambda: mg.as_tensor(masked),
        lambda: mg.mul(x, masked),
    ):
        with pytest.raises(TypeError, match="masked array.*filled"):
            call()


@pytest.mark.parametrize(
    "call",
    [
        lambda x, m: x * m, lambda x, m: x @ m, lambda x, m: mg.concatenate([x, m]),
        lambda x, m: mg.where(True, x, m), lambda x, m: mg.tensor(m),
    ],
)  # fmt: skip
def test_a_sparse_matrix_is_not_taken_for_one_object(call):
    sparse = pytest.importorskip("scipy.sparse").csr_array(np.eye(2))
    with pytest.raises(TypeError, match=r"csr_array is sparse, and tensors are dense.*toarray\(\)"):
        call(mg.ones((2, 2), requires_grad=True), sparse)


@pytest.mark.parametrize("transform", [lambda f: f, mg.func.grad, mg.func.vmap])
@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: m * x, lambda m, x: m - x, lambda m, x: m / x, lambda m, x: m**x,
        lambda m, x: m < x, lambda m, x: np.ma.add(m, x), lambda m, x: m.copy().__iadd__(x),
    ],
)  # fmt: skip
def test_a_masked_array_in_front_of_a_tensor_takes_no_values_without_their_history(call, transform):
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(TypeError, match="masked array.*filled"):
        transform(lambda x: call(masked, x))(x)
    assert call(masked, x.detach()).tolist()[1] is None


@pytest.mark.parametrize(
    "array",
    [np.array(["2020-01-01"], "M8[D]"), np.zeros(2, [("a", "f4"), ("b", "i4")]), [object()]],
    ids=["dates", "records", "objects"],
)
def test_only_numbers_and_booleans_make_a_tensor(array):
    for make in (mg.tensor, mg.as_tensor):
        with pytest.raises(TypeError, match="give numbers or booleans"):
            make(array)


def test_lists_of_different_lengths_are_told_apart_from_a_rectangle():
    with pytest.raises(ValueError, match="different lengths; a tensor is rectangular"):
        mg.tensor([[1, 2], [3]])


def test_a_torch_tensor_beside_a_tensor_is_the_array_of_its_values(tracked):
    torch = pytest.importorskip("torch")
    total = tracked * torch.tensor([3.0, 4.0])
    assert type(total.data) is np.ndarray and total.dtype == np.float64
    total.sum().backward()
    assert tracked.grad.tolist() == [3, 4]
    layer = mg.nn.Linear(2, 3)
    assert layer(torch.ones(1, 2)).tolist() == layer(mg.ones(1, 2, dtype="float32")).tolist()


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize("use", [lambda x, y: x * y, lambda x, y: mg.exp(y), lambda x, y: x @ y])
def test_a_torch_tensor_with_a_history_is_refused_by_the_name_of_the_argument(use, tracked):
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"torch.Tensor is a tensor of another .*detach\(\)") as e:
        use(tracked, torch.ones(2, requires_grad=True))
    assert str(e.value).startswith(("mul(a: float64 (2,), b: torch", "exp(x: torch", "matmul(a: "))


def test_torch_targets_are_read_as_numpys_are(tracked):
    torch = pytest.importorskip("torch")
    scores = mg.ones(2, 3)
    labels = np.array([0, 2])
    assert mg.cross_entropy(scores, torch.tensor(labels)) == mg.cross_entropy(scores, labels)
    mse = mg.nn.functional.mse_loss
    assert mse(tracked, torch.zeros(2)) == mse(tracked, np.zeros(2))


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "empty_like", "full_like"])
def test_a_tensor_like_another_may_have_another_shape_dtype_and_device(name):
    value = (7.0,) if name == "full_like" else ()
    like = getattr(mg, name)
    y = like(mg.tensor([1.0, 2.0]), *value, shape=(3, 1), device="cpu", requires_grad=True)
    assert y.shape == (3, 1) and y.requires_grad and y.device == "cpu"
    assert like(mg.tensor([1.0, 2.0]), *value, dtype=mg.float16).dtype == mg.float16


def test_torchs_bfloat16_numbers_stay_bfloat16():
    torch = pytest.importorskip("torch")
    x = torch.tensor([1.5, 2.0**-130, float("nan")], dtype=torch.bfloat16)
    for y in (mg.tensor(x), mg.as_tensor(x)):
        assert y.dtype == mg.bfloat16
        np.testing.assert_array_equal(y.numpy().astype(float), x.double().numpy())
    assert (mg.ones(3, dtype=mg.bfloat16) * x).dtype == mg.bfloat16
    layer = mg.nn.Linear(1, 1)
    layer.load_state_dict(torch.nn.Linear(1, 1).bfloat16().state_dict(), assign=True)
    assert layer.weight.dtype == mg.bfloat16
