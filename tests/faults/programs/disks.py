"""A disk that is full after ever more bytes: python disks.py WRITER STEPS FOLDER."""

import os
import resource
import sys

import writers

name, steps, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
write, read, names = writers.WRITERS[name]
target, sources = os.path.join(folder, "target"), os.path.join(folder, "sources")
os.mkdir(target)
os.mkdir(sources)
writers.prepared(sources)
write(target, 1)
size = max(
    os.path.getsize(os.path.join(there, f)) for there, _, files in os.walk(target) for f in files
)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
errors = 0
for step in range(steps):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size * step // steps, hard))
    try:
        write(target, 2)
    except OSError as error:
        errors += 1
        assert "x." in str(error) or "state" in str(error) or "rank" in str(error), error
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    found = read(target)
    assert found in (None, 1), (found, step)
    writers.check_names(target, names)
write(target, 2)
assert read(target) in (None, 2)
print(f"{errors} of {steps}")
