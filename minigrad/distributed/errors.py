"""The one error of this room."""


class DistributedError(RuntimeError):
    """The ranks of a job do not agree, or one of them is gone: the message names which and where."""
