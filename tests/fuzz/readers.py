"""Every reader of files: what it is given, how it is called, and what must hold afterwards.

A reader gives a result, or one clear error of the class that it declares; a command says it in one
line with exit code 2. Whatever else comes out of a call is a fault.
"""

import contextlib
import copy
import io
import json
import random
import struct
import xml.etree.ElementTree
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import documents
import numpy as np
from minigrad_profiler.cli import main as profile
from minigrad_viz.cli import main as viz
from mutate import damaged, mutated, text_of, written

import minigrad as mg
from minigrad.instrument.formats import EventReader, read_graph

REFUSED = mg.errors.FormatError


class Fault(Exception):
    """A promise that was not kept."""


def refused_or_done(call: Callable[[], Any], declared: Any = REFUSED) -> Any:
    """What the call gives, or None where it refuses in one line with a declared error."""
    try:
        return call()
    except declared as error:
        check_line(str(error))
        return None


def check_line(message: str) -> None:
    if not message.strip() or "\n" in message.strip() or len(message) > 3000:
        raise Fault(f"not one clear line: {message[:300]!r}… of {len(message):,} characters")
    if not all(letter.isprintable() or letter == "\t" for letter in message.strip()):
        raise Fault(f"what moves a cursor is printed: {message[:300]!r}")


# -- commands --------------------------------------------------------------------------------------


def command(main: Callable, *arguments: Any, out: Path | None = None) -> None:
    """Runs a command here, and holds it to its exit code, its words and its file."""
    if out is not None:
        out.unlink(missing_ok=True)
    stdout = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    stderr = io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        code = main([str(a) for a in arguments] + ([str(out)] if out else []))
    said = stderr.getvalue()
    if code not in (0, 1, 2):
        raise Fault(f"exit code {code}: {said[:300]!r}")
    if code == 2:
        check_line(said)
        if "not enough memory" in said:
            raise Fault(f"out of memory: {said!r}")
        if out is not None and out.exists():
            raise Fault(f"exit code 2, and {out.name} is there")
    for line in said.splitlines():
        check_line(line)
    if out is not None and out.exists():
        _check_written(out)
    if "--json" in arguments and code != 2:
        json.loads(stdout.buffer.getvalue(), parse_constant=_no_json)


def _no_json(name: str) -> None:
    raise Fault(f"{name} was written into JSON")


def _check_written(out: Path) -> None:
    text = out.read_bytes().decode()
    if out.suffix == ".svg":
        xml.etree.ElementTree.fromstring(text)
    elif out.suffix == ".json":
        json.loads(text, parse_constant=_no_json)
    elif out.suffix == ".html" and not text.rstrip().endswith("</html>"):
        raise Fault(f"{out.name} is written half")
    elif out.suffix in (".dot", ".mmd") and not text.endswith("\n"):
        raise Fault(f"{out.name} is written half")


# -- saved arrays ----------------------------------------------------------------------------------


def _npy(rng: random.Random) -> bytes:
    """One array in NumPy's format, whose header is now and then another one."""
    file = io.BytesIO()
    dtype = rng.choice(["<f8", ">f4", "<i8", "|b1", "<c16", "<f2", "|u1"])
    array = np.zeros(rng.choice([(2, 3), (6,), (), (0, 5), (1,) * 32]), dtype)
    np.lib.format.write_array(file, array)
    content = file.getvalue()
    if rng.random() < 0.3:
        headers = [
            f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}}}"
            for dtype, shape in [
                ("<f8", "(2," * 40),
                ("|O", "(1,)"),
                ("<f8", f"({2**62},)"),
                ("<f8", "(-1,)"),
                ("<f8", f"(0, {2**66})"),
                ("<f8", "(True, 6)"),
                ([("a", "<f8")], "(2,)"),
                ("<f8", "(1e400,)"),
                ("<M8[s]", "(6,)"),
                ("<U9", "(6,)"),
                ("<V8", "(6,)"),
                ("<f8", "(" + "1," * 100 + ")"),
                ("<f8", "((((6,))))"),
                ("<f8" * 90, "(6,)"),
                ("<f8", "-" * 3000 + "1"),
                ("<f8", "__import__('os').abort()"),
            ]
        ]
        text = rng.choice(headers).encode() + b" " * rng.choice([0, 20, 60_000, 3_000_000]) + b"\n"
        version, form = (
            (b"\x01\x00", "<H")
            if len(text) < 65536 and rng.random() < 0.7
            else (rng.choice([b"\x02\x00", b"\x03\x00", b"\x09\x00"]), "<I")
        )
        content = b"\x93NUMPY" + version + struct.pack(form, len(text)) + text + b"\0" * 48
    return damaged(rng, content) if rng.random() < 0.2 else content


def npz(rng: random.Random, folder: Path) -> None:
    path = folder / "x.npz"
    names = [
        rng.choice(["w", "a.b", "é", "../w", "/etc/w", "w" * 3000, "\ud7ff"]) + str(i)
        for i in range(documents.size(rng, 3))
    ]
    method = rng.choice(
        [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
    )
    with zipfile.ZipFile(path, "w", method) as archive:
        for name in names:
            archive.writestr(f"{name}.npy", _npy(rng))
        if rng.random() < 0.7:
            texts: Any = {
                "note": "x",
                "minigrad.state": text_of(mutated(rng, documents.description(rng, names))),
            }
            if rng.random() < 0.3:
                texts["minigrad.bfloat16"] = text_of(mutated(rng, names[:1]))
            text = text_of(texts if rng.random() < 0.5 else mutated(rng, texts)).encode()
            text += rng.choice([b""] * 30 + [b" " * 20_000_000])
            file = io.BytesIO()
            np.lib.format.write_array(file, np.frombuffer(text, rng.choice(["u1"] * 9 + ["i1"])))
            archive.writestr("__metadata__.npy", file.getvalue())
        if method == zipfile.ZIP_DEFLATED and rng.random() < 0.05:
            with archive.open("bomb.npy", "w", force_zip64=True) as member:
                count = rng.choice([1 << 20, 300 << 20])
                member.write(
                    b"\x93NUMPY\x01\x00\x46\x00"
                    + (b"{'descr': '|u1', 'fortran_order': False, 'shape': (%d,)}" % count).ljust(
                        69
                    )
                    + b"\n"
                )
                for _ in range(count >> 20):
                    member.write(bytes(1 << 20))
    if rng.random() < 0.5:
        path.write_bytes(damaged(rng, path.read_bytes()))
    refused_or_done(lambda: mg.load(path))
    refused_or_done(lambda: mg.io.metadata(path))


def safetensors(rng: random.Random, folder: Path) -> None:
    path = folder / "x.safetensors"
    document, length = documents.header(rng)
    if rng.random() < 0.6:
        description = text_of(mutated(rng, documents.description(rng, list(document))))
        document["__metadata__"] = {"note": "x", "minigrad.state": description}
    text = written(rng, document)
    text += b" " * rng.choice([0, 0, -len(text) % 8, 100_000])
    declared = rng.choice([len(text)] * 9 + [0, len(text) + 1, 2**63])
    content = struct.pack("<Q", declared) + text + bytes(length)
    path.write_bytes(damaged(rng, content) if rng.random() < 0.2 else content)
    refused_or_done(lambda: mg.load(path))
    refused_or_done(lambda: mg.io.metadata(path))


def checkpoint(rng: random.Random, folder: Path) -> None:
    target = folder / "step-00000003"
    target.mkdir(exist_ok=True)
    count = rng.choice([0, 1, 2])
    parts = {"state.npz": {"w": np.ones(3)}}
    parts |= {f"rank-{i}-of-{count}.npz": {"m": np.ones(i)} for i in range(count)}
    sizes = {}
    for name, state in parts.items():
        mg.save(state, target / name)
        sizes[name] = (target / name).stat().st_size
    document = {
        "format": "minigrad.checkpoint",
        "version": [1, 0],
        "step": 3,
        "shards": count,
        "bytes": sizes,
    }
    (target / "complete.json").write_bytes(written(rng, document))
    if rng.random() < 0.3:
        part = target / rng.choice(list(parts))
        part.write_bytes(damaged(rng, part.read_bytes()))
    if rng.random() < 0.1:
        (target / rng.choice(list(parts))).unlink()
    refused_or_done(lambda: mg.distributed.load_checkpoint(folder))


# -- what is loaded into modules, optimizers and schedules -----------------------------------------


def _model() -> Any:
    return mg.nn.Sequential(mg.nn.Linear(2, 3), mg.nn.BatchNorm1d(3), mg.nn.Linear(3, 1))


def _owners(rng: random.Random) -> list[Any]:
    optim = mg.optim
    make = rng.choice(
        [optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.Adagrad, optim.LBFGS]
    )
    model = _model()
    optimizer = make(model.parameters(), lr=0.1)

    def loss() -> Any:
        optimizer.zero_grad()
        found = model(mg.ones(4, 2)).sum()
        found.backward()
        return found

    optimizer.step(loss)
    lr = optim.lr_scheduler
    schedule = rng.choice(
        [
            lambda: lr.StepLR(optimizer, 3),
            lambda: lr.CosineAnnealingLR(optimizer, 9),
            lambda: lr.ReduceLROnPlateau(optimizer),
            lambda: lr.MultiStepLR(optimizer, [2, 5]),
            lambda: lr.OneCycleLR(optimizer, 1.0, 20, cycle_momentum=False),
            lambda: lr.SequentialLR(
                optimizer, [lr.ConstantLR(optimizer), lr.StepLR(optimizer, 3)], [4]
            ),
        ]
    )()
    return [model, optimizer, schedule, optim.EMA(model.parameters())]


def _frozen(value: Any) -> Any:
    """A state as something that compares, to the bit."""
    if isinstance(value, dict):
        return {key: _frozen(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_frozen(v) for v in value]
    if isinstance(value, mg.Tensor | np.ndarray):
        array = value.numpy() if isinstance(value, mg.Tensor) else value
        return (str(array.dtype), array.shape, array.tobytes())
    return repr(value)


def states(rng: random.Random, folder: Path) -> None:
    owner = rng.choice(_owners(rng))
    before = _frozen(owner.state_dict())
    state = copy.deepcopy(dict(owner.state_dict()))
    if rng.random() < 0.1:
        state = {"format": "x"} if rng.random() < 0.5 else {}
    state = mutated(rng, state)
    if rng.random() < 0.2:
        names = [key for key in state if key]
        state[rng.choice(names or ["w"])] = rng.choice(
            [
                np.zeros((0,)),
                np.array(["x"]),
                np.zeros((2, 3), complex),
                np.float64(3),
                np.array(object()),
            ]
        )
    loaded = False
    with contextlib.suppress(ValueError, TypeError, KeyError):
        owner.load_state_dict(state)
        loaded = True
    if not loaded and _frozen(owner.state_dict()) != before:
        raise Fault(f"{type(owner).__name__}: a state was refused, and half of it was taken")


# -- graphs, logs, comparisons ---------------------------------------------------------------------


def graphs(rng: random.Random, folder: Path) -> None:
    path = folder / "graph.json"
    path.write_bytes(written(rng, documents.graph(rng)))
    refused_or_done(lambda: read_graph(str(path)))
    form = rng.choice(["svg", "html", "json", "dot", "mmd"])
    options = rng.choice(
        [
            [],
            ["--depth", "1"],
            ["--heat", "time", "--critical"],
            ["--focus", "w"],
            ["--fold-repeats"],
            ["--max-nodes", "5"],
            ["--collapse", "net"],
            ["--heat", "bytes"],
            ["--heat", "slack"],
            ["--layout-limit", "3"],
        ]
    )
    command(viz, path, *options, "-o", out=folder / f"graph.{form}")
    command(viz, *rng.choice([["check", path], ["info", path], ["info", path, "--json"]]))


def backwards(rng: random.Random, folder: Path) -> None:
    path, other = folder / "graph.json", folder / "other.json"
    path.write_bytes(written(rng, documents.graph(rng, backward=True)))
    command(viz, "step", path, "-o", out=folder / "step.html")
    if rng.random() < 0.3:
        other.write_bytes(written(rng, documents.graph(rng, backward=True)))
        command(
            viz, "diff", path, other, "--json", "-o", out=folder / rng.choice(["d.svg", "d.html"])
        )


EXPORTS = {"--chrome": "t.json", "--speedscope": "s.json", "--folded": "f.txt", "--bytes": "b.json"}


def logs(rng: random.Random, folder: Path) -> None:
    path, other = folder / "log.jsonl", folder / "other.jsonl"
    path.write_bytes(written(rng, documents.log(rng), lines=True))

    def read(salvage: bool) -> None:
        with EventReader(str(path), salvage) as reader:
            for _ in reader.records():
                pass

    refused_or_done(lambda: read(rng.random() < 0.5))
    asked = ["op", "shape", "line", "scope", "thread"]
    command(
        profile, "view", path, "--by", rng.choice(asked), *rng.choice([["--json"], ["--marks"], []])
    )
    command(
        profile,
        *rng.choice(
            [
                ["memory", path],
                ["memory", path, "--json"],
                ["advice", path],
                ["advice", path, "--json"],
            ]
        ),
    )
    kind = rng.choice(list(EXPORTS))
    command(profile, "export", path, kind, out=folder / EXPORTS[kind])
    if rng.random() < 0.3:
        other.write_bytes(written(rng, documents.log(rng), lines=True))
        command(profile, "diff", path, other, *rng.choice([["--json"], []]))
        command(profile, "merge", path, other, "--json", "--chrome", out=folder / "merged.json")


def reports(rng: random.Random, folder: Path) -> None:
    path, other = folder / "log.jsonl", folder / "other.jsonl"
    path.write_bytes(written(rng, documents.log(rng), lines=True))
    options: list[Any] = []
    if rng.random() < 0.3:
        other.write_bytes(written(rng, documents.log(rng), lines=True))
        options += ["--also", other]
    command(profile, "report", path, *options, "-o", out=folder / "report.html")


def comparisons(rng: random.Random, folder: Path) -> None:
    path, document = folder / "log.jsonl", folder / "compare.json"
    path.write_bytes(
        b"".join(text_of(line).encode() + b"\n" for line in documents.log(random.Random(0)))
    )
    document.write_bytes(written(rng, documents.comparison(rng)))
    command(profile, "report", path, "--compare", document, "-o", out=folder / "report.html")


READERS = {
    read.__name__: read
    for read in (
        npz,
        safetensors,
        checkpoint,
        states,
        graphs,
        backwards,
        logs,
        reports,
        comparisons,
    )
}
