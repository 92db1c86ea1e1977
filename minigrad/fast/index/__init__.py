"""Reads and sums by index: see weighted_reads.py."""

from . import weighted_reads
