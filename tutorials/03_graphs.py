# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 3 · Graphs: walk, order, accumulate, release
#
# A forward leaves a graph behind. A backward walks over it once, and four questions decide whether
# that is right, fast and small: in which **order** are the nodes visited, how do gradients from
# several consumers **add up**, who **owns** the arrays, and when is memory **released**? This
# notebook answers them with the engine's own code.

# %%
import inspect

import matplotlib.pyplot as plt
import minigrad_viz
import numpy as np
from exercises import exercise
from IPython.display import display

import minigrad as mg
from minigrad.engine import graph
from minigrad.engine.graph import Leaf, backward_order, reachable

mg.show_versions()
mg.manual_seed(0)
rng = np.random.default_rng(0)


def draw(document, title):
    display(minigrad_viz.show(document, title), include={"image/svg+xml", "text/plain"})


# %% [markdown]
# ## What a forward leaves behind
#
# Two layers, a loss. `graph_text` prints one line for each node, oldest first: its number, the
# operation, shape and dtype of the result, and where its inputs come from.

# %%
x = mg.tensor(rng.standard_normal((4, 3)))  # data: needs no gradient
w1 = mg.tensor(rng.standard_normal((3, 5)), requires_grad=True)
b1 = mg.tensor(np.zeros(5), requires_grad=True)
w2 = mg.tensor(rng.standard_normal((5, 1)), requires_grad=True)

hidden = np.tanh(x @ w1 + b1)
loss = ((hidden @ w2) ** 2).mean()
print(mg.graph_text(loss))

# %% [markdown]
# The data `x` is not in the graph: no gradient is wanted for it. What the graph holds are the
# **leaves** (tensors made with `requires_grad=True`) and the **nodes** (recorded calls). Every node
# points to its parents; no node knows its consumers.

# %%
draw(mg.graph_dict(loss, names={"w1": w1, "b1": b1, "w2": w2}), "two layers")

# %% [markdown]
# ## The order
#
# When a node hands on its cotangent, the cotangent must be complete: every consumer of the node has
# been visited before. An order with this property is called topological, and textbooks find one by
# a depth-first search. An eager engine needs no search. A consumer is called after its inputs
# exist, so it has a **higher number**. Descending numbers are a topological order.
#
# Only one thing is left to do: find the nodes that the loss depends on, and sort them.

# %%
print(inspect.getsource(graph.reachable))
vertices = reachable([loss.node])
print([f"{vertex!r}" for vertex in vertices])

for vertex in vertices:
    assert all(parent.number < vertex.number for parent in vertex.parents)

# %% [markdown]
# The walk is a loop over a list that grows as it is read, not a recursion: a program may well make
# a chain of a million nodes, and Python's call stack ends at about a thousand.

# %%
y = mg.tensor(1.0, requires_grad=True)
chain = y
for _ in range(100_000):
    chain = chain * 1.0
chain.backward()
print("100,000 nodes deep:", y.grad)

# %% [markdown]
# ## A backward by hand
#
# With an order at hand the backward is short. Each node keeps what its rules need in `saved`;
# `plan.apply_rules` runs the rules and returns one contribution for each parent. Here it is, with a
# line printed for each step. The function $y = x^2 + e^x$ uses $x$ twice, so two contributions meet
# at one vertex.


# %%
def backward_by_hand(root):
    """The gradient of each leaf; prints what happens."""
    cotangents = {root.node: np.ones(root.shape)}
    gradients = {}
    for node in backward_order([root.node]):
        g = cotangents.pop(node)
        if isinstance(node, Leaf):
            gradients[node.tensor()] = g
            print(f"{node!s:12s} complete: {g:.4f}")
            continue
        contributions = node.plan.apply_rules((g, *node.saved))
        for parent, c in zip(node.parents, contributions):
            verb = "adds" if parent in cotangents else "sends"
            cotangents[parent] = cotangents[parent] + c if parent in cotangents else c
            print(f"{node!s:12s} {verb:5s} {float(c):.4f} to {parent}")
    return gradients


x = mg.tensor(0.5, requires_grad=True)
y = x * x + np.exp(x)
by_hand = backward_by_hand(y)
assert np.isclose(by_hand[x], 2 * 0.5 + np.exp(0.5))

# %% [markdown]
# `x * x` sends two contributions to the same leaf, 0.5 for each factor, and `exp` one more. The
# chain rule adds all that arrive.
#
# The same backward, recorded. Here is a picture of it in the middle, from the step-through; below
# it is the page itself. Press *play*, or the arrow keys: pending counts fall, gradients travel
# against the arrows, and `.grad` fills. (If your viewer of notebooks blocks embedded pages, save
# the graph with `record.save("graph.json")` and run `minigrad-viz step graph.json -o step.html`.)
#
# ![The step-through in the middle of a backward](pictures/03-step-through.png)

# %%
x = mg.tensor(0.5, requires_grad=True)
with mg.record_backward(names={"x": x}) as record:
    y = x * x + np.exp(x)
    y.backward()
minigrad_viz.show(record.graph, "y = x² + exp x", step=True, height=520)

# %% [markdown]
# The real loop does the same. Compare `vjp`, the loop over `node.parents`, and `add_into`
# (`blocked_vjp` is `vjp` for arrays of two million elements and more, which it takes in blocks):

# %%
from minigrad.engine import backward

print(inspect.getsource(backward.run))

# %% [markdown]
# ## Adding in place, and when that is allowed
#
# If a leaf is used a thousand times, `total + c` would make a thousand new arrays. Adding into the
# first one saves them, but it is dangerous: rules are free to return views, saved arrays, or the
# cotangent itself. The rule of `a + b` returns `g` for both. If the engine added something into
# the array that $a$ received, it would change the gradient of $b$ as well.
#
# So `add_into` asks: can anybody else see this array? CPython counts the references to every
# object, and that count is the answer.

# %%
print(inspect.getsource(backward.add_into))

# %%
a = mg.tensor(rng.standard_normal(3), requires_grad=True)
b = mg.tensor(rng.standard_normal(3), requires_grad=True)
both = a + b  # one cotangent for both
(both + 2 * a).sum().backward()  # and a receives more
print("a.grad", a.grad, "  b.grad", b.grad)
assert (b.grad.numpy() == 1).all() and (a.grad.numpy() == 3).all()
assert not np.shares_memory(a.grad.data, b.grad.data)

# %% [markdown]
# How often does the engine add in place? We watch `add_into` while one leaf collects 1,000
# contributions, and note where the sum lives after each of them.

# %%
arrays = []
original = backward.add_into


def watched(cotangents, parent, c):
    original(cotangents, parent, c)
    if isinstance(parent, Leaf):
        arrays.append(cotangents[parent].ctypes.data)  # an address, so that no reference is added


x = mg.tensor(rng.standard_normal(1000), requires_grad=True)
total = sum((x * float(k) for k in range(1000)), start=mg.zeros(1000))
backward.add_into = watched
try:
    total.sum().backward()
finally:
    backward.add_into = original
print(f"{len(arrays)} additions, made in {len(set(arrays))} array(s)")
assert np.allclose(x.grad.numpy(), sum(range(1000)))
assert len(arrays) == 999 and len(set(arrays)) <= 2

# %% [markdown]
# ## Release
#
# A node's saved arrays are needed once. The loop drops them as soon as the node has run
# (`node.saved = None`), so memory falls while the backward proceeds. With `retain_graph=True` it
# keeps them, for another backward over the same graph.


# %%
def saved_bytes(nodes):
    """Bytes of the arrays that nodes keep; an array that two nodes keep counts once."""
    arrays = {id(s): s.nbytes for n in nodes for s in n.saved or () if hasattr(s, "nbytes")}
    return sum(arrays.values())


def memory_during_backward(retain):
    y = mg.tensor(rng.standard_normal(125_000), requires_grad=True)  # 1 MB
    nodes, bytes_at = [], []
    for _ in range(30):
        y = np.tanh(y)
        y.register_hook(lambda g: bytes_at.append(saved_bytes(nodes)))
        nodes.append(y.node)
    y.sum().backward(retain_graph=retain)
    return [*bytes_at, saved_bytes(nodes)]


released, retained = memory_during_backward(False), memory_during_backward(True)
plt.figure(figsize=(7, 2.6))
plt.plot([n / 1e6 for n in released], label="as usual")
plt.plot([n / 1e6 for n in retained], "--", label="retain_graph=True")
plt.xlabel("nodes that have run")
plt.ylabel("saved arrays, MB")
plt.ylim(0)
plt.legend()
plt.tight_layout()
assert released[-1] == 0 and retained[-1] == retained[0]

# %% [markdown]
# The price: a graph can be used once. A second backward finds `saved is None` and says so before it
# has changed anything.

# %%
x = mg.tensor(2.0, requires_grad=True)
y = x**3
y.backward()
try:
    y.backward()
except mg.errors.GraphReleasedError as error:
    print(type(error).__name__ + ":", error)
print("x.grad is still", x.grad)
assert x.grad.item() == 12

# %% [markdown]
# ## A leaf is placed behind its last consumer
#
# Parameters are made before the forward, so they have the lowest numbers. In plain descending order
# all of them would come at the very end, when every node has run. But the weight of the *last*
# layer has had all its contributions after the first few steps. `backward_order` therefore moves
# each leaf directly behind the last node that sends something to it. (The graph is walked from the
# oldest node, so the first consumer met is the last one to run.)

# %%
print(inspect.getsource(graph.with_leaves))

# %%
parameters = {f"w{i}": mg.tensor(rng.standard_normal((6, 6)), requires_grad=True) for i in range(8)}
h = mg.tensor(rng.standard_normal((2, 6)))
for w in parameters.values():
    h = np.tanh(h @ w)
loss = h.sum()

names = {w.node: name for name, w in parameters.items()}
early = backward_order([loss.node])
late = sorted(early, key=lambda vertex: -vertex.number)

figure, ax = plt.subplots(figsize=(8, 2.4))
for row, order in enumerate([late, early]):
    for step, vertex in enumerate(order):
        leaf = isinstance(vertex, Leaf)
        colour = "#7fb08b" if leaf else "#d6dde6"
        ax.add_patch(plt.Rectangle((step, row), 0.92, 0.7, facecolor=colour))
        ax.text(step + 0.46, row + 0.35, names.get(vertex, ""), ha="center", va="center", size=8)
ax.set(xlim=(0, len(early)), ylim=(-0.2, 2), xlabel="step of the backward")
ax.set_yticks([0.35, 1.35], ["by number alone", "minigrad"])
ax.set_title("green: a leaf, whose gradient is handed over at this step")
figure.tight_layout()

# %% [markdown]
# Both orders give the same gradients. In the upper one a hook on `w7` runs at the fourth step. An
# optimizer may then update that weight and free its gradient; a program that trains on several
# machines may send the gradient away while the rest of the backward runs (notebook 14).

# %%
ready = []
for name, w in parameters.items():
    w.register_leaf_ready_hook(lambda leaf, name=name: ready.append(name))
h = mg.tensor(rng.standard_normal((2, 6)))
for w in parameters.values():
    h = np.tanh(h @ w)
    h.register_hook(lambda g: ready.append("·"))
h.sum().backward()
print(" ".join(ready))
assert [name for name in ready if name != "·"] == [f"w{i}" for i in range(7, -1, -1)]

# %% [markdown]
# ## Exercises
#
# ### Exercise 1
#
# A breadth-first walk from the root is *not* a backward order. Write a function of one variable for
# which it visits a node before one of the node's consumers.


# %% answer
def counterexample(x): ...


# %% check
def breadth_first(root):
    seen, queue = {root}, [root]
    for node in queue:  # the list grows while it is walked
        for parent in node.parents:
            if parent not in seen:
                seen.add(parent)
                queue.append(parent)
    return queue


@exercise(1)
def check(counterexample):
    order = breadth_first(counterexample(mg.tensor(0.1, requires_grad=True)).node)
    position = {node: i for i, node in enumerate(order)}
    early = [n for n in order if any(position[p] < position[n] for p in n.parents)]
    hint = "Breadth-first is right here. Use one value twice: near the root and far from it."
    assert early, hint


# %% wrong
def counterexample(x):
    return np.exp(x) + np.tanh(x)


# %% solution
# u is one step from the root, but its other consumer, the inner exp, is two steps away.
# Breadth-first meets u before it.
def counterexample(x):
    u = np.exp(x)
    return u + np.tanh(np.exp(u))


# %% [markdown]
# ### Exercise 2
#
# `y = x * x`, then `y = y * y`, and so on, $n$ times. How many vertices does the graph have, the
# leaf included, and how many paths lead from `y` to `x`?


# %% answer
def vertices(n): ...


def paths(n): ...


# %% check
def count_paths(node):
    return sum(count_paths(parent) for parent in node.parents) if node.parents else 1


@exercise(2)
def check(vertices, paths):
    for n in (1, 2, 5, 10):
        y = mg.tensor(1.0, requires_grad=True)
        for _ in range(n):
            y = y * y
        there = len(reachable([y.node]))
        hint = f"n = {n}: there are {there} vertices. A product of y with itself is one node."
        assert vertices(n) == there, hint
        hint = f"n = {n}: there are {count_paths(y.node)} paths. Each node has two edges."
        assert paths(n) == count_paths(y.node), hint


# %% wrong
def vertices(n):
    return n + 1


def paths(n):
    return 2 * n


# %% solution
# n nodes and a leaf; each node has two edges to the one before. A backward that walks every path
# costs 2ⁿ, one that walks vertices n.
def vertices(n):
    return n + 1


def paths(n):
    return 2**n


# %% [markdown]
# ### Exercise 3
#
# A leaf `w` is used by the first and by the last layer (tied weights). Behind which op of the
# backward is it ready?

# %%
w = mg.tensor(rng.standard_normal((6, 6)), requires_grad=True)
first = mg.tensor(rng.standard_normal((2, 6))) @ w
middle = np.tanh(first)
last = middle @ w

# %% answer
ready_behind = ...  # "first", "middle" or "last"


# %% check
@exercise(3)
def check(ready_behind):
    order = backward_order([last.sum().node])
    before = order[order.index(w.node) - 1]
    names = {first.node: "first", middle.node: "middle", last.node: "last"}
    hint = "A leaf is ready behind the last of its consumers to run. Backwards, which one is that?"
    assert ready_behind == names[before], hint


# %% wrong
ready_behind = "last"

# %% solution
# The first layer's product is the last of its consumers to run, at the very end of the order.
ready_behind = "first"

# %% [markdown]
# ### Exercise 4
#
# Here is `backward_by_hand` with `+=` on the array in place of `cotangents[parent] + c`. Find a
# program of `a` and `b`, both of shape (3,), for which it gives a wrong gradient.


# %%
def backward_in_place(root):
    cotangents, gradients = {root.node: np.ones(root.shape)}, {}
    for node in backward_order([root.node]):
        g = cotangents.pop(node)
        if isinstance(node, Leaf):
            gradients[node.tensor()] = g
            continue
        for parent, c in zip(node.parents, node.plan.apply_rules((g, *node.saved))):
            if parent in cotangents:
                cotangents[parent] += c
            else:
                cotangents[parent] = c
    return gradients


# %% answer
def program(a, b): ...


# %% check
@exercise(4)
def check(program):
    a, b = (mg.tensor(np.ones(3), requires_grad=True) for _ in range(2))
    root = program(a, b)
    wrong = backward_in_place(root)
    right = mg.grad(root, [a, b], np.ones(root.shape), allow_unused=True)
    differs = [g is not None and (wrong[x] != g.numpy()).any() for x, g in zip((a, b), right)]
    hint = "Both are right. One array must go to two parents, one of which gets more later."
    assert any(differs), hint


# %% wrong
def program(a, b):
    return a * b + a * b


# %% solution
# `a + b` hands the same array to both. The later contribution to `a` is then added to b's as well.
def program(a, b):
    double = a * 2.0  # made first, so it runs last
    return (a + b) + double
