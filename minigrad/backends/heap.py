"""What the C library does with the memory of a large array that is freed.

glibc gives it back to the system at once, and the next array of that size costs a fault for each
of its pages: of a step of layer_norm on 2,000×2,000 that was 8 ms of 20. But it learns: once an
array from the system has been freed, arrays up to its size are kept for the next ones, and freed
memory up to twice that size. It learns this up to 32 MB, so one array of 32 MB, made and dropped
without being touched, teaches it all at the price of two system calls. Settings of the process
(MALLOC_TRIM_THRESHOLD_ and its kin) still hold; other C libraries do not notice.
"""

import numpy as np

LARGEST = (32 << 20) - (1 << 13)  # glibc's limit, less the chunk's header and a page


def keep_freed_arrays() -> None:
    """Let freed arrays of up to 32 MB, 64 MB in all, serve the next ones."""
    try:
        np.empty(LARGEST, np.uint8)
    except MemoryError:  # the process may not have so much: then there is nothing to keep
        pass
