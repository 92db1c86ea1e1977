"""The one error that reaches the user as a single line."""


class ViewerError(Exception):
    """Something the user can act on; its text is one line that says what and what to do next."""
