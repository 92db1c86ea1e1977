"""Files that appear whole or not at all, in the place that was asked for and nowhere else."""

import os
import stat

import pytest

from minigrad.instrument.formats import write_whole

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
