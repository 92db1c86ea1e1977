"""Elementwise ops of large arrays in place: variants of the ops and of their rules."""

from . import logistic, normal, rows, straight
