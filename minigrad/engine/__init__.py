"""How gradients flow back: serial.py first, then parallel.py, and what surrounds them."""

from . import parallel  # importing an engine enters it into passes.engines
from .report import Lane, Report, last_report
