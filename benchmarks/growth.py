"""Whether anything costs more each, the more there are of it: nodes, edges, leaves, hooks, modules.

    python benchmarks/growth.py [--only TEXT] [--sizes 1000 4000 16000]

Processor time in microseconds for each of n, the smallest of three runs, with Python's cyclic
collector off. A row whose last figure is more than 1.5 times its smallest one is marked: that is
more than linear growth, or memory that has left the cache.
"""

import argparse
import gc
from collections.abc import Callable
from time import thread_time
from typing import Any

import minigrad as mg
from minigrad import nn, optim


def leaf(*shape: int) -> mg.Tensor:
    return mg.ones(shape, requires_grad=True)


def total(ys: Any) -> mg.Tensor:
    s = mg.tensor(0.0)
    for y in ys:
        s = s + y.sum()
    return s


def chain(n: int, fn: Callable = lambda y: y * 1.0001) -> list[mg.Tensor]:
    ys = [leaf(2)]
    for _ in range(n):
        ys.append(fn(ys[-1]))
    return ys


def fan_out(n: int) -> mg.Tensor:
    x = leaf(2)
    return total(x * x for _ in range(n))


# -- what is measured: a function that prepares n things, and returns the one that is timed --------


def nodes_in_a_row(n: int, **options: Any) -> Callable:
    return lambda: chain(n)[-1].sum().backward(**options)


def edges_into_one_leaf(n: int, **options: Any) -> Callable:
    return lambda: fan_out(n).backward(**options)


def leaves(n: int, **options: Any) -> Callable:
    xs = [leaf(2) for _ in range(n)]
    return lambda: total(xs).backward(**options)


def inputs_of_one_node(n: int) -> Callable:
    xs = [leaf(2) for _ in range(n)]
    return lambda: mg.concatenate(xs).sum().backward()


def results_of_one_node(n: int) -> Callable:
    return lambda: total(mg.split(leaf(2 * n), n)).backward()


def rows_in_a_loop(n: int) -> Callable:
    return lambda: total(row for row in leaf(n, 16)).backward()


def gradients_of_inner_tensors(n: int) -> Callable:
    ys = chain(n)
    return lambda: mg.grad(ys[-1].sum(), ys, retain_graph=True)


def second_derivatives(n: int) -> Callable:
    ys = chain(n, mg.sin)
    return lambda: mg.grad(ys[-1].sum(), ys[0], create_graph=True).sum().backward()


def hooks_on_one_tensor(n: int) -> Callable:
    def run() -> None:
        x = leaf(2)
        handles = [x.register_hook(lambda g: g) for _ in range(n)]
        (x * 2).sum().backward()
        for handle in handles:
            handle.remove()

    return run


def tensors_with_a_hook(n: int) -> Callable:
    def run() -> None:
        ys = chain(n)
        for y in ys:
            y.register_hook(lambda g: g)
        ys[-1].sum().backward()

    return run


def writes_in_place(n: int) -> Callable:
    def run() -> None:
        x = leaf(2)
        y = x * 1
        for _ in range(n):
            y += x
        y.sum().backward()

    return run


def calls_on_a_tape(n: int) -> Callable:
    def run() -> None:
        with mg.Tape() as tape:
            loss = fan_out(n)
        loss.backward(engine=tape)

    return run


def calls_under_vmap(n: int) -> Callable:
    return lambda: mg.func.vmap(lambda x: chain_of(x, n))(mg.ones((3, 2)))


def chain_of(x: mg.Tensor, n: int) -> mg.Tensor:
    for _ in range(n):
        x = x * 1.0001
    return x


def leaves_of_a_tree(n: int) -> Callable:
    xs = [mg.ones(2) for _ in range(n)]
    return lambda: mg.func.grad(total)(xs)


def modules_made_and_indexed(n: int) -> Callable:
    layers = [nn.Linear(1, 1) for _ in range(n)]

    def run() -> None:
        row = nn.ModuleList(layers)
        for i in range(n):
            row[i].training = True
        row.load_state_dict(row.state_dict())

    return run


def modules_called(n: int) -> Callable:
    model = nn.Sequential(*[nn.ReLU() for _ in range(n)])
    return lambda: model(leaf(2)).sum().backward()


def parameters_of_an_optimizer(n: int) -> Callable:
    xs = [nn.Parameter(mg.ones(2)) for _ in range(n)]
    optimizer = optim.Adam(xs)

    def run() -> None:
        for x in xs:
            x.grad = mg.ones(2)
        nn.utils.clip_grad_norm_(xs, 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return run


PARALLEL = {"engine": "parallel", "workers": 2}
THINGS: dict[str, Callable[[int], Callable]] = {
    "nodes in a row": nodes_in_a_row,
    "the same, parallel engine": lambda n: nodes_in_a_row(n, **PARALLEL),
    "edges into one leaf": edges_into_one_leaf,
    "the same, parallel engine ": lambda n: edges_into_one_leaf(n, **PARALLEL),
    "leaves": leaves,
    "inputs of one node": inputs_of_one_node,
    "results of one node": results_of_one_node,
    "rows in a loop": rows_in_a_loop,
    "gradients of inner tensors": gradients_of_inner_tensors,
    "second derivatives": second_derivatives,
    "hooks on one tensor": hooks_on_one_tensor,
    "tensors with a hook": tensors_with_a_hook,
    "writes in place": writes_in_place,
    "calls on a tape": calls_on_a_tape,
    "calls under vmap": calls_under_vmap,
    "leaves of a tree": leaves_of_a_tree,
    "modules made and indexed": modules_made_and_indexed,
    "modules called": modules_called,
    "parameters of an optimizer": parameters_of_an_optimizer,
}


def each(thing: Callable[[int], Callable], n: int) -> float:
    """Microseconds for each of n."""
    times = []
    for _ in range(3):
        run = thing(n)
        start = thread_time()
        run()
        times.append(thread_time() - start)
        del run
        gc.collect()
    return min(times) / n * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="rows whose name has this text")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[1000, 4000, 16000], help="how many there are"
    )
    args = parser.parse_args()
    gc.disable()
    print(f"{'µs each':28s}" + "".join(f"{n:>10,}" for n in args.sizes))
    for name, thing in THINGS.items():
        if args.only in name:
            figures = [each(thing, n) for n in args.sizes]
            mark = "  grows" if figures[-1] > 1.5 * min(figures) else ""
            print(f"{name:28s}" + "".join(f"{x:10.2f}" for x in figures) + mark, flush=True)


if __name__ == "__main__":
    main()
