# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 4 · Second order: the derivative of the derivative
#
# A gradient is computed by multiplications, sums and the like. If these are recorded too, the
# gradient can be differentiated again. This notebook shows how that works with rules that were
# written once, and three things it is good for: products with the Hessian, Newton's method, and a
# loss that contains a gradient.

# %%
import inspect

import matplotlib.pyplot as plt
import numpy as np
from exercises import exercise

import minigrad as mg
from minigrad import func

mg.show_versions()
mg.manual_seed(0)
rng = np.random.default_rng(0)

# %% [markdown]
# ## `create_graph=True`
#
# An ordinary backward runs on plain arrays and leaves nothing behind. With `create_graph=True` it
# runs on tensors, so its own operations are recorded, and the gradient it returns has a history.

# %%
x = mg.linspace(-4, 4, 200).requires_grad_()
curves = [np.sin(x) * np.exp(-x * x / 8)]
for _ in range(3):
    curves.append(mg.grad(curves[-1].sum(), x, create_graph=True))

plt.figure(figsize=(7, 2.8))
for order, curve in enumerate(curves):
    plt.plot(x.detach().numpy(), curve.detach().numpy(), label="f" + "′" * order)
plt.legend(ncol=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
plt.grid(alpha=0.3)
plt.tight_layout()
print("the third derivative was made by", curves[-1].grad_fn)

# %% [markdown]
# (`.sum()` because each $y_i$ depends on $x_i$ alone, so the gradient of the sum holds every
# derivative at once.)
#
# No operation has a rule for its second derivative. The rule of `tanh` says
# `dx=lambda y: 1 - y * y`. With plain arrays `y * y` is NumPy's product. With tensors it is the op
# `mul`, which has a rule itself. **A rule is written once and read twice.** This is the function
# that applies rules in a recorded backward:

# %%
from minigrad.engine import backward
from minigrad.engine.plan import Plan

print(inspect.getsource(backward._recorded_vjp))
print(inspect.getsource(Plan.recorded))

# %% [markdown]
# A node saves arrays, not tensors. `recorded` turns them into tensors *at their vertex of the
# graph*: a saved input gets the node that made it, the saved result gets this node. That is what
# the second derivative needs: $1 - y^2$ must know that $y$ depends on $x$. Were `y` a constant
# here, the second derivative of tanh would come out as zero. (The `copy` at the end of the graph
# below is the engine's: what it hands out shares no memory with anything else, notebook 3.)

# %%
t = mg.tensor(0.5, requires_grad=True)
first = mg.grad(mg.tanh(t), t, create_graph=True)
print(mg.graph_text(first))
second = mg.grad(first, t)
y = np.tanh(0.5)
print("tanh″(0.5) =", second, "  by hand:", -2 * y * (1 - y * y))
assert np.isclose(second.item(), -2 * y * (1 - y * y))

# %% [markdown]
# ## The Hessian, and products with it
#
# For a function of $n$ variables the second derivatives form a matrix, the Hessian
# $H_{ij} = \partial^2 f / \partial x_i \partial x_j$. For a network of a million weights it has
# $10^{12}$ entries. But many methods only need products $H v$, and these cost about as much as a
# few gradients:
#
# $$ H v = \frac{\partial}{\partial x} \big\langle \nabla f(x), v \big\rangle
#        = \frac{\mathrm d}{\mathrm d \epsilon} \nabla f(x + \epsilon v) \Big|_{\epsilon = 0} . $$
#
# The middle form says: take the gradient, multiply by $v$, take the gradient again (reverse over
# reverse). The right one says: push the direction $v$ *forward* through the computation of the
# gradient (forward over reverse). The second needs no graph of the backward.


# %%
def f(x):
    return (np.sin(x[:-1]) * x[1:] ** 2).sum() + np.exp(-(x * x).sum())


x0 = mg.tensor(rng.standard_normal(6))
v = mg.tensor(rng.standard_normal(6))


def reverse_over_reverse(f, x, v):
    x = x.detach().requires_grad_()
    gradient = mg.grad(f(x), x, create_graph=True)
    return mg.grad((gradient * v).sum(), x)


def forward_over_reverse(f, x, v):
    return func.jvp(func.grad(f), (x,), (v,))[1]


H = func.hessian(f)(x0)
print("H v                  ", (H @ v).numpy().round(6))
print("reverse over reverse ", reverse_over_reverse(f, x0, v).numpy().round(6))
print("forward over reverse ", forward_over_reverse(f, x0, v).numpy().round(6))
print("H is symmetric       ", np.allclose(H.numpy(), H.T.numpy()))
assert np.allclose((H @ v).numpy(), reverse_over_reverse(f, x0, v).numpy())
assert np.allclose((H @ v).numpy(), forward_over_reverse(f, x0, v).numpy())

# %% [markdown]
# `func.hvp` is the second of the two, and the whole Hessian is one such product for each unit
# vector, batched:

# %%
print(inspect.getsource(func.hvp))
print(inspect.getsource(func.hessian))

# %% [markdown]
# What does a product cost? Count operations with a profile, for a chain of 50 layers:


# %%
def chain(x):
    for _ in range(50):
        x = np.tanh(x * 1.1)
    return x.sum()


def operations(fn):
    with mg.profile() as prof:
        fn()
    return sum(row.calls for row in prof.rows())


big = mg.tensor(rng.standard_normal(100))
direction = mg.tensor(rng.standard_normal(100))
counts = {
    "value": operations(lambda: chain(big)),
    "gradient": operations(lambda: func.grad(chain)(big)),
    "H v, reverse over reverse": operations(lambda: reverse_over_reverse(chain, big, direction)),
    "H v, forward over reverse": operations(lambda: forward_over_reverse(chain, big, direction)),
}
for name, count in counts.items():
    print(f"{name:27s} {count:5d} operations")

# %% [markdown]
# Two or three gradients, whatever the number of variables. The full Hessian would be 100 such
# products. (A gradient counts four times the value, and not twice: a transform runs the rules on
# tensors, so that the ops inside a rule, as the two of $1 - y^2$, are counted besides the rule.)
#
# ## Newton's method
#
# Gradient descent goes down the slope. Newton's method fits a parabola to slope *and* curvature and
# jumps to its bottom: $x \leftarrow x - H^{-1} \nabla f$. Rosenbrock's valley is the classical
# test: $f(x, y) = (1 - x)^2 + 100\,(y - x^2)^2$, with a long curved floor and its minimum at (1,
# 1).


# %%
def rosenbrock(p):
    x, y = p[0], p[1]
    return (1 - x) ** 2 + 100 * (y - x * x) ** 2


start = mg.tensor([-1.2, 1.0])

p, newton = start, [start.numpy()]
for _ in range(7):
    g, H = func.grad(rosenbrock)(p), func.hessian(rosenbrock)(p)
    p = p - mg.linalg.solve(H, g)
    newton.append(p.numpy())
    print(f"f = {rosenbrock(p).item():.3e}   at {p.numpy().round(6)}")

p, descent = start, [start.numpy()]
for _ in range(2000):
    p = p - 0.002 * func.grad(rosenbrock)(p)
    descent.append(p.numpy())
print(f"gradient descent after 2,000 steps: f = {rosenbrock(p).item():.3e}")
assert np.allclose(newton[-1], 1, atol=1e-8)

# %%
xs, ys = np.meshgrid(np.linspace(-1.6, 1.6, 120), np.linspace(-3.5, 2, 160))
heights = (1 - xs) ** 2 + 100 * (ys - xs**2) ** 2
newton_path, descent_path = np.array(newton), np.array(descent)

plt.figure(figsize=(6.4, 4.2))
plt.contour(xs, ys, np.log10(heights + 1e-3), levels=14, cmap="Greys", linewidths=0.7)
plt.plot(*descent_path.T, label="gradient descent, 2,000 steps")
plt.plot(*newton_path.T, "o-", markersize=4, label="Newton, 7 steps")
plt.plot(1, 1, "k*", markersize=10)
plt.xlabel("x")
plt.ylabel("y")
plt.legend(loc="lower left")
plt.tight_layout()

# %% [markdown]
# Newton's second step leaves the valley, and the third comes back: far from the minimum the
# parabola may be a poor picture of the function, and real implementations check each step. Near the
# minimum the number of right digits doubles with every step.
#
# With many variables one solves $H s = \nabla f$ without $H$: the method of conjugate gradients
# only asks for products. Here are 2,000 variables; the Hessian would have four million entries.


# %%
def cg(product, b, steps, tolerance=1e-10):
    """Solve A s = b, A symmetric and positive, product(v) = A v. Returns (s, products used)."""
    s, r = np.zeros_like(b), b.copy()
    direction, rr = r.copy(), r @ r
    for k in range(steps):
        if rr < tolerance**2:
            return s, k
        along = product(direction)
        step = rr / (direction @ along)
        s, r = s + step * direction, r - step * along
        direction, rr = r + (r @ r / rr) * direction, r @ r
    return s, steps


def elastic(x):
    """2,000 joints in a chain of springs that stiffen, pulled by a weight at each joint."""
    stretch = x[1:] - x[:-1]
    return (stretch**2 / 2 + stretch**4).sum() + (x**2).sum() / 100 - 0.01 * x.sum()


x = mg.zeros(2000) + 0.1 * np.sin(np.arange(2000))
for _ in range(3):
    g = func.grad(elastic)(x).numpy()
    _, push = func.linearize(func.grad(elastic), x)  # H v for this x, as often as we like
    step, products = cg(lambda v: push(mg.tensor(v)).numpy(), g, 400)
    x = x - mg.tensor(step)
    print(f"|gradient| {np.linalg.norm(g):.1e}, {products} products with the Hessian")
print(f"|gradient| {np.linalg.norm(func.grad(elastic)(x).numpy()):.1e}")
assert np.linalg.norm(func.grad(elastic)(x).numpy()) < 1e-8

# %% [markdown]
# ## A loss that contains a gradient
#
# Fit a curve through a few noisy points. A network with enough weights goes through all of them and
# swings in between. A **gradient penalty** asks for a small slope: the loss contains
# $\int (\mathrm d y / \mathrm d x)^2$, so its gradient for the weights is a second derivative,
# $\partial^2 y / \partial x \, \partial w$.

# %%
points = mg.tensor(np.sort(rng.uniform(-1, 1, 12)).reshape(-1, 1))
targets = mg.tensor(np.sin(3 * points.numpy()) + 0.25 * rng.standard_normal((12, 1)))
grid = np.linspace(-1, 1, 64).reshape(-1, 1)


def train(penalty, steps=600):
    mg.manual_seed(0)
    model = mg.nn.Sequential(
        mg.nn.Linear(1, 32), mg.nn.Tanh(), mg.nn.Linear(32, 32), mg.nn.Tanh(), mg.nn.Linear(32, 1)
    )
    for p in model.parameters():
        p.data = p.data.astype(np.float64)
    optimizer = mg.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = ((model(points) - targets) ** 2).mean()
        if penalty:
            x = mg.tensor(grid, requires_grad=True)
            slope = mg.grad(model(x).sum(), x, create_graph=True)  # its history stays
            loss = loss + penalty * (slope**2).mean()
        loss.backward()
        optimizer.step()
    with mg.no_grad():
        return model(mg.tensor(grid)).numpy()


free, smooth = train(0.0), train(0.02)
plt.figure(figsize=(7, 2.8))
plt.plot(points.numpy(), targets.numpy(), "ko", markersize=4, label="data")
plt.plot(grid, np.sin(3 * grid), ":", color="grey", label="where the data come from")
plt.plot(grid, free, label="no penalty")
plt.plot(grid, smooth, label="with gradient penalty")
plt.legend(fontsize=8)
plt.tight_layout()

truth = np.sin(3 * grid)
errors = [float(np.mean((curve - truth) ** 2)) for curve in (free, smooth)]
print("mean squared distance to the true curve:", [round(e, 4) for e in errors])
assert errors[1] < errors[0]

# %% [markdown]
# ## Three things to know
#
# **`retain_graph` is not `create_graph`.** The first keeps the saved arrays for another backward
# over the same graph. The second records the backward. `create_graph` implies `retain_graph`.
#
# **`mg.grad`, not `.backward(create_graph=True)`.** The latter puts a gradient with a history into
# `x.grad`. The history leads to `x`, and `x` holds `.grad`: a reference cycle, which only Python's
# cycle collector frees. `mg.grad` returns the gradient and makes none.
#
# **A rule that cannot be differentiated says so.** A backward written in foreign code, marked
# `once_differentiable`, has a right gradient; asking for the gradient of that is an error, not a
# silent zero:


# %%
class Cube(mg.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @mg.once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2


x = mg.tensor(2.0, requires_grad=True)
print("first order:", mg.grad(Cube.apply(x), x))
gradient = mg.grad(Cube.apply(x), x, create_graph=True)
try:
    mg.grad(gradient, x)
except mg.errors.RuleError as error:
    print("second order:", error)
else:
    raise AssertionError("a second derivative that is not known must be an error")

# %% [markdown]
# ## Exercises
#
# ### Exercise 1
#
# Write `taylor(f, order)`: the coefficients of the Taylor polynomial of `f` at 0, from $x^0$ to
# $x^{order}$, by differentiating `order` times. The check asks for $e^{\sin x}$.


# %% answer
def taylor(f, order): ...


# %% check
@exercise(1)
def check(taylor):
    found = [float(c) for c in taylor(lambda x: np.exp(np.sin(x)), 5)]
    assert len(found) == 6, "x⁰ to x⁵ are six coefficients."
    assert np.allclose(found[:2], 1), "The value and the slope of exp(sin x) at 0 are 1."
    assert np.isclose(found[2], 1 / 2), "The coefficient of xⁿ is the nth derivative over n!."
    assert np.allclose(found[3:], [0, -1 / 8, -1 / 15]), "The polynomial goes wrong from x³ on."


# %% wrong
def taylor(f, order):
    x = mg.tensor(0.0, requires_grad=True)
    derivatives = [f(x)]
    for _ in range(order):
        derivatives.append(mg.grad(derivatives[-1], x, create_graph=True))
    return [d.item() for d in derivatives]


# %% solution
# exp(sin x) = 1 + x + x²/2 − x⁴/8 − x⁵/15 + ...
def taylor(f, order):
    x = mg.tensor(0.0, requires_grad=True)
    derivative, factorial, coefficients = f(x), 1, []
    for n in range(order + 1):
        coefficients.append(derivative.item() / factorial)
        derivative, factorial = mg.grad(derivative, x, create_graph=True), factorial * (n + 1)
    return coefficients


# %% [markdown]
# ### Exercise 2
#
# Hutchinson: for random signs $v$, $\mathbb E[v^\top H v] = \operatorname{tr} H$. Write
# `trace(signs)`, the estimate of the trace of the Hessian of `f` at `x0` from the rows of `signs`,
# of shape (n, 6).


# %% answer
def trace(signs): ...


# %% check
@exercise(2)
def check(trace):
    signs = np.random.default_rng(5).choice([-1.0, 1.0], (2000, 6))
    H = func.hessian(f)(x0).numpy()
    each = ((signs @ H) * signs).sum(axis=1)
    hint = (
        f"The 2,000 products vᵀHv have the mean {each.mean():.4g}. Add up the six entries of each."
    )
    assert np.isclose(float(trace(mg.tensor(signs))), each.mean()), hint


# %% wrong
def trace(signs):
    products = func.vmap(lambda v: func.hvp(f, (x0,), (v,)))(signs)
    return (signs * products).mean()


# %% solution
# The products are one batch: vmap over the rows of signs. The estimate's error is the spread of the
# products over √2000.
def trace(signs):
    products = func.vmap(lambda v: func.hvp(f, (x0,), (v,)))(signs)
    return (signs * products).sum(axis=1).mean()


# %% [markdown]
# ### Exercise 3
#
# What is the second derivative of `relu` at −1, and at 2? What does minigrad answer at 0? And what
# would be wrong with Newton's method on a network of `relu` with a linear loss?

# %% answer
second = ...  # three numbers, for x = -1, 0 and 2


# %% check
@exercise(3)
def check(second):
    x = mg.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    slope = mg.grad((mg.relu(x) * x.detach()).sum(), x, create_graph=True)
    found = mg.grad(slope.sum(), x, allow_unused=True) if slope.requires_grad else None
    found = np.zeros(3) if found is None else found.numpy()
    assert second[0] == found[0], "Left of 0 relu is constant."
    assert second[2] == found[2], "Right of 0 relu is a straight line: how does its slope change?"
    assert second[1] == found[1], "At 0 minigrad takes the second derivative of one of the sides."


# %% wrong
second = [0, 0, 1]

# %% solution
# Zero, and zero at 0 as well. The Hessian for the weights of one layer is then zero: nothing to
# solve with. (Products of weights of different layers still curve.)
second = [0, 0, 0]

# %% [markdown]
# ### Exercise 4
#
# Where is Rosenbrock's Hessian not positive definite? Find a point from which the Newton step
# $-H^{-1} \nabla f$ does not even begin downwards.

# %% answer
point = ...  # two numbers, x and y


# %% check
@exercise(4)
def check(point):
    p = mg.tensor([float(v) for v in point])
    g, H = func.grad(rosenbrock)(p).numpy(), func.hessian(rosenbrock)(p).numpy()
    least = np.linalg.eigvalsh(H)[0]
    hint = (
        f"The least eigenvalue is {least:.3g}. The determinant is 400 + 80,000 (x² − y): when < 0?"
    )
    assert least < 0, hint
    slope = -g @ np.linalg.solve(H, g)
    hint = f"H is indefinite, yet f falls along the step (slope {slope:.3g}): go nearer to y = x²."
    assert slope > 0, hint


# %% wrong
point = 1.0, 1.0

# %% wrong
point = 0.0, 1.0

# %% solution
# H = [[2 − 400 (y − x²) + 800 x², −400 x], [−400 x, 200]] has the determinant
# 400 + 80,000 (x² − y), negative for y > x² + 1/200. Along the eigenvector of a negative eigenvalue
# −H⁻¹∇f has the direction of +∇f. Near y = x² that part of the gradient is the larger one.
point = 0.0, 0.01
