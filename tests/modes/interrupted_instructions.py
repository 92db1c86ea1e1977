"""A program: interrupts blocks before each of their instructions, and prints what was left on."""

import contextlib
import dis
import functools
import gc
import itertools
import json
import os
import random as pythons
import signal
import sys
import tempfile

import numpy as np

import minigrad as mg
from minigrad import func, nn
from minigrad.backends import blas, cuts, random
from minigrad.backends.locks import Lock
from minigrad.data import randomness, workers
from minigrad.engine import events, modes
from minigrad.instrument import sampler
from minigrad.modes import deterministic
from minigrad.modes.checkpoint import _early_stop
from minigrad.nn import derived
from minigrad.optim import average
from minigrad.parallel import report
from tests.modes.test_interrupts import BLOCKS, WAIT, recomputed, stop_listening

OURS = (os.path.dirname(mg.__file__), __file__, contextlib.__file__)


def traced(run, tell):
    """Runs; tell(frame) before each instruction of Python code of ours. The error, if any.

    An interrupt of the interpreter's own comes before some of them only: this is more than can
    happen.
    """

    def trace(frame, event, _):
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        frame.f_trace_opcodes = True
        if event in ("opcode", "return"):
            tell(frame)
        return trace

    before, hook = sys.gettrace(), sys.unraisablehook
    sys.unraisablehook = lambda it: None  # what is raised where an object dies
    sys.settrace(trace)
    try:
        run()
    except KeyboardInterrupt as error:
        return error  # and with it the frames that it came through, as a notebook keeps them
    finally:
        sys.settrace(before)
        sys.unraisablehook = hook


def instructions_of(run):
    """(code, offset) of each instruction that is run, in this order.

    Of a long run those alone at which an interrupt may come.
    """
    places = {}
    traced(run, lambda frame: places.setdefault((frame.f_code, frame.f_lasti), None))
    return [place for place in places if len(places) <= 600 or may_come(*place)]


def interrupted(code, at, run):
    """Runs with KeyboardInterrupt where this instruction is run first: its line, and the error.

    Not at the n-th instruction of all: where threads wait for each other another run has more of
    them, and the n-th may lie between those of `with lock:`, which would stay locked for ever.
    """
    line = None

    def tell(frame):
        nonlocal line
        if line is None and frame.f_lasti == at and frame.f_code is code:
            line = frame.f_lineno
            raise KeyboardInterrupt

    error = traced(run, tell)
    return line, error


@functools.cache
def instructions(code):
    """The instructions of a code object, and the entries of its table of exceptions."""
    found = dis.Bytecode(code)
    return list(found), found.exception_entries


@functools.cache
def may_come(code, at):
    """Whether the interpreter looks for an interrupt there: where a function begins, where a loop
    goes back, and behind a call, where it is raised as if by the call.
    """
    listed, entries = instructions(code)

    def handler(offset):
        return next((it.target for it in entries if it.start <= offset < it.end), 0)

    i = next((i for i, instruction in enumerate(listed) if instruction.offset == at), 0)
    last = listed[i - 1]
    behind = last.opname.startswith("CALL") and handler(last.offset) == handler(at)
    return behind or listed[i].opname in ("RESUME", "JUMP_BACKWARD")


LOCKS = {
    f"{name}.{key}": (module, key)
    for name, module in list(sys.modules.items())
    if name.startswith("minigrad") and module is not None
    for key, value in list(vars(module).items())
    if isinstance(value, type(Lock()))
}


def given_back():
    """The locks that are held, and lets go of them."""
    held = []
    for name, (module, key) in LOCKS.items():
        while getattr(module, key)._is_owned():
            getattr(module, key).release()
            held.append(name)
    return held


def now():
    modes.state.set({})
    return {
        **modes.state.all(),
        "listeners": events.listeners,
        "draws": random._here.draws,
        "deterministic": deterministic.required,
        "row": randomness._here.numbers is randomness._process,
        "rows made": len(randomness._makers),
        "np.random": hash(np.random.get_state()[1].tobytes()),
        "random": pythons.getstate(),
        "mg": str(random.get_state()["host"]),
        "early stop": _early_stop.get(),
        "blas": (blas.threads(), len(blas._holders)),
        "processors": os.sched_getaffinity(0),
        "buffer": np.getbufsize(),
        "accelerated": mg.is_accelerated(),
        "Ctrl-C": signal.getsignal(signal.SIGINT),
        "switch interval": sys.getswitchinterval(),
        "collector": list(gc.callbacks),
        "derived": derived._values.blocks,
        "detail": report.detail_wanted(),
        "model": [(p.data.tolist(), type(p)) for p in MODEL.parameters()],
        "training": [module.training for module in MODEL.modules()],
        "momentum": MODEL[1].momentum,
        "module hooks": [module._hooks for module in MODEL.modules()],
    }


class Squared(mg.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * ctx.saved_tensors[0] * g


X = mg.ones(3, requires_grad=True)
ROWS = mg.ones(4, 3)
MODEL = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
OWN = np.random.default_rng(0)
FOLDER, NUMBERS = tempfile.TemporaryDirectory(), itertools.count()
AVERAGES = average.EMA(MODEL.parameters(), 0.5)


MORE_BLOCKS = {
    **BLOCKS,
    "enable_grad": lambda path: mg.enable_grad(),
    "inference_mode(False)": lambda path: mg.inference_mode(False),
    "deterministic": lambda path: mg.deterministic(),
    "save_on_cpu": lambda path: mg.save_on_cpu(),
    "save_on_disk": lambda path: mg.save_on_disk(),
    "allow_mutation_on_saved_tensors": lambda path: mg.allow_mutation_on_saved_tensors(),
    "disable_saved_tensors_hooks": lambda path: mg.disable_saved_tensors_hooks("none here"),
    "set_checkpoint_early_stop": lambda path: mg.set_checkpoint_early_stop(False),
    "recorded": lambda path: random.recorded(),
    "apart": lambda path: random.apart(),
    "replayed": lambda path: random.replayed([]),
    "numbers_of": lambda path: randomness.numbers_of(1, 2, 3),
    "shared": lambda path: randomness.shared(),
    "ctrl_c_held_back": lambda path: workers.ctrl_c_held_back(),
    "small_buffer": lambda path: cuts.small_buffer(),
    "one_thread": lambda path: blas.one_thread(),
    "detailed": lambda path: report.detailed(),
    "derived.cached": lambda path: derived.cached(),
    "EMA.applied": lambda path: AVERAGES.applied(),
}


def entered(make):
    def run():
        block = make(os.path.join(FOLDER.name, f"{next(NUMBERS)}.jsonl"))
        with block:
            pass

    return run


def entered_twice(make):
    block = make(None)

    def run():
        with block:
            with block:
                pass

    return run


@mg.no_grad()
def steps():
    yield X * 2
    yield X * 3


def in_parallel():
    y = (mg.exp(X) * X).sum()
    mg.grad(y, X, engine="parallel", workers=2, min_work=0)


def replaced():
    given = {name: mg.ones(*p.shape) for name, p in MODEL.named_parameters()}
    func.functional_call(MODEL, given, (ROWS,))


CALLS = {
    "Function": lambda: Squared.apply(X).sum().backward(),
    "checkpoint": recomputed,
    "loader": lambda: list(mg.data.DataLoader([1, 2, 3], 2, generator=OWN)),
    "grad": lambda: func.grad(lambda x: (x * x).sum())(mg.ones(3)),
    "vmap": lambda: func.vmap(lambda x: x * x)(mg.ones(3)),
    "decorated by no_grad": lambda: mg.no_grad()(np.exp)(X),
    "decorated by autocast": lambda: mg.autocast(mg.float16)(np.matmul)(ROWS, X),
    "decorated by set_grad_enabled": mg.set_grad_enabled(False)(lambda: X * 2),
    "a generator decorated": lambda: list(steps()),
    "parallel": in_parallel,
    "functional_call": replaced,
    "update_bn": lambda: mg.optim.swa_utils.update_bn([ROWS], MODEL),
    "summary": lambda: MODEL.summary(ROWS),
}
AT_EVERY_INSTRUCTION = {
    **{name: entered(make) for name, make in MORE_BLOCKS.items()},
    **{
        f"{name}, one object twice": entered_twice(BLOCKS[name])
        for name in ("no_grad", "inference_mode", "autocast", "scope", "saved_tensors_hooks")
    },
    **CALLS,
}


def left_on(run):
    """{"left on": place -> what is not as it was, "interrupts": how many there were}."""
    for _ in range(3):
        run()  # what is made once is there
    after, interrupts, before = {}, 0, now()
    for code, at in instructions_of(run):
        line, error = interrupted(code, at, run)
        if line is None:
            continue
        interrupts += 1
        held, found = given_back(), now()
        wrong = {key: str(x)[:200] for key, x in found.items() if x != before[key]}
        if held and may_come(code, at):  # between the instructions of `with lock:` none comes
            wrong["locks"] = held
        if wrong:
            after[f"{code.co_qualname}, line {line}"] = wrong
            put_back(before)
            before = now()
    return {"left on": after, "interrupts": interrupts}


def put_back(before):
    """So that one leak is not found again at each instruction that follows."""
    modes.state.set({name: before[name] for name in modes.state.all()})
    stop_listening()


if __name__ == "__main__":
    sampler._ENDS = WAIT
    chosen = sys.argv[1:] or AT_EVERY_INSTRUCTION
    # Python 3.12.1 traces instructions from the second time on
    traced(AT_EVERY_INSTRUCTION["no_grad"], lambda frame: None)
    json.dump({name: left_on(AT_EVERY_INSTRUCTION[name]) for name in chosen}, sys.stdout)
