# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 16 · Reading other engines
#
# Every engine of automatic differentiation answers four questions. **What does a call leave
# behind? In which order does the backward run? What stays in memory until then? What happens at
# second order?** This notebook writes the answers of three known engines in a few lines each, and
# lays them beside minigrad's.
#
# | form | known from | a call leaves behind |
# |---|---|---|
# | 1 a closure in each value | micrograd | a function that adds to `.grad` |
# | 2 boxes and a table of pullbacks | autograd | a vertex with one function for each parent |
# | 3 linearize, then transpose | JAX | an equation of a linear program |
# | 4 nodes and rules | minigrad | a node: an op and what its rule needs |
#
# The code here is our own and shows one idea each. The real engines do more; the last section says
# where to look. You need notebooks 1 and 4.

# %%
import gc
import inspect
import itertools
import tracemalloc
import weakref
from types import SimpleNamespace

import matplotlib.pyplot as plt
import minigrad_viz
import numpy as np
from exercises import exercise
from IPython.display import display

import minigrad as mg
from minigrad.engine import graph

mg.show_versions()
rng = np.random.default_rng(0)

# %% [markdown]
# ## One expression for all
#
# $$ L = \tanh(a b) \cdot a b + e^a . $$
#
# It has a value with two users ($u = ab$), an input with two users ($a$), and a branch that is
# computed early and used last ($e^a$). All numbers are arrays and all ops elementwise, so that
# bytes can be measured. Each engine hands us its ops as `op`.


# %%
def expression(op, a, b):
    early = op.exp(a)
    u = op.mul(a, b)
    return op.add(op.mul(op.tanh(u), u), early)


def by_hand(a, b):
    """dL/da and dL/db, from a table of derivatives."""
    u = a * b
    du = np.tanh(u) + u * (1 - np.tanh(u) ** 2)
    return du * b + np.exp(a), du * a


a0, b0 = rng.uniform(-1, 1, (2, 5))
gradients, orders = {}, {}  # what the engines find, and in which order they walk

# %% [markdown]
# ## Form 1: a closure in each value
#
# A call makes a `Value` and gives it a function. The function knows the inputs, the result and the
# formula, since Python's closures keep the variables that they name. It adds to the `.grad` of the
# inputs.


# %%
class Value:
    """An array, its gradient, and the function that hands the gradient on."""

    def __init__(self, data, op="leaf", parents=()):
        self.data, self.grad = data, 0.0
        self.op, self.parents = op, parents
        self.hand_on = lambda: None


def v_add(a, b):
    y = Value(a.data + b.data, "add", (a, b))

    def hand_on():
        a.grad = a.grad + y.grad
        b.grad = b.grad + y.grad

    y.hand_on = hand_on
    return y


def v_mul(a, b):
    y = Value(a.data * b.data, "mul", (a, b))

    def hand_on():
        a.grad = a.grad + b.data * y.grad
        b.grad = b.grad + a.data * y.grad

    y.hand_on = hand_on
    return y


def v_unary(name, forward, slope):
    """An op of one argument; slope(x, y) is dy/dx."""

    def call(x):
        y = Value(forward(x.data), name, (x,))

        def hand_on():
            x.grad = x.grad + slope(x.data, y.data) * y.grad

        y.hand_on = hand_on
        return y

    return call


closures = SimpleNamespace(
    add=v_add,
    mul=v_mul,
    exp=v_unary("exp", np.exp, lambda x, y: y),
    tanh=v_unary("tanh", np.tanh, lambda x, y: 1 - y * y),
    sin=v_unary("sin", np.sin, lambda x, y: np.cos(x)),
)

# %% [markdown]
# **The order.** Values carry no number here, so the backward must sort them. A depth-first walk
# writes a value down after all its parents; read backwards, that is a valid order.


# %%
def parents_first(root):
    """The values that root depends on, each after its parents: a topological sort."""
    written, seen = [], set()

    def visit(value):
        if value not in seen:
            seen.add(value)
            for parent in value.parents:
                visit(parent)
            written.append(value)

    visit(root)
    return written


def v_backward(root):
    root.grad = np.ones_like(root.data)
    for value in reversed(parents_first(root)):
        value.hand_on()
        yield value.op  # so that we can watch


a, b = Value(a0), Value(b0)
orders["1 closures"] = list(v_backward(expression(closures, a, b)))
gradients["1 closures"] = [a.grad, b.grad]
print(*orders["1 closures"])
assert np.allclose(gradients["1 closures"], by_hand(a0, b0))

# %% [markdown]
# Two things to notice. The recursion follows the graph, so a long chain meets Python's limit:

# %%
x = Value(1.0)
for _ in range(3000):
    x = closures.add(x, Value(0.0))
try:
    list(v_backward(x))
except RecursionError as error:
    print("3,000 additions:", error)
else:
    raise AssertionError("the recursion should have met the limit")

# %% [markdown]
# And `hand_on` refers to `y`, while `y` refers to `hand_on`. A circle of references is not freed
# when its last user goes; it waits for Python's cyclic collector, with all its arrays:

# %%
gc.collect()
gc.disable()
y = closures.exp(Value(a0))
alive = weakref.ref(y)
del y
print("still in memory:", alive() is not None)
gc.collect()
print("after the cyclic collector:", alive() is not None)
gc.enable()

# %% [markdown]
# ## Form 2: boxes and a table of pullbacks
#
# The second form leaves functions of NumPy alone and wraps the **arguments**. A wrapped function
# takes the arrays out of their boxes, calls itself with them, and puts the result into a new box. A
# table says, for each argument of each op, how to make a **pullback**: the function from the
# result's cotangent to the argument's.

# %%
levels = itertools.count(1)  # a later differentiation has a higher level


class Box:
    def __init__(self, value, level, vertex):
        self.value, self.level, self.vertex = value, level, vertex


def ones_like(x):
    """The cotangent of the result itself: ones, without any box."""
    while hasattr(x, "value"):
        x = x.value
    return np.ones_like(x)


class Vertex:
    """What a call leaves behind: a name, and (parent, pullback) for each boxed argument."""

    def __init__(self, name, links=()):
        self.name, self.links = name, links


def innermost(args):
    """The highest level among the arguments; 0 if none is boxed."""
    return max((x.level for x in args if isinstance(x, Box)), default=0)


PULLBACKS = {}


def boxed(name, fn, *makers):
    """fn for boxes too. makers[i](y, *args) is the pullback for argument i."""
    PULLBACKS[name] = makers

    def call(*args):
        level = innermost(args)
        if not level:
            return fn(*args)
        of_level = [isinstance(x, Box) and x.level == level for x in args]
        inner = [x.value if mine else x for x, mine in zip(args, of_level)]
        y = call(*inner)  # which may hold boxes of lower levels
        links = [
            (x.vertex, make(y, *inner))
            for x, make, mine in zip(args, PULLBACKS[name], of_level)
            if mine
        ]
        return Box(y, level, Vertex(name, links))

    return call


add = boxed("add", np.add, lambda y, a, b: lambda g: g, lambda y, a, b: lambda g: g)
mul = boxed(
    "mul",
    np.multiply,
    lambda y, a, b: lambda g: mul(g, b),
    lambda y, a, b: lambda g: mul(g, a),
)
exp = boxed("exp", np.exp, lambda y, x: lambda g: mul(g, y))
one_minus = boxed("1−", lambda x: 1 - x, lambda y, x: lambda g: mul(g, -1.0))
tanh = boxed("tanh", np.tanh, lambda y, x: lambda g: mul(g, one_minus(mul(y, y))))
cos = boxed("cos", np.cos, lambda y, x: lambda g: mul(g, mul(sin(x), -1.0)))
sin = boxed("sin", np.sin, lambda y, x: lambda g: mul(g, cos(x)))
boxes = SimpleNamespace(add=add, mul=mul, exp=exp, tanh=tanh, sin=sin)

# %% [markdown]
# **The order.** First count how often each vertex is used. Then a vertex is ready when all its
# users are done. The sums live in a dictionary, not in the values, and each is dropped once it was
# handed on.


# %%
def pull(root, g):
    """Yields each vertex with its total cotangent, users before what they used."""
    uses, waiting = {root: 0}, [root]
    while waiting:
        for parent, _ in waiting.pop().links:
            if parent not in uses:
                waiting.append(parent)
            uses[parent] = uses.get(parent, 0) + 1
    totals, ready = {root: g}, [root]
    while ready:
        vertex = ready.pop()
        g = totals.pop(vertex)
        yield vertex, g
        for parent, pullback in vertex.links:
            part = pullback(g)
            totals[parent] = add(totals[parent], part) if parent in totals else part
            uses[parent] -= 1
            if not uses[parent]:
                ready.append(parent)


def with_boxes(f, walked=None):
    """The function that returns df/dargument for each argument of f."""

    def gradient(*args):
        level = next(levels)
        inputs = [Box(x, level, Vertex("leaf")) for x in args]
        y = f(*inputs)
        found = {}
        for vertex, g in pull(y.vertex, ones_like(y)):
            found[vertex] = g
            if walked is not None:
                walked.append(vertex.name)
        return [found[x.vertex] for x in inputs]

    return gradient


orders["2 boxes"] = []
gradients["2 boxes"] = with_boxes(lambda a, b: expression(boxes, a, b), orders["2 boxes"])(a0, b0)
print(*orders["2 boxes"])
assert np.allclose(gradients["2 boxes"], by_hand(a0, b0))

# %% [markdown]
# The pullbacks use `mul` and `add` of the table, not NumPy's. So a pullback that is given boxes
# returns boxes, and the gradient can be differentiated again. We come back to that.
#
# ## Form 3: linearize, then transpose
#
# The third form never writes a backward rule. Each op has a **forward** rule: how a small change
# $t$ of its arguments changes its result. For $y = a b$ it is $t_y = b\, t_a + a\, t_b$. That is
# linear in the $t$, whatever the op. So run the program once with numbers; the numbers give the
# coefficients, and a list of linear equations remains:


# %%
class Dual:
    """A number, and the name of its change in the linear program of a level."""

    def __init__(self, value, level, program, name):
        self.value, self.level, self.program, self.name = value, level, program, name


def linearized(name, fn, *partials):
    """fn for duals too; partials[i](y, *args) is the coefficient of argument i, computed now."""

    def call(*args):
        level = max((x.level for x in args if isinstance(x, Dual)), default=0)
        if not level:
            return fn(*args)
        of_level = [isinstance(x, Dual) and x.level == level for x in args]
        inner = [x.value if mine else x for x, mine in zip(args, of_level)]
        y = call(*inner)
        terms = [(p(y, *inner), x.name) for x, p, mine in zip(args, partials, of_level) if mine]
        program = next(x.program for x, mine in zip(args, of_level) if mine)
        program.append((f"t{len(program)}", terms, name))
        return Dual(y, level, program, program[-1][0])

    return call


l_add = linearized("add", np.add, lambda y, a, b: 1.0, lambda y, a, b: 1.0)
l_mul = linearized("mul", np.multiply, lambda y, a, b: b, lambda y, a, b: a)
l_exp = linearized("exp", np.exp, lambda y, x: y)
l_one_minus = linearized("1−", lambda x: 1 - x, lambda y, x: -1.0)
l_tanh = linearized("tanh", np.tanh, lambda y, x: l_one_minus(l_mul(y, y)))
l_cos = linearized("cos", np.cos, lambda y, x: l_mul(l_sin(x), -1.0))
l_sin = linearized("sin", np.sin, lambda y, x: l_cos(x))
duals = SimpleNamespace(add=l_add, mul=l_mul, exp=l_exp, tanh=l_tanh, sin=l_sin)


def linearize(f, *args):
    """(f's value, the linear program, the names of its inputs and of its result)."""
    program, level = [], next(levels)
    inputs = []
    for x in args:
        program.append((f"t{len(program)}", [], "leaf"))
        inputs.append(Dual(x, level, program, program[-1][0]))
    y = f(*inputs)
    return y.value, program, [x.name for x in inputs], y.name


at = (np.float64(0.5), np.float64(-1.5))
_, program, inputs, result = linearize(lambda a, b: expression(duals, a, b), *at)
print("inputs", *inputs)
for name, terms, op in program[len(inputs) :]:
    print(f"{name} = {' + '.join(f'{c:.3g} {t}' for c, t in terms):24s}  # {op}")
print("result", result)

# %% [markdown]
# No `exp`, no `tanh`: only numbers times changes, added up. This is the matrix $J$ as a program. A
# **transpose** reads it from the end: where a line says that $t_3$ takes $c\, t_1$, the transposed
# line gives $c$ times the cotangent of $t_3$ to $t_1$. One rule suffices for all ops.


# %%
def transpose(program, inputs, result, g):
    """Jᵀg of a linear program."""
    totals = {result: g}
    for name, terms, _ in reversed(program):
        if terms and name in totals:
            g = totals.pop(name)
            for c, t in terms:
                part = l_mul(c, g)
                totals[t] = l_add(totals[t], part) if t in totals else part
    return [totals[t] for t in inputs]


def by_transposition(f):
    def gradient(*args):
        y, program, inputs, result = linearize(f, *args)
        return transpose(program, inputs, result, ones_like(y))

    return gradient


_, program, inputs, result = linearize(lambda a, b: expression(duals, a, b), a0, b0)
orders["3 linearized"] = [op for _, _, op in reversed(program)]
gradients["3 linearized"] = transpose(program, inputs, result, np.ones(5))
print(*orders["3 linearized"])
assert np.allclose(gradients["3 linearized"], by_hand(a0, b0))

# %% [markdown]
# **The order** costs nothing: a list knows how it was written. And the program is data that can be
# used again: transposed with another cotangent, or read forwards, which is forward mode.
#
# ## Form 4: nodes and rules
#
# minigrad's node has an op, its parents, and the arrays that the op's rule names. The rules are a
# table like the pullbacks of form 2, but no function is made in a call: the node keeps arrays, and
# the rule meets them in the backward. What the rules name:

# %%
ours = SimpleNamespace(add=mg.add, mul=mg.mul, exp=mg.exp, tanh=mg.tanh, sin=mg.sin)
a, b = (mg.tensor(v, requires_grad=True) for v in (a0, b0))
L = expression(ours, a, b)
for node in graph.backward_order([L.node]):
    if isinstance(node, graph.Node):
        print(f"{node!r:10} saves {node.plan.names}")

# %% [markdown]
# **The order** is in the numbers. A call takes the next number, so descending numbers are valid,
# without a sort by arrows. A leaf stands directly behind its last user:

# %%
walk = graph.backward_order([L.node])
orders["4 nodes"] = [node.op.name if isinstance(node, graph.Node) else "leaf" for node in walk]
L.backward(np.ones(5))
gradients["4 nodes"] = [a.grad.numpy(), b.grad.numpy()]
assert np.allclose(gradients["4 nodes"], by_hand(a0, b0))
print(inspect.getsource(graph.with_leaves))

# %% [markdown]
# ## The orders
#
# All four walks are right, and three of them differ. Follow the amber `exp`, the branch that was
# computed first and used last, and the grey leaves:

# %%
colours = {
    "add": "#7fb08b",
    "mul": "#33567f",
    "tanh": "#8e5572",
    "exp": "#e0a030",
    "leaf": "#ccd0d5",
}
figure, ax = plt.subplots(figsize=(9, 2.6))
for row, walked in enumerate(orders.values()):
    for step, name in enumerate(walked):
        ax.add_patch(plt.Rectangle((step, row - 0.4), 0.94, 0.8, color=colours[name]))
        dark = name in ("mul", "tanh")
        ax.text(step + 0.47, row, name, ha="center", va="center", color="w" if dark else "k")
ax.set(xlim=(0, 7), ylim=(3.5, -0.5), xlabel="step of the backward")
ax.set_xticks(np.arange(7) + 0.47, range(1, 8))
ax.tick_params(length=0)
ax.set_yticks(range(4), orders)
ax.set_frame_on(False)
figure.tight_layout()
assert len({tuple(walked) for walked in orders.values()}) >= 3

# %% [markdown]
# Where an order matters: a cotangent waits in memory from the first contribution to its turn. The
# order also says in which sequence three or more contributions are added, and so the last bits.
#
# | form | order by | a long chain | leaves are final |
# |---|---|---|---|
# | 1 | depth-first search | recursion | when visited, often at the end |
# | 2 | counting users | a loop | with their last user |
# | 3 | the list, backwards | a loop | at the very end |
# | 4 | numbers, descending | a loop | right behind their last user |

# %%
first = gradients["1 closures"]
for name, found in gradients.items():
    same = all(np.array_equal(f, g) for f, g in zip(found, first))
    print(f"{name:13s} dL/da {found[0][:2].round(6)}  the bits of form 1: {same}")

# %% [markdown]
# ## What stays in memory
#
# Count it: build a chain of eight calls of one op on large arrays, hold only the result, and ask
# `tracemalloc` what is alive. One unit is one array. The result itself is not counted.

# %%
LARGE, CHAIN = 100_000, 8
start, other = rng.uniform(0.5, 1, (2, LARGE))


def kept(build):
    """How many arrays a forward leaves alive, its result not counted."""
    build()  # once before, for caches
    gc.collect()
    tracemalloc.start()
    result = build()
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert result is not None  # alive until here
    return held / (8 * LARGE) - 1


def chain_of(step):
    def run(op, x, c):
        for _ in range(CHAIN):
            x = step(op, x, c)
        return x

    return run


chains = {
    "x + c": chain_of(lambda op, x, c: op.add(x, c)),
    "x · c": chain_of(lambda op, x, c: op.mul(x, c)),
    "x · x": chain_of(lambda op, x, c: op.mul(x, x)),
    "exp x": chain_of(lambda op, x, c: op.exp(x)),
    "sin x": chain_of(lambda op, x, c: op.sin(x)),
    "tanh x": chain_of(lambda op, x, c: op.tanh(x)),
    "L": expression,
}


def builds(f):
    """For each form a function that runs the forward of f; in L both arguments need gradients."""
    both = f is expression
    leaf, c = mg.tensor(start, requires_grad=True), mg.tensor(other, requires_grad=both)

    def box(x):
        return Box(x, 1, Vertex("leaf"))

    def linear():
        if both:
            return linearize(lambda x, c: f(duals, x, c), start, other)
        return linearize(lambda x: f(duals, x, other), start)

    return {
        "1 closures": lambda: f(closures, Value(start), Value(other)),
        "2 boxes": lambda: f(boxes, box(start), box(other) if both else other),
        "3 linearized": linear,
        "4 nodes": lambda: f(ours, leaf, c),
    }


with np.errstate(over="ignore"):
    table = {name: {k: kept(b) for k, b in builds(f).items()} for name, f in chains.items()}
print(" " * 8, *(f"{k:>13s}" for k in orders))
for name, row in table.items():
    print(f"{name:8s}", *(f"{v:13.1f}" for v in row.values()))

# %%
figure, ax = plt.subplots(figsize=(9, 3))
for i, (form, colour) in enumerate(zip(orders, ("#c0392b", "#e0a030", "#8e5572", "#33567f"))):
    heights = [row[form] for row in table.values()]
    ax.bar(np.arange(len(table)) + 0.2 * i - 0.3, heights, 0.18, color=colour, label=form)
ax.set_xticks(range(len(table)), table)
ax.set(xlabel="the op of the chain; L is the expression above", ylabel="arrays kept")
ax.legend(fontsize=8, ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.18), frameon=False)
figure.tight_layout()
assert table["x + c"]["1 closures"] > 6 and table["x + c"]["4 nodes"] < 1

# %% [markdown]
# Read the picture from the left:
#
# - **Sums and constant factors.** A sum needs nothing, and $x \cdot c$ needs only $c$. Form 1 keeps
#   every value all the same, since the graph is made of values.
# - **Saving what is there.** `exp` needs its result, `sin` its argument. In a chain both were made
#   anyway, so seven arrays stay.
# - **Computing early.** Form 3 makes the coefficient in the forward: $\cos x$, or $1 - y^2$. That
#   is a new array for each call. If nothing is transposed later, it was made in vain. JAX finds out
#   what is unused, and its compiler fuses the rest.
# - **Ours.** `tanh` names `x` as well as `y`: near $\pm 1$ the slope $1 - y^2$ has lost its digits,
#   and the rule takes it from $x$. In a chain $x$ is another result, so it costs nothing more.
#
# Form 1 has one more cost in the backward. Every value gets a `.grad` that stays:

# %%
result = expression(closures, Value(start), Value(other))
list(v_backward(result))
with_gradient = [v for v in parents_first(result) if isinstance(v.grad, np.ndarray)]
print("form 1 holds", len(with_gradient), "gradients after the backward; it was asked for 2")
assert len(with_gradient) == 7

# %% [markdown]
# ## Second order
#
# $\partial^2 L / \partial a^2$ is the derivative of what a backward computes. So the question is
# what the backward computes **with**.
#
# | form | its backward computes with | second order |
# |---|---|---|
# | 1 | arrays: `a.grad` has no history | none |
# | 2 | the ops of the table | a box in a box, one trace for each level |
# | 3 | the ops of the table | a program of the inner program's numbers |
# | 4 | the ops of the table, on tensors | the same graph goes on, with higher numbers |


# %%
def second_by_hand(a, b):
    u, t = a * b, np.tanh(a * b)
    return (1 - t * t) * (2 - 2 * u * t) * b * b + np.exp(a)


second = {}
inner = with_boxes(lambda a, b: expression(boxes, a, b))
second["2 boxes"] = with_boxes(lambda a, b: inner(a, b)[0])(a0, b0)[0]

inner = by_transposition(lambda a, b: expression(duals, a, b))
second["3 linearized"] = by_transposition(lambda a, b: inner(a, b)[0])(a0, b0)[0]

a, b = (mg.tensor(v, requires_grad=True) for v in (a0, b0))
slope = mg.grad(expression(ours, a, b).sum(), a, create_graph=True)
second["4 nodes"] = mg.grad(slope.sum(), a, retain_graph=True).numpy()

for name, found in second.items():
    print(f"{name:13s} {found.round(6)}")
    assert np.allclose(found, second_by_hand(a0, b0))

# %% [markdown]
# Three forms, one answer. The records that they make differ in size. Form 3's outer program first:


# %%
_, outer, _, _ = linearize(lambda a, b: inner(a, b)[0], a0, b0)
inner_boxes = with_boxes(lambda a, b: expression(boxes, a, b))
root = inner_boxes(Box(a0, 0.5, Vertex("leaf")), Box(b0, 0.5, Vertex("leaf")))[0].vertex
walked = [vertex.name for vertex, _ in pull(root, np.ones(5))]
print("form 3:", len(outer) - 2, "equations:", *(op for _, _, op in outer[2:]))
print("form 2:", sum(name != "leaf" for name in walked), "vertices:", *walked)
nodes = graph.backward_order([slope.node])
names = [n.op.name for n in nodes if isinstance(n, graph.Node)]
print("form 4:", len(names), "nodes:", *names)

# %% [markdown]
# Form 3 records everything that runs, needed or not. Forms 2 and 4 reach only what the gradient
# depends on: the addition at the end, whose pullback needs nothing, is not part of it. Here is form
# 4's graph. `tanh_slope` and what follows it are the backward, recorded like anything else:

# %%
picture = minigrad_viz.show(
    mg.graph_dict(slope, names={"a": a, "b": b}), "dL/da, as minigrad recorded it"
)
display(picture, include={"image/svg+xml", "text/plain"})

# %% [markdown]
# ## Why levels
#
# `Box` and `Dual` have a level. Is it needed? Take $f(x) = x \cdot \frac{\mathrm d}{\mathrm dy}
# (x y)$. The inner derivative is $x$, so $f = x^2$ and $f' = 2x$.


# %%
def nested(derivative, mul):
    """f' at x = 3, 3, 3, 3, 3 with an inner derivative at y = 1."""
    three = np.full(5, 3.0)
    f = lambda x: mul(x, derivative(lambda y: mul(x, y))(np.ones(5))[0])
    return derivative(f)(three)[0][0]


print("form 2:", nested(with_boxes, mul), "  form 3:", nested(by_transposition, l_mul))
kept_levels, levels = levels, itertools.repeat(1)  # one level for all
print("form 2 without levels:", nested(with_boxes, mul))
assert nested(with_boxes, mul) == 3.0
levels = kept_levels
assert nested(with_boxes, mul) == nested(by_transposition, l_mul) == 6.0

# %% [markdown]
# Without levels the inner call opens *both* boxes. It takes $x$ for a constant, and half of the
# answer is missing. minigrad needs no level for `create_graph=True`, where all nodes are one graph.
# Its transforms (`mg.func`) do, and notebook 5 tells how.

# %%
x = mg.tensor(3.0, requires_grad=True)
y = mg.tensor(1.0, requires_grad=True)
f = x * mg.grad(x * y, y, create_graph=True)
print("create_graph:", mg.grad(f, x).item())
f = lambda x: x * mg.func.grad(lambda y: x * y)(mg.tensor(1.0))
print("mg.func:     ", mg.func.grad(f)(mg.tensor(3.0)).item())

# %% [markdown]
# ## The four, side by side
#
# | | 1 closures | 2 boxes | 3 linearized | 4 nodes |
# |---|---|---|---|---|
# | the user's program | values with methods | functions | functions | tensors with methods |
# | a call leaves | a closure | pullbacks | an equation | a node |
# | the rule is read in | the backward | the backward | the forward | the backward |
# | order | search | counting | a list | numbers |
# | keeps | every value | what closures name | coefficients | what rules name |
# | forward mode | no | another table | the first half | the same rules |
# | second order | no | nested | nested | the graph goes on |
#
# Each has its reason. Form 1 is the shortest to teach. Form 2 differentiates programs that were
# written for NumPy. Form 3 gets by with forward rules, and its result is a program that a compiler
# can take. Form 4 keeps arrays instead of functions, so one can look at a graph, check it, and
# forbid a change of what it saved.
#
# Where to read on: `micrograd/engine.py` (A. Karpathy); `autograd/tracer.py` and `core.py` (D.
# Maclaurin and others). For JAX read its tutorial "Autodidax", and the paper "You Only Linearize
# Once" (A. Radul and others, 2023). minigrad's loop is the last file of `engine/`:

# %%
from minigrad.engine import backward

print(inspect.getsource(backward.run))

# %% [markdown]
# ## Exercises
#
# Each exercise has a cell for your answer, where `...` stands, and a cell that checks it.
#
# ### Exercise 1
#
# Add `log` to form 2: one call of `boxed`. The table has no division; write $1/x$ with what is
# there. The check also asks for the second derivative.

# %% answer
log = ...  # boxed("log", np.log, …)


# %% check
@exercise(1)
def check(log):
    x = np.array([0.5, 1.0, 3.0])
    assert np.allclose(log(x), np.log(x)), "On arrays log is np.log."
    slope = with_boxes(log)
    assert np.allclose(slope(x)[0], 1 / x), "The pullback multiplies g by 1/x."
    curvature = with_boxes(lambda x: slope(x)[0])(x)[0]
    assert np.allclose(curvature, -1 / x**2), "Write 1/x with boxed ops: log x is the result y."


# %% wrong
log = boxed("log", np.log, lambda y, x: lambda g: mul(g, exp(x)))

# %% solution
# 1/x = exp(−log x), and log x is the result y, which is there already.
log = boxed("log", np.log, lambda y, x: lambda g: mul(g, exp(mul(y, -1.0))))

# %% [markdown]
# ### Exercise 2
#
# The linear program of form 3 can be read forwards. Write `push(program, inputs, result, changes)`:
# the change of the result when the inputs change by `changes`. That is $J t$, forward mode.


# %% answer
def push(program, inputs, result, changes): ...


# %% check
@exercise(2)
def check(push):
    _, program, inputs, result = linearize(lambda a, b: expression(duals, a, b), a0, b0)
    of_a, of_b = by_hand(a0, b0)
    zero, one = np.zeros(5), np.ones(5)
    hint = "Each line adds up c times the change of t, over all its terms."
    assert np.allclose(push(program, inputs, result, [one, zero]), of_a), hint
    assert np.allclose(push(program, inputs, result, [2 * one, a0]), 2 * of_a + a0 * of_b), hint


# %% wrong
def push(program, inputs, result, changes):
    values = dict(zip(inputs, changes))
    for name, terms, _ in program:
        for c, t in terms:
            values[name] = c * values[t]
    return values[result]


# %% solution
# The program is in the order of the forward, so every term is known when its line is reached.
def push(program, inputs, result, changes):
    values = dict(zip(inputs, changes))
    for name, terms, _ in program:
        if terms:
            values[name] = sum(c * values[t] for c, t in terms)
    return values[result]


# %% [markdown]
# ### Exercise 3
#
# Eight times $x \mapsto x \cdot x + c$: how many arrays does each form keep? As above, the result
# and the two inputs do not count. Predict four numbers before you check.

# %% answer
predicted = ...  # such as [8, 8, 8, 8], for the forms 1 to 4


# %% check
@exercise(3)
def check(predicted):
    square_and_add = chain_of(lambda op, x, c: op.add(op.mul(x, x), c))
    assert len(predicted) == 4, "Give four numbers, one for each form."
    with np.errstate(over="ignore"):
        counted = [round(kept(build)) for build in builds(square_and_add).values()]
    for form, (guess, count) in enumerate(zip(predicted, counted), 1):
        assert guess == count, f"Form {form}: what do a sum and a square need? The sum first."


# %% wrong
predicted = [15, 15, 7, 7]

# %% solution
# Form 1 keeps all sixteen values but the last. The others keep x for each square and nothing for a
# sum; the first x is the input.
predicted = [15, 7, 7, 7]
