# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 2 · Tensors, broadcasting and the calculus table
#
# An engine of single numbers makes one node for every multiplication. A layer of a network has a
# million of them. So the unit becomes the **array**: one node stands for one NumPy call, however
# large its arrays are. Two questions come with it: what is the derivative of an operation on
# arrays, and what happens to it where NumPy *broadcasts* a small array over a large one?

# %%
import inspect

import matplotlib.pyplot as plt
import numpy as np
from exercises import exercise

import minigrad as mg
from minigrad.testing import GradcheckError, gradcheck, gradgradcheck, jvpcheck

mg.show_versions()
mg.manual_seed(0)
rng = np.random.default_rng(0)

# %% [markdown]
# ## A tensor is an array with a memory
#
# A tensor keeps three things: the array (`_data`, which `data` shows), what made it (`node`), and
# the gradient (`_grad`, which `grad` shows). The fourth slot below only lets others refer to a
# tensor weakly.
# The gradient of a scalar $L$ with respect to an array $x$ is the array of all
# $\partial L / \partial x_i$: same shape, same dtype.

# %%
x = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
L = (x * x).sum()
L.backward()
print(x.grad)
print("slots:", mg.Tensor.__slots__, "| node of x:", x.node, "| node of L:", L.node)
assert x.grad.shape == x.shape and x.grad.dtype == x.dtype

# %% [markdown]
# In between, $y = x \circ x$ is an array as well, and $\partial y / \partial x$ would be a matrix,
# the Jacobian $J_{ij} = \partial y_i / \partial x_j$. The engine never builds it. The chain rule
# only asks for one product: given $g = \partial L / \partial y$ (the **cotangent**), what is
# $\partial L / \partial x = J^\top g$? For an elementwise operation $J$ is diagonal, so the answer
# is one multiplication, $g \circ \text{partial}$:

# %%
from minigrad import func

y = x.detach()
J = func.jacobian(lambda x: x * x)(y)
g = mg.tensor([10.0, 20.0, 30.0])
print(J)
print("Jᵀ g   ", J.T @ g)
print("g ∘ 2x ", g * (2 * y))
assert np.array_equal((J.T @ g).numpy(), (g * (2 * y)).numpy())

# %% [markdown]
# ## The doorway
#
# Every operation is called in four steps, marked by comments: *unwrap* the arrays, *run* NumPy,
# *wrap* the result, *link* a node if some input needs a gradient. The engine writes the function
# that does so for each operation, since it knows how many inputs there are and what the rules
# need of them. This is what it has written for `a * b`. What it hands on to `general` (numbers it
# cannot be sure of, modes, transforms, profilers) takes the same four steps there, more slowly.

# %%
print(inspect.getsource(mg.mul.apply))

# %% [markdown]
# ## The calculus table
#
# Most operations work element by element. Such an operation is one entry: the NumPy function, and
# its partial derivative with respect to each input. This is the source, not a summary of it:

# %%
from minigrad.ops.elementwise import arithmetic, exponential, trigonometric


def entries(module, *names):
    """The lines of a module that define these ops."""
    source = inspect.getsource(module) + "\n"
    for name in names:
        start = source.index(f"\n{name} = elementwise(") + 1
        first = source[start : source.index("\n", start)]
        stop = start + len(first) if first.endswith(")") else source.index("\n)\n", start) + 2
        print(source[start:stop])


entries(arithmetic, "mul", "div", "square", "sqrt")
entries(exponential, "exp", "log")
entries(trigonometric, "sin", "tanh")

# %% [markdown]
# How to read an entry:
#
# - `dx=` is the partial with respect to the one input `x`; `da=` and `db=` are those for `a` and
#   `b`.
# - A partial is a function **of what it names**: inputs by their names, `y` for the result. The
#   engine reads the names from the signature and saves exactly these arrays.
# - The engine multiplies the partial by the cotangent `g`. A partial that names `g` itself gives
#   the product; `div` does it because $g \cdot (1/b)$ overflows where $g / b$ does not.
#
# $\sqrt{x}$ has the derivative $1 / (2\sqrt{x})$, which is $1 / (2y)$: the entry names `y`, so the
# result is saved, which exists anyway, and `x` may be thrown away. What a call saves can be looked
# at:

# %%
a = mg.tensor(rng.uniform(1, 2, 4), requires_grad=True)
b = mg.tensor(rng.uniform(1, 2, 4), requires_grad=True)
constant = mg.tensor(rng.uniform(1, 2, 4))
for text, result in {
    "a * b": a * b,
    "a * constant": a * constant,
    "a + b": a + b,
    "a / b": a / b,
    "np.sqrt(a)": np.sqrt(a),
    "np.exp(a)": np.exp(a),
    "np.sin(a)": np.sin(a),
}.items():
    print(f"{text:13s} saves {result.node.plan.names}")
assert (a * constant).node.plan.names == ("b",)

# %% [markdown]
# `a * constant` saves only its second input: the other partial is not needed. `a + b` saves
# nothing. And `np.sqrt(a)` is NumPy's own function: NumPy hands a tensor over to the op of the same
# meaning.
#
# For an elementwise function, one backward from the sum gives the derivative at every point, since
# $y_i$ depends on $x_i$ alone. So the table can be drawn:

# %%
figure, axes = plt.subplots(1, 4, figsize=(10, 2.6))
cases = {
    "tanh": (np.tanh, -3, 3),
    "exp": (np.exp, -2, 1.5),
    "sqrt": (np.sqrt, 0.02, 3),
    "gelu": (mg.gelu, -3, 3),
}
for ax, (name, (f, low, high)) in zip(axes, cases.items()):
    t = mg.linspace(low, high, 200).requires_grad_()
    y = f(t)
    y.sum().backward()
    ax.plot(t.detach().numpy(), y.detach().numpy(), label="y")
    ax.plot(t.detach().numpy(), t.grad.numpy(), "--", label="dy/dx")
    ax.set(title=name, ylim=(-1.6, 4))
    ax.grid(alpha=0.3)
axes[0].legend()
figure.tight_layout()

# %% [markdown]
# ## Broadcasting
#
# NumPy lets a small array stand where a large one is needed, and repeats it along the missing axes.
# Adding a bias $b$ to every row of a matrix is the usual case. Written with indices,
# $y_{ij} = x_{ij} + b_j$, the chain rule answers by itself:
#
# $$ \frac{\partial L}{\partial b_j} = \sum_i \frac{\partial L}{\partial y_{ij}} . $$
#
# $b_j$ was used in every row, so it collects from every row. **What the forward copies, the
# backward sums**, along the same axes: summing is the transpose of copying.

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 3.1))


def cells(ax, values, left, top, colour):
    """A small matrix as coloured squares."""
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            place = (left + j, top - i)
            ax.add_patch(plt.Rectangle(place, 0.94, 0.94, facecolor=colour, edgecolor="#556"))
            ax.text(place[0] + 0.47, place[1] + 0.47, f"{value:g}", ha="center", va="center")


bias = np.array([[10, 20, 30]])
copies = np.repeat(bias, 4, axis=0)
g = np.arange(1, 13).reshape(4, 3)
cells(axes[0], bias, 0, 4.6, "#dff0e2")
cells(axes[0], copies, 5, 3.2, "#eef3fb")
axes[0].text(0, 5.8, "b (3,)")
axes[0].text(5, 4.4, "as NumPy uses it (4, 3)")
axes[0].set_title("forward: copied along axis 0")
cells(axes[1], g, 0, 3.2, "#fbeee0")
cells(axes[1], g.sum(axis=0, keepdims=True), 5, 4.6, "#dff0e2")
axes[1].text(0, 4.4, "g = ∂L/∂y (4, 3)")
axes[1].text(5, 5.8, "∂L/∂b (3,)")
axes[1].set_title("backward: summed along axis 0")
for i in range(4):
    arrow = {"arrowstyle": "->", "color": "#889"}
    axes[0].annotate("", (4.9, 3.7 - i), (3.05, 5.0), arrowprops=arrow)
    axes[1].annotate("", (4.9, 5.0), (3.05, 3.7 - i), arrowprops=arrow)
for ax in axes:
    ax.set(xlim=(-0.2, 9), ylim=(-0.2, 6.4))
    ax.axis("off")
figure.tight_layout()

# %% [markdown]
# minigrad agrees with the picture:

# %%
xs = mg.tensor(np.zeros((4, 3)), requires_grad=True)
b = mg.tensor([10.0, 20.0, 30.0], requires_grad=True)
(xs + b).backward(g.astype(float))
print("∂L/∂b =", b.grad)
assert np.array_equal(b.grad.numpy(), g.sum(axis=0))

# %% [markdown]
# The entry of `add` knows nothing of this: it says `db=lambda g: g`, which has the large shape. The
# engine brings every contribution into its parent's shape, in one place, for all operations:

# %%
from minigrad.engine import backward

print(inspect.getsource(backward.conform))
print(inspect.getsource(backward.unbroadcast))

# %% [markdown]
# There are two ways in which an axis is broadcast, and `axes` in `unbroadcast` collects both: axes
# in front that the small array does not have (`i < extra`), and axes where it has length 1 and the
# other more. Shapes of length 1 stay, so the sum keeps its axes and a final `reshape` drops those
# in front.

# %%
for small, large in [((3,), (4, 3)), ((4, 1), (4, 3)), ((), (4, 3)), ((1, 3), (5, 4, 3))]:
    s = mg.tensor(np.ones(small), requires_grad=True)
    (s * mg.ones(*large)).sum().backward()
    copies = np.prod(large) // max(np.prod(small), 1)
    print(
        f"{small!s:8} over {large!s:10} each element was used {copies:2.0f} times:", s.grad.tolist()
    )
    assert s.grad.shape == small and (s.grad.numpy() == copies).all()

# %% [markdown]
# ### A trap: sums of short numbers
#
# float16 has 11 bits of precision. Counting upwards by one stops at 2,048, because the next float16
# number is 2,050. A bias that is used 4,096 times would get a wrong gradient from a plain sum in
# float16; `unbroadcast` adds up 16-bit numbers in float32 and rounds once, at the end.

# %%
total = np.float16(0)
for _ in range(4096):
    total += np.float16(1)
print("counting in float16:", total)

half = mg.tensor(np.zeros(1), dtype=mg.float16, requires_grad=True)
(half + mg.zeros(4096, dtype=mg.float16)).sum().backward()
print("the gradient:", half.grad)
assert half.grad.item() == 4096

# %% [markdown]
# ## A row of your own
#
# `mg.elementwise` makes an op. The bell curve $y = e^{-x^2}$ has the derivative $-2xy$:

# %%
bell = mg.elementwise(
    lambda x: np.exp(-x * x), name="bell", dx=lambda x, y: -2 * x * y, doc="y = exp(−x²)"
)
print(bell, "->", bell(mg.tensor([0.0, 1.0])))

# %% [markdown]
# Is it right? `gradcheck` compares with finite differences. The same line was also used for the
# derivative of the derivative and for forward mode, since a partial is an ordinary function of
# tensors; these can be checked too:

# %%
points = rng.standard_normal(5)
print("gradient      ", gradcheck(bell, points))
print("second order  ", gradgradcheck(bell, points))
print("forward mode  ", jvpcheck(bell, points))
print("with broadcast", gradcheck(lambda x, c: bell(x * c), (rng.standard_normal((3, 1)), points)))

# %% [markdown]
# A forgotten factor is found, and the message names the entry:

# %%
wrong = mg.elementwise(lambda x: np.exp(-x * x), name="wrong_bell", dx=lambda x, y: -x * y)
try:
    gradcheck(wrong, points)
except GradcheckError as error:
    print(str(error).partition("to see it:")[0])
else:
    raise AssertionError("a missing factor must be found")

# %% [markdown]
# ## Exercises
#
# ### Exercise 1
#
# Write `summed_axes(small, large)`: the list of the axes of `large` over which the gradient of an
# array of shape `small` is summed.


# %% answer
def summed_axes(small, large): ...


# %% check
@exercise(1)
def check(summed_axes):
    for small, large in [((3,), (4, 3)), ((), (4, 3)), ((4, 1), (4, 3)), ((1, 3), (5, 4, 3))]:
        given = np.arange(np.prod(large), dtype=float).reshape(large)
        s = mg.tensor(np.zeros(small), requires_grad=True)
        (s + mg.tensor(given)).backward(given)
        axes = tuple(summed_axes(small, large))
        front = tuple(range(len(large) - len(small)))
        assert axes[: len(front)] == front, "Axes in front that `small` lacks are summed first."
        summed = given.sum(axis=axes, keepdims=True)
        hint = f"{small} over {large}: an axis of length 1 is copied too, and an equal axis is not."
        assert summed.size == s.size and np.allclose(s.grad, summed.reshape(small)), hint


# %% wrong
def summed_axes(small, large):
    return list(range(len(large) - len(small)))


# %% solution
# Axes in front, and axes where `small` has length 1 and `large` more.
def summed_axes(small, large):
    extra = len(large) - len(small)
    return [i for i, n in enumerate(large) if i < extra or (small[i - extra] == 1 != n)]


# %% [markdown]
# ### Exercise 2
#
# Make the row of $y = \log(1 + x^2)$ with `mg.elementwise`. The check runs `gradcheck`,
# `gradgradcheck` and `jvpcheck` on it.

# %% answer
log1p_square = ...  # mg.elementwise(...)


# %% check
@exercise(2)
def check(log1p_square):
    assert np.allclose(log1p_square(points), np.log1p(points**2)), "The result is not log(1 + x²)."
    hint = "The derivative fails gradcheck. Does it have the inner derivative, that of x², too?"
    assert gradcheck(log1p_square, points, raise_exception=False), hint
    hint = "The first derivative is right, its derivative is not: write it with NumPy's functions."
    assert gradgradcheck(log1p_square, points, raise_exception=False), hint
    assert jvpcheck(log1p_square, points, raise_exception=False), hint


# %% wrong
log1p_square = mg.elementwise(
    lambda x: np.log1p(x * x), name="log1p_square", dx=lambda x: 1 / (1 + x * x)
)

# %% solution
# The derivative is 2x / (1 + x²).
log1p_square = mg.elementwise(
    lambda x: np.log1p(x * x), name="log1p_square", dx=lambda x: 2 * x / (1 + x * x)
)

# %% [markdown]
# ### Exercise 3
#
# $y = a / (b \circ c)$ with four million float64 elements each, all three requiring gradients. How
# many bytes are saved in addition to the inputs themselves? Look at the entries of `mul` and `div`.

# %% answer
extra_bytes = ...  # a number


# %% check
@exercise(3)
def check(extra_bytes):
    a, b, c = (mg.tensor(np.ones(1000), requires_grad=True) for _ in range(3))
    y = a / (b * c)
    nodes = [y.node, *[p for p in y.node.parents if hasattr(p, "plan")]]
    inputs = {id(t.data) for t in (a, b, c)}
    saved = {id(s): s.nbytes for node in nodes for s in node.saved if id(s) not in inputs}
    hint = "mul saves its two arguments, div its divisor and its result. Which are not inputs?"
    assert extra_bytes == 4000 * sum(saved.values()), hint


# %% wrong
extra_bytes = 8 * 4_000_000

# %% solution
# mul saves b and c, which are inputs. div saves its divisor b∘c, and its result y for the
# derivative for the divisor: two arrays that are not inputs, 64 MB.
extra_bytes = 2 * 8 * 4_000_000

# %% [markdown]
# ### Exercise 4
#
# Standardising columns, $y = (x - \text{mean}(x)) / \text{std}(x)$, broadcasts twice. For which of
# the powers $k = 1, 2, 3$ is the gradient of $\sum y^k$ with respect to $x$ zero, whatever $x$ is?

# %% answer
powers = ...  # a set, such as {1, 2, 3}


# %% check
@exercise(4)
def check(powers):
    hints = {
        1: "k = 1: what does a column of y add up to?",
        2: "k = 2: what is the variance of a column of y?",
        3: "k = 3: is the sum of cubes the same for every x?",
    }
    for k, hint in hints.items():
        x = mg.tensor(np.random.default_rng(k).standard_normal((6, 3)), requires_grad=True)
        y = (x - x.mean(axis=0)) / x.std(axis=0)
        (y**k).sum().backward()
        assert (k in powers) == np.allclose(x.grad, 0, atol=1e-9), hint


# %% wrong
powers = {1}

# %% solution
# Every column of y sums to zero and has variance 1, whatever x is: the sums of y and of y² are
# constant, and a constant has the gradient zero.
powers = {1, 2}
