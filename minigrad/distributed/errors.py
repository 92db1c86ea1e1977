"""The one error of this room."""

from ..engine.errors import MinigradError


class DistributedError(MinigradError, RuntimeError):
    """The ranks of a job do not agree, or one is gone: the message names which and where.

    ranks   those that it is about, where it knows them
    """

    ranks: tuple[int, ...] | None = None
