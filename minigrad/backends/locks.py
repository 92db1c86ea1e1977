"""A re-entrant lock that Ctrl-C never leaves locked.

`with lock:` calls lock.__enter__. From Python 3.14 on, an interrupt during that call is raised
right after it, before the block that would release the lock. There __enter__ itself releases it. On
leaving, the call is C code, which has released the lock by then.

Inside such a block no loop or comprehension may end in a condition, like `[x for x in xs if c]`: it
must be in a function that the block calls. On Python 3.12 and 3.13 its backward jump is outside of
the block, and an interrupt there leaves the lock locked.
"""

import sys
import threading
from typing import Any

__all__ = ["Lock"]


_RLock: Any = type(threading.RLock())


class _Lock(_RLock):
    def __enter__(self) -> bool:
        before = self._recursion_count()
        try:
            return self.acquire()
        except BaseException:
            if self._recursion_count() > before:
                self.release()
            raise


Lock: Any = _Lock if sys.version_info >= (3, 14) else threading.RLock
