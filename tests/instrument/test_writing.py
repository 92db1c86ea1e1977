"""Files that appear whole or not at all, in the place that was asked for and nowhere else."""

import gzip
import os
import stat
import zlib

import pytest

from minigrad.instrument.writing import GrowingFile, write_whole

pytestmark = pytest.mark.promise("files: versioned, bounded, never executed, never half-written")

posix = pytest.mark.skipif(os.name != "posix", reason="links, pipes and permissions of POSIX")


@posix
def test_behind_a_link_the_file_is_replaced_and_keeps_its_permissions(tmp_path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to(real)
    write_whole(link, "new")
    assert link.is_symlink() and real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.json", "real.json"]


@posix
def test_a_device_or_pipe_is_written_into_and_stays_one(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, "text")
    assert os.read(reader, 10) == b"text" and stat.S_ISFIFO(pipe.stat().st_mode)
    os.close(reader)


def test_a_write_that_fails_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "\ud800")
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["a.json"]


@posix
def test_what_grows_behind_a_link_replaces_the_file_and_keeps_its_permissions(tmp_path):
    real, link = tmp_path / "real.jsonl", tmp_path / "link.jsonl"
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to(real)
    file = GrowingFile(link)
    file.write("new")
    assert real.read_text() == "old"
    file.finish()
    assert link.is_symlink() and real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o600


@posix
def test_what_grows_in_a_pipe_leaves_it_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    file = GrowingFile(pipe)
    file.write("text")
    file.finish()
    assert os.read(reader, 10) == b"text" and stat.S_ISFIFO(pipe.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]
    os.close(reader)


@posix
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("precious", path)])
def test_a_growing_file_takes_nothing_that_lies_under_its_partial_name(tmp_path, make):
    (tmp_path / "precious").write_text("precious")
    make(tmp_path / "a.partial")
    file = GrowingFile(tmp_path / "a")
    file.write("text")
    file.finish()
    assert (tmp_path / "a").read_text() == "text"
    assert (tmp_path / "precious").read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == ["a", "a.partial", "precious"]


def test_what_a_killed_program_left_is_written_over(tmp_path):
    (tmp_path / "a.partial").write_text("a long text, cut o")
    file = GrowingFile(tmp_path / "a")
    file.write("new")
    file.finish()
    assert (tmp_path / "a").read_text() == "new" and os.listdir(tmp_path) == ["a"]


@posix
def test_two_that_grow_the_same_file_never_mix_and_the_last_one_has_the_name(tmp_path):
    one, other = GrowingFile(tmp_path / "a"), GrowingFile(tmp_path / "a")
    for _ in range(3):
        one.write("one ")
        other.write("other ")
    one.finish()
    assert (tmp_path / "a").read_text() == "one one one "
    other.finish()
    assert (tmp_path / "a").read_text() == "other other other "
    assert os.listdir(tmp_path) == ["a"]


def test_a_growing_file_stays_in_its_folder_whatever_folder_the_program_goes_to(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    os.mkdir("sub")
    file = GrowingFile("a")
    monkeypatch.chdir("sub")
    file.write("text")
    file.finish()
    assert (tmp_path / "a").read_text() == "text"


def test_a_name_as_long_as_the_file_system_takes_can_be_written(tmp_path):
    path = tmp_path / ("n" * 250)
    write_whole(path, "whole")
    assert path.read_text() == "whole"
    file = GrowingFile(path)
    file.write("grown")
    file.finish()
    assert path.read_text() == "grown" and len(os.listdir(tmp_path)) == 1


def test_a_folder_that_is_missing_is_told_by_the_name_that_was_asked_for(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        GrowingFile(tmp_path / "no" / "a")
    assert caught.value.filename == str(tmp_path / "no" / "a")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_device_is_told_by_its_name():
    with pytest.raises(OSError, match="/dev/full"):
        write_whole("/dev/full", "text")


@posix
def test_the_next_file_of_this_name_removes_what_a_kill_left(tmp_path):
    left, other = tmp_path / "a.json.0123456789ab.partial", tmp_path / "a.json.0123456789aX.partial"
    for path in (left, other):
        path.write_text("half")
    write_whole(tmp_path / "a.json", "{}")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", other.name]


@posix
def test_two_files_that_grow_under_one_name_leave_each_other_alone(tmp_path):
    first, second = GrowingFile(tmp_path / "a.json"), GrowingFile(tmp_path / "a.json")
    write_whole(tmp_path / "a.json", "whole")
    for file, text in ((first, "first"), (second, "second")):
        file.write(text)
        file.finish()
        assert (tmp_path / "a.json").read_text() == text
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_growing_file_on_a_full_disk_is_told_by_its_name():
    with pytest.raises(OSError, match="/dev/full"):
        GrowingFile("/dev/full").write("text")


def test_what_grows_under_a_compressed_name_is_compressed(tmp_path):
    file = GrowingFile(tmp_path / "run.jsonl.gz")
    file.write("one\n")
    file.write("two\n")
    file.finish()
    assert gzip.decompress((tmp_path / "run.jsonl.gz").read_bytes()) == b"one\ntwo\n"
    assert [p.name for p in tmp_path.iterdir()] == ["run.jsonl.gz"]


def test_what_is_written_compressed_can_be_read_before_the_file_is_whole(tmp_path):
    file = GrowingFile(tmp_path / "run.jsonl.gz")
    file.write("one\n")
    with open(file.place, "rb") as so_far:
        assert zlib.decompressobj(wbits=31).decompress(so_far.read()) == b"one\n"
    file.discard()
