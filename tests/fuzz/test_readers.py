"""Every reader of files, given faulty ones drawn from its grammar: a result or one clear error.

In a process whose memory is bounded, with a bound on each file's time. `python tests/fuzz
--seconds 60 --seed N` goes further.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.promise(
    "a faulty file of any kind gives a result or one clear error, in bounded time and "
    "memory, and runs nothing. `python tests/fuzz --seconds 60 --seed n` goes further",
    "a damaged state of an optimizer, a schedule or averages is one clear error and changes "
    "nothing",
)

HERE = Path(__file__).parent
TOP = HERE.parent.parent
READERS = {
    "npz": 40,
    "safetensors": 60,
    "checkpoint": 60,
    "states": 250,
    "graphs": 120,
    "backwards": 60,
    "logs": 80,
    "reports": 50,
    "comparisons": 60,
}


def fuzz(*arguments):
    paths = [str(TOP), str(TOP / "viz"), str(TOP / "profiler"), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, str(HERE), *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="bounds memory as Linux does")
@pytest.mark.parametrize("reader", READERS)
def test_a_faulty_file_gives_a_result_or_one_clear_error_in_bounded_time_and_memory(reader):
    done = fuzz(reader, "--files", READERS[reader])
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{reader}: {READERS[reader]} files" in done.stdout


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="bounds memory as Linux does")
@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ("document['nodes']", "KeyError"),
        ("while True: pass", "more than"),
        ("bytearray(1 << 40)", "MemoryError"),
        ("import os; os.system('true')", "was run"),
        ("open(str(path) + '.partial', 'w').close()", "left behind"),
        ("command(lambda arguments: 3)", "exit code 3"),
    ],
)
def test_a_reader_that_breaks_a_promise_is_found(tmp_path, planted, said):
    for file in ("__main__.py", "documents.py", "mutate.py", "readers.py"):
        (tmp_path / file).write_text((HERE / file).read_text())
    reader = f"def planted(rng, folder):\n    path, document = folder / 'x', {{}}\n    {planted}\n"
    call = "\ndef faulty(rng, folder):\n    refused_or_done(lambda: planted(rng, folder))\n"
    with open(tmp_path / "readers.py", "a") as file:
        file.write(f"\n\n{reader}{call}\nREADERS['faulty'] = faulty\n")
    main = (tmp_path / "__main__.py").read_text().replace("SECONDS = 20", "SECONDS = 1")
    (tmp_path / "__main__.py").write_text(main)
    paths = os.pathsep.join([str(TOP), str(TOP / "viz"), str(TOP / "profiler")])
    done = subprocess.run(
        [sys.executable, str(tmp_path), "faulty", "--files", "1"],
        env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 1 and said in done.stdout, done.stdout + done.stderr
