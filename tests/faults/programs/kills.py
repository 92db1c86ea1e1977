"""Kills a writer at moments drawn from a seed: python kills.py WRITER SIGNAL TIMES FOLDER."""

import os
import random
import signal
import sys
import time

import writers

name, number, times, folder = (
    sys.argv[1],
    getattr(signal, sys.argv[2]),
    int(sys.argv[3]),
    sys.argv[4],
)
write, read, names = writers.WRITERS[name]
target, sources = os.path.join(folder, "target"), os.path.join(folder, "sources")
os.mkdir(target)
os.mkdir(sources)
writers.prepared(sources)
rng = random.Random(7)
write(target, 0)
first = time.perf_counter()
write(target, 0)
once = time.perf_counter() - first
last, during = 0, 0
for _ in range(times):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # until the child is ready for it
    child = os.fork()
    if child == 0:
        try:
            i = last
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            while True:
                i += 1
                write(target, i)
        except KeyboardInterrupt:
            os._exit(7)
        finally:
            os._exit(8)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    time.sleep(rng.uniform(0.2, 3) * once)
    os.kill(child, number)
    waits = 0
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        time.sleep(0.01)
        waits += 1
        if waits % 300 == 0:  # pressed again: Python drops what is raised as an object dies
            os.kill(child, number)
    status = ended[1]
    if number == signal.SIGINT:
        assert os.waitstatus_to_exitcode(status) == 7, status  # the interrupt came out as it is
        if names is not None:
            left = [n for n in os.listdir(target) if n not in names]
            assert left == [], left
    else:
        assert os.waitstatus_to_exitcode(status) == -number, status
    found = read(target)  # whole, of one version
    assert found is None or found >= last, (found, last)
    last = found or 0
    during += len(os.listdir(target)) > 1
    for there, _, files in os.walk(target):
        for file in files:  # a file that is empty may be about to be locked, for a second
            os.utime(os.path.join(there, file), (1, 1))
    last += 1
    write(target, last)
    assert read(target) in (None, last)
    writers.check_names(target, names)
print(f"{times} kills, {during} left something")
