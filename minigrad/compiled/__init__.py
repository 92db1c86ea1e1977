"""Large work on the host as compiled loops: one pass over memory in place of NumPy's many.

    mg.accelerate()                  # from here on; mg.accelerate(False) switches off
    with mg.accelerate(): ...        # inside only
    MINIGRAD_ACCELERATE=1            # in the environment, without changing the program
    mg.accelerate(process=False)     # only these loops, without the tuning of the process

It needs numba (the extra `fast`), which is imported only when it is first switched on. The NumPy
form of each op is the reference and the default. While it is off, nothing here runs.

switch.py       mg.accelerate
install.py      installs compiled forwards in front of the ops' own, and removes them
jit.py          numba, and the options that all kernels share
functions.py    exp, log, tanh … in plain arithmetic, which LLVM compiles to vector instructions
launch.py       makes, keeps and runs loops (expressions/loops.py writes them); disk.py: keeps them
                on disk for the next program
elements.py     elementwise ops and their rules
rows.py         programs of rows and columns; norms.py: the three gradients of a norm at once
planes.py       images plane by plane; pooling.py, depthwise.py
columns.py      windows as columns and back, for fast/windows.py; winograd.py: the transforms of
                fast/conv/winograd.py

Registering a kernel
--------------------
A file of this folder holds kernels for a family of ops, and is named in `install.ROOMS`. It is
imported when the switch is first turned on, and may import numba (through jit.py) at its top.

    from ..backends import pool
    from .install import on_host
    from .jit import kernel

    @kernel                                   # njit, without the interpreter's lock, kept on disk
    def _fill(x, y): ...                      # loops over arrays; writes to separate memory

    @on_host("softmax", least=1 << 14)        # the op of this name in mg.ops' registry
    def softmax(x, axis=-1):                  # the op's own arguments, static ones by name
        if not takes(x): return None          # None: use the op's own forward
        y = np.empty_like(x)
        pool.share(lambda span: _fill(x[span], y[span]), spans(len(x), step))
        return y                              # like the op's own forward, with its residuals

`least` is the number of elements that one of the arrays must have: smaller calls go to the op's own
forward after a comparison. A derivative that is an op (softmax_dx) needs no separate registration:
rules call the op. Only calls on NumPy arrays arrive here, and no traced arrays, arrays on a GPU or
arrays of another class. Threads come from backends/pool.py. The pieces must depend only on the
shape, never on the number of threads; then the bits do not, either. The op itself raises errors:
return None for arguments that it would refuse.
"""

from .switch import accelerate, is_accelerated

__all__ = ["accelerate", "is_accelerated"]
