"""Modes of a block: autocast, checkpoints, hooks, sessions, anomaly mode."""
