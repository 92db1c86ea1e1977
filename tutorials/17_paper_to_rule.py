# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 17 · From paper to rule
#
# A paper has a formula that no library has. This notebook takes one from the page to an op that
# you can rely on: derive, write, let the harness find what is wrong, test, make it fast, use it.
# The formula has a kink, and two more points where it bends. The first version here is wrong in
# three ways that no ordinary test would notice.
#
# You need notebooks 9 and 13.

# %%
import inspect
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from exercises import exercise

import minigrad as mg
from minigrad.testing import (
    Point,
    Sample,
    cli,
    gradcheck,
    gradgradcheck,
    jvpcheck,
    register_op,
)
from minigrad.testing.case import Context
from minigrad.testing.run import check_spec

mg.show_versions()
mg.manual_seed(0)
rng = np.random.default_rng(0)

# %% [markdown]
# ## The paper
#
# J. Fan and R. Li, *Variable Selection via Nonconcave Penalized Likelihood and its Oracle
# Properties*, JASA 96 (2001). A regression should set small coefficients to zero, and leave large
# ones alone. The penalty $\lambda |x|$ (lasso) does the first, but shrinks every coefficient by
# $\lambda$. The authors want a penalty whose **slope** falls to zero for large $x$. They give the
# slope alone, for $x > 0$ and with $\alpha = 3.7$:
#
# $$ p'_\lambda(x) = \lambda \Big\{ \mathbb 1(x \le \lambda)
#    + \frac{(\alpha \lambda - x)_+}{(\alpha - 1) \lambda} \, \mathbb 1(x > \lambda) \Big\} . $$
#
# $(z)_+$ is $\max(z, 0)$. This is SCAD, the smoothly clipped absolute deviation.
#
# ## Derive
#
# **The value** is the integral of the slope from 0, and it is even in $x$. With $t = |x|$:
#
# $$ p = \begin{cases}
#    \lambda t & t \le \lambda \\
#    \lambda t - \frac{(t - \lambda)^2}{2 (\alpha - 1)} & \lambda < t \le \alpha \lambda \\
#    \frac{\alpha + 1}{2} \lambda^2 & t > \alpha \lambda
#    \end{cases} $$
#
# The middle line at $t = \alpha \lambda$ is the last line. So one line says all three, with
# $m = \min(t, \alpha \lambda)$:
#
# $$ p = \lambda m - \frac{(m - \lambda)_+^2}{2 (\alpha - 1)} . $$
#
# **The derivative by $x$** is the paper's slope with the sign of $x$. **The derivative by
# $\lambda$** is not in the paper, and we want it, to learn $\lambda$. Line by line:
#
# $$ \frac{\partial p}{\partial \lambda} = t, \qquad \frac{\alpha t - \lambda}{\alpha - 1},
#    \qquad (\alpha + 1) \lambda . $$
#
# What of $\lambda < 0$? The paper needs no answer, a function must have one. We take
# $p_{-\lambda} = p_\lambda$.

# %%
ALPHA = 3.7


def three_lines(x, lam):
    """p as derived, line by line: the reference, to compare with."""
    t, lam = np.abs(x), np.abs(lam)
    middle = lam * t - (t - lam) ** 2 / (2 * (ALPHA - 1))
    flat = (ALPHA + 1) / 2 * lam**2
    return np.where(t > ALPHA * lam, flat, np.where(t > lam, middle, lam * t))


def one_line(x, lam):
    """The same: p = λ m − (m − λ)₊²/(2(α − 1)) with m = min(|x|, α|λ|)"""
    lam = np.abs(lam)
    m = np.minimum(np.abs(x), ALPHA * lam)
    return lam * m - np.maximum(m - lam, 0) ** 2 / (2 * (ALPHA - 1))


grid = np.linspace(-6, 6, 1201)
slope = np.where(grid <= 1, 1.0, np.maximum(ALPHA - grid, 0) / (ALPHA - 1))[grid >= 0]
integral = np.concatenate([[0], np.cumsum((slope[1:] + slope[:-1]) / 2 * 0.01)])
print(f"integral of the slope: off by {abs(integral - one_line(grid[grid >= 0], 1.0)).max():.1e}")
print(
    f"three lines, one line: off by {abs(three_lines(grid, 1.0) - one_line(grid, 1.0)).max():.1e}"
)
assert np.allclose(integral, one_line(grid[grid >= 0], 1.0), atol=1e-4)

# %% [markdown]
# ## Write: the first version
#
# The op is elementwise, so it is one row of the calculus table. The partials translate the formulas
# in the obvious way: the sign of $x$ times the slope, the sign of $\lambda$ times the derivative
# for $|\lambda|$.


# %%
def first_dx(x, lam):
    lam = np.abs(lam)
    falling = np.maximum((ALPHA * lam - np.abs(x)) / (ALPHA - 1), 0)
    return np.sign(x) * np.minimum(falling, lam)


def first_dlam(x, lam):
    m = np.minimum(np.abs(x), ALPHA * np.abs(lam))
    return np.sign(lam) * (m + np.maximum(m - np.abs(lam), 0) / (ALPHA - 1))


first = mg.elementwise(one_line, name="first_scad", dx=first_dx, dlam=first_dlam)

x0, lam0 = rng.uniform(-4, 4, 7), np.array(0.9)
print([check(first, (x0, lam0)) for check in (gradcheck, gradgradcheck, jvpcheck)])

# %% [markdown]
# Gradient, second order and forward mode are right at seven random points. Many would stop here.
#
# ## Check
#
# Put the op under all checks. **Samples** cover every line of the formula, away from its seams.
# **Points** are the seams themselves, with the exact value and gradients. At a kink the derivative
# does not exist, and the answer is a **convention**, which we state: 0 at $x = 0$, between the
# one-sided slopes $-\lambda$ and $\lambda$. A coefficient that is zero then stays zero.


# %%
def samples(rng, dtype):
    for shape in [(1,), (5,), (2, 3)]:
        lam = rng.uniform(0.5, 1.5, shape)
        ratio = rng.choice([0.3, 0.7, 1.5, 2.5, 3.2, 4.5], shape) * rng.choice([-1, 1], shape)
        yield Sample(f"shape {shape}", ((ratio * lam).astype(dtype), lam.astype(dtype)))


one, zero = np.ones(1), np.zeros(1)
points = [
    Point("the kink", (zero, one), value=zero, grads=(zero, zero), kink=True),
    Point("the slope begins to fall", (one, one), value=one, grads=(one, one)),
    Point("the slope is 0", (ALPHA * one, one), (ALPHA + 1) / 2 * one, (zero, (ALPHA + 1) * one)),
]

register_op("first_scad", samples, reference=three_lines, points=points)
status = cli.main(["--ops", "first_scad"])
assert status == 1

# %% [markdown]
# Three findings, and all three are real.
#
# **K12, special values.** At $x = \lambda = \infty$ the one-line form computes $\infty - \infty$
# and says NaN, the three lines say $\infty$. The same happens from $\lambda \approx 10^{154}$ on,
# where $\lambda^2$ overflows. The mend is a sum of terms that are never negative. With
# $b = \min(t, \alpha \lambda) - \lambda$, the way beyond $\lambda$:
#
# $$ p = \lambda \min(t, \lambda)
#    + b \Big( \lambda - \frac{b}{2 (\alpha - 1)} \Big) \;\text{ where } t > \lambda . $$
#
# **K27, small arguments and zeros.** At $\lambda = 0$ and $x \ne 0$ the second derivative by
# $\lambda$ is $\alpha + 1 = 4.7$: near there $p$ is $\frac{\alpha + 1}{2} \lambda^2$. Our rule says
# 0. Why? It ends in $\operatorname{sign}(\lambda) \cdot (\dots)$. The value at 0 is right, but the
# derivative of this product sees $\operatorname{sign}(0) = 0$. The mend is a form without a sign.
# A clip to $\pm t$ is odd by itself:
#
# $$ \frac{\partial p}{\partial \lambda} = \frac{\alpha \operatorname{clip}(\alpha \lambda, -t, t)
#    - \operatorname{clip}(\lambda, -t, t)}{\alpha - 1} . $$
#
# Take the three cases for $\lambda > 0$, and all three lines appear.
#
# **K32, digits.** At $t = \lambda$ two numbers tie in `np.minimum`, and a tie shares the derivative
# among both. But one of them was *computed*, so in float32 rounding decides whether they tie. The
# mend compares the arguments themselves: `t <= lam`.


# %%
def value(x, lam):
    t, lam = np.abs(x), np.abs(lam)
    b = np.minimum(t, ALPHA * lam) - lam
    return lam * np.minimum(t, lam) + np.where(t > lam, b * (lam - b / (2 * (ALPHA - 1))), 0)


def dx(x, lam):
    t, lam = np.abs(x), np.abs(lam)
    return np.sign(x) * np.where(t <= lam, lam, np.maximum(ALPHA * lam - t, 0) / (ALPHA - 1))


def dlam(x, lam):
    t = np.abs(x * 1.0)  # of unsigned integers −t would wrap around
    return (ALPHA * np.clip(ALPHA * lam, -t, t) - np.clip(lam, -t, t)) / (ALPHA - 1)


scad = mg.elementwise(
    value,
    name="scad",
    dx=dx,
    dlam=dlam,
    doc="y = ∫₀^|x| min(λ, (αλ − s)₊/(α − 1)) ds, λ > 0, α = 3.7 ;  dy/dx = 0 at x = 0",
)
register_op("scad", samples, reference=three_lines, points=points)
status = cli.main(["--ops", "scad"])
assert status == 0

# %% [markdown]
# The comment in `dlam` is a fourth finding, of K15. Leave out `* 1.0`, and an `x` of type `uint8`
# gives a wrong gradient for $\lambda$.
#
# Look at the op, its slope and its curvature, beside the lasso's:

# %%
x = mg.tensor(grid, requires_grad=True)
figure, axes = plt.subplots(1, 3, figsize=(9.5, 2.8), sharex=True)
for label, f, style in (
    ("lasso", lambda x: mg.abs(x), "--"),
    ("SCAD", lambda x: scad(x, 1.0), "-"),
):
    y = f(x)
    g = mg.grad(y.sum(), x, create_graph=True)
    h = mg.grad(g.sum(), x) if label == "SCAD" else mg.zeros_like(x)
    colour = "#c0392b" if label == "lasso" else "#33567f"
    for ax, curve in zip(axes, (y, g, h)):
        ax.plot(grid, curve.detach().numpy(), style, color=colour, label=label)
for ax, title in zip(axes, ("value", "derivative", "second derivative")):
    ax.set(title=title, xlabel="x, for λ = 1")
    ax.grid(alpha=0.3)
axes[0].legend(fontsize=8)
figure.tight_layout()

# %% [markdown]
# The derivative jumps at 0 and bends at $\lambda$ and $\alpha \lambda$. There the second derivative
# jumps. So differences cannot judge at the seams, and points do it instead. What K11 asks at a
# kink: is the answer between the one-sided derivatives, in every direction?

# %%
from minigrad.testing.checks import kinks

print(inspect.getsource(kinks.between_one_sided))

# %% [markdown]
# ## What the harness catches
#
# Plant mistakes that people make with such a formula. For each: does a usual test notice it, one
# that compares gradients of a sum at a few positive $x$? Which checks of the harness do?


# %%
def with_sign_lost(x, lam):
    t, lam = np.abs(x), np.abs(lam)
    return np.where(t <= lam, lam, np.maximum(ALPHA * lam - t, 0) / (ALPHA - 1))


def with_slope_at_zero(x, lam):
    return np.where(x >= 0, 1.0, -1.0) * with_sign_lost(x, lam)


def with_a_hard_edge(x, lam):
    return np.where(np.abs(x) <= lam, dx(x, lam), 0 * dx(x, lam))


def with_lam_forgotten(x, lam):
    return np.abs(x)


planted = {
    "the sign of x is lost": (with_sign_lost, dlam),
    "slope λ at the kink": (with_slope_at_zero, dlam),
    "0 already from λ on": (with_a_hard_edge, dlam),
    "∂p/∂λ = |x| everywhere": (dx, with_lam_forgotten),
    "the first version": (first_dx, first_dlam),
}


def usual_test(op, at=(0.2, 0.5, 0.8)):
    """The gradients of op(x, 1).sum() by x and λ against differences; whether all agree."""
    x, h = np.array(at), 1e-6
    leaves = [mg.tensor(x, requires_grad=True), mg.tensor(1.0, requires_grad=True)]
    op(*leaves).sum().backward()
    by_x = (value(x + h, 1.0) - value(x - h, 1.0)) / (2 * h)
    by_lam = (value(x, 1.0 + h) - value(x, 1.0 - h)).sum() / (2 * h)
    return np.allclose(leaves[0].grad, by_x) and np.allclose(leaves[1].grad, by_lam)


for what, (by_x, by_lam) in planted.items():
    op = mg.elementwise(value, name="planted_scad", dx=by_x, dlam=by_lam)
    spec = register_op("planted_scad", samples, reference=three_lines, points=points)
    caught = [o.check for o in check_spec(spec, Context("fast", 0)) if o.status == "fail"]
    verdict = "passes" if usual_test(op) else "fails"
    print(f"{what:24s} usual test: {verdict}   fail:", *caught)
    assert usual_test(op) and caught

# %% [markdown]
# The usual test tried only $0 < x < \lambda$. Every planted rule is right there.
#
# ## The same as a Function
#
# Published code often has the form of a class, and often stores the slope in the forward, since all
# numbers are at hand there. That is right once:


# %%
class StoredSlope(mg.Function):
    """SCAD for x alone, λ = 1; the slope is computed in the forward and kept."""

    @staticmethod
    def forward(ctx, x):
        ctx.slope = dx(x, 1.0)
        return value(x, 1.0)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.slope


class SavedArgument(mg.Function):
    """The same; x is kept, and the slope is computed from it in the backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return value(x, 1.0)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * dx(x, 1.0)


for form in (StoredSlope, SavedArgument):
    orders = [check(form.apply, x0, raise_exception=False) for check in (gradcheck, gradgradcheck)]
    print(f"{form.__name__:14s} first order: {orders[0]}, second order: {orders[1]}")

# %% [markdown]
# `ctx.slope` is an array without a history: to the second derivative it is a constant. A saved
# tensor has one. Our row of the table has no such trap, since it is called with tensors when a
# backward is recorded. That $p''$ is needed at all shows the next section.
#
# ## Use it: learn λ
#
# A regression with 20 coefficients, of which four are not zero. Gradient descent on squared error
# plus penalty, 150 steps from the least-squares solution:

# %%
draw = np.random.default_rng(1).standard_normal
true = np.zeros(20)
true[[2, 7, 11, 16]] = [3.0, -2.0, 1.5, -4.0]
inputs, others = draw((2, 60, 20))
measured = inputs @ true + 0.7 * draw(60)
held_out = others @ true + 0.7 * draw(60)
least_squares = np.linalg.lstsq(inputs, measured, rcond=None)[0]


def fit(lam, penalty=scad, steps=150, lr=0.05, create_graph=False):
    """The coefficients after `steps` steps of descent; their history reaches λ if wanted."""
    w = mg.tensor(least_squares, requires_grad=True)
    for _ in range(steps):
        error = mg.tensor(measured) - mg.tensor(inputs) @ w
        loss = (error**2).mean() / 2 + penalty(w, lam).sum()
        w = w - lr * mg.grad(loss, w, create_graph=create_graph)
        if not create_graph:
            w = w.detach().requires_grad_()
    return w


lasso = lambda w, lam: lam * mg.abs(w)
fits = {"lasso": fit(0.3, lasso), "SCAD": fit(0.3)}
figure, ax = plt.subplots(figsize=(9, 2.8))
ax.axhline(0, color="grey", linewidth=0.5)
ax.plot(true, "_", markersize=16, color="black", label="true")
ax.plot(least_squares, ".", color="#9aa0a6", label="least squares")
for (label, w), colour, marker in zip(fits.items(), ("#c0392b", "#33567f"), "sD"):
    ax.plot(w.detach().numpy(), marker, markersize=5, color=colour, label=label)
    error = np.abs(w.detach().numpy() - true)
    large, small = error[true != 0].mean(), error[true == 0].mean()
    print(f"{label:6s} error of the four {large:.3f}, of the rest {small:.3f}")
ax.set(xlabel="coefficient", xticks=range(0, 20, 2))
ax.legend(fontsize=8, ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.2), frameon=False)
figure.tight_layout()

# %% [markdown]
# The lasso pulls each of the four towards zero, SCAD leaves them alone. But how large should
# $\lambda$ be? Ask for the error on other data, and for its derivative by $\lambda$. That goes
# through all 150 steps, each of which holds $p'$. So the derivative needs $p''$ and
# $\partial^2 p / \partial x \, \partial \lambda$: every second derivative that the harness checked.


# %%
def held_out_error(w):
    return ((mg.tensor(held_out) - mg.tensor(others) @ w) ** 2).mean()


lam = mg.tensor(0.05, requires_grad=True)
error = held_out_error(fit(lam, steps=20, create_graph=True))
by_rules = mg.grad(error, lam).item()
h = 1e-7  # small: where a coefficient crosses 0, the path jumps
by_difference = (
    held_out_error(fit(0.05 + h, steps=20)).item() - held_out_error(fit(0.05 - h, steps=20)).item()
) / (2 * h)
print(f"d error/dλ through 20 steps: {by_rules:.8f}, by differences {by_difference:.8f}")
assert abs(by_rules - by_difference) < 1e-5 * abs(by_difference)

path, errors = [0.02], []
for _ in range(8):
    lam = mg.tensor(path[-1], requires_grad=True)
    error = held_out_error(fit(lam, create_graph=True))
    errors.append(error.item())
    path.append(path[-1] - 0.05 * mg.grad(error, lam).item())
print(f"λ from {path[0]} to {path[-2]:.2f}: held-out error {errors[0]:.3f} to {errors[-1]:.3f}")

choices = np.linspace(0.01, 0.5, 12)
figure, ax = plt.subplots(figsize=(7, 3))
for label, penalty, colour in (("lasso", lasso, "#c0392b"), ("SCAD", scad, "#33567f")):
    curve = [held_out_error(fit(choice, penalty)).item() for choice in choices]
    ax.plot(choices, curve, color=colour, label=label)
ax.plot(path[:-1], errors, "o", markersize=4, color="black", label="descent in λ")
ax.set(xlabel="λ", ylabel="held-out error", ylim=(0.4, 1.3))
ax.legend(fontsize=8)
figure.tight_layout()
assert errors[-1] < 0.7 * errors[0]

# %% [markdown]
# ## Make it fast
#
# What does the op gain over its formula, written with tensors? One node in place of many, fewer
# saved arrays, and a rule without detours:

# %%
large_x, large_lam = rng.uniform(-4, 4, 300_000), np.array(1.0)


def saved_bytes(y):
    """(nodes, bytes of the arrays that they have saved, each counted once)"""
    document = mg.graph_dict(y)
    ops = [node for node in document["nodes"] if node["kind"] == "op"]
    arrays = {a["buffer"]: a["bytes"] for node in ops for a in node["saved"]}
    return len(ops), sum(arrays.values())


for name, form in (("formula", three_lines), ("op", scad)):
    leaves = [mg.tensor(v, requires_grad=True) for v in (large_x, large_lam)]
    nodes, held = saved_bytes(form(*leaves))
    print(f"{name:8s} {nodes:2d} nodes, {held / large_x.nbytes:5.2f} arrays saved")

# %% [markdown]
# The next gain: a **variant** of the forward that works in place, in three arrays. The reference
# makes a new one at each step. The operations and their order are the same, and so are the bits.


# %%
@scad.variant(on="cpu", least=4096)
def in_place(x, lam):
    """The reference in three arrays; None unless λ is a number or has the shape of x."""
    if (lam.ndim and lam.shape != x.shape) or x.dtype != lam.dtype or x.dtype.kind != "f":
        return None
    t, lam = np.abs(x), np.abs(lam)
    b = np.minimum(t, ALPHA * lam)
    b -= lam
    y = b / (2 * (ALPHA - 1))
    np.subtract(lam, y, out=y)
    y *= b
    np.copyto(y, 0, where=~(t > lam))
    np.minimum(t, lam, out=t)
    t *= lam
    t += y
    return t


assert np.array_equal(scad(large_x, large_lam), scad.reference(large_x, large_lam))
status = cli.main(["--ops", "scad", "--variants"])
assert status == 0

# %% [markdown]
# K34 compared it with the reference on every dtype and layout. It refused our first version, whose
# condition was `lam.size > 1 and …`: an empty `lam` slipped through. The rows named `loop` are not
# ours. `mg.accelerate()` compiles every row of the table, also this one, if Numba is there. Times
# for 300,000 elements, taken by turns, the least of 15:

# %%
without = mg.elementwise(value, name="scad_without_variant", dx=dx, dlam=dlam)
forms = {"the formula": three_lines, "the op": without, "with the variant": scad}
try:
    import numba  # noqa: F401
except ImportError:
    print("no Numba here")
else:
    forms["compiled"] = without


def seconds(name, backward):
    x, lam = (mg.tensor(v, requires_grad=backward) for v in (large_x, large_lam))
    with mg.accelerate(process=False) if name == "compiled" else nullcontext():
        start = perf_counter()
        total = forms[name](x, lam).sum()
        if backward:
            total.backward()
        return perf_counter() - start


figure, axes = plt.subplots(1, 2, figsize=(9.5, 2.2), sharey=True)
for ax, backward in zip(axes, (False, True)):
    for name in forms:
        seconds(name, backward)  # compiles, fills caches
    turns = [{name: seconds(name, backward) for name in forms} for _ in range(15)]
    least = {name: 1e3 * min(turn[name] for turn in turns) for name in forms}
    bars = ax.barh(list(least), list(least.values()), color="#33567f")
    ax.bar_label(bars, fmt="%.1f ms", padding=3)
    ax.set(xlim=(0, 1.25 * max(least.values())), xticks=[])
    ax.set_title("forward and backward" if backward else "forward", fontsize=10)
    ax.spines[["top", "right", "bottom"]].set_visible(False)
axes[0].invert_yaxis()
figure.tight_layout()

# %% [markdown]
# The variant serves the forward alone. The rules take more time than the forward, and they stay as
# they are. Compiled loops serve both. (On a busy machine such times vary by half; the order of two
# that are close says nothing.)
#
# ## Its test
#
# An op without a test is right today. With minigrad's pytest plugin the test is two lines: one item
# for each check of each op that the file registers. Here the notebook's own functions become that
# file, and pytest runs it:

# %%
TEST = """
scad = mg.elementwise(value, name="scad", dx=dx, dlam=dlam)
one, zero = np.ones(1), np.zeros(1)
points = [
    Point("the kink", (zero, one), value=zero, grads=(zero, zero), kink=True),
    Point("the slope begins to fall", (one, one), value=one, grads=(one, one)),
]
register_op("scad", samples, reference=three_lines, points=points)


def test_scad_passes_every_check(gradcheck_case):
    gradcheck_case()


def test_a_coefficient_of_zero_is_not_moved():
    x = mg.tensor([0.0, 0.5], requires_grad=True)
    scad(x, 1.0).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0]
"""
header = """
import numpy as np
import minigrad as mg
from minigrad.testing import Point, Sample, register_op

ALPHA = 3.7
"""
with tempfile.TemporaryDirectory() as folder:
    parts = [inspect.getsource(f) for f in (value, dx, dlam, three_lines, samples)]
    Path(folder, "test_scad.py").write_text("\n\n".join([header, *parts, TEST]), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--color=no",
        "-p",
        "no:cacheprovider",
        "test_scad.py",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
print(done.stdout)
assert done.returncode == 0

# %% [markdown]
# ## What found what
#
# | step | what it found |
# |---|---|
# | derive | one line for three; the derivative by $\lambda$; a value for $\lambda < 0$ |
# | seven random points | nothing |
# | K12, special values | $\infty - \infty$, and an overflow of $\lambda^2$ |
# | K15, narrow dtypes | a minus sign that wraps around |
# | K27, zeros | a second derivative lost in $\operatorname{sign}(0)$ |
# | K32, digits | a tie between a computed and a given number |
# | K34, variants | an empty array that slipped past a condition |
#
# Also the reference had a fault: with the lines in the order of the formula it turned NaN into
# $\infty$. A check compares two things, and either may be wrong.
#
# ## Exercises
#
# Each exercise has a cell for your answer, where `...` stands, and a cell that checks it.
#
# ### Exercise 1
#
# C.-H. Zhang's minimax concave penalty (*Annals of Statistics* 38, 2010) has the slope
# $\operatorname{sign}(x) (\lambda - |x| / \gamma)_+$. Take $\gamma = 3$. Derive the value and both
# partials, and make it a row of the table.

# %% answer
mcp = ...  # mg.elementwise(…, name="mcp", dx=…, dlam=…)


# %% check
@exercise(1)
def check(mcp):
    x, lam = np.array([-4.0, -2.0, 0.5, 1.0, 2.5, 7.0]), np.array(1.1)
    wanted = [1.815, 1.5333333, 0.5083333, 0.9333333, 1.7083333, 1.815]
    assert np.allclose(mcp(x, lam), wanted), "The value is the integral of the slope from 0 to |x|."
    both = [mg.tensor(v, requires_grad=True) for v in (x, lam)]
    mcp(*both).sum().backward()
    slope = np.sign(x) * np.maximum(1.1 - np.abs(x) / 3, 0)
    assert np.allclose(both[0].grad.numpy(), slope), "The partial by x is the slope of the paper."
    hint = "Where |x| > γλ the value is γλ²/2; what is its derivative by λ?"
    assert np.isclose(both[1].grad.item(), 12.6), hint
    passed = [check(mcp, (x, lam), raise_exception=False) for check in (gradcheck, gradgradcheck)]
    assert all(passed), "First order is right here; a check of gradcheck or gradgradcheck fails."


# %% wrong
mcp = mg.elementwise(
    lambda x, lam: lam * np.minimum(abs(x), 3 * lam) - np.minimum(abs(x), 3 * lam) ** 2 / 6,
    name="mcp",
    dx=lambda x, lam: np.sign(x) * np.maximum(lam - abs(x) / 3, 0),
    dlam=lambda x: abs(x),
)

# %% solution
# With m = min(|x|, γλ): p = λm − m²/(2γ), and dp/dλ = m, both below γλ and beyond it.
mcp = mg.elementwise(
    lambda x, lam: lam * np.minimum(abs(x), 3 * lam) - np.minimum(abs(x), 3 * lam) ** 2 / 6,
    name="mcp",
    dx=lambda x, lam: np.sign(x) * np.maximum(lam - abs(x) / 3, 0),
    dlam=lambda x, lam: np.minimum(abs(x), 3 * lam),
)

# %% [markdown]
# ### Exercise 2
#
# Name the hard points of that penalty for $\lambda = 1$ and $x \ge 0$: where does it have no
# derivative, and where no second derivative? Give $(x, p, \partial p / \partial x, \partial p /
# \partial \lambda)$ for each. At the kink take the convention of this notebook.

# %% answer
hard_points = ...  # such as [(0.0, …, …, …), …]


# %% check
@exercise(2)
def check(hard_points):
    found = {float(x): rest for x, *rest in hard_points}
    assert 0.0 in found, "The slope jumps where x changes its sign."
    assert 3.0 in found and len(found) == 2, "The slope bends where (λ − x/γ)₊ becomes 0."
    assert np.allclose(found[0.0], [0, 0, 0]), (
        "At the kink the value is 0 and the slope is taken as 0."
    )
    assert np.allclose(found[3.0], [1.5, 0, 3]), "At x = γλ: p = γλ²/2, slope 0, and dp/dλ = γλ."


# %% wrong
hard_points = [(0.0, 0.0, 1.0, 0.0), (3.0, 1.5, 0.0, 3.0)]

# %% solution
# The harness would get them as Points, the first with kink=True.
hard_points = [(0.0, 0.0, 0.0, 0.0), (3.0, 1.5, 0.0, 3.0)]

# %% [markdown]
# ### Exercise 3
#
# Write SCAD as a Function of **both** arguments, right to second order. The answer is its `apply`.
# Use `value`, `dx` and `dlam` from above.

# %% answer
scad_function = ...  # YourClass.apply


# %% check
@exercise(3)
def check(scad_function):
    x, lam = np.array([-4.0, -2.0, 0.5, 1.0, 2.5]), np.array([0.9, 1.0, 1.1, 1.2, 1.3])
    y = scad_function(mg.tensor(x), mg.tensor(lam))
    assert np.allclose(y.numpy(), value(x, lam)), "The forward returns value(x, lam)."
    hint = "backward returns two contributions, g · ∂p/∂x and g · ∂p/∂λ."
    assert gradcheck(scad_function, (x, lam), raise_exception=False), hint
    hint = "Save x and lam with ctx.save_for_backward; compute the partials in backward."
    assert gradgradcheck(scad_function, (x, lam), raise_exception=False), hint


# %% wrong
class Stored(mg.Function):
    @staticmethod
    def forward(ctx, x, lam):
        ctx.partials = dx(x, lam), dlam(x, lam)
        return value(x, lam)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.partials[0], g * ctx.partials[1]


scad_function = Stored.apply


# %% solution
# The saved tensors have a history, so the partials computed from them have one too.
class Saved(mg.Function):
    @staticmethod
    def forward(ctx, x, lam):
        ctx.save_for_backward(x, lam)
        return value(x, lam)

    @staticmethod
    def backward(ctx, g):
        x, lam = ctx.saved_tensors
        return g * dx(x, lam), g * dlam(x, lam)


scad_function = Saved.apply
