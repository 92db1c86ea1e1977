"""A state that is saved comes back; other programs read it, and a resumed run goes on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import minigrad as mg
from minigrad import nn, optim

pytestmark = pytest.mark.promise(
    "a save is whole or not at all; hostile files are refused",
    "two runs of one seed, and a resumed run, are equal bit for bit",
)

FORMATS = [".safetensors", ".npz"]
DTYPES = "bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64".split()
values = hnp.arrays(st.sampled_from(DTYPES), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))
plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
names = st.text("abc.", min_size=1, max_size=3)
nested = st.recursive(
    plain | values,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(names | st.integers(), inner, max_size=3)
        | st.tuples(inner)
    ),
    max_leaves=8,
)


def equal(a, b):
    if isinstance(a, np.ndarray):
        b = b.numpy()
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return [*a] == [*b] and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    return a == b or (a != a and b != b)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("states")


@pytest.mark.parametrize("suffix", FORMATS)
@given(state=st.dictionaries(names, nested, max_size=3))
@settings(max_examples=40)
def test_any_state_comes_back_as_it_was(folder, suffix, state):
    path = folder / f"state{suffix}"
    mg.save(state, path)
    if suffix == ".safetensors" and all(isinstance(v, np.ndarray) for v in state.values()):
        state = dict(sorted(state.items()))  # the format's own order of names
    assert equal(state, mg.load(path))


@pytest.mark.parametrize("suffix", FORMATS)
def test_bfloat16_comes_back(tmp_path, suffix):
    x = mg.tensor([1.0, -2.5, 3e38, np.nan], dtype="bfloat16")
    mg.save({"x": x}, tmp_path / f"x{suffix}")
    y = mg.load(tmp_path / f"x{suffix}")["x"]
    assert y.dtype == x.dtype and y.data.tobytes() == x.data.tobytes()


@given(
    state=st.dictionaries(
        names,
        hnp.arrays(
            st.sampled_from(
                [*"? u1 i1 u2 i2 f2 u4 i4 f4 u8 i8 f8 c8 >f8 >i2".split(), mg.bfloat16]
            ),
            hnp.array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=3),
            elements=st.just(1),
        ),
        max_size=6,
    ),
)
@settings(max_examples=100)
def test_a_safetensors_file_has_the_bytes_that_the_library_would_write(folder, state):
    library = pytest.importorskip("safetensors.numpy")
    mg.save(state, folder / "a.safetensors")
    assert (folder / "a.safetensors").read_bytes() == library.save(state, {"format": "np"})


@pytest.mark.parametrize("suffix", FORMATS)
def test_strided_and_foreign_byte_orders_are_saved_by_value(tmp_path, suffix):
    x = np.arange(12.0).reshape(3, 4)
    mg.save({"t": x.T, "every": x[::2, ::-1], "big": x.astype(">f8")}, tmp_path / f"x{suffix}")
    y = mg.load(tmp_path / f"x{suffix}")
    assert np.array_equal(y["t"], x.T) and np.array_equal(y["every"], x[::2, ::-1])
    assert np.array_equal(y["big"], x)


@pytest.mark.parametrize("suffix", FORMATS)
def test_texts_are_kept_beside_the_state(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    mg.save({"x": mg.ones(1), "n": 3}, path, metadata={"licence": "MIT", "ü": "∂"})
    assert mg.io.metadata(path) == {"licence": "MIT", "ü": "∂"} and mg.load(path)["n"] == 3


def test_complex128_goes_into_npz_alone(tmp_path):
    x = {"x": np.ones(2, np.complex128)}
    mg.save(x, tmp_path / "x.npz")
    assert equal(x, mg.load(tmp_path / "x.npz"))
    with pytest.raises(TypeError, match=r"complex128.*Name the file \.npz"):
        mg.save(x, tmp_path / "x.safetensors")
    assert [p.name for p in tmp_path.iterdir()] == ["x.npz"]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([1, 2], "must be a dictionary, got"),
        ({"a": {"b": object()}}, r"a\.b is a object; a file holds arrays"),
        ({"a": {1.5: 2}}, "a has the key 1.5"),
        ({"a": np.ma.masked_array([1.0, 2.0], [0, 1])}, "no place for the mask"),
        ({"a": [np.ma.masked_array([1.0, 2.0], [0, 1])]}, "no place for the mask"),
    ],
)
def test_what_a_file_cannot_hold_is_named(tmp_path, state, message):
    with pytest.raises(TypeError, match=message):
        mg.save(state, tmp_path / "x.npz")
    assert not list(tmp_path.iterdir())


def test_an_unknown_suffix_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.safetensors or \.npz"):
        mg.save({}, tmp_path / "x.pt")


# -- other programs ----------------------------------------------------------------------------


class Net:
    def __new__(cls, lib):
        return lib.Sequential(
            lib.Conv2d(1, 3, 3), lib.BatchNorm2d(3), lib.ReLU(), lib.Flatten(), lib.Linear(27, 2)
        )


def test_weights_saved_by_pytorch_load_here_and_back(tmp_path):
    torch = pytest.importorskip("torch")
    files = pytest.importorskip("safetensors.torch")
    theirs, ours, back = Net(torch.nn), Net(nn), Net(torch.nn)
    files.save_file(theirs.state_dict(), tmp_path / "theirs.safetensors")
    ours.load_state_dict(mg.load(tmp_path / "theirs.safetensors"))
    x = np.random.default_rng(0).standard_normal((4, 1, 5, 5), "f4")
    expected = theirs.eval()(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(ours.eval()(mg.tensor(x)).detach().numpy(), expected, atol=1e-6)
    mg.save(ours.state_dict(), tmp_path / "ours.safetensors")
    back.load_state_dict(files.load_file(tmp_path / "ours.safetensors"))
    assert np.array_equal(back.eval()(torch.tensor(x)).detach().numpy(), expected)


def test_bfloat16_and_empty_tensors_of_pytorch_load(tmp_path):
    torch = pytest.importorskip("torch")
    files = pytest.importorskip("safetensors.torch")
    state = {"a": torch.tensor([1.5, -2], dtype=torch.bfloat16), "b": torch.ones(0, 3)}
    files.save_file(state, tmp_path / "x.safetensors", metadata={"format": "pt"})
    loaded = mg.load(tmp_path / "x.safetensors")
    assert loaded["a"].dtype == mg.bfloat16 and loaded["a"].tolist() == [1.5, -2]
    assert loaded["b"].shape == (0, 3)


def test_arrays_saved_by_numpy_load(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", a=np.arange(3), b=np.asfortranarray(np.eye(2, 3)))
    loaded = mg.load(tmp_path / "x.npz")
    assert loaded["a"].tolist() == [0, 1, 2] and np.array_equal(loaded["b"], np.eye(2, 3))


# -- a run that is resumed ---------------------------------------------------------------------


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(tmp_path, suffix):
    data = np.random.default_rng(0).standard_normal((8, 20, 3), "f4")

    def fresh():
        model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))
        optimizer = optim.AdamW(model.parameters(), lr=0.01, amsgrad=True)
        return model, optimizer, optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)

    def train(model, optimizer, schedule, batches):
        for x in batches:
            optimizer.zero_grad()
            (model(mg.tensor(x)) ** 2).mean().backward()
            optimizer.step()
            schedule.step()

    mg.manual_seed(0)
    model, optimizer, schedule = fresh()
    train(model, optimizer, schedule, data[:4])
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    state = {name: part.state_dict() for name, part in parts.items()}
    mg.save({**state, "rng": mg.get_rng_state()}, tmp_path / f"c{suffix}")
    train(model, optimizer, schedule, data[4:])

    mg.manual_seed(1)
    other = dict(zip(parts, fresh(), strict=True))
    saved = mg.load(tmp_path / f"c{suffix}")
    for name, part in other.items():
        part.load_state_dict(saved[name])
    mg.set_rng_state(saved["rng"])
    train(*other.values(), data[4:])
    for p, q in zip(model.state_dict().values(), other["model"].state_dict().values(), strict=True):
        assert p.data.tobytes() == q.data.tobytes()


# -- what a file cannot hold, and may ----------------------------------------------------------


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_state_that_contains_itself_is_refused_and_nothing_is_written(tmp_path, suffix):
    state = {"w": np.ones(2), "epoch": 1}
    state["self"] = state
    path = tmp_path / f"state{suffix}"
    with pytest.raises(ValueError, match="nested too deeply, or contains itself"):
        mg.save(state, path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("suffix", "state", "texts", "message"),
    [
        (".safetensors", {"__metadata__": np.ones(2)}, {}, "array named '__metadata__'"),
        (".npz", {"n" * 70_000: np.ones(2)}, {}, "no name of 70,000 characters: 'nnn"),
        (".npz", {"\ud800": np.ones(2)}, {}, r"'\\ud800' has half a character"),
        (".safetensors", {"a": np.ones(2)}, {"who": "\ud800"}, "has half a character"),
    ],
)
def test_names_that_could_not_be_read_again_are_refused(tmp_path, suffix, state, texts, message):
    with pytest.raises(ValueError, match=message):
        mg.save(state, tmp_path / f"x{suffix}", texts)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", FORMATS)
def test_no_text_takes_the_place_of_one_of_ours(tmp_path, suffix):
    for name in ("minigrad.state", "minigrad.bfloat16"):
        with pytest.raises(TypeError, match=f"none of them named '{name}'"):
            mg.save({"a": np.ones(2)}, tmp_path / f"x{suffix}", {name: "mine"})


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_text_named_format_is_kept_too(tmp_path, suffix):
    mg.save({"a": np.ones(2)}, tmp_path / f"x{suffix}", {"format": "7"})
    assert mg.io.metadata(tmp_path / f"x{suffix}") == {"format": "7"}


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_key_may_be_an_integer_of_numpy(tmp_path, suffix):
    mg.save({"seen": {np.int64(3): 5}}, tmp_path / f"x{suffix}")
    assert mg.load(tmp_path / f"x{suffix}") == {"seen": {3: 5}}
