"""What holds inside a block: autocast, checkpoints, hooks, sessions, anomaly mode."""
