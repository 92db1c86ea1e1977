"""What the process owns stays as it is: minigrad imported and at work changes none of it, unless
mg.accelerate says so.
"""

import json
import os
import platform
import subprocess
import sys

import pytest

import minigrad as mg
from minigrad.backends.optional import optional

pytestmark = pytest.mark.promise(
    "imported and at work, minigrad changes nothing that the process owns"
)

STATE = """
import builtins, copyreg, ctypes, decimal, faulthandler, gc, json, locale, logging, os, random
import signal, sys, threading, tracemalloc, warnings
import numpy as np

try:
    import threadpoolctl
except ImportError:
    threadpoolctl = None
np.ones((300, 300)) @ np.ones((300, 300))  # the threads of BLAS run
waiting = threading.Event()
threading.Thread(target=waiting.wait, daemon=True).start()  # a thread of somebody else
TASKS = sorted(os.listdir("/proc/self/task")) if hasattr(os, "sched_getaffinity") else []
c = ctypes.CDLL(None) if os.name == "posix" else None
looked_up = []
sys.addaudithook(lambda event, args: event == "ctypes.dlsym" and looked_up.append(str(args[1])))

def random_state():
    kind, keys, *rest = np.random.get_state()
    return [kind, hash(keys.tobytes()), *rest]

def mask():
    found = os.umask(0o22)
    os.umask(found)
    return found

STATE = {
    "affinity": lambda: [sorted(os.sched_getaffinity(int(task))) for task in TASKS],
    "environment": lambda: dict(os.environ),
    "signal handlers": lambda: [str(signal.getsignal(n)) for n in signal.valid_signals()],
    "blocked signals": lambda: hasattr(signal, "pthread_sigmask")
    and sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "warnings filters": lambda: [str(warnings.filters), str(warnings.showwarning)],
    "logging": lambda: [str(logging.root.handlers), logging.root.level, logging.root.disabled],
    "NumPy's error handling": lambda: [np.geterr(), str(np.geterrcall())],
    "NumPy's buffer": np.getbufsize,
    "NumPy's print options": lambda: str(np.get_printoptions()),
    "random numbers": lambda: [hash(random.getstate()), random_state()],
    "collector": lambda: [gc.get_threshold(), gc.isenabled(), str(gc.callbacks), gc.get_debug(),
                          gc.get_freeze_count()],
    "recursion limit": sys.getrecursionlimit,
    "switch interval": sys.getswitchinterval,
    "stack size of threads": threading.stack_size,
    "locale": lambda: locale.setlocale(locale.LC_ALL),
    "hooks": lambda: [str(x) for x in (
        sys.excepthook, sys.displayhook, sys.unraisablehook, sys.breakpointhook,
        threading.excepthook, sys.gettrace(), sys.getprofile(), sys.meta_path, sys.path_hooks,
        os._exit, threading.gettrace(), threading.getprofile(),
    )],
    "streams": lambda: [str(x) for x in (sys.stdin, sys.stdout, sys.stderr)],
    "import path": lambda: list(sys.path),
    "builtins": lambda: sorted(set(dir(builtins)) - {"_"}),
    "pickling": lambda: sorted(map(str, copyreg.dispatch_table)),
    "decimal context": lambda: str(decimal.getcontext()),
    "rounding mode": lambda: c and hasattr(c, "fegetround") and c.fegetround(),
    "tiny numbers": lambda: float(np.float32(1e-40) * np.float32(0.5)) > 0,
    "tracing": lambda: [faulthandler.is_enabled(), tracemalloc.is_tracing()],
    "folder and mask": lambda: [os.getcwd(), mask()],
    "threads of BLAS": lambda: threadpoolctl
    and [pool["num_threads"] for pool in threadpoolctl.threadpool_info()],
}

def state():
    return {name: json.dumps(get(), default=str) for name, get in STATE.items()}

def changed(before):
    return [name for name, value in state().items() if value != before[name]]
"""

WORK = """
mg.set_num_threads(3)
here = set(map(int, TASKS)) and os.sched_getaffinity(0)
during = set()

def sine(x):
    during.update([frozenset(os.sched_getaffinity(0)) == here] if here else [True])
    during.add(frozenset(os.sched_getaffinity(threading.main_thread().native_id)) == here
               if here else True)
    return np.sin(x)

op = mg.elementwise(sine, name="watched_sine", dx=lambda x: np.cos(x))
x = mg.tensor(np.ones((1200, 1000), np.float32), requires_grad=True)
for engine in ("serial", "parallel"):
    y = (op(x) * mg.gelu(x) + mg.exp(x)).sum()
    y.backward(**({"engine": "parallel", "workers": 2} if engine == "parallel" else {}))
    mg.softmax(x).sum().backward()
small = mg.tensor([1.0, 2.0], requires_grad=True)
mg.grad((small ** 3).sum(), small, create_graph=True).sum().backward()
images = mg.tensor(np.ones((8, 3, 32, 32), np.float32))
kernels = mg.tensor(np.ones((16, 3, 3, 3), np.float32), requires_grad=True)
mg.conv2d(images, kernels, padding=1).sum().backward()
a = mg.tensor(np.ones((400, 400)), requires_grad=True)
(a @ a).sum().backward()
with mg.Tape() as tape:
    y = (small * small).sum()
tape.backward(y)
mg.func.hessian(lambda v: (v ** 3).sum())(small.detach())
model = mg.nn.Sequential(mg.nn.Linear(4, 3), mg.nn.Dropout(), mg.nn.Linear(3, 2))
optimizer = mg.optim.Adam(model.parameters())
rows = mg.data.TensorDataset(mg.tensor(np.ones((12, 4), np.float32)))
for (batch,) in mg.data.DataLoader(rows, batch_size=4, num_workers=1):
    mg.checkpoint(model, batch).sum().backward()
    optimizer.step()
with mg.profile(), mg.no_grad():
    model(batch)
"""


def found(code: str, **environment: str) -> dict:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MINIGRAD_", "MALLOC_"))}
    kept.pop("GLIBC_TUNABLES", None)
    done = subprocess.run(
        [sys.executable, "-c", STATE + code], capture_output=True, text=True, timeout=120,
        env=kept | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def run() -> dict:
    """What import, and then work, have changed; and whether threads ran where they might."""
    return found(
        "before = state()\nimport minigrad as mg\nimported = changed(before)\n" + WORK + "print("
        "json.dumps({'import': imported, 'work': changed(before), 'free': sorted(during), "
        "'looked up': looked_up}))"
    )


def test_importing_minigrad_changes_nothing_of_the_process(run):
    assert run["import"] == []


def test_ops_backwards_loaders_and_optimizers_change_nothing_of_the_process(run):
    assert run["work"] == []


def test_threads_that_share_an_op_run_where_the_system_lets_them(run):
    assert run["free"] == [True]


def test_no_function_that_tunes_the_heap_is_ever_looked_up(run):
    assert not {"mallopt", "malloc_trim", "madvise", "sched_setaffinity"} & set(run["looked up"])


ADAPTS = """
class Usage(ctypes.Structure):
    _fields_ = [(f"n{i}", ctypes.c_size_t) for i in range(10)]

c.mallinfo2.restype = Usage

def mapped():  # how many blocks glibc has mapped alone
    return c.mallinfo2().n3

import minigrad as mg
SWITCH
mg.exp(mg.tensor(np.ones(1 << 20, np.float32), requires_grad=True)).sum().backward()
alone = []
for _ in range(2):
    before = mapped()
    block = np.empty(31 << 20, np.uint8)
    alone.append(mapped() - before)
    del block
print(json.dumps({"alone": alone}))
"""
glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="about glibc's heap")


@glibc
@pytest.mark.parametrize(
    "switch, alone",
    [
        ("", [1, 0]),  # the first block of its size is mapped, then glibc has adapted: untouched
        ("mg.accelerate(compiled=False)", [0, 0]),
        ("mg.accelerate(compiled=False); mg.accelerate(False)", [1, 1]),  # but adapts no more
    ],
    ids=["never", "on", "undone"],
)
def test_glibc_maps_a_large_array_alone_unless_the_switch_is_on(switch, alone):
    assert found(ADAPTS.replace("SWITCH", switch)) == {"alone": alone}


@pytest.fixture
def versions(capsys):
    def told() -> str:
        mg.show_versions()
        return next(line for line in capsys.readouterr().out.splitlines() if "process:" in line)

    return told


@glibc
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="about Linux")
def test_show_versions_tells_how_the_process_is_tuned(versions):
    with mg.accelerate(compiled=False):
        on = versions()
    off = versions()
    assert "keeps up to 256 MB" in on and "different processors" in on
    assert "thresholds fixed at" in off and "where the system lets them" in off


def test_the_process_is_tuned_without_numba_and_untouched_where_that_is_asked_for(monkeypatch):
    from minigrad.compiled import switch

    monkeypatch.setattr(switch, "optional", lambda name: None)
    with mg.accelerate(compiled=False):
        assert switch._tuned and not mg.is_accelerated()
    assert not switch._tuned
    with pytest.raises(ImportError, match="compiled=False"):
        mg.accelerate()
    assert not switch._tuned


@pytest.mark.skipif(optional("numba") is None, reason="mg.accelerate compiles with numba")
def test_each_half_is_switched_without_the_other():
    from minigrad.compiled import switch

    with mg.accelerate():
        with mg.accelerate(False, process=False):
            assert switch._tuned and not mg.is_accelerated()
        with mg.accelerate(False, compiled=False):
            assert not switch._tuned and mg.is_accelerated()
        assert switch._tuned and mg.is_accelerated()
    assert not switch._tuned and not mg.is_accelerated()


@pytest.mark.parametrize(
    "word, tuned", [("process", True), ("Process ", True), ("0", False), ("compile", False)]
)
def test_the_environment_switches_the_process_s_tuning_on_without_numba(word, tuned):
    code = """
sys.modules["numba"] = None
import minigrad
from minigrad.compiled import switch
print(json.dumps([switch._on, switch._tuned]))
"""
    assert found(code, MINIGRAD_ACCELERATE=word) == [False, tuned]
