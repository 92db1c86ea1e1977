"""Loaders: the same batches whatever fetches them; errors, time-outs and Ctrl-C come through."""

import concurrent.futures.process as pools
import os
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import time
import traceback
from multiprocessing.queues import SimpleQueue

import numpy as np
import pytest

import minigrad as mg
from minigrad import data

pytestmark = pytest.mark.promise(
    "batches depend on the seed, not on the workers; a worker that dies is reported, wherever"
    " it was"
)

KINDS = ["thread", "process"]
linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux")


class Squares(data.Dataset):
    def __init__(self, n=20):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return np.float32(i), {"square": i * i, "name": str(i)}


class Noisy(Squares):
    """Rows with random augmentation from the worker's generator."""

    def __getitem__(self, i):
        return i, data.get_worker_info().generator.random(3)


class Broken(Squares):
    def __getitem__(self, i):
        if i == 7:
            raise KeyError(f"row {i} is missing")
        return i


class Counting(data.IterableDataset):
    def __iter__(self):
        info = data.get_worker_info()
        start, step = (info.id, info.num_workers) if info else (0, 1)
        return iter(range(start, 11, step))


def content(loader):
    return [[part.tolist() if hasattr(part, "tolist") else part for part in b] for b in loader]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_give_the_batches_that_no_workers_give_in_every_pass(kind, workers):
    def passes(**options):
        mg.manual_seed(0)
        loader = data.DataLoader(Squares(), 3, shuffle=True, **options)
        return [str(b) for _ in range(3) for b in loader], mg.rand(2).tolist()

    assert passes() == passes(num_workers=workers, worker_kind=kind)


def test_an_order_of_two_rows_does_not_depend_on_the_workers_and_each_pass_has_its_own_seed():
    """Such an order takes half a number of 64 bits, so that every other pass takes a whole one."""
    seeds = []

    class Two:
        def __len__(self):
            return 2

        def __getitem__(self, i):
            info = data.get_worker_info()
            seeds.append(info.seed if info else None)
            return i

    def orders(workers):
        draw = np.random.default_rng(7)
        loader = data.DataLoader(Two(), 2, shuffle=True, num_workers=workers, generator=draw)
        return [batch.tolist() for _ in range(8) for batch in loader], draw.integers(1 << 60)

    assert orders(0) == orders(1)
    assert len(set(seeds[16:])) == 8


@pytest.mark.parametrize("kind", KINDS)
def test_random_augmentation_depends_on_the_seed_alone(kind):
    def batches(workers):
        mg.manual_seed(5)
        loader = data.DataLoader(Noisy(), 4, num_workers=workers, worker_kind=kind)
        return [content(loader), content(loader)]

    one, other = batches(1)
    assert [one, other] == batches(3) and one != other
    rows = [tuple(row) for _, noise in one for row in noise]
    assert len(set(rows)) == 20


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_of_a_worker_is_raised_here_with_its_traceback(kind):
    loader = data.DataLoader(Broken(), 2, num_workers=2, worker_kind=kind)
    taken = []
    with pytest.raises(KeyError, match="row 7 is missing") as caught:
        for x in loader:
            taken.append(x.tolist())
    assert taken == [[0, 1], [2, 3], [4, 5]]
    text = "".join(traceback.format_exception(caught.value))
    assert 'raise KeyError(f"row {i} is missing")' in text
    assert "in worker 1 of the DataLoader, batch 3" in text


@linux
def test_an_error_that_cannot_be_sent_between_processes_is_told_by_its_words():
    class BadRow(Exception):
        def __init__(self, row, why):  # pickle calls it with the one argument of super
            super().__init__(f"row {row}: {why}")

    class Refusing(Squares):
        def __getitem__(self, i):
            raise BadRow(i, "no label")

    loader = data.DataLoader(Refusing(), 1, num_workers=1, worker_kind="process")
    with pytest.raises(RuntimeError, match="BadRow: row 0: no label"):
        list(loader)


class Deadly(Squares):
    def __getitem__(self, i):
        if i == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return i


@linux
def test_a_worker_that_is_killed_is_reported():
    loader = data.DataLoader(Deadly(), 1, num_workers=2, worker_kind="process")
    with pytest.raises(RuntimeError, match="worker 1 has died while it made batch 5"):
        list(loader)


class KilledAsItSends(Squares):
    """The worker of row 1 dies with the first bytes of it in the pipe."""

    def __getitem__(self, i):
        def begin_to_send(queue, result):
            os.write(queue._writer.fileno(), struct.pack("!i", 1000) + b"its beginning")
            os.kill(os.getpid(), signal.SIGKILL)

        if i == 1:
            SimpleQueue.put = begin_to_send
        return i


@linux
def test_a_worker_that_is_killed_in_the_middle_of_sending_a_batch_is_reported():
    program = started(
        """
    from minigrad import data
    from tests.data.test_loader import KilledAsItSends
    loader = data.DataLoader(KilledAsItSends(), 1, num_workers=2, worker_kind="process")
    try:
        print([row.item() for row in loader])
    except RuntimeError as error:
        print(error)
    """
    )
    try:
        told, _ = program.communicate(timeout=60)
    finally:
        program.kill()
    assert told.startswith("DataLoader: worker 1 has died while it made batch 1 (killed, ")


def test_a_worker_that_has_died_before_its_next_batch_is_reported_in_its_turn():
    loader = data.DataLoader(Deadly(), 1, num_workers=2, worker_kind="process")
    made = []
    with pytest.raises(RuntimeError, match="worker 1 has died while it made batch 5"):
        for batch in loader:
            made += batch.tolist()
            if len(made) > 1:
                time.sleep(0.2)  # the training step, meanwhile worker 1 dies
    assert made == [0, 1, 2, 3, 4]


class Who(Squares):
    def __getitem__(self, i):
        return os.getpid()


WHO = """
    import os, signal, sys, time
    from minigrad import data
    from tests.data.test_loader import Who
    loader = data.DataLoader(Who(), 1, num_workers=2, worker_kind="process")
"""


def started(program):
    command = [sys.executable, "-c", textwrap.dedent(program)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@linux
def test_workers_end_when_the_program_was_killed():
    process = started(
        WHO
        + """
    batches = iter(loader)
    print(*{next(batches).item() for _ in range(9)}, flush=True)
    time.sleep(60)
    """
    )
    workers = [int(pid) for pid in process.stdout.readline().split()]
    assert len(workers) == 2 and all(map(runs, workers))
    process.kill()
    process.wait()
    deadline = time.monotonic() + 20
    while any(map(runs, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(runs, workers))


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@linux
def test_ctrl_c_while_a_worker_is_forked_is_not_lost():
    process = started(
        WHO
        + """
    os.register_at_fork(before=lambda: signal.raise_signal(signal.SIGINT))
    try:
        list(loader)
        print("lost")
    except KeyboardInterrupt:
        print("it came", signal.getsignal(signal.SIGINT))
    """
    )
    told, _ = process.communicate(timeout=60)
    assert told.startswith("it came <built-in function default_int_handler>")


@linux
def test_a_worker_that_hangs_is_reported():
    class Hanging(Squares):
        def __getitem__(self, i):
            time.sleep(30 if i == 1 else 0)
            return i

    options = {"num_workers": 1, "worker_kind": "process", "timeout": 0.5}
    with pytest.raises(RuntimeError, match="worker 0 has not made batch 1 in 0.5 s"):
        list(data.DataLoader(Hanging(), 1, **options))


@linux
def test_a_program_that_exits_as_its_workers_end_says_nothing():
    if hasattr(pools._ThreadWakeup(), "_lock"):
        pytest.skip("this Python does in one step what would have to be interrupted here")
    code = """
        import concurrent.futures.process as pools
        import time
        import numpy as np
        from minigrad import data

        def slowly(self):  # Python's own, with the moment between the two lines made longer
            if not self._closed:
                time.sleep(0.3 if pools._global_shutdown else 0)
                self._writer.send_bytes(b"")

        pools._ThreadWakeup.wakeup = slowly
        rows = data.ArrayDataset(np.arange(8.0))
        for batch in data.DataLoader(rows, 4, num_workers=2, worker_kind="process"):
            pass
        print("done")
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (told.stdout, told.stderr, told.returncode) == ("done\n", "", 0)


@pytest.mark.parametrize("kind", KINDS)
def test_each_worker_is_told_its_number_as_it_starts(kind):
    def refuse(number):
        raise ValueError(f"worker {number} does not like it")

    loader = data.DataLoader(Squares(), 2, num_workers=2, worker_kind=kind, worker_init_fn=refuse)
    with pytest.raises(ValueError, match="worker 0 does not like it"):
        next(iter(loader))


def test_a_loop_that_is_left_leaves_no_threads_at_work():
    before = threading.active_count()
    for _ in data.DataLoader(Squares(1000), 1, num_workers=3):
        break
    for _ in range(100):
        if threading.active_count() <= before:
            break
        time.sleep(0.05)
    assert threading.active_count() <= before


@linux
@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_ends_the_program_at_once(kind):
    code = """
        import sys, time
        from minigrad import data

        class Slow(data.Dataset):
            def __len__(self):
                return 1000
            def __getitem__(self, i):
                time.sleep(0.05)
                return i

        for x in data.DataLoader(Slow(), 1, num_workers=2, worker_kind=sys.argv[1]):
            print(x.item(), flush=True)
    """
    program = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), kind],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert program.stdout.readline() == "0\n"
    os.killpg(program.pid, signal.SIGINT)
    _, errors = program.communicate(timeout=20)
    assert errors.rstrip().endswith("KeyboardInterrupt"), errors
    assert errors.count("Traceback") == 1, errors


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_streams_are_read_to_their_ends(workers, kind):
    loader = data.DataLoader(Counting(), 2, num_workers=workers, worker_kind=kind)
    for _ in range(2):
        assert sorted(i for x in loader for i in x.tolist()) == list(range(11))
    whole = data.DataLoader(Counting(), 2, num_workers=workers, worker_kind=kind, drop_last=True)
    assert all(len(x) == 2 for x in whole)


@pytest.mark.parametrize("workers", [0, 2])
def test_options_for_pytorchs_memory_and_workers_change_nothing(workers):
    options = {"pin_memory": True, "persistent_workers": workers > 0, "pin_memory_device": "cuda"}
    options["in_order"] = False
    plain = data.DataLoader(Squares(), 3, num_workers=workers)
    loader = data.DataLoader(Squares(), 3, num_workers=workers, prefetch_factor=None, **options)
    for _ in range(2):
        assert [x.tolist() for x, _ in loader] == [x.tolist() for x, _ in plain]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shuffle": True, "sampler": [0]}, "a sampler or shuffle=True, not both"),
        ({"batch_sampler": [[0]], "shuffle": True}, "batch_sampler takes the place"),
        ({"worker_kind": "fibre"}, "'thread' or 'process'"),
    ],
)
def test_contradictory_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        data.DataLoader(Squares(), **options)
    with pytest.raises(ValueError, match="gives its own order"):
        data.DataLoader(Counting(), shuffle=True)


@pytest.mark.parametrize(("options", "count"), [({}, 3), ({"drop_last": True}, 2)])
def test_a_loader_knows_its_length_where_its_stream_does(options, count):
    class Known(data.IterableDataset):
        def __iter__(self):
            return iter(range(7))

        def __len__(self):
            return 7

    loader = data.DataLoader(Known(), 3, **options)
    assert len(loader) == len(list(loader)) == count
    assert len(data.DataLoader(Known(), None)) == 7
    with pytest.raises(TypeError, match="a Counting, an IterableDataset without __len__"):
        len(data.DataLoader(Counting(), 3))


@pytest.mark.parametrize("options", [{"timeout": -1}, {"batch_size": None, "drop_last": True}])
def test_options_that_could_have_no_effect_or_a_wrong_one_are_refused(options):
    with pytest.raises(ValueError, match="timeout is 0 .* drop_last needs a batch_size"):
        data.DataLoader(Squares(), **options)


def test_a_data_set_of_arrays_with_its_own_rows_is_asked_for_one_at_a_time():
    class Turned(data.TensorDataset):
        def __getitem__(self, i):
            (row,) = super().__getitem__(i)
            return mg.flip(row, 0) if i % 2 else row

    rows = mg.tensor([[0, 1], [2, 3], [4, 5], [6, 7]])
    batch = next(iter(data.DataLoader(Turned(rows), batch_size=4)))
    assert batch.tolist() == [[0, 1], [3, 2], [4, 5], [7, 6]]


def test_more_workers_than_a_system_has_processes_are_refused():
    with pytest.raises(ValueError, match="num_workers 0 or more .up to 32,768.*1000000000000"):
        data.DataLoader([1, 2], num_workers=10**12)
