"""Recurrent networks: the gates of one step, and all steps of a sequence, as ops."""

from . import gru, lstm, rnn

__all__: list[str] = []
