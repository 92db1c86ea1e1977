"""A save that fails, by a full disk or by Ctrl-C, leaves the old file and nothing else."""

import gc
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import minigrad as mg
from minigrad.io.atomic import replaced_whole

pytestmark = pytest.mark.promise("a save is whole or not at all; hostile files are refused")

FORMATS = [".safetensors", ".npz"]
posix = pytest.mark.skipif(os.name != "posix", reason="limits, signals and permissions of POSIX")


def run(code, *args, **options):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        capture_output=True, text=True, timeout=60, **options,
    )  # fmt: skip


@posix
@pytest.mark.parametrize("suffix", FORMATS)
def test_a_full_disk_is_one_clear_error_and_the_old_file_stays(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    mg.save({"x": np.arange(3.0)}, path)
    done = run(
        """
        import resource, sys
        import numpy as np
        import minigrad as mg
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            mg.save({"x": np.zeros(100_000)}, sys.argv[1])
        except OSError as error:
            print("OSError:", error)
        """,
        path,
    )
    assert done.stdout.startswith("OSError: [Errno 27]") and done.returncode == 0, done.stderr
    assert str(path) in done.stdout
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert mg.load(path)["x"].tolist() == [0, 1, 2]


@posix
@pytest.mark.parametrize("suffix", FORMATS)
def test_an_interrupted_save_leaves_the_old_file(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    mg.save({"x": np.arange(3.0)}, path)
    done = run(
        """
        import os, signal, sys
        import numpy as np
        import minigrad as mg
        from minigrad.io import atomic
        sync = os.fsync
        def interrupted(handle):  # Ctrl-C comes when all is written but not yet in its place
            os.kill(os.getpid(), signal.SIGINT)
            sync(handle)
        os.fsync = interrupted
        mg.save({"x": np.zeros(1000)}, sys.argv[1])
        """,
        path,
    )
    assert done.returncode == -signal.SIGINT and "KeyboardInterrupt" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert mg.load(path)["x"].tolist() == [0, 1, 2]


@posix
def test_a_name_as_long_as_the_file_system_takes_can_be_saved(tmp_path):
    path = tmp_path / ("x" * 251 + ".npz")
    mg.save({"x": np.arange(3.0)}, path)
    assert mg.load(path)["x"].tolist() == [0, 1, 2] and len(list(tmp_path.iterdir())) == 1


@posix
def test_who_has_the_old_file_open_goes_on_reading_it(tmp_path):
    path = tmp_path / "x.npz"
    mg.save({"x": np.arange(3.0)}, path)
    old = path.read_bytes()
    with open(path, "rb") as reader:
        mg.save({"x": np.zeros(5000)}, path)
        assert reader.read() == old
    assert mg.load(path)["x"].shape == (5000,)


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such directory.*missing"):
        mg.save({"x": np.zeros(1)}, tmp_path / "missing" / "x.npz")


@posix
def test_what_is_no_regular_file_is_not_replaced(tmp_path):
    path = tmp_path / "x.npz"
    os.mkfifo(path)
    with pytest.raises(OSError, match="only a regular file can be replaced"):
        mg.save({"x": np.zeros(1)}, path)


@posix
def test_behind_a_link_the_file_itself_is_replaced(tmp_path):
    real, link = tmp_path / "real.npz", tmp_path / "link.npz"
    mg.save({"x": np.zeros(1)}, real)
    real.chmod(0o640)
    link.symlink_to(real)
    mg.save({"x": np.ones(1)}, link)
    assert link.is_symlink() and mg.load(real)["x"].item() == 1
    assert real.stat().st_mode & 0o777 == 0o640


def test_without_the_library_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match=r"checkout\[full\].*or name the file \.npz"):
        mg.save({"x": np.zeros(1)}, tmp_path / "x.safetensors")
    mg.save({"x": np.zeros(1)}, tmp_path / "x.npz")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("suffix", FORMATS)
def test_ctrl_c_anywhere_in_a_save_is_raised_as_such_and_leaves_a_whole_file(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    mg.save({"x": np.zeros(3)}, path)
    for at in range(1, 10_000):
        left = at

        def interrupt(frame, event, _):
            nonlocal left
            if event in ("call", "c_return"):  # where the interpreter looks for signals
                left -= 1
                if left == 0:
                    raise KeyboardInterrupt

        sys.setprofile(interrupt)
        try:
            mg.save({"x": np.ones(3)}, path)
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        if left > 0:
            break
        gc.collect(1)  # an archive that was left open says so as it is freed: now, not in `load`
        assert set(mg.load(path)["x"].tolist()) in ({0}, {1})
        assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert at > 100


def test_an_error_about_another_file_keeps_that_files_name(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        with replaced_whole(tmp_path / "model.npz"):
            open(tmp_path / "weights.bin").close()
    assert caught.value.filename == str(tmp_path / "weights.bin")
    assert not list(tmp_path.iterdir())


@posix
@pytest.mark.parametrize("suffix", FORMATS)
def test_a_file_has_the_permissions_of_the_old_one_or_what_the_umask_leaves(tmp_path, suffix):
    path, before = tmp_path / f"a{suffix}", os.umask(0o027)
    try:
        mg.save({"x": mg.ones(2)}, path)
        assert path.stat().st_mode & 0o777 == 0o640
        for mode in (0o600, 0o444, 0o666):
            path.chmod(mode)
            mg.save({"x": mg.ones(3)}, path)
            assert path.stat().st_mode & 0o777 == mode
    finally:
        os.umask(before)


def test_a_save_leaves_the_umask_alone_which_all_threads_share(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the umask was set"))
    mg.save({"x": mg.ones(2)}, tmp_path / "a.npz")


KILLED = """
import os, sys
import numpy as np
import minigrad as mg
from minigrad.io import npz, tensors
form = npz if sys.argv[1].endswith(".npz") else tensors
whole = form.write

def write(path, arrays, texts):
    whole(path, arrays, texts)
    if sys.argv[2] == "waits":
        print("growing", flush=True)
        sys.stdin.read()
    else:
        os.kill(os.getpid(), 9)

form.write = write
mg.save({"x": np.ones(3)}, sys.argv[1])
"""


@posix
@pytest.mark.parametrize("suffix", FORMATS)
def test_the_next_save_removes_what_a_kill_left_and_nothing_else(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    others = [tmp_path / name for name in (f".x{suffix}.backup", f"x{suffix}.0123456789ab", ".y")]
    for other in others:
        other.write_text("the user's")
    for _ in range(2):
        subprocess.run([sys.executable, "-c", KILLED, path, "dies"], timeout=60)
    assert len(list(tmp_path.iterdir())) == 4  # the first one's went with the second save
    mg.save({"x": np.zeros(3)}, path)
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])


@posix
@pytest.mark.parametrize("suffix", FORMATS)
def test_a_save_that_goes_on_elsewhere_is_left_alone(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    command = [sys.executable, "-c", KILLED, path, "waits"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"growing\n"
        mg.save({"x": np.zeros(3)}, path)
        assert mg.load(path)["x"].tolist() == [0, 0, 0]
        other.communicate(timeout=60)
    assert other.returncode == 0 and mg.load(path)["x"].tolist() == [1, 1, 1]
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
