"""The tape: a record of a forward, its backward, and its replay."""
