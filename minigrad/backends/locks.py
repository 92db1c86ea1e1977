"""A lock that Ctrl-C never leaves locked; a thread may take it again while it holds it.

`with lock:` calls lock.__enter__, and from Python 3.14 on an interrupt that came meanwhile is
raised right behind that call, before the block has begun that would give the lock back. So there
__enter__ itself gives it back. On leaving, the call is one of C, which has let go by then.
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
