"""A lock that Ctrl-C never leaves locked; a thread may take it again while it holds it.

`with lock:` calls lock.__enter__, and from Python 3.14 on an interrupt that came meanwhile is
raised right behind that call, before the block has begun that would give the lock back. So there
__enter__ itself gives it back. On leaving, the call is one of C, which has let go by then.

Inside such a block no loop or comprehension ends in a condition, as `[x for x in xs if c]` does: it
stands in a function that the block calls. On Python 3.12 and 3.13 its jump back is outside of the
block, and an interrupt that is raised there leaves the lock locked.
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
