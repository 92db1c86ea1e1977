"""`python -m minigrad_profiler` is `minigrad-profile`."""

import sys

from minigrad_profiler.cli import main

if __name__ == "__main__":
    sys.exit(main())
