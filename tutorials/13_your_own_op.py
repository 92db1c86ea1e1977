# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 13 · Write your own op
#
# Most functions need no op of their own: written with NumPy's words on tensors, they are
# differentiated by the chain rule. An op pays off where you know something that the chain rule does
# not: a shorter formula for the derivative, a loop that should be one node in the graph, a faster
# routine for one device. This notebook writes ops in all three forms that minigrad has, and puts
# them under the checks that its own ops must pass.

# %%
import inspect
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import minigrad_viz
import numpy as np
from exercises import exercise
from IPython.display import display

import minigrad as mg
from minigrad import func
from minigrad.testing import Sample, cli, gradcheck, gradgradcheck, jvpcheck, register_op

mg.show_versions()
mg.manual_seed(0)
rng = np.random.default_rng(0)

# %% [markdown]
# ## Form 1: a row of the calculus table
#
# `squareplus` is a smooth `relu` without exponentials: $y = \tfrac12 (x + \sqrt{x^2 + 4})$. With a
# little algebra its derivative is a formula of $x$ and $y$ alone, with no square root:
#
# $$ \frac{\mathrm dy}{\mathrm dx} = \frac12 \Big( 1 + \frac{x}{\sqrt{x^2 + 4}} \Big)
#    = \frac{y}{\sqrt{x^2 + 4}} = \frac{y}{2y - x} . $$

# %%
squareplus = mg.elementwise(
    lambda x: (x + np.sqrt(x * x + 4)) / 2,
    name="squareplus",
    dx=lambda x, y: y / (2 * y - x),
    doc="y = (x + √(x² + 4))/2 ;  dy/dx = y/(2y − x)",
)

# %% [markdown]
# That is all. Broadcasting, dtypes, complex numbers, second order, forward mode and `vmap` follow,
# because the engine knows what "elementwise" means, and because the partial is written in words
# that arrays and tensors both understand.

# %%
points = rng.standard_normal(6)
checks = [check(squareplus, points) for check in (gradcheck, gradgradcheck, jvpcheck)]
print("gradient, second order, forward mode:", checks)
print("vmap(grad):", func.vmap(func.grad(squareplus))(mg.tensor(points)).numpy().round(4))

x = mg.linspace(-6, 6, 200).requires_grad_()
y = squareplus(x)
slope = mg.grad(y.sum(), x, create_graph=True)
curvature = mg.grad(slope.sum(), x)
plt.figure(figsize=(6, 2.6))
for label, curve in {"y": y, "y′": slope, "y″": curvature}.items():
    plt.plot(x.detach().numpy(), curve.detach().numpy(), label=label)
plt.plot(x.detach().numpy(), np.maximum(x.detach().numpy(), 0), ":", color="grey", label="relu")
plt.legend()
plt.ylim(-0.3, 4)
plt.tight_layout()

# %% [markdown]
# Is it also right for large negative $x$? Then $y$ is a difference of two nearly equal numbers, and
# the derivative is computed from it... The checks K12, K15, K16 and K27 ask such questions.
# Save the row in a file with **samples** (calls to try) and a **reference** (the same on arrays),
# and run the command:

# %%
MODULE = """
import numpy as np
import minigrad as mg
from minigrad.testing import Sample, register_op

squareplus = mg.elementwise(
    lambda x: (x + np.sqrt(x * x + 4)) / 2,
    name="squareplus",
    dx=lambda x, y: y / (2 * y - x),
    doc="y = (x + √(x² + 4))/2 ;  dy/dx = y/(2y − x)",
)


def samples(rng, dtype):
    yield Sample("vector", (rng.standard_normal(5).astype(dtype),))
    yield Sample("matrix", (rng.standard_normal((2, 3)).astype(dtype),))


def in_mpmath(x):
    import mpmath

    return (x + mpmath.sqrt(x * x + 4)) / 2


register_op("squareplus", samples, reference=lambda x: (x + np.sqrt(x * x + 4)) / 2, mp=in_mpmath)
"""


def check_file(text, *options):
    """minigrad-gradcheck --import my_ops --ops squareplus, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "my_ops.py").write_text(text, encoding="utf-8")
        command = ["-m", "minigrad.testing.cli", "--import", "my_ops", "--ops", "squareplus"]
        done = subprocess.run(
            [sys.executable, *command, *options],
            cwd=folder, capture_output=True, text=True,
        )  # fmt: skip
    return done.returncode, done.stdout


status, report = check_file(MODULE)
print("exit code", status)
print(report[:2200])
assert status == 1

# %% [markdown]
# Our suspicion was right. Far to the left, where $\sqrt{x^2 + 4} \approx -x$, the formula for $y$
# loses its digits: at $x = -10^9$ the answer is 0, and the true value is $10^{-9}$. Multiply by
# $(\sqrt{x^2 + 4} - x)$ above and below: $y = 2 / (\sqrt{x^2 + 4} - x)$ has no cancellation for $x
# < 0$. And $x^2$ overflows for large $|x|$, which `np.hypot` avoids. The derivative
# is right as soon as $y$ is, but its $2y$ overflows for the largest $x$: so take $\sqrt{x^2 + 4}$
# there as well. (The reference may now be the function itself: the true values come from mpmath, at
# 50 digits.)

# %%
BETTER = '''
import numpy as np
import minigrad as mg
from minigrad.testing import Sample, register_op


def value(x):
    """With h = √(x² + 4): (h + x)/2 on the right and 2/(h − x) on the left, no cancellation."""
    half = np.abs(x) / 2 + np.hypot(x, 2.0) / 2
    return np.where(x > 0, half, 1 / half)


squareplus = mg.elementwise(
    value,
    name="squareplus",
    dx=lambda x, y: y / np.hypot(x, 2.0),
    doc="y = (x + √(x² + 4))/2 ;  dy/dx = y/√(x² + 4)",
)


def samples(rng, dtype):
    yield Sample("vector", (rng.standard_normal(5).astype(dtype),))
    yield Sample("matrix", (rng.standard_normal((2, 3)).astype(dtype),))


def in_mpmath(x):
    import mpmath

    return (x + mpmath.sqrt(x * x + 4)) / 2


# K32 asks for the digits of the second derivative far out, too; in float32 this form has few there.
register_op("squareplus", samples, reference=value, mp=in_mpmath,
            skips={"K32": "few digits of the second derivative beyond 1000 in float32"})
'''
status, report = check_file(BETTER)
print("exit code", status)
print(report)
assert status == 0

# %% [markdown]
# ## Form 2: a primitive with rules
#
# A leaky counter with gates: at each time step the old value is multiplied by $a_t$ and $x_t$ is
# added,
#
# $$ y_t = a_t \, y_{t-1} + x_t, \qquad y_{-1} = 0 . $$
#
# It is the core of gated recurrent layers. Written with tensors, a sequence of length $T$ makes a
# few nodes for every step. As an op it is **one** node. Its derivative is found by hand. Let
# $\lambda_t = \partial L / \partial y_t$ in total: what arrives directly, $g_t$, and what comes
# back from the next step. With $\bar x_t = \partial L / \partial x_t$, and $\bar a_t$ likewise,
#
# $$ \lambda_t = g_t + a_{t+1} \lambda_{t+1}, \qquad
#    \bar x_t = \lambda_t, \qquad \bar a_t = \lambda_t \, y_{t-1} . $$
#
# The first line is the same recurrence, run backwards in time with the gates moved by one. So the
# rule can call the op itself, and then it can be differentiated again.


# %%
@mg.primitive
def gated_sum(a, x):
    """y_t = a_t y_{t−1} + x_t along the last axis, y_{−1} = 0

    With λ_t = g_t + a_{t+1} λ_{t+1}:  gx_t = λ_t, ga_t = λ_t y_{t−1}. a and x have one shape.
    """
    if a.shape != x.shape or not a.ndim:
        raise ValueError(f"a {a.shape} and x {x.shape} need one shape, with an axis for the time")
    y = np.empty_like(x, dtype=np.result_type(a, x))
    state = 0
    for t in range(x.shape[-1]):
        state = a[..., t] * state + x[..., t]
        y[..., t] = state
    return y


def later(y):
    """y one step later: y_{t−1} at position t, and 0 at the start."""
    return np.concatenate([np.zeros_like(y[..., :1]), y[..., :-1]], axis=-1)


@gated_sum.vjp
def gated_sum_vjp(g, a, y, needs):
    back = gated_sum(later(np.flip(a, axis=-1)), np.flip(g, axis=-1))
    total = np.flip(back, axis=-1)  # λ
    return (total * later(y) if needs[0] else None), (total if needs[1] else None)


# %% [markdown]
# What the names say:
#
# - A forward's arguments without default are **arrays**, which may carry gradients; arguments with
#   a default (`axis=-1`) are static parameters.
# - `@gated_sum.vjp("x")` would give a rule for one input. Bare, it is one **joint** rule for all;
#   it gets `needs`, returns one gradient for each input, and `None` where none is needed. Here both
#   share $\lambda$. `@conv.vjp("x", "w")` is a **shortcut** beside the rules of each: it is asked
#   where both need gradients, and may decline with `None`.
# - A rule asks by name for inputs, for the result `y`, for the cotangent `g`, for parameters,
#   `x_shape`, or the array module `xp`. Only these are saved.
# - A rule uses **NumPy's words**, without `out=`, without writing in place: then it runs on arrays
#   in a plain backward, on tensors when it is recorded, and on a GPU's arrays.
#
# Without more, forward mode takes the reverse pass of the reverse pass, and `vmap` runs the op once
# for each example, with a warning. Two more rules make both direct. The tangent of a product is
# $\dot a_t y_{t-1} + a_t \dot y_{t-1}$, so the tangent obeys the same recurrence. And since the
# time is the last axis, a batch axis in front is no trouble; only an input that all examples share
# must be repeated.


# %%
@gated_sum.jvp
def gated_sum_jvp(a, y, a_t, x_t):
    pushed = x_t  # a tangent is None where its input is constant
    if a_t is not None:
        moved = a_t * later(y)
        pushed = moved if x_t is None else x_t + moved
    return gated_sum(a, pushed)


@gated_sum.batch
def gated_sum_batch(op, xs, batched, params):
    size = next(x.shape[0] for x, is_batched in zip(xs, batched) if is_batched)
    full = [
        x if is_batched else np.broadcast_to(x, (size, *x.shape))
        for x, is_batched in zip(xs, batched)
    ]
    return op(*full)


a = rng.uniform(0.2, 0.9, (2, 6))
x = rng.standard_normal((2, 6))
print([check(gated_sum, (a, x)) for check in (gradcheck, gradgradcheck, jvpcheck)])
shared = func.vmap(gated_sum, in_dims=(None, 0))(mg.tensor(a[0]), mg.tensor(x))
assert np.allclose(shared.numpy()[1], gated_sum(a[0], x[1]))

# %% [markdown]
# The graphs show what was gained: first the loop with tensors, for four steps, then the op.


# %%
def with_tensors(a, x):
    y, ys = mg.tensor(0.0), []
    for t in range(x.shape[-1]):
        y = a[t] * y + x[t]
        ys.append(y)
    return mg.stack(ys)


short = [mg.tensor(v[0, :4], requires_grad=True) for v in (a, x)]
names = {"a": short[0], "x": short[1]}
for title, fn in {"a loop with tensors": with_tensors, "one op": gated_sum}.items():
    document = mg.graph_dict(fn(*short).sum(), names=names)
    print(f"{title}: {len(document['nodes'])} nodes")
    display(minigrad_viz.show(document, title), include={"image/svg+xml", "text/plain"})
assert np.allclose(with_tensors(*short).numpy(), gated_sum(*short).numpy())

# %% [markdown]
# ## Under all checks
#
# Samples with unequal axes and several sizes; a reference that works in another way; an error that
# must be raised, with words that help. A check that cannot apply is skipped **with a reason**, and
# the report counts it: K12 puts infinities into the input, and where $\infty \cdot 0$ occurs
# depends on the order of multiplications.

# %%
from minigrad.testing import ErrorSample


def samples(rng, dtype):
    for shape in [(1,), (5,), (2, 4), (3, 1, 2)]:
        a = rng.uniform(0.2, 0.9, shape).astype(dtype)
        yield Sample(f"shape {shape}", (a, rng.standard_normal(shape).astype(dtype)))


def by_definition(a, x):
    """y_t = Σ_s (a_{s+1} ⋯ a_t) x_s, term by term."""
    if a.shape != x.shape:
        raise ValueError("one shape")
    y = np.zeros(x.shape, np.result_type(a, x))
    for t in range(x.shape[-1]):
        for s in range(t + 1):
            y[..., t] += np.prod(a[..., s + 1 : t + 1], axis=-1) * x[..., s]
    return y


register_op(
    "gated_sum",
    samples,
    reference=by_definition,
    dtypes=("float64", "float32"),
    errors=[ErrorSample("shapes", (np.ones(2), np.ones(3)), ValueError, "need one shape")],
    skips={"K12": "with infinities, ∞·0 occurs or not by the order of multiplications"},
)
status = cli.main(["--ops", "gated_sum", "--level", "full"])
assert status == 0

# %% [markdown]
# ## Form 3: a class with `forward` and `backward`
#
# `mg.Function` is the form that PyTorch's users know. It suits an operation whose "derivative" is
# not the derivative of its forward, as in quantised networks: rounding has the derivative 0, and
# the **straight-through** estimator pretends that it is 1, to let something through.


# %%
class RoundStraightThrough(mg.Function):
    """y = round(x / step) · step ;  gx = g, as if it were the identity"""

    @staticmethod
    def forward(ctx, x, step):
        ctx.step = step
        return np.round(x / step) * step

    @staticmethod
    def backward(ctx, g):
        return g, None  # one for each argument of forward; step carries no gradient


x = mg.tensor([0.2, 0.6, 1.4], requires_grad=True)
y = RoundStraightThrough.apply(x, 0.5)
(y * y).sum().backward()
print("y", y.detach(), "  gradient 2 y:", x.grad)
assert np.array_equal(x.grad.numpy(), 2 * y.detach().numpy())
print("gradcheck rightly disagrees:", gradcheck(
    lambda x: RoundStraightThrough.apply(x, 0.5), np.array([0.2, 0.6, 1.4]), raise_exception=False
))  # fmt: skip

# %% [markdown]
# No second mechanism stands behind it: a call of a Function is an op that goes through the one
# doorway.

# %%
from minigrad.custom import custom

print(inspect.getsource(custom.Function.apply))

# %% [markdown]
# ## Variants: other forms of the forward
#
# The loop over time is slow in Python. `@op.variant` gives an op another form of its forward. It
# computes the calls that suit it, and the rules stay what they are:
#
# - `on` says for which device: `"cpu"` or `"cuda"`;
# - `least` says from how many elements, and `when(*arrays)` for which arrays;
# - a result of `None` means: not this call. Then the next variant is asked, and in the end the
#   op's own form, its **reference**.
#
# ### A blocked form
#
# Two steps $y \mapsto a y + x$ and $y \mapsto a' y + x'$ in a row are one step $y \mapsto (a a') y
# + (a' x + x')$. So let every position of a block hold the composition of 2 steps, then of 4, of 8:
# soon it holds all steps of its block up to itself (Hillis and Steele, 1986). All blocks do that at
# once. Then a short loop carries $y$ from block to block. That is more arithmetic, in far fewer
# calls of NumPy.

# %%
BLOCK = 32


@gated_sum.variant(least=4096)
def in_blocks(a, x):
    """Blocks of 32 steps side by side, then from block to block; None for a short sequence."""
    if a.shape != x.shape or x.shape[-1] < 4 * BLOCK:
        return None
    *rows, length = x.shape
    blocks = -(-length // BLOCK)
    filled = (*rows, blocks * BLOCK)  # with zeros, which add nothing
    gates, y = (np.zeros(filled, np.result_type(a, x)) for _ in range(2))
    gates[..., :length], y[..., :length] = a, x
    gates, y = (v.reshape(*rows, blocks, BLOCK) for v in (gates, y))
    d = 1
    while d < BLOCK:
        y[..., d:] = y[..., d:] + gates[..., d:] * y[..., :-d]
        gates[..., d:] = gates[..., d:] * gates[..., :-d]
        d *= 2
    for k in range(1, blocks):
        y[..., k, :] += gates[..., k, :] * y[..., k - 1, -1:]
    return y.reshape(filled)[..., :length].copy()


long = [rng.uniform(0.2, 0.9, (8, 5000)), rng.standard_normal((8, 5000))]
slow = gated_sum.reference(*long)
print("largest difference:", abs(gated_sum(*long) - slow).max())
print("variants:", gated_sum.variants, "  calls of the first:", gated_sum.variants[0].calls)
assert gated_sum.variants[0].calls == 1 and np.allclose(gated_sum(*long), slow, atol=1e-12)

# %% [markdown]
# ### A compiled form
#
# Numba compiles the very loop of the reference to machine code. The variant given last is asked
# first, so this one stands before the blocked form. Without Numba (`pip install "minigrad[fast]"`)
# the blocked form goes on to serve.

# %%
try:
    import numba
except ImportError:
    print("no Numba here")
else:

    @numba.njit
    def loop(a, x, y):
        for row in range(x.shape[0]):
            state = y.dtype.type(0)
            for t in range(x.shape[1]):
                state = a[row, t] * state + x[row, t]
                y[row, t] = state

    @gated_sum.variant(least=256)
    def compiled(a, x):
        """The loop in machine code; None for dtypes that it would have to convert."""
        if a.shape != x.shape or a.dtype != x.dtype or x.dtype.char not in "fd":
            return None
        y = np.empty(x.shape, x.dtype)
        rows = [np.ascontiguousarray(v).reshape(-1, x.shape[-1]) for v in (a, x)]
        loop(*rows, y.reshape(-1, x.shape[-1]))
        return y

    assert np.allclose(gated_sum(*long), slow, atol=1e-12)

# %% [markdown]
# ### A form for CUDA
#
# On a GPU the reference runs as it is, since CuPy's arrays answer NumPy's words. But each of its
# steps starts kernels of its own. One kernel in CUDA C does the whole loop, with one thread for
# each row.

# %%
KERNEL = r"""
extern "C" __global__ void gated_sum(const T* a, const T* x, T* y, long long rows, long long steps)
{
    long long row = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (row >= rows) return;
    T state = 0;
    for (long long i = row * steps; i < (row + 1) * steps; i++)
        y[i] = state = a[i] * state + x[i];
}
"""


@gated_sum.variant(on="cuda")
def kernel(a, x):
    """One CUDA kernel; None for dtypes that it does not have."""
    import cupy

    c_name = {"float32": "float", "float64": "double"}.get(x.dtype.name)
    if a.shape != x.shape or a.dtype != x.dtype or c_name is None or not x.size:
        return None
    a, x = cupy.ascontiguousarray(a), cupy.ascontiguousarray(x)
    y, steps = cupy.empty_like(x), x.shape[-1]
    rows = x.size // steps
    run = cupy.RawKernel(KERNEL.replace("T", c_name), "gated_sum")
    run((-(-rows // 128),), (128,), (a, x, y, np.int64(rows), np.int64(steps)))
    return y


if mg.cuda.is_available():
    on_gpu = [mg.tensor(v, device="cuda") for v in long]
    assert np.allclose(gated_sum(*on_gpu).numpy(), slow, atol=1e-12)

# %% [markdown]
# ### Are they right?
#
# K34 compares each variant with the reference: results, gradients and second derivatives, on
# larger arrays of every dtype and layout. It needs no word from us. Since `gated_sum` skips K12,
# K34 leaves NaN and infinities out.

# %%
status = cli.main(["--ops", "gated_sum", "--variants"])
assert status == 0
status = cli.main(["--ops", "gated_sum"])
assert status == 0

# %% [markdown]
# ### Do they pay?

# %%
from time import perf_counter


def milliseconds(fn, *args):
    times = []
    for _ in range(5):
        start = perf_counter()
        fn(*args)
        times.append(perf_counter() - start)
    return 1e3 * min(times)


forms = {v.name: v.fn for v in gated_sum.variants if v.on == "cpu"}
lengths = [128, 512, 2048, 8192]
plt.figure(figsize=(5.5, 2.7))
for name, form in {"reference": gated_sum.reference, **forms}.items():
    taken = []
    for n in lengths:
        taken.append(milliseconds(form, rng.uniform(0.2, 0.9, (8, n)), rng.standard_normal((8, n))))
    plt.loglog(lengths, taken, "o-", label=name)
plt.xlabel("length of the sequence")
plt.ylabel("milliseconds a call")
plt.legend()
plt.tight_layout()

# %% [markdown]
# A variant for calls of any size on one device is an **implementation**, as in
# `@op.implementation("cuda")`; a device has one.
#
# `mg.extension` declares an op without any general forward: a call on a device that has no
# implementation is then an error that says which ones there are. And an op without a rule for an
# input is an error as soon as a gradient for it is needed. A missing rule is never a zero.

# %%
silent = mg.primitive(lambda x: np.sort(x), name="no_rule_sort")
print(silent(mg.tensor([3.0, 1.0])))
try:
    silent(mg.tensor([3.0, 1.0], requires_grad=True))
except mg.errors.RuleError as error:
    print(error)
else:
    raise AssertionError("a missing rule must be an error")

# %% [markdown]
# ## Use it
#
# A signal was made by a leaky counter whose leak we forgot. Learn it: $a = \sigma(w)$, one number
# for all times, gradient descent on the squared distance.

# %%
pushes = (rng.uniform(size=300) < 0.06).astype(float)
measured = gated_sum(np.full(300, 0.93), pushes) + 0.05 * rng.standard_normal(300)

w = mg.tensor(0.0, requires_grad=True)
optimizer = mg.optim.Adam([w], lr=0.1)
history = []
for _ in range(120):
    optimizer.zero_grad()
    gates = mg.sigmoid(w) * np.ones(300)
    loss = ((gated_sum(gates, mg.tensor(pushes)) - measured) ** 2).mean()
    loss.backward()
    optimizer.step()
    history.append(mg.sigmoid(w.detach()).item())

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 2.6), width_ratios=(2, 1))
left.plot(measured, ".", markersize=2, label="measured")
left.plot(gated_sum(np.full(300, history[0]), pushes), label="at the start")
left.plot(gated_sum(np.full(300, history[-1]), pushes), label="learned")
left.legend(fontsize=8)
left.set_xlabel("time")
right.plot(history)
right.axhline(0.93, linestyle=":", color="grey")
right.set(xlabel="step", title="a")
figure.tight_layout()
print(f"learned a = {history[-1]:.3f}, true 0.93")
assert abs(history[-1] - 0.93) < 0.01

# %% [markdown]
# ## The same op in the library
#
# minigrad has this op, since the derivative of `cumprod` is written with it. Compare: an `axis`, a
# `reverse` in place of the flips, conjugates for complex numbers, 16-bit floats added up in
# float32.

# %%
from minigrad.ops.reduce import cumulative

source = inspect.getsource(cumulative)
print(source[source.index("@primitive\ndef linear_rec") : source.index("def _shifted")])
library = mg.linear_recurrence(*long)
assert np.allclose(library, slow, atol=1e-12)

# %% [markdown]
# ## Exercises
#
# ### Exercise 1
#
# Make a row `sinhc`, $y = \sinh(x)/x$, with `mg.elementwise`. The check looks at points away
# from 0. What does it give at 0? (The library's `sinc` is a primitive with a series near 0.)

# %% answer
sinhc = ...  # mg.elementwise(...)
at_zero = ...  # a float


# %% check
@exercise(1)
def check(sinhc, at_zero):
    away = np.array([-2.0, -0.5, 0.7, 3.0])
    assert np.allclose(sinhc(away), np.sinh(away) / away), "The result is not sinh(x)/x."
    hint = "The derivative fails gradcheck: it is a quotient, so the rule has two parts."
    assert gradcheck(sinhc, away, raise_exception=False), hint
    assert gradgradcheck(sinhc, away, raise_exception=False), "The second derivative is wrong."
    with np.errstate(invalid="ignore"):
        found = float(sinhc(np.zeros(1))[0])
    assert np.array_equal(at_zero, found, equal_nan=True), "Call it at 0: NumPy divides 0 by 0."


# %% wrong
sinhc = mg.elementwise(lambda x: np.sinh(x) / x, name="sinhc", dx=lambda x: np.cosh(x) / x)
at_zero = np.nan

# %% solution
# The partial is (cosh x − y)/x. At 0 both are 0/0 = NaN; a `where` around it would repair the value
# and leave the second derivative wrong, hence the series.
sinhc = mg.elementwise(lambda x: np.sinh(x) / x, name="sinhc", dx=lambda x, y: (np.cosh(x) - y) / x)
at_zero = np.nan

# %% [markdown]
# ### Exercise 2
#
# `neighbours`: $y_i = x_{i+1} - x_i$ along the last axis is linear. Write it with
# `@mg.primitive(kind="linear")` and a rule for `x`, the transpose. It needs no jvp.

# %% answer
neighbours = ...  # a primitive


# %% check
@exercise(2)
def check(neighbours):
    line = rng.standard_normal((2, 5))
    assert np.allclose(neighbours(line), np.diff(line)), "The result is x[1:] − x[:-1]."
    hint = "The transpose is wrong: y_i has +x_{i+1} and −x_i, so x_i gets g_{i−1} − g_i."
    assert gradcheck(neighbours, line, raise_exception=False), hint
    assert gradgradcheck(neighbours, line, raise_exception=False), "The rule is not linear in g."
    hint = "A linear op is its own jvp: say kind='linear', and give no jvp."
    assert neighbours.jvp_rule is None and jvpcheck(neighbours, line, raise_exception=False), hint


# %% wrong
@mg.primitive(kind="linear")
def neighbours(x):
    return x[..., 1:] - x[..., :-1]


@neighbours.vjp("x")
def neighbours_dx(g):
    zero = np.zeros_like(g[..., :1])
    return np.concatenate([g, zero], axis=-1) - np.concatenate([zero, g], axis=-1)


# %% solution
@mg.primitive(kind="linear")
def neighbours(x):
    return x[..., 1:] - x[..., :-1]


@neighbours.vjp("x")
def neighbours_dx(g):
    zero = np.zeros_like(g[..., :1])
    return np.concatenate([zero, g], axis=-1) - np.concatenate([g, zero], axis=-1)


# %% [markdown]
# ### Exercise 3
#
# Gradient reversal, $y = x$ with $\bar x = -s\,g$, is used to make features useless to an
# adversary. Write it as a Function with a number `s`.

# %% answer
Reverse = ...  # a subclass of mg.Function


# %% check
@exercise(3)
def check(Reverse):
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    y = Reverse.apply(x, 0.1)
    assert np.allclose(y.detach(), x.detach()), "Forwards it changes nothing."
    (y * mg.tensor([10.0, 20.0])).sum().backward()
    hint = f"For g = (10, 20) and s = 0.1 the gradient is (−1, −2), not {x.grad.tolist()}."
    assert np.allclose(x.grad, [-1.0, -2.0]), hint


# %% wrong
class Reverse(mg.Function):
    @staticmethod
    def forward(ctx, x, s):
        return x.copy()

    @staticmethod
    def backward(ctx, g):
        return -g, None


# %% solution
class Reverse(mg.Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.s = s
        return x.copy()

    @staticmethod
    def backward(ctx, g):
        return -ctx.s * g, None


# %% [markdown]
# ### Exercise 4
#
# Break `gated_sum_vjp` on purpose: leave out the `later` around the flipped gates. Does `gradcheck`
# notice for a sequence of length 1, 2, 5?

# %% answer
noticed = ...  # three truth values


# %% check
@exercise(4)
def check(noticed):
    broken = mg.primitive(lambda a, x: gated_sum(a, x), name="broken_gated_sum")

    @broken.vjp
    def broken_vjp(g, a, y, needs):
        total = np.flip(gated_sum(np.flip(a, axis=-1), np.flip(g, axis=-1)), axis=-1)
        return (total * later(y) if needs[0] else None), (total if needs[1] else None)

    assert len(noticed) == 3, "Give three truth values."
    for length, answer in zip((1, 2, 5), noticed):
        at = rng.uniform(0.2, 0.9, length), rng.standard_normal(length)
        hint = f"Length {length}: to how many later steps does the backward carry a gradient?"
        assert answer != bool(gradcheck(broken, at, raise_exception=False)), hint


# %% wrong
noticed = [True, True, True]

# %% solution
# At length 1 there is no later step and all is right; from length 2 on gradcheck notices.
noticed = [False, True, True]
