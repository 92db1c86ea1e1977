"""`python -m minigrad_viz` is `minigrad-viz`."""

import sys


def main() -> int:
    """The command; an interrupt while its modules load ends it as one later does."""
    try:
        from minigrad_viz.cli import main as run
    except KeyboardInterrupt:
        print("minigrad-viz: interrupted, nothing was written", file=sys.stderr)
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
