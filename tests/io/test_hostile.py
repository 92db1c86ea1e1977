"""Hostile and damaged files are refused with one clear error; nothing of them is executed."""

import contextlib
import io
import json
import os
import pickle
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minigrad as mg

pytestmark = pytest.mark.promise("a save is whole or not at all; hostile files are refused")

FORMATS = [".safetensors", ".npz"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("states")


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
    "a state that is a number": (
        {"__metadata__": {"minigrad.state": '{"version":[1,0],"tree":5}'}, "a": entry()}, {}),
    "a list made of a text": (
        {"__metadata__": {"minigrad.state": '{"version":[1,0],"tree":{"list":"abc"}}'},
         "a": entry()}, {}),
    "a name that comes twice in the description": (
        {"__metadata__": {"minigrad.state":
                          '{"version":[1,0],"tree":{"dict":[["a",1],["a",2]]}}'},
         "a": entry()}, {}),
    "a description of a version before the first": (
        {"__metadata__": {"minigrad.state": '{"version":[-5],"tree":{"dict":[]}}'},
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
    with pytest.raises(mg.errors.FormatError, match="not an npz file that can be read"):
        mg.load(path)


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


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_a_pipe_and_a_device_are_refused_at_once(tmp_path, suffix):
    pipe, device = tmp_path / f"pipe{suffix}", tmp_path / f"device{suffix}"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        for read in (mg.load, mg.io.metadata):
            with pytest.raises(mg.errors.FormatError, match="only a file can be loaded"):
                read(path)


def test_metadata_that_are_no_bytes_are_refused_without_a_warning(tmp_path):
    np.savez(tmp_path / "x.npz", __metadata__=np.array([np.nan]))
    with pytest.raises(mg.errors.FormatError, match="float64, not bytes"):
        mg.io.metadata(tmp_path / "x.npz")


def test_a_message_quotes_no_escapes_of_the_file_and_is_not_as_long(tmp_path):
    path = safetensors_file(tmp_path / "a.safetensors", {"a": entry(dtype="\x1b[31m" + "X" * 5000)})
    with pytest.raises(mg.errors.FormatError) as caught:
        mg.load(path)
    assert "\x1b" not in str(caught.value) and len(str(caught.value)) <= 450


def test_a_dtype_of_other_libraries_is_named(tmp_path):
    header = {"a": entry("F8_E4M3", shape=(8,))}
    path = safetensors_file(tmp_path / "a.safetensors", header)
    with pytest.raises(mg.errors.FormatError, match="'a' has the dtype 'F8_E4M3', which no tensor"):
        mg.load(path)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_truth_of_another_byte_than_1_makes_no_numbers_from_nowhere(tmp_path, suffix):
    truths, path = np.arange(8, dtype=np.uint8), tmp_path / f"a{suffix}"
    if suffix == ".npz":
        np.savez(path, a=truths.view(bool))
    else:
        safetensors_file(path, {"a": entry("BOOL", shape=(8,))}, truths.tobytes())
    mask = mg.load(path)["a"]
    x = mg.ones(8, requires_grad=True)
    mg.where(mask, x, 0.0).sum().backward()
    assert x.grad.tolist() == [0] + [1] * 7
    assert mask.numpy().view(np.uint8).tolist() == [0] + [1] * 7


def test_a_header_of_any_length_is_no_reason_to_allow_pickles(tmp_path):
    path = tmp_path / "a.npz"
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }" + b" " * 20_000 + b"\n"
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + b"\0" * 8
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", array)
    with pytest.raises(mg.errors.FormatError, match="longer than that of any array") as caught:
        mg.load(path)
    assert "pickle" not in str(caught.value)


@pytest.mark.parametrize("text", ['{"licence": 3}', '{"a": "b", "c": null}', '["a"]'])
def test_npz_metadata_with_a_value_that_is_no_text_are_refused(tmp_path, text):
    np.savez(tmp_path / "x.npz", __metadata__=np.frombuffer(text.encode(), np.uint8))
    with pytest.raises(mg.errors.FormatError, match="its metadata is damaged"):
        mg.io.metadata(tmp_path / "x.npz")


def _npz_of(path, member: str, content: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)


def _as_npy(text: bytes) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.frombuffer(text, np.uint8))
    return file.getvalue()


def _peak(call) -> tuple[str, int]:
    """(the FormatError's text, bytes taken at the peak) of a call that must be refused."""
    tracemalloc.start()
    try:
        with pytest.raises(mg.errors.FormatError) as caught:
            call()
        return str(caught.value), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


LISTS = b'{"a":[' + b"[]," * 10_000_000 + b"[]]}"


@pytest.mark.parametrize("read", [mg.load, mg.io.metadata])
def test_small_files_of_huge_texts_are_refused_before_they_grow(tmp_path, read):
    _npz_of(tmp_path / "x.npz", "__metadata__.npy", _as_npy(LISTS))
    text, peak = _peak(lambda: read(tmp_path / "x.npz"))
    assert "texts take 30," in text and peak < 8 << 20


@pytest.mark.parametrize("read", [mg.load, mg.io.metadata])
def test_a_safetensors_header_of_lists_takes_no_more_than_its_bytes(tmp_path, read):
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(LISTS)) + LISTS)
    text, peak = _peak(lambda: read(path))
    assert "no entry's" in text and peak < 4 * len(LISTS)


def test_a_padded_array_header_is_not_read(tmp_path):
    start = b"\x93NUMPY\x02\x00" + struct.pack("<I", 80_000_000)
    _npz_of(tmp_path / "x.npz", "a.npy", start + b" " * 80_000_000)
    text, peak = _peak(lambda: mg.load(tmp_path / "x.npz"))
    assert "longer than that of any array" in text and peak < 8 << 20


def test_texts_that_could_not_be_read_again_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="at most 16,777,216"):
        mg.save({"a": mg.ones(1)}, tmp_path / "x.npz", {"text": "x" * (1 << 24)})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_texts_may_hold_any_brackets(tmp_path, suffix):
    texts = {"text": "[{" * 10_000 + '\\"[' * 100, "data_offsets": '"'}
    state = {"a": mg.ones(1), "b": [[[i] for i in range(1000)], {"c": {"d": mg.ones(2)}}]}
    mg.save(state, tmp_path / f"x{suffix}", texts)
    assert mg.io.metadata(tmp_path / f"x{suffix}") == texts
    assert mg.load(tmp_path / f"x{suffix}")["b"][0] == state["b"][0]


def test_a_text_that_nothing_closes_takes_no_quadratic_time(tmp_path):
    path = tmp_path / "x.safetensors"
    raw = b'{"a":' + b"[" * 9 + b'"' + b'\\"' * 2_000_000  # once from each quote: for ever
    path.write_bytes(struct.pack("<Q", len(raw)) + raw)
    with pytest.raises(mg.errors.FormatError, match="header is damaged"):
        mg.load(path)
