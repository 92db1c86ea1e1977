"""Softmax and losses on classes in blocks of whole rows: see each file."""

from . import classes, linear_classes, softmax
