"""A program: interrupts blocks before each of their instructions, and prints what was left on."""

import json
import sys

import numpy as np

import minigrad as mg
from minigrad.backends import random
from minigrad.core import deterministic, events, modes
from minigrad.data import randomness
from tests.core.test_interrupts import BLOCKS, recomputed, stop_listening


def at_instruction(at, run):
    """Runs with KeyboardInterrupt before the `at`-th instruction of Python code.

    (the place, the error, how many instructions there were); None, None where there are fewer. An
    interrupt of the interpreter's own comes at some of them only: this is more than can happen.
    """
    left, where, caught = at, None, None

    def trace(frame, event, _):
        nonlocal left, where
        frame.f_trace_opcodes = True
        if event in ("opcode", "return"):
            left -= 1
            if left == 0:
                where = f"{frame.f_code.co_qualname}, line {frame.f_lineno}"
                raise KeyboardInterrupt
        return trace

    before, report = sys.gettrace(), sys.unraisablehook
    sys.unraisablehook = lambda it: None  # where an object dies
    sys.settrace(trace)
    try:
        run()
    except KeyboardInterrupt as error:
        caught = error  # and with it the frames that it came through, as a notebook does
    finally:
        sys.settrace(before)
        sys.unraisablehook = report
    return where, caught, at - left


def modes_now():
    modes.state.set({})
    return {
        **modes.state.all(),
        "listeners": events.listeners,
        "draws": random._here.draws,
        "deterministic": deterministic.required,
        "row": randomness._here.numbers is randomness._process,
        "np.random": str(np.random.get_state()),
    }


class Squared(mg.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * ctx.saved_tensors[0] * g


MORE_BLOCKS = {
    **{name: make for name, make in BLOCKS.items() if name != "event_log"},
    "deterministic": lambda path: mg.deterministic(),
    "set_checkpoint_early_stop": lambda path: mg.set_checkpoint_early_stop(False),
    "disable_saved_tensors_hooks": lambda path: mg.disable_saved_tensors_hooks("none here"),
    "noted": lambda path: random.noted(),
    "repeated": lambda path: random.repeated([]),
    "numbers_of": lambda path: randomness.numbers_of(1, 2, 3),
}


def entered_twice(make):
    block = make(None)

    def run():
        with block:
            with block:
                pass

    return run


def entered(make):
    def run():
        with make(None):
            pass

    return run


LONG = ("profile", "record_backward", "numbers_of")
AT_EVERY_INSTRUCTION = {
    **{name: (entered(make), 5 if name in LONG else 1) for name, make in MORE_BLOCKS.items()},
    **{
        f"{name}, one object twice": (entered_twice(BLOCKS[name]), 1)
        for name in ("no_grad", "inference_mode", "autocast", "scope", "saved_tensors_hooks")
    },
    "Function": (lambda: Squared.apply(mg.ones(3, requires_grad=True)).sum().backward(), 53),
    "checkpoint": (recomputed, 173),
    "loader": (lambda: list(mg.data.DataLoader([1, 2, 3], 2)), 61),
}


def left_on(run, step):
    """{"left on": place -> what is not as it was, "interrupts": how many there were}."""
    for _ in range(3):
        run()  # what is made once is there
    before, after, interrupts = modes_now(), {}, 0
    _, _, count = at_instruction(-1, run)
    for at in range(1, count + 1, step):
        where, error, _ = at_instruction(at, run)
        interrupts += error is not None
        now = modes_now()
        if now != before:
            after[where] = {key: str(value) for key, value in now.items() if value != before[key]}
            modes.state.__dict__.clear()
            stop_listening()
    return {"left on": after, "interrupts": interrupts}


if __name__ == "__main__":
    json.dump({name: left_on(*how) for name, how in AT_EVERY_INSTRUCTION.items()}, sys.stdout)
