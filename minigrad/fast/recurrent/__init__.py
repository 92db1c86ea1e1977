"""Recurrent networks in place, one NumPy call after the other: see steps.py."""

from . import gru, lstm, rnn
