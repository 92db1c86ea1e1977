# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 1 · A scalar engine in sixty lines
#
# Automatic differentiation is bookkeeping. A program that computes a number is a chain of small
# steps; each step has a derivative that a table of calculus lists; the chain rule multiplies and
# adds them up. This notebook writes the bookkeeper from nothing, trains a network with it, draws
# what it recorded, and then finds the same lines in minigrad's source.
#
# You need Python and the chain rule. Nothing here uses arrays; that is the next notebook.

# %%
import inspect
import itertools
import math
import random

import matplotlib.pyplot as plt
import minigrad_viz
from exercises import exercise
from IPython.display import display

import minigrad as mg

mg.show_versions()
random.seed(1)

# %% [markdown]
# ## The idea
#
# Take $L = \tanh(a b + c)$. Name the steps: $u = a b$, $v = u + c$, $L = \tanh v$. The chain rule
# runs from the end to the start:
#
# $$
# \frac{\partial L}{\partial v} = 1 - L^2, \qquad
# \frac{\partial L}{\partial u} = \frac{\partial L}{\partial v} \cdot 1, \qquad
# \frac{\partial L}{\partial a} = \frac{\partial L}{\partial u} \cdot b, \qquad
# \frac{\partial L}{\partial b} = \frac{\partial L}{\partial u} \cdot a .
# $$
#
# Each step needs two things: the derivative of $L$ with respect to the step's result, which arrives
# from the right, and the **partial derivatives** of the result with respect to the step's inputs,
# which the step knows when it runs. So let every result remember its inputs (its *parents*) and
# these partials.

# %%
number = itertools.count()  # 0, 1, 2, ...: in which order values are made


class Value:
    """A number that remembers how it was made."""

    def __init__(self, data, op="", parents=(), partials=()):
        self.data = float(data)
        self.grad = 0.0  # d(root)/d(this), once backward has run
        self.op, self.parents, self.partials = op, parents, partials
        self.number = next(number)

    def __repr__(self):
        return f"Value({self.data:.4g}, grad={self.grad:.4g})"

    # -- the table of calculus: the result, the inputs, the partials ---------------------

    def __add__(self, other):
        other = other if isinstance(other, Value) else Value(other)
        return Value(self.data + other.data, "+", (self, other), (1.0, 1.0))

    def __mul__(self, other):
        other = other if isinstance(other, Value) else Value(other)
        return Value(self.data * other.data, "*", (self, other), (other.data, self.data))

    def tanh(self):
        y = math.tanh(self.data)
        return Value(y, "tanh", (self,), (1 - y * y,))

    def exp(self):
        y = math.exp(self.data)
        return Value(y, "exp", (self,), (y,))

    # -- and what follows from it --------------------------------------------------------------

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self):
        return self * -1.0

    def __sub__(self, other):
        return self + -other

    # -- the chain rule ------------------------------------------------------------------------

    def backward(self):
        """Set .grad of every value that this one was made from."""
        found, waiting = {self}, [self]
        while waiting:
            for parent in waiting.pop().parents:
                if parent not in found:
                    found.add(parent)
                    waiting.append(parent)
        self.grad = 1.0  # dL/dL
        for value in sorted(found, key=lambda v: v.number, reverse=True):
            for parent, partial in zip(value.parents, value.partials):
                parent.grad += partial * value.grad


# %% [markdown]
# That is the engine, in fewer than sixty lines. Try it, and check one derivative by moving its
# input a little:

# %%
a, b, c = Value(0.5), Value(-1.5), Value(1.0)
L = (a * b + c).tanh()
L.backward()
print("a", a, "  b", b, "  c", c)

h = 1e-6
moved = (Value(0.5 + h) * -1.5 + 1.0).tanh().data - (Value(0.5 - h) * -1.5 + 1.0).tanh().data
print("dL/da by differences", moved / (2 * h))
assert abs(moved / (2 * h) - a.grad) < 1e-9

# %% [markdown]
# ## Two decisions in `backward`
#
# **`+=`, not `=`.** A value that is used twice reaches the root along two paths, and the chain rule
# adds them: $d(x \cdot x)/dx = x + x$.
#
# **Newest first.** When a value hands on its gradient, everything that used it must already have
# handed *its* gradient to it. What used it was made later. So descending numbers are a safe order:
# no sorting by arrows is needed.
#
# The obvious recursion needs no order at all: hand each contribution on as soon as it comes. It is
# right too, but it walks every *path*, and there may be exponentially many of those:


# %%
def backward_by_paths(value, g=1.0):
    """Right, and far too slow: one call for each path from the root. Returns how many."""
    value.grad += g
    return 1 + sum(
        backward_by_paths(p, g * partial) for p, partial in zip(value.parents, value.partials)
    )


for n in (4, 8, 12, 16):
    x = y = Value(1.0)
    for _ in range(n):
        y = y + y  # y = 2ⁿ x
    print(f"{n:2d} additions: {backward_by_paths(y):7,} calls, dy/dx = {x.grad:,.0f}")

x = y = Value(1.0)
for _ in range(1000):
    y = y + y
y.backward()
print(f"1,000 additions, newest first: dy/dx = {x.grad:.4g}, at once")
assert x.grad == 2.0**1000

# %% [markdown]
# ## What was recorded
#
# minigrad's viewer draws any graph that a file describes; it never looks at the engine. So it
# draws ours as well, if we write down nodes and edges in its format. An arrow leads from a value to
# what used it; the gradients flow against the arrows.


# %%
def as_graph(root, names):
    """Our graph in the format of minigrad's dumps, with values and gradients."""
    found, waiting = {root}, [root]
    while waiting:
        for parent in waiting.pop().parents:
            if parent not in found:
                found.add(parent)
                waiting.append(parent)
    values = sorted(found, key=lambda v: v.number)
    return {
        "format": "minigrad.graph",
        "version": [1, 0],
        "nodes": [
            {
                "id": v.number, "kind": "op" if v.op else "leaf", "op": v.op, "shape": [],
                "dtype": "float", "bytes": 8, "name": names.get(v, ""), "values": [v.data],
                "grad": {"grad_norm": abs(v.grad), "values": [v.grad]},
            }
            for v in values
        ],
        "edges": [
            {"producer": p.number, "consumer": v.number, "slot": slot}
            for v in values
            for slot, p in enumerate(v.parents)
        ],
        "roots": [root.number],
    }  # fmt: skip


def draw(graph, title):
    display(minigrad_viz.show(graph, title), include={"image/svg+xml", "text/plain"})


draw(as_graph(L, {a: "a", b: "b", c: "c"}), "L = tanh(a b + c), our engine")

# %% [markdown]
# ## Train something
#
# XOR is the smallest problem that a line cannot solve: the answer is yes when exactly one of the
# two inputs is on. Two inputs, four hidden tanh units, one output. The loss is the mean of the
# squared errors; a step moves every weight against its gradient.

# %%
examples = [((0.0, 0.0), -1.0), ((0.0, 1.0), 1.0), ((1.0, 0.0), 1.0), ((1.0, 1.0), -1.0)]
hidden = [[Value(random.uniform(-1, 1)) for _ in range(3)] for _ in range(4)]  # w1, w2, bias
output = [Value(random.uniform(-1, 1)) for _ in range(5)]  # four weights and a bias
parameters = [w for unit in hidden for w in unit] + output


def model(x1, x2):
    units = [(w1 * x1 + w2 * x2 + bias).tanh() for w1, w2, bias in hidden]
    *weights, bias = output
    return (sum((w * unit for w, unit in zip(weights, units)), bias)).tanh()


def mean_squared_error():
    errors = [model(*x) - y for x, y in examples]
    return sum((e * e for e in errors), Value(0.0)) * (1 / len(errors))


losses = []
for _ in range(300):
    for w in parameters:
        w.grad = 0.0  # else the gradients of all steps would add up
    loss = mean_squared_error()
    loss.backward()
    for w in parameters:
        w.data -= 0.5 * w.grad
    losses.append(loss.data)

print(f"loss {losses[0]:.3f} -> {losses[-1]:.4f}")
for x, y in examples:
    print(x, "wanted", y, "got", round(model(*x).data, 2))
assert losses[-1] < 0.05

# %%
grid = [i / 40 for i in range(-12, 53)]
surface = [[model(x1, x2).data for x1 in grid] for x2 in grid]

figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.2))
left.semilogy(losses)
left.set(xlabel="step", ylabel="loss", title="XOR by the sixty lines")
picture = right.contourf(grid, grid, surface, levels=11, cmap="RdBu", vmin=-1, vmax=1)
for (x1, x2), y in examples:
    right.plot(x1, x2, "o" if y > 0 else "s", color="white", markeredgecolor="black")
right.set(xlabel="$x_1$", ylabel="$x_2$", title="what the network answers")
figure.colorbar(picture)
figure.tight_layout()

# %% [markdown]
# ## The same lines in minigrad
#
# minigrad does this to arrays, for hundreds of ops. Here is the example from above, with the same
# picture and the same numbers:

# %%
ta, tb, tc = (mg.tensor(v.data, requires_grad=True) for v in (a, b, c))
with mg.record_backward(names={"a": ta, "b": tb, "c": tc}) as record:
    tL = mg.tanh(ta * tb + tc)
    tL.backward()
draw(record.graph, "L = tanh(a b + c), minigrad")
assert [t.grad.item() for t in (ta, tb, tc)] == [v.grad for v in (a, b, c)]

# %% [markdown]
# Now the source. What a `Value` keeps is a **`Node`**, one for each recorded call:

# %%
from minigrad.engine import graph

print(inspect.getsource(graph.Node))

# %% [markdown]
# | ours | minigrad | the difference |
# |---|---|---|
# | `number` | `Node.number` | none |
# | `parents` | `Node.parents` | only parents that need a gradient |
# | `partials` | `Node.saved`, `Node.plan` | the forward saves what a formula names; it runs later |
# | `op` | `Node.op` | an object that holds forward and formulas |
# | `data` | not in the node | the tensor has the array; the node may outlive it |
# | `grad` | a dict, during a backward | an inner gradient is dropped once handed on |
#
# The row of `partials` is about memory. For arrays each partial would be one more array, even if
# nobody ever calls `backward`; a formula that is kept for later costs nothing.
#
# The table of calculus: `__mul__` above gave the partials `(other.data, self.data)`. In minigrad
# multiplication is one entry that says the same. So is tanh: its rule is $1 - y^2$ as ours is, and
# takes the slope from $x$ where $y$ is so near ±1 that the difference loses its digits.

# %%
from minigrad.ops.elementwise import arithmetic, trigonometric


def entry(module, name):
    """The lines of a module that define one op of the table."""
    source = inspect.getsource(module)
    start = source.index(f"\n{name} = elementwise(") + 1
    return source[start : source.index("\n)\n", start) + 2]


print(entry(arithmetic, "mul"))
print(inspect.getsource(trigonometric.tanh.rules["x"].fn).strip())

# %% [markdown]
# A rule names what it needs: `lambda b: b` asks for the input `b`, `lambda y: ...` for the result.
# These names decide what a node saves:

# %%
product = ta * tb
print(product.node, "saves", product.node.plan.names, "=", product.node.saved)
print(tL.node, "saved", tL.node.plan.names, "which is now", tL.node.saved, "(the backward is over)")

# %% [markdown]
# The order. Our two loops, "find everything" and "newest first", are `reachable` and
# `backward_order`. The one addition: a leaf (an input of the whole program) is placed directly
# behind the last node that used it, however old it is, so that its gradient is handed over early.
# Notebook 3 shows why.

# %%
print(inspect.getsource(graph.reachable))
print(inspect.getsource(graph.backward_order))

# %% [markdown]
# ## From our loop to the engine's
#
# One step is left: our `backward` on minigrad's graph. A dict `cotangents` takes the place of
# `.grad` between the values, a rule that runs now takes the place of a stored partial, and only
# leaves keep what arrives. It is still the same loop:


# %%
def backward_in_ten_lines(root):
    """{leaf: gradient} of a tensor that is one number, by minigrad's nodes and rules."""
    cotangents, gradients = {root.node: mg.ones(()).numpy()}, {}  # dL/dL = 1
    for node in graph.backward_order([root.node]):  # newest first
        g = cotangents.pop(node)  # complete: all that used it came before
        if isinstance(node, graph.Leaf):
            gradients[node.tensor()] = g
            continue
        contributions = node.plan.apply_rules((g, *node.saved))  # g times the partials
        for parent, c in zip(node.parents, contributions):
            cotangents[parent] = cotangents[parent] + c if parent in cotangents else c
    return gradients


again = mg.tanh(ta * tb + tc)
ours = backward_in_ten_lines(again)
print([round(ours[t].item(), 6) for t in (ta, tb, tc)])
assert [ours[t].item() for t in (ta, tb, tc)] == [t.grad.item() for t in (ta, tb, tc)]

# %% [markdown]
# The engine's loop is `backward.run`. It is three times as long, because it answers six more
# questions. Read it with this table beside it, one row at a time:
#
# | in `run` | the question |
# |---|---|
# | `wanted`, `needed` | Which gradients did `mg.grad` ask for? Other branches are not walked. |
# | `Port`, `into_slot` | Which result of an op with several does this gradient belong to? |
# | `blocked_vjp` | Is the array larger than a cache? Then the rule runs block by block. |
# | `release` | May the saved arrays go, now that the rule has run? |
# | `conform` | Was the parent broadcast? Then the contribution is summed (notebook 2). |
# | `add_into` | May the sum be made in place, or does somebody else see the array (notebook 3)? |

# %%
from minigrad.engine import backward

print(inspect.getsource(backward.run))

# %% [markdown]
# You have now read the heart of the engine. The rest of `minigrad/engine/` reads in this order:
# `graph.py` (nodes and orders), `rule.py` and `plan.py` (what a formula asks for, and what is
# saved), `primitive.py` (a call: run, wrap, link), `backward.py`. Notebook 2 goes on with arrays.

# %% [markdown]
# ## Exercises
#
# Each exercise has a cell for your answer, where `...` stands, and a cell that checks it. A wrong
# answer gets a hint.
#
# ### Exercise 1
#
# Extend the table of calculus: `log(a)` and `divide(a, b)` make a `Value` from values, as `tanh`
# and `__mul__` do. The check asks for $d(a/b)/db = -a/b^2$.


# %% answer
def log(a): ...


def divide(a, b): ...


# %% check
@exercise(1)
def check(log, divide):
    a, b, c = Value(3.0), Value(2.0), Value(5.0)
    y, z = divide(a, b), log(c)
    assert isinstance(y, Value) and isinstance(z, Value), "Both return a Value."
    assert math.isclose(y.data, 1.5) and math.isclose(z.data, math.log(5)), "A result is wrong."
    y.backward()
    z.backward()
    assert math.isclose(a.grad, 1 / 2), "The derivative of a/b with respect to a is 1/b."
    assert math.isclose(b.grad, -3 / 4), "Write a/b as a · b⁻¹ and differentiate b⁻¹."
    assert math.isclose(c.grad, 1 / 5), "The derivative of log a is 1/a."


# %% wrong
def log(a):
    return Value(math.log(a.data), "log", (a,), (1 / a.data,))


def divide(a, b):
    return Value(a.data / b.data, "/", (a, b), (1 / b.data, a.data))


# %% solution
# One line each, as in a table of calculus.
def log(a):
    return Value(math.log(a.data), "log", (a,), (1 / a.data,))


def divide(a, b):
    return Value(a.data / b.data, "/", (a, b), (1 / b.data, -a.data / b.data**2))


# %% [markdown]
# ### Exercise 2
#
# In `backward` replace `+=` by `=`. For which of these is the derivative still right: $x \cdot x$,
# $\tanh(\tanh(x))$, $x + \exp(x)$? Answer with three truth values.

# %% answer
still_right = ...  # such as [True, True, True]


# %% check
def backward_that_overwrites(root):
    root.grad, waiting = 1.0, [root]
    for value in waiting:  # the list grows while it is walked
        for parent, partial in zip(value.parents, value.partials):
            parent.grad = partial * value.grad
            waiting.append(parent)


@exercise(2)
def check(still_right):
    functions = [lambda x: x * x, lambda x: x.tanh().tanh(), lambda x: x + x.exp()]
    assert len(still_right) == 3, "Give three truth values, one for each function."
    for number, (f, answer) in enumerate(zip(functions, still_right), 1):
        x, twin = Value(0.7), Value(0.7)
        f(x).backward()
        backward_that_overwrites(f(twin))
        hint = f"Look at function {number}: along how many paths does the root reach x?"
        assert answer == math.isclose(x.grad, twin.grad), hint


# %% wrong
still_right = [True, True, False]

# %% solution
# Only tanh(tanh(x)) uses nothing twice. With `=` the last contribution wins.
still_right = [False, True, False]

# %% [markdown]
# ### Exercise 3
#
# `y = y + y`, $n$ times: how many calls does `backward_by_paths` make? Derive the number, then
# compare it with what was printed above.


# %% answer
def calls(n): ...


# %% check
@exercise(3)
def check(calls):
    for n in range(8):
        y = Value(1.0)
        for _ in range(n):
            y = y + y
        counted = backward_by_paths(y)
        hint = f"For n = {n} there are {counted} calls, not {calls(n)}: one for each path from y."
        assert calls(n) == counted, hint


# %% wrong
def calls(n):
    return 2**n


# %% solution
# Level k below the root is reached along 2ᵏ paths: 1 + 2 + 4 + ... + 2ⁿ = 2ⁿ⁺¹ − 1.
def calls(n):
    return 2 ** (n + 1) - 1


# %% [markdown]
# ### Exercise 4
#
# Our `backward`, called twice on $L = \tanh(\tanh(a))$, gives more than twice the gradient,
# although nothing is used twice. Find out why. Then write `forget(root)`, to be called between the
# two, so that a leaf gets exactly twice its gradient.
#
# minigrad gives no wrong number here: it raises an error. Find its class.


# %% answer
def forget(root): ...


error = ...  # the class of the error, such as ValueError


# %% check
@exercise(4)
def check(forget, error):
    a = Value(0.3)
    root = (a.tanh() * 2.0).tanh()
    root.backward()
    once = a.grad
    forget(root)
    root.backward()
    assert a.grad != once, "A leaf keeps its gradient; forget that of the values between."
    hint = "Does every value between root and leaf forget? Each still holds its first gradient."
    assert math.isclose(a.grad, 2 * once), hint
    y = mg.tanh(mg.tensor(0.3, requires_grad=True))
    y.backward()
    try:
        y.backward()
    except Exception as raised:
        assert error is type(raised), "Call backward twice on an mg.tanh; mg.errors has the class."


# %% wrong
def forget(root):
    root.grad = 0.0


error = mg.errors.GraphReleasedError


# %% solution
# Values between still hold the gradient of the first run, and `+=` adds to it, so tanh's input is
# handed too much. minigrad keeps no gradient for them, and it frees what a node saved.
def forget(root):
    if root.parents:
        root.grad = 0.0
    for parent in root.parents:
        forget(parent)


error = mg.errors.GraphReleasedError
