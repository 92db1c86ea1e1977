"""Arrays on GPUs go through NCCL: the calls, on ranks with CuPy's stand-in."""

import subprocess
import sys
import types

import numpy as np
import pytest

from minigrad.backends.device import DeviceError
from minigrad.distributed import nccl, ranks
from minigrad.distributed.errors import DistributedError


def test_gpu_arrays_go_through_nccl_and_never_to_the_host(right):
    pytest.importorskip("scipy")
    done = right(2, "on_gpus")
    assert done.output.count("all of rank") == 2


def test_without_cupy_nccl_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)  # with a GPU it would wait for the other rank
    monkeypatch.setattr(ranks, "_world", None)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("PMI_SIZE",):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(DeviceError, match="NCCL"):
        ranks.init("nccl")


def test_a_dtype_that_nccl_does_not_know_is_refused():
    with pytest.raises(TypeError, match="int16"):
        nccl._counted(np.zeros(2, np.int16))
    assert nccl._counted(np.zeros(2, np.complex64)) == (7, 4)


@pytest.mark.parametrize("call", ["send", "receive"])
def test_a_tag_by_which_nccl_cannot_tell_messages_apart_is_refused(call):
    transport = nccl.NCCLTransport(comm=None, rank=0, size=2, stream=object())
    with pytest.raises(ValueError, match="tag=3 over NCCL, which pairs messages by their order"):
        getattr(transport, call)(np.zeros(2, np.float32), 1, 3)


def test_a_call_that_never_ends_ends_the_process(monkeypatch, capsys):
    """NCCL waits for ever for a rank that has died; the guard does not."""
    left = []

    def leave(code):
        left.append(code)
        raise SystemExit

    monkeypatch.setattr(nccl.os, "_exit", leave)
    monkeypatch.setattr(nccl.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(nccl.threading.Thread, "start", lambda self: None)
    device = types.SimpleNamespace(use=lambda: None)
    cuda = types.SimpleNamespace(Device=lambda: device)
    monkeypatch.setattr(nccl, "_cupy", lambda: types.SimpleNamespace(cuda=cuda))
    comm = types.SimpleNamespace(check_async_error=lambda: 0)
    guard = nccl.Guard(comm, 0, 2, timeout=0.0)
    guard.note("allReduce of float32 (3,)", types.SimpleNamespace(done=False))
    with pytest.raises(SystemExit):
        guard._run()
    assert left == [1]
    assert "rank 0 of 2 stops: allReduce of float32 (3,) does not end" in capsys.readouterr().err


def test_a_rank_that_nobody_joins_ends_in_time_and_says_so():
    """In a process of its own: what it does is end the process."""
    program = (
        "import time\n"
        "from minigrad.distributed.nccl import _ended_after\n"
        "with _ended_after(0.2, 'minigrad.distributed: rank 0 of 2'):\n"
        "    time.sleep(30)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "rank 0 of 2 stops: after 0.2 s not all ranks have joined" in done.stderr


def test_processes_of_another_mpi_launcher_do_not_train_alone_in_silence():
    with pytest.raises(DistributedError, match="has started 2 ranks, but .* sees one"):
        ranks._refuse_other_launcher(found=1, launched=2)
    ranks._refuse_other_launcher(found=2, launched=2)
    ranks._refuse_other_launcher(found=1, launched=1)
