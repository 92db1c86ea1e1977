"""Checkpoints of a job: one folder a checkpoint, which counts only when it is complete.

    runs/step-00000300/state.safetensors      what all ranks share, written by rank 0
    runs/step-00000300/rank-1-of-4.npz        what one rank alone holds
    runs/step-00000300/complete.json          written last, by rank 0: the parts and their sizes

Each file appears whole or not at all (minigrad.io), and a folder without complete.json is no
checkpoint. If a job dies while it saves, the checkpoint before stays valid.
"""

import json
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FormatError
from ..io import load, save
from ..io.atomic import replaced_whole
from .ranks import world

_COMPLETE = "complete.json"
_VERSION = [1, 0]
_LONGEST = 100 << 20  # bytes of complete.json: the names of a million shards


def save_checkpoint(
    folder: str | os.PathLike,
    step: int,
    state: Mapping[str, Any],
    shard: Mapping[str, Any] | None = None,
    keep: int = 2,
) -> Path:
    """Save what all ranks share and what each alone holds; every rank calls it with the same step.

    state   the same on every rank (a model's state_dict, the epoch): rank 0 writes it
    shard   this rank's own (an optimizer's part, a generator's state), or None on every rank
    keep    how many complete checkpoints stay, this one and those of the highest other steps; the
            others are removed when this one is complete

    Returns the checkpoint's folder. OSError where a file cannot be written; nothing that was
    complete before is touched then.
    """
    if not isinstance(step, int | np.integer) or step < 0 or keep < 1:
        raise ValueError(
            "save_checkpoint: step must be an integer, 0 or more, and keep 1 or more; got "
            f"step={step!r}, keep={keep}"
        )
    here = world()
    here.agree(f"save_checkpoint(step={step}, shard={'yes' if shard is not None else 'no'})")
    here.watchdog.phase(f"save_checkpoint(step={step})")
    target = Path(folder) / f"step-{step:08d}"
    if here.rank == 0:
        target.mkdir(parents=True, exist_ok=True)
        (target / _COMPLETE).unlink(missing_ok=True)
        save(state, target / "state.npz")
    here.agree("save_checkpoint: the folder is there")
    if shard is not None:
        target.mkdir(parents=True, exist_ok=True)  # on a machine with a separate folder
        save(shard, target / _shard_name(here.rank, here.size))
    here.agree("save_checkpoint: all parts are written")
    if here.rank == 0:
        _complete(target, step, here.size if shard is not None else 0)
        _remove_others(Path(folder), step, keep - 1)
    here.agree("save_checkpoint: complete")
    here.watchdog.phase("what follows a checkpoint")
    return target


def load_checkpoint(
    folder: str | os.PathLike, step: int | None = None
) -> tuple[int, dict[str, Any], list[dict[str, Any]]] | None:
    """(step, shared state, shards of all ranks) of the newest complete checkpoint, or of `step`.

    None where there is none: start from the beginning. Every rank reads; with as many ranks as the
    checkpoint was written by, a rank's own shard is shards[mg.distributed.rank()].
    """
    steps = complete_steps(folder)
    if step is None:
        if not steps:
            return None
        step = steps[-1]
    elif step not in steps:
        raise FileNotFoundError(
            f"{folder} has no complete checkpoint of step {step}; it has {steps}"
        )
    target = Path(folder) / f"step-{step:08d}"
    count = _read_complete(target)["shards"]
    shards = [load(target / _shard_name(rank, count)) for rank in range(count)]
    return step, load(target / "state.npz"), shards


def complete_steps(folder: str | os.PathLike) -> list[int]:
    """The steps of the complete checkpoints, oldest first."""
    names = [path.parent.name for path in Path(folder).glob(f"step-*/{_COMPLETE}")]
    return sorted(int(name.removeprefix("step-")) for name in names if name[5:].isdigit())


def _shard_name(rank: int, size: int) -> str:
    return f"rank-{rank}-of-{size}.npz"


def _complete(target: Path, step: int, shards: int) -> None:
    names = ["state.npz", *(_shard_name(rank, shards) for rank in range(shards))]
    sizes = {name: (target / name).stat().st_size for name in names if (target / name).exists()}
    document = {"format": "minigrad.checkpoint", "version": _VERSION, "step": step}
    document |= {"shards": shards, "bytes": sizes}
    with replaced_whole(target / _COMPLETE) as partial:
        Path(partial).write_text(json.dumps(document, indent=1), encoding="utf-8")


def _read_complete(target: Path) -> dict[str, Any]:
    path = target / _COMPLETE
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LONGEST:
            raise ValueError("no text of some lines")
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != "minigrad.checkpoint" or document["version"][0] != _VERSION[0]:
            raise ValueError("another format or version")
        shards = document["shards"]
        if type(shards) is not int or not 0 <= shards < 1 << 20:
            raise ValueError(f"shards is {shards!r}"[:80])
        for name in ("state.npz", *(_shard_name(rank, shards) for rank in range(shards))):
            if not (target / name).is_file():
                raise ValueError(f"{name} is missing")
        for name, size in document["bytes"].items():
            found = (target / os.path.basename(name)).stat().st_size
            if found != size:
                raise ValueError(f"{name} has {found:,} bytes, not {size:,}")
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OSError) as error:
        raise FormatError(f"{path}: this checkpoint is damaged ({error})") from None
    except RecursionError:
        raise FormatError(f"{path}: this checkpoint is damaged (nested too deeply)") from None
    return document


def _remove_others(folder: Path, new: int, keep: int) -> None:
    others = [step for step in complete_steps(folder) if step != new]
    for step in others[: len(others) - keep] if len(others) > keep else []:
        old = folder / f"step-{step:08d}"
        (old / _COMPLETE).unlink(missing_ok=True)  # from here on it is not a checkpoint
        shutil.rmtree(old, ignore_errors=True)
