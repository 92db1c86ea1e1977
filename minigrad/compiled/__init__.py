"""Large work on the host as compiled loops: one pass over memory where NumPy needs many.

    mg.accelerate()                  # from here on; mg.accelerate(False) switches off
    with mg.accelerate(): ...        # inside only
    MINIGRAD_ACCELERATE=1            # in the environment, without changing the program
    mg.accelerate(process=False)     # these loops alone, without the tuning of the process

It needs numba (the extra `fast`), which is imported when it is first switched on, never before. The
NumPy form of each op is the reference and the default. While it is off, nothing here runs.

switch.py       mg.accelerate
install.py      putting compiled forwards in front of the ops' own, and taking them away again
jit.py          numba, and the options that all kernels share
functions.py    exp, log, tanh … in plain arithmetic, which LLVM turns into vector instructions
launch.py       loops (expressions/loops.py writes them) made, kept and run; disk.py: kept on disk
                for the next program
elements.py     elementwise ops and their rules
rows.py         programs of rows and columns; norms.py: the three gradients of a norm at once
planes.py       images plane by plane; pooling.py, depthwise.py
columns.py      windows between which BLAS multiplies (fast/windows.py asks for it); winograd.py:
                the transforms of fast/conv/winograd.py

How a kernel is registered
--------------------------
A file of this room holds kernels for a family of ops, and is named in `install.ROOMS`; it is
imported when the switch is first turned on, and may import numba (through jit.py) at its top.

    from ..backends import pool
    from .install import on_host
    from .jit import kernel

    @kernel                                   # njit, without the interpreter's lock, kept on disk
    def _fill(x, y): ...                      # loops over arrays; writes to places of its own

    @on_host("softmax", least=1 << 14)        # the op of this name in mg.ops' registry
    def softmax(x, axis=-1):                  # the op's own arguments, static ones by name
        if not takes(x): return None          # None: the op's own forward, please
        y = np.empty_like(x)
        pool.share(lambda span: _fill(x[span], y[span]), spans(len(x), step))
        return y                              # what the op's own forward returns, residuals too

`least` is how many elements one of the arrays must have: smaller calls go to the op's own forward
after a comparison. Derivatives need no registration of their own where they are ops (softmax_dx):
rules stay as they are and call those. Only calls on NumPy arrays get here; what is traced, on a GPU
or of another class does not. Threads come from backends/pool.py; what a piece is must depend on the
shape alone, never on the number of threads, so that no bit does. Errors are the op's own: return
None for arguments that it would refuse.
"""

from .switch import accelerate, is_accelerated

__all__ = ["accelerate", "is_accelerated"]
