"""Stretches: the calls that one layer or function of this library made, as a replay takes them.

The Python of a compiled function runs at each call. But what a layer of mg.nn does follows from its
attributes and arguments alone, as long as it looks at no number. So where these are what they were
in the recording, its calls need not be made one by one to be compared: the run goes on behind them.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..backends import device, random
from ..backends.leaving import contextmanager
from ..engine import events, modes
from ..engine.graph import TensorBase
from ..tape.trace import parts_of
from ..tensor_api.tensor import Tensor
from .awaited import Awaited, awaited, spec_of
from .calls import Call, Constant, same

_DATA = TensorBase.__dict__["_data"]  # the descriptor of a slot
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.dtype, slice)
_LIBRARY = __name__.partition(".")[0] + "."


class Stretch:
    """The calls of one layer or function, and what they depend on.

    fn          the layer or function
    held        (a layer, its attributes as `_attributes` gives them) of it and all layers inside
    values      the attributes themselves: their ids are those of living objects
    names       the names of the arguments given by name
    given       for each argument: the number of a value, ~k for Outside k, or a Constant
    begin, end  its calls are those from position `begin` to before `end`
    taken       the objects for the Outsides that it uses first, None for an argument
    used        (k, the object) of Outsides from before that it uses too, but for arguments
    count       how many values it makes
    results     (number, Spec) of the values that it returns
    returned    what it returns, in the form of `given`, or a tuple of these
    """

    __slots__ = (
        "fn", "held", "values", "names", "given", "begin", "end", "taken", "used",
        "count", "results", "returned", "recording", "draws",
    )  # fmt: skip

    def take(self, run: Any, args: tuple, kwargs: dict, here: dict) -> Any:
        """What fn returns, with the run behind its calls; UNFIT if they may be others now."""
        if here["recording"] is not self.recording or (*kwargs,) != self.names:
            return UNFIT
        for layer, known in self.held:
            if _attributes(layer) != known:
                return UNFIT
        for k, x in self.used:
            if run.bound[k] is not x:
                return UNFIT
        begun, new = len(run.bound), self.arguments(run, (*args, *kwargs.values()))
        if new is None:
            return UNFIT
        for k, x in enumerate(self.taken, begun):
            if not run.is_outside(k, new[k] if k in new else x):
                run.unbind(begun)
                return UNFIT
        run.position = self.end
        made = run.made
        made += [object() for _ in range(self.count)]  # nobody refers to the values inside
        for number, spec in self.results:
            made[number] = awaited(spec, run)
        if self.draws:
            random.await_draws(run.drawn)
        return self.result(run, self.returned)

    def arguments(self, run: Any, given: tuple) -> dict[int, Any] | None:
        """{k: the argument for Outside k} of those that the stretch uses first; None if an argument
        differs."""
        if len(given) != len(self.given):
            return None
        made, bound, new = run.made, run.bound, {}
        for x, n in zip(given, self.given, strict=True):
            if n.__class__ is not int:
                fits = same(x, n.value)
            elif n >= 0:
                fits = x is made[n]
            elif ~n < len(bound):
                fits = x is bound[~n]
            else:  # two arguments are one object where they were in the recording
                fits = new.setdefault(~n, x) is x and not any(x is other for other in bound)
            if not fits:
                return None
        return new if len({*map(id, new.values())}) == len(new) else None

    def result(self, run: Any, known: Any) -> Any:
        """The object for one of the forms in `returned`."""
        if type(known) is tuple:
            return tuple([self.result(run, part) for part in known])
        if type(known) is not int:
            return known.value
        return run.made[known] if known >= 0 else run.bound[~known]


UNFIT: Any = object()


def keep(stretches: dict[int, list[Stretch]], stretch: Stretch) -> None:
    """Add a stretch before those inside it; it replaces one of the same calls."""
    known = stretches.setdefault(stretch.begin, [])
    known[:] = [x for x in known if x.fn is not stretch.fn or x.end != stretch.end]
    known.insert(0, stretch)


def inside(run: Any, fn: Any, call: Callable, args: tuple, kwargs: dict, known: list | None) -> Any:
    """call(*args, **kwargs), a call of the layer or function fn: a stretch, if one is `known`."""
    here = modes.state.__dict__
    if (
        run.is_outside_fn or events.listeners or device.several or here["level"]
        or here["saving"] or here["tapes"] or here["autocast"] is not None
    ):  # fmt: skip
        return call(*args, **kwargs)
    for stretch in known or ():
        if stretch.fn is fn and (y := stretch.take(run, args, kwargs, here)) is not UNFIT:
            return y
    return _noted(run, fn, call, args, kwargs, here["recording"])


# -- recording -------------------------------------------------------------------------------------


def _noted(run: Any, fn: Any, call: Callable, args: tuple, kwargs: dict, recording: bool) -> Any:
    """call(*args, **kwargs); its calls become a stretch if they follow from what a replay sees."""
    layers: list = []
    if not _is_known(fn, layers):
        return call(*args, **kwargs)
    found = _Finding(run, layers, (*args, *kwargs.values()))
    with _watched(run, found.tensors + found.passed):
        y = call(*args, **kwargs)
    if found.still_holds():
        stretch = Stretch()
        stretch.fn, stretch.recording, stretch.names = fn, recording, (*kwargs,)
        try:
            found.fill(stretch, y)
        except LookupError:
            return y
        if _pays(run.so_far()[0][stretch.begin : stretch.end]):
            run.keep_stretch(stretch)
    return y


def _pays(calls: list[Call]) -> bool:
    """Whether a replay saves time if it need not compare these calls; one of Linear is quick."""
    return len(calls) > 1 or bool(calls and calls[0].params)


class _Finding:
    """What the calls of a layer or function depend on, in the numbers of the segment.

    layers    the layer and all layers inside
    tensors   their parameters and buffers
    passed    the tensors among the arguments
    """

    def __init__(self, run: Any, layers: list, given: tuple):
        self.run, self.given = run, given
        self.held = [(layer, _attributes(layer)) for layer in layers]
        self.values = [x for layer in layers for x in vars(layer).values()]
        self.tensors = [x for x in self.values if isinstance(x, Tensor)]
        self.passed = [x for x in given if isinstance(x, Tensor)]
        self.forms = self.awaited_arguments()
        self.segment, self.begin, self.looks = run.segment, run.progress(), run.looks

    def awaited_arguments(self) -> list:
        return [spec_of(x) for x in self.passed if type(x) is Awaited]

    def still_holds(self) -> bool:
        """Whether nothing but calls happened: no look at a number, no new attribute or argument."""
        run = self.run
        goes_on = run.segment == self.segment and modes.state.pending is run
        return (
            goes_on
            and run.looks == self.looks
            and self.forms == self.awaited_arguments()
            and all(_attributes(layer) == known for layer, known in self.held)
        )

    def fill(self, stretch: Stretch, y: Any) -> None:
        """Describe the calls, which returned y; LookupError where they need something else."""
        calls, self.objects = self.run.so_far()
        self.numbers = {id(x): k for k, x in enumerate(self.objects)}
        begin, first_value, first_outside = self.begin
        end, last_value, last_outside = self.run.progress()
        calls = calls[begin:end]
        if any(call.writes or call.leaves is not None for call in calls):
            raise LookupError  # running statistics, a backward
        stretch.begin, stretch.end, stretch.count = begin, end, last_value - first_value
        stretch.held, stretch.values = self.held, self.values
        stretch.draws = any(call.draws for call in calls)
        stretch.given = [self.form(x) for x in self.given]
        stretch.returned = self.returned(y)
        given = {n for n in stretch.given if type(n) is int}
        new = range(first_outside, last_outside)
        stretch.taken = [None if ~k in given else self.own(self.objects[k]) for k in new]
        used = {
            n for call in calls for n in call.args if type(n) is int and n < first_value
        } - given
        if any(n >= 0 for n in used):
            raise LookupError  # a value that is no argument
        stretch.used = [(~n, self.own(self.objects[~n])) for n in used if ~n < first_outside]
        specs = {spec.index: spec for call in calls for spec in call.outputs}
        made = dict.fromkeys([n for n in parts_of(stretch.returned, int) if n >= first_value])
        stretch.results = [(n, specs[n]) for n in made]

    def form(self, x: Any) -> Any:
        """An argument or result as in Stretch.given."""
        if type(x) is Awaited:
            i = spec_of(x).index
            if i >= len(self.run.made) or self.run.made[i] is not x:
                raise LookupError
            return i
        if isinstance(x, Tensor):
            return ~self.numbers[id(x)]
        if not _is_plain(x):
            raise LookupError
        return Constant(x)

    def returned(self, y: Any) -> Any:
        """A result as in Stretch.returned."""
        return tuple(map(self.returned, y)) if type(y) is tuple else self.form(y)

    def own(self, x: Any) -> Any:
        """x, which is a parameter or buffer of the layers."""
        if not any(x is known for known in self.tensors):
            raise LookupError
        return x


def _is_plain(x: Any) -> bool:
    """Whether x cannot change."""
    return all(map(_is_plain, x)) if type(x) is tuple else isinstance(x, _PLAIN)


def _is_known(fn: Any, layers: list) -> bool:
    """Whether the Python of a layer or function is this library's, and that of all layers inside;
    these are added to `layers`."""
    if not _is_of_library(fn if hasattr(fn, "__code__") else type(fn)):
        return False
    if hasattr(fn, "__code__"):
        return True
    if any(fn is x for x in layers):
        return True
    layers.append(fn)
    return all(_is_known_attribute(x, layers) for x in vars(fn).values())


def _is_known_attribute(x: Any, layers: list) -> bool:
    if _is_plain(x) or isinstance(x, Tensor):
        return True
    if isinstance(x, tuple):  # of layers, perhaps; tensors in it would not be watched
        return all(not isinstance(y, Tensor) and _is_known_attribute(y, layers) for y in x)
    if hasattr(type(x), "forward"):  # a layer
        return _is_known(x, layers)
    is_function = hasattr(x, "__code__") or isinstance(x, type)
    return callable(x) and _is_of_library(x if is_function else type(x))


def _is_of_library(x: Any) -> bool:
    return (getattr(x, "__module__", None) or "").startswith(_LIBRARY)


def _attributes(layer: Any) -> tuple:
    """The names of a layer's attributes and the ids of their values."""
    own = layer.__dict__
    return (*own, *map(id, own.values()))


# -- looks at numbers ------------------------------------------------------------------------------


class _Watched:
    """Mixed into the class of a tensor, this counts the looks at its numbers, but for its form."""

    __slots__ = ()

    def _read(self) -> Any:
        if (run := modes.state.pending) is not None:  # None inside an op
            run.looks += 1
        return _array_of(self)

    _data = property(_read, _DATA.__set__)
    shape = property(lambda self: _array_of(self).shape)
    dtype = property(lambda self: _array_of(self).dtype)
    ndim = property(lambda self: _array_of(self).ndim)
    size = property(lambda self: _array_of(self).size)
    device = property(lambda self: device.device_of(_array_of(self)))


_array_of: Callable[[Any], Any] = _DATA.__get__
_kinds: dict[type, type] = {}  # a class of tensors -> the same, watched


@contextmanager
def _watched(run: Any, tensors: list) -> Iterator[None]:
    """Count in run.looks how often these tensors are looked at outside of the run's own calls, and
    the draws there."""

    def looked() -> None:
        run.looks += 1

    def uncounted(*args: Any) -> Any:
        looks = run.looks
        try:
            return own(*args)
        finally:
            run.looks = looks

    plain = {id(x): x for x in tensors if not isinstance(x, _Watched | Awaited)}
    own, outer = run.call, vars(run).get("call")
    run.call = uncounted  # for this run, in place of the method
    if random.awaiting() is None:
        random.await_draws(looked)
    try:
        for x in plain.values():
            kind = type(x)
            if kind not in _kinds:
                _kinds[kind] = type(kind.__name__, (_Watched, kind), {"__slots__": ()})
            x.__class__ = _kinds[kind]
        yield
    finally:
        for x in plain.values():
            if isinstance(x, _Watched):
                x.__class__ = type(x).__mro__[2]
        if random.awaiting() is looked:
            random.await_draws(None)
        run.call = outer
        if outer is None:
            del run.call
