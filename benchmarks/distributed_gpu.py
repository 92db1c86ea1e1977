"""Data-parallel training over NCCL: one process a GPU, beside PyTorch's DistributedDataParallel.

    python benchmarks/distributed_gpu.py [--gpus 2] [--without-torch]

A model whose gradients weigh 400 MB is trained on 1 GPU and on all; each rank has equally many
rows, so perfect scaling doubles the rows a second. Prints rows a second, the share of the
communication hidden behind the backward, the overlapped and the plain form side by side (with
whether their gradients have the same bits), and the time of the transfer alone with its bandwidth.
"""

import argparse
import faulthandler
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WIDTH, LAYERS = 4096, 6  # 6 matrices of 64 MB: 403 MB with the biases
REPEATS, WARM = 20, 5
SIZES = (1024, 4096)  # rows a rank: little and much arithmetic for the same gradients


def measure_minigrad() -> None:
    """What each rank runs; rank 0 prints one line of JSON."""
    import cupy

    import minigrad as mg
    from minigrad import distributed

    sys.path.append(str(ROOT / "profiler"))
    from minigrad_profiler.compare_overlap import compare_overlap

    distributed.init(timeout=60)
    mg.manual_seed(0)
    layers = [layer for _ in range(LAYERS) for layer in (mg.nn.Linear(WIDTH, WIDTH), mg.nn.ReLU())]
    model = distributed.DataParallel(mg.nn.Sequential(*layers).to("cuda"))
    optimizer = mg.optim.SGD(model.parameters(), lr=1e-6)
    found: dict[str, Any] = {"gradients": sum(p.data.nbytes for p in model.parameters())}
    for rows in SIZES:
        draw = cupy.random.default_rng(distributed.rank())
        x = mg.Tensor(draw.standard_normal((rows, WIDTH), dtype="float32"))

        def backward(x: Any = x) -> None:
            (model(x) ** 2).mean().backward()

        def step(backward: Any = backward) -> None:
            optimizer.zero_grad()
            backward()
            optimizer.step()

        found[str(rows)] = {"step": _timed(step, mg.cuda.synchronize)}
        with model.no_sync():
            found[str(rows)]["without"] = _timed(step, mg.cuda.synchronize)
        if distributed.size() > 1:
            overlap = compare_overlap(model, backward)
            found[str(rows)] |= {"text": str(overlap), "hidden": overlap.hidden}
    if distributed.size() > 1:
        buffer = cupy.zeros(found["gradients"] // 4, "float32")
        found["transfer"] = _timed(lambda: distributed.all_reduce(buffer), mg.cuda.synchronize)
    if distributed.rank() == 0:
        print(json.dumps(found), flush=True)
    distributed.barrier()


def measure_torch() -> None:
    """The same in PyTorch."""
    import torch
    import torch.distributed as dist

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    torch.manual_seed(0)
    layers = [f for _ in range(LAYERS) for f in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
    model: Any = torch.nn.Sequential(*layers).cuda()
    if size > 1:
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    found: dict[str, Any] = {}
    for rows in SIZES:
        x = torch.randn(rows, WIDTH, device="cuda")

        def step(x: Any = x) -> None:
            optimizer.zero_grad()
            (model(x) ** 2).mean().backward()
            optimizer.step()

        found[str(rows)] = {"step": _timed(step, torch.cuda.synchronize)}
    if rank == 0:
        print(json.dumps(found), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def _timed(step: Any, synchronize: Any) -> float:
    """Median seconds of one call."""
    seen = []
    for _ in range(WARM + REPEATS):
        synchronize()
        t0 = perf_counter()
        step()
        synchronize()
        seen.append(perf_counter() - t0)
    return median(seen[WARM:])


def run(engine: str, gpus: int, port: int) -> dict:
    """The measurement on so many GPUs, in processes of their own."""
    ranks = []
    for rank in range(gpus):
        environment = {
            **os.environ, "RANK": str(rank), "WORLD_SIZE": str(gpus), "LOCAL_RANK": str(rank),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "PYTHONPATH": str(ROOT),
            "NCCL_NVLS_ENABLE": "0",
        }  # fmt: skip
        command = [sys.executable, __file__, "--measure", engine]
        ranks.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    try:
        lines = [rank.communicate(timeout=80)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    if any(rank.returncode for rank in ranks):
        sys.exit(f"{engine} on {gpus} GPUs failed: {[rank.returncode for rank in ranks]}")
    return json.loads(lines[0].strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpus", type=int, default=2, help="how many to train on")
    parser.add_argument("--without-torch", action="store_true", help="minigrad alone")
    parser.add_argument("--measure", choices=["minigrad", "torch"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        faulthandler.dump_traceback_later(70, exit=True)  # says where a rank hangs
        return measure_torch() if options.measure == "torch" else measure_minigrad()
    one, all_ = run("minigrad", 1, 13411), run("minigrad", options.gpus, 13412)
    print(f"gradients {one['gradients'] / 1e6:.0f} MB, float32, {LAYERS} × {WIDTH}², SGD")
    seconds = all_["transfer"]
    moved = 2 * (options.gpus - 1) / options.gpus * one["gradients"]
    print(
        f"all_reduce of them alone: {seconds * 1e3:.2f} ms, {moved / seconds / 1e9:.0f} GB/s a GPU"
    )
    torch_one = torch_all = None
    if not options.without_torch:
        torch_one, torch_all = run("torch", 1, 13413), run("torch", options.gpus, 13414)
    for rows in map(str, SIZES):
        print(f"\n{rows} rows a rank")
        for name, alone, many in (
            ("minigrad", one, all_),
            ("PyTorch", torch_one, torch_all),
        ):
            if alone is None or many is None:
                continue
            a, b = alone[rows]["step"], many[rows]["step"]
            print(
                f"  {name:<9} 1 GPU {a * 1e3:7.2f} ms {int(rows) / a:9.0f} rows/s   "
                f"{options.gpus} GPUs {b * 1e3:7.2f} ms {options.gpus * int(rows) / b:9.0f} rows/s"
                f"   scaling {options.gpus * a / b:.2f}"
            )
        print(f"  without communication on {options.gpus}: {all_[rows]['without'] * 1e3:.2f} ms")
        print("  " + all_[rows]["text"].replace("\n", "\n  "))


if __name__ == "__main__":
    main()
