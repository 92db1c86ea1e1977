"""`python -m minigrad_viz` is `minigrad-viz`."""

import sys

from minigrad_viz.cli import main

if __name__ == "__main__":
    sys.exit(main())
