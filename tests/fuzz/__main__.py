"""Faulty files for every reader.

    python tests/fuzz [READER ...] [--seconds 60 | --files 100] [--seed 0]

Each file comes from a seed of its own, `--seed` and up, and is drawn from the format's grammar
(documents.py) with faults (mutate.py). Prints how many files each reader was given, and each fault
with the command that brings it back; the exit code is 1 if there was any.
"""

import argparse
import collections
import contextlib
import faulthandler
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

from minigrad_profiler.peaks import measured_peaks
from readers import READERS, Fault

SECONDS = 20  # of processor time for one file, most of which are small
MEMORY = 1 << 30  # bytes beyond what the process has at its start
RUNS = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "subprocess.Popen",
    "pickle.find_class",
    "socket.connect",
    "ctypes.dlopen",
)
heard: list[str] = []


class TooLong(BaseException):
    """One file took more than its share of time."""


def stop(*_: Any) -> None:
    raise TooLong


def listen(event: str, arguments: tuple) -> None:
    if event in RUNS:
        heard.append(f"{event}{arguments[:1]!r}"[:200])


def bounded() -> None:
    measured_peaks()  # once in a process; it loads BLAS, which is no part of reading a file
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY, resource.RLIM_INFINITY))
    signal.signal(signal.SIGPROF, stop)
    sys.addaudithook(listen)


def fault_of(reader: str, seed: int, folder: Path) -> str | None:
    """What one file brought to light, in a few lines."""
    heard.clear()
    faulthandler.dump_traceback_later(10 * SECONDS, exit=True)  # of a call that no signal ends
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        READERS[reader](random.Random(seed), folder)
    except KeyboardInterrupt:
        raise
    except TooLong:
        return f"more than {SECONDS} s\n{''.join(traceback.format_exc().splitlines(True)[-9:])}"
    except Fault as error:
        return f"Fault: {error}"
    except BaseException:
        return "".join(traceback.format_exc().splitlines(True)[-9:])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
    left = [p.name for p in folder.rglob("*") if p.name.endswith((".part", ".partial"))]
    return f"left behind: {left}" if left else f"was run: {heard}" if heard else None


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("readers", nargs="*", metavar="READER", help=f"of {', '.join(READERS)}")
    parser.add_argument("--seconds", type=float, default=None, help="for each reader")
    parser.add_argument("--files", type=int, default=None, help="for each reader (default: 100)")
    parser.add_argument("--seed", type=int, default=0, help="of the first file")
    parser.add_argument("--most", type=int, default=5, help="faults that end a reader's turn")
    options = parser.parse_args()
    files = options.files or (10**9 if options.seconds else 100)
    wrong = [name for name in options.readers if name not in READERS]
    if wrong:
        parser.error(f"no reader is named {wrong[0]}")
    warnings.simplefilter("error")  # a warning about a file is no clear error either
    warnings.filterwarnings("ignore", "Duplicate name", UserWarning)
    bounded()
    faults = 0
    for reader in options.readers or READERS:
        begun, count, found = time.perf_counter(), 0, collections.Counter()
        for seed in range(options.seed, options.seed + files):
            if options.seconds and time.perf_counter() - begun > options.seconds:
                break
            with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
                told = fault_of(reader, seed, Path(folder))
                count += 1
                if told is None:
                    continue
                kind = told.strip().splitlines()[-1][:60]
                found[kind] += 1
                if found[kind] > 1:  # once is enough of a kind
                    continue
                print(f"python tests/fuzz {reader} --files 1 --seed {seed}\n{told}", flush=True)
                if keep := os.environ.get("FUZZ_KEEP"):
                    with contextlib.suppress(OSError):
                        shutil.copytree(folder, Path(keep) / f"{reader}-{seed}")
            if len(found) >= options.most:
                break
        faults += found.total()
        took = time.perf_counter() - begun
        print(
            f"{reader}: {count:,} files, seeds {options.seed} to {options.seed + count - 1}, "
            f"{found.total()} faults, {took:.0f} s",
            flush=True,
        )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
