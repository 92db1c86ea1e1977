"""Source sites: the running line of the user's program, kept cheaply and looked up later."""

from sys import _getframe, modules
from types import CodeType, FrameType
from typing import Any

DEEPEST = 40  # frames of a captured stack
_PACKAGE = __name__.partition(".")[0]
_OWN_PACKAGES = {_PACKAGE, "numpy"}
_known: dict[Any, bool] = {}  # module name -> whether it is the library's


outermost: set[int] = set()  # ids of code objects that run a user's program: stacks end there


def is_own(frame: FrameType) -> bool:
    """Whether a frame is the library's or NumPy's, not the user's."""
    name = frame.f_globals.get("__name__")
    own = _known.get(name)
    if own is None:
        own = _known[name] = str(name).partition(".")[0] in _OWN_PACKAGES
    return own


def calling_frame(skip: int = 1) -> FrameType:
    """The frame of the user's running line; the outermost frame if all are the library's.

    skip: the number of innermost frames that are known to be the library's. A higher number saves
    time: Python makes an object of each frame.
    """
    frame: Any = _getframe(skip)
    try:
        while _known[frame.f_globals["__name__"]]:  # like is_own, without a call
            frame = frame.f_back
        return frame
    except (KeyError, AttributeError):  # a new module; or no frame is left
        frame = _getframe(skip)
    while is_own(frame) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def calling_line(skip: int = 1) -> tuple:
    """(code, instruction) of the user's running line.

    It keeps only the code object and the instruction's offset; `site_of` looks up the line number
    when it is needed.
    """
    frame = calling_frame(skip + 1)
    return frame.f_code, frame.f_lasti


def calling_frames(depth: int = DEEPEST) -> list[tuple]:
    """(code, instruction) of the calling frames, innermost first, without those of the library and
    NumPy; of the outermost one if there are no others.
    """
    frame: FrameType | None = _getframe(1)
    frames = []
    while frame is not None and len(frames) < depth:
        code = frame.f_code
        if id(code) in outermost:
            break
        try:
            own = _known[frame.f_globals["__name__"]]
        except KeyError:
            own = is_own(frame)
        if not own:
            frames.append((code, frame.f_lasti))
        frame = frame.f_back
    return frames or [calling_line()]


def stack_of(origin: tuple | None) -> list[tuple[str, int, str]]:
    """(file, line, function) of the frames of a captured stack, innermost first."""
    frames = () if origin is None else origin[3:] or (origin[:2],)
    return [(_file_of(code), _line_of(code, at), code.co_qualname) for code, at in frames]


def site_of(origin: tuple | None) -> dict[str, Any] | None:
    """{file, line, function} of a captured origin (code, instruction, ...)."""
    if origin is None:
        return None
    code, instruction = origin[:2]
    return {
        "file": _file_of(code),
        "line": _line_of(code, instruction),
        "function": code.co_qualname,
    }


def _file_of(code: CodeType) -> str:
    """The file of a line; In[3] for the third cell of a notebook or of IPython."""
    name = code.co_filename
    shell = running_shell()
    if shell is None or not (name.startswith("<") or "ipykernel_" in name):
        return name
    try:
        told = shell.compile.format_code_name(name)  # ("Cell", "In[3]")
    except Exception:  # another shell than IPython's
        return name
    return told[1] if told else name


def running_shell() -> Any:
    """The IPython shell that runs this program, also a notebook's; else None."""
    ipython = modules.get("IPython")
    return ipython and getattr(ipython, "get_ipython", lambda: None)()


def _line_of(code: CodeType, instruction: int) -> int:
    for start, stop, line in code.co_lines():
        if start <= instruction < stop and line is not None:
            return line
    return code.co_firstlineno
