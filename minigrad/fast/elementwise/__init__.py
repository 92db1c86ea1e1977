"""Elementwise ops of large arrays in place and in blocks: variants of the ops and their rules."""

from . import exponential, logistic, normal, rows, straight
