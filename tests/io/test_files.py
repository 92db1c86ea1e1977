"""A state that is saved comes back; other programs read it; hostile files are refused."""

import contextlib
import json
import pickle
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import minigrad as mg
from minigrad import nn, optim

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
    assert equal(state, mg.load(path))


@pytest.mark.parametrize("suffix", FORMATS)
def test_bfloat16_comes_back(tmp_path, suffix):
    x = mg.tensor([1.0, -2.5, 3e38, np.nan], dtype="bfloat16")
    mg.save({"x": x}, tmp_path / f"x{suffix}")
    y = mg.load(tmp_path / f"x{suffix}")["x"]
    assert y.dtype == x.dtype and y.data.tobytes() == x.data.tobytes()


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


# -- hostile files -----------------------------------------------------------------------------


def safetensors_file(path, header, data=b"\0" * 8, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


HEADERS = {
    "no bytes at all": (None, {"data": b""}),
    "a header of 2⁶³ bytes": ({}, {"length": 1 << 63}),
    "a header longer than the file": ({}, {"length": 500}),
    "an unknown dtype": ({"a": entry("F33")}, {}),
    "a negative shape": ({"a": entry(shape=(-2,))}, {}),
    "a shape that overflows": ({"a": entry(shape=(1 << 33, 1 << 33))}, {}),
    "a shape that its offsets do not hold": ({"a": entry(shape=(3,))}, {}),
    "offsets beyond the file": ({"a": entry(shape=(200,), offsets=(0, 800))}, {}),
    "offsets that overlap": ({"a": entry(), "b": entry(offsets=(4, 12))}, {"data": b"\0" * 12}),
    "offsets that run backwards": ({"a": entry(offsets=(8, 0))}, {}),
    "offsets with a hole": ({"a": entry(offsets=(8, 16))}, {"data": b"\0" * 16}),
    "bytes that belong to nothing": ({"a": entry()}, {"data": b"\0" * 80}),
    "a name that comes twice": (
        b'{"a":%s,"a":%s}' % ((json.dumps(entry()).encode(),) * 2), {}),
    "no JSON": (b"\xff\xfe{", {}),
    "JSON nested ten thousand deep": (b"[" * 10_000, {}),
    "a list for a header": (b"[]", {}),
    "metadata that are no texts": ({"__metadata__": {"a": 3}, "a": entry()}, {}),
    "a damaged description": ({"__metadata__": {"minigrad.state": "{"}, "a": entry()}, {}),
    "a description of other arrays": (
        {"__metadata__": {"minigrad.state": '{"version":[1,0],"tree":{"array":"b"}}'},
         "a": entry()}, {}),
    "a description of a newer version": (
        {"__metadata__": {"minigrad.state": '{"version":[2,0],"tree":3}'}, "a": entry()}, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_hostile_safetensors_are_refused(tmp_path, name):
    header, options = HEADERS[name]
    path = tmp_path / "x.safetensors"
    if header is None:
        path.write_bytes(b"")
    else:
        safetensors_file(path, header, **options)
    with pytest.raises(mg.errors.FormatError, match=r"x\.safetensors"):
        mg.load(path)


def npz_member(path, name, content, **options):
    with zipfile.ZipFile(path, "w", **options) as archive:
        archive.writestr(name, content)
    return path


def npy(header, data=b""):
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def pickled():
    """An npy file whose pickle would run code."""

    class Bomb:
        def __reduce__(self):
            return print, ("code was run",)

    header = "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"
    return npy(header, pickle.dumps(Bomb()))


MEMBERS = {
    "pickled objects": pickled(),
    "a shape beyond its bytes": npy(
        f"{{'descr':'<f8','fortran_order':False,'shape':({10**12},)}}"),
    "a negative shape": npy("{'descr':'<f8','fortran_order':False,'shape':(-1,)}", b"\0" * 8),
    "bytes too many": npy("{'descr':'<f8','fortran_order':False,'shape':(1,)}", b"\0" * 9),
    "a dtype with fields": npy(
        "{'descr':[('a','<f8')],'fortran_order':False,'shape':(1,)}", b"\0" * 8),
    "texts": npy("{'descr':'<U2','fortran_order':False,'shape':(1,)}", b"\0" * 8),
    "code in its header": npy("__import__('os').abort()"),
    "no array": b"hello",
    "more elements than any memory, of none": npy(
        f"{{'descr':'<f8','fortran_order':False,'shape':(0,{2**70})}}"),
    "more axes than any array": npy(
        f"{{'descr':'<f8','fortran_order':False,'shape':{(1,) * 70}}}", b"\0" * 8),
    "a shape that is a truth": npy(
        "{'descr':'<f8','fortran_order':False,'shape':(True,)}", b"\0" * 8),
    "an open bracket in its header": npy("{'descr': ("),
}  # fmt: skip


@pytest.mark.parametrize("name", MEMBERS)
def test_hostile_npz_members_are_refused(tmp_path, name, capsys):
    path = npz_member(tmp_path / "x.npz", "a.npy", MEMBERS[name])
    with pytest.raises(mg.errors.FormatError, match=r"x\.npz"):
        mg.load(path)
    assert "code was run" not in capsys.readouterr().out


def test_a_zip_bomb_is_refused_before_it_grows_unless_allowed(tmp_path):
    n = 300 << 20
    header = f"{{'descr':'|u1','fortran_order':False,'shape':({n},)}}"
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("a.npy", "w") as file:
            file.write(npy(header))
            for _ in range(300):
                file.write(b"\0" * (1 << 20))
    with pytest.raises(mg.errors.FormatError, match=r"would grow to .*max_bytes=\.\.\."):
        mg.load(path)


@pytest.mark.parametrize("suffix", FORMATS)
def test_max_bytes_bounds_what_is_read(tmp_path, suffix):
    mg.save({"x": np.zeros(1000)}, tmp_path / f"x{suffix}")
    assert mg.load(tmp_path / f"x{suffix}", max_bytes=10_000)["x"].shape == (1000,)
    with pytest.raises(mg.errors.FormatError, match="500"):
        mg.load(tmp_path / f"x{suffix}", max_bytes=500)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_comes_twice_is_refused(tmp_path):
    good = npy("{'descr':'<f8','fortran_order':False,'shape':(1,)}", b"\0" * 8)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("a.npy", good)
        archive.writestr("a.npy", good)
    with pytest.raises(mg.errors.FormatError, match="a name comes twice"):
        mg.load(tmp_path / "x.npz")


@pytest.mark.parametrize("suffix", FORMATS)
@settings(max_examples=60)
@given(data=st.data())
def test_damaged_files_give_one_clear_error_or_a_state(folder, suffix, data):
    path = folder / f"damaged{suffix}"
    mg.save({"a": np.arange(6.0), "b": {"c": [1, np.ones(2, "f4")]}}, path)
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans(), "cut"):
        content = content[: data.draw(st.integers(0, len(content) - 1), "at")]
    else:
        for _ in range(data.draw(st.integers(1, 4), "bytes")):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        mg.load(path)
    except mg.errors.FormatError:
        pass


def test_an_archive_whose_parts_lie_before_its_beginning_is_refused(tmp_path):
    path = tmp_path / "state.npz"
    mg.save({"w": np.ones(3)}, path)
    whole = bytearray(path.read_bytes())
    place = whole.rindex(b"PK\x05\x06") + 16  # where the end record says that the directory begins
    (start,) = struct.unpack_from("<I", whole, place)
    struct.pack_into("<I", whole, place, start + 5000)
    path.write_bytes(whole)
    with pytest.raises(mg.errors.FormatError, match="no npz file that can be read"):
        mg.load(path)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_state_that_contains_itself_is_refused_and_nothing_is_written(tmp_path, suffix):
    state = {"w": np.ones(2), "epoch": 1}
    state["self"] = state
    path = tmp_path / f"state{suffix}"
    with pytest.raises(ValueError, match="nested too deeply, or contains itself"):
        mg.save(state, path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_compressed_member_gives_one_clear_error_whatever_packed_it(tmp_path, method):
    content = npy("{'descr':'<f8','fortran_order':False,'shape':(1000,)}", bytes(range(250)) * 32)
    path = npz_member(tmp_path / "x.npz", "a.npy", content, compression=method)
    whole = path.read_bytes()
    for place in range(40, len(whole) - 80, max(1, len(whole) // 60)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with contextlib.suppress(mg.errors.FormatError):  # else nothing that counts was damaged
            assert mg.load(path)["a"].data.tobytes() == content[-8000:]


def test_a_member_whose_name_is_no_text_is_refused(tmp_path):
    path = npz_member(tmp_path / "x.npz", "é.npy", npy("{}"))
    path.write_bytes(path.read_bytes().replace("é".encode(), b"\xc3\xff"))
    with pytest.raises(mg.errors.FormatError, match=r"x\.npz"):
        mg.load(path)


def test_a_number_beyond_any_float_in_the_description_is_refused(tmp_path):
    tree = json.dumps({"version": [1, 0], "tree": {"float": 10**400}})
    texts = np.frombuffer(json.dumps({"minigrad.state": tree}).encode(), np.uint8)
    np.savez(tmp_path / "x.npz", __metadata__=texts)
    with pytest.raises(mg.errors.FormatError, match="the description of its state is damaged"):
        mg.load(tmp_path / "x.npz")


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
