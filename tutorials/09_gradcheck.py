# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 9 · Gradcheck: find the planted bug
#
# A wrong derivative raises no exception. The network trains, a little worse than it should, and
# nobody knows. So every rule is compared with the definition of a derivative: move the input, look
# at the result. That sounds easy. In this notebook we write such a check, plant wrong rules that
# it lets pass, and see what a check needs so that they do not.

# %%
import inspect

import matplotlib.pyplot as plt
import numpy as np
from exercises import exercise

import minigrad as mg
from minigrad.testing import GradcheckError, gradcheck

mg.show_versions()
mg.manual_seed(0)
rng = np.random.default_rng(0)

# %% [markdown]
# ## How good is a finite difference?
#
# $(f(x + h) - f(x - h)) / 2h$ has two errors. The formula drops terms of order $h^2$: smaller steps
# are better. But $f$ is computed to about 16 digits, and the difference of two nearly equal numbers
# keeps only the last of them, divided by $2h$: smaller steps are worse.

# %%
x, exact = 1.0, np.cos(1.0)
steps = 10.0 ** np.arange(-13, 0, 0.25)
two = [abs((np.sin(x + h) - np.sin(x - h)) / (2 * h) - exact) for h in steps]
five = [
    abs(
        (8 * (np.sin(x + h) - np.sin(x - h)) - (np.sin(x + 2 * h) - np.sin(x - 2 * h))) / (12 * h)
        - exact
    )
    for h in steps
]

plt.figure(figsize=(7, 2.8))
plt.loglog(steps, two, label="two points, error ~ h²")
plt.loglog(steps, five, label="five points, error ~ h⁴")
plt.axvline(2**-11, color="grey", linestyle=":", label="the step of the harness, 2⁻¹¹")
plt.xlabel("h")
plt.ylabel("error of sin′(1)")
plt.legend(fontsize=8)
plt.tight_layout()
print(f"best with two points {min(two):.0e}, with five {min(five):.0e}")

# %% [markdown]
# The harness uses five points, at two steps. The difference between the two estimates tells how
# noisy they are, so that a tolerance need not be guessed:

# %%
from minigrad.testing import numeric

print(inspect.getsource(numeric.slope))

# %% [markdown]
# ## A check that looks reasonable
#
# Backward from the sum, compare with differences, allow what `np.allclose` allows.


# %%
def naive_check(fn, x):
    """Gradient of fn(x).sum() against differences, entry by entry."""
    leaf = mg.tensor(x, requires_grad=True)
    fn(leaf).sum().backward()
    numeric = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        h = np.zeros_like(x)
        h[i] = 1e-5
        numeric[i] = (fn(mg.tensor(x + h)).sum() - fn(mg.tensor(x - h)).sum()).item() / 2e-5
    return np.allclose(leaf.grad.numpy(), numeric, rtol=1e-3, atol=1e-5)


print("tanh:", naive_check(np.tanh, rng.standard_normal(5)))

# %% [markdown]
# Now plant a bug. Write $g = \partial L / \partial y$ and $\bar x = \partial L / \partial x$.
# Softmax, $y_i = e^{x_i} / \sum_j e^{x_j}$, has the rule
# $\bar x = y \circ (g - \sum_j g_j y_j)$. Ours takes the mean of $g$ in place of the weighted sum:


# %%
@mg.primitive
def bad_softmax(x):
    """y_i = exp x_i / Σ_j exp x_j, with a wrong rule"""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@bad_softmax.vjp("x")
def bad_softmax_dx(g, y):
    return y * (g - g.mean(axis=-1, keepdims=True))


x = rng.standard_normal(5)
print("the naive check passes:", naive_check(bad_softmax, x))
assert naive_check(bad_softmax, x)

# %% [markdown]
# It passes, for every input. The results of a softmax add up to 1, so the gradient of the *sum* is
# zero, and so is what our rule gives when all $g_j$ are equal. A sum as the loss means a cotangent
# of ones, and a cotangent of ones cannot see much.
#
# ## What must be compared
#
# A rule computes $J^\top g$ for whatever $g$ arrives. Take a random **signed** cotangent $v$ and a
# random direction $u$. Two ways lead to the same number:
#
# $$ \underbrace{(J^\top v) \cdot u}_{\text{by the rule}} \;=\;
#    v^\top J u \;=\;
#    \underbrace{v \cdot (J u)}_{\text{by differences along } u} $$
#
# One such comparison involves every entry of $J$, at the cost of a few evaluations of $f$, whatever
# the size. A wrong entry goes unseen only if it happens to be multiplied by almost nothing.

# %%
from minigrad.testing import compare

print(inspect.getsource(compare.check_direction))

# %% [markdown]
# Where the two numbers differ, `locate` halves the support of $u$ until one entry is left, and the
# report names it. Small Jacobians are also compared entry by entry. With `gradcheck` the planted
# bug is found:

# %%
try:
    gradcheck(bad_softmax, x)
except GradcheckError as error:
    print(error)
else:
    raise AssertionError("the planted bug must be found")

# %% [markdown]
# ## Nineteen planted rules
#
# The harness is tested the same way. It ships with wrong rules, each of which some check must
# catch, while the right twin passes them all. Here are the first nineteen. For each: does our naive
# check, on the first sample, notice anything? And which of the harness's checks do?

# %%
from minigrad.testing.checks import CHECKS
from minigrad.testing.planted import NAMED
from minigrad.testing.selftest import judge

table = []
for plant in NAMED:
    sample = next(iter(plant.wrong.samples(np.random.default_rng(0), np.dtype("float64"))))
    first, *rest = sample.args
    fn = lambda x, plant=plant, rest=rest: plant.wrong.call(x, *rest)
    try:
        fooled = naive_check(fn, first)
    except Exception:
        fooled = False  # it raised: noticed
    verdict = judge(plant)
    table.append((plant.name, plant.what, fooled, verdict.caught_by))
    print(f"{plant.name:13s} {'passes naive' if fooled else '            '}  {plant.what}")
    assert verdict.killed

# %%
ids = sorted({check for row in table for check in row[3]}, key=lambda name: int(name[1:]))
figure, ax = plt.subplots(figsize=(8, 4.6))
for row, (_, _, fooled, caught) in enumerate(table):
    ax.plot(-1.2, row, "o", color="#c0392b" if fooled else "#7fb08b")
    for check in caught:
        ax.plot(ids.index(check), row, "s", color="#33567f")
ax.set_xticks([-1.2, *range(len(ids))], ["naive", *ids], rotation=60, fontsize=9)
ax.set_yticks(range(len(table)), [row[0] for row in table])
ax.invert_yaxis()
ax.xaxis.tick_top()
ax.grid(alpha=0.25)
ax.set_xlabel("red: the naive check is fooled. squares: the check of the harness that fails")
figure.tight_layout()
fooled = [row[0] for row in table if row[2]]
print(f"{len(fooled)} of {len(table)} pass the naive check; the harness catches every one")
assert len(fooled) >= 8

# %% [markdown]
# Why they pass the naive check:
#
# | planted | why it is not seen |
# |---|---|
# | `ignored`, `absolute` | a cotangent of ones is its own absolute value, and may be ignored |
# | `one entry`, `reversed` | the sample is too small to hold the wrong entry |
# | `tiny` | the function is of size 1e-7, and `np.allclose` forgives 1e-5 absolutely |
# | `bias`, `relative` | the tolerance is wider than the error |
# | `noise` | the gradient is right to 12 digits; but a second call gives other bits |
# | `detached` | the gradient is right, its own derivative is wrong |
# | `memory order` | ones look the same in every order |
# | `in place` | the gradient is right, and nobody looks at the cotangent afterwards |
# | `axis`, `keepdims` | ones are the same along every axis, and the first sample is square |
# | `ties` | a random vector has no ties |
#
# So a check needs signed random cotangents, samples of several sizes and of unequal axes, a
# tolerance relative to the scale and derived from the noise, second order, awkward memory layouts,
# and points where the derivative does not exist. These are the checks, in words:

# %%
for check in CHECKS:
    print(f"{check.id:4s} {check.title}")

# %% [markdown]
# ## Find the bug
#
# Standardising the rows of a matrix, as normalisation layers do. With $\mu$ and $\sigma$ the mean
# and standard deviation of a row of $n$ numbers,
#
# $$ y = \frac{x - \mu}{\sigma}, \qquad
#    \bar x = \frac{1}{\sigma} \Big( g - \operatorname{mean}(g) - y \operatorname{mean}(g \circ y)
#    \Big). $$
#
# One of the following three rules is right. Look at them before you run the next cell.


# %%
def make(rule):
    """The op with one of the rules; y and the standard deviation are saved for it."""

    @mg.primitive(name=f"zscore_{rule.__name__}", residuals=("deviation",))
    def zscore(x):
        deviation = x.std(axis=-1, keepdims=True)
        return (x - x.mean(axis=-1, keepdims=True)) / deviation, deviation

    zscore.vjp("x")(rule)
    return zscore


def first(g, y, deviation):
    return (g - g.mean(axis=-1, keepdims=True)) / deviation


def second(g, y, deviation):
    mean = lambda a: a.mean(axis=-1, keepdims=True)
    return (g - mean(g) - y * mean(g * y)) / deviation


def third(g, y, deviation):
    mean = lambda a: a.mean(axis=0, keepdims=True)
    return (g - mean(g) - y * mean(g * y)) / deviation


# %%
square, wide = rng.standard_normal((4, 4)), rng.standard_normal((2, 5))
print("           naive (4, 4)   naive (2, 5)   gradcheck")
for rule in (first, second, third):
    op = make(rule)
    verdicts = [naive_check(op, square), naive_check(op, wide)]
    verdicts.append(gradcheck(op, wide, raise_exception=False))
    print(f"{rule.__name__:10s} {verdicts[0]!s:14s} {verdicts[1]!s:14s} {verdicts[2]}")
assert naive_check(make(first), wide) and not gradcheck(make(first), wide, raise_exception=False)
assert gradcheck(make(second), wide)

# %% [markdown]
# `first` forgot that the deviation depends on $x$ as well; the sum of $y$ is always zero, so the
# naive check cannot tell. `third` takes its means along the wrong axis, which even the naive check
# notices. Only `second` is right.
#
# Right in first order, that is. Its residual `deviation` is a constant to the rule, so the second
# derivative would lack a term. The harness knows that too:

# %%
from minigrad.testing import gradgradcheck

print("gradgradcheck(second):", gradgradcheck(make(second), wide, raise_exception=False))


def fourth(g, x, y):
    mean = lambda a: a.mean(axis=-1, keepdims=True)
    deviation = mg.sqrt(mean((x - mean(x)) ** 2))  # computed again, from x: it has a history
    return (g - mean(g) - y * mean(g * y)) / deviation


@mg.primitive
def zscore(x):
    """y = (x − μ)/σ along the last axis ;  gx = (g − mean g − y mean(g ∘ y)) / σ"""
    return (x - x.mean(axis=-1, keepdims=True)) / x.std(axis=-1, keepdims=True)


zscore.vjp("x")(fourth)
print("gradgradcheck(fourth):", gradgradcheck(zscore, wide))

# %% [markdown]
# An op with a name, samples and a reference goes under all checks, by the same command that checks
# minigrad's own ops:

# %%
from minigrad.testing import Sample, cli, register_op


def samples(rng, dtype):
    for shape in [(5,), (2, 5), (3, 1, 4)]:
        yield Sample(f"shape {shape}", (rng.standard_normal(shape).astype(dtype),))


def reference(x):
    return (x - x.mean(axis=-1, keepdims=True)) / x.std(axis=-1, keepdims=True)


# K31 would ask for numbers whose squares leave the dtype; mg.layer_norm answers, this op does not.
register_op(
    "zscore", samples, reference=reference, dtypes=("float64", "float32"),
    skips={"K31": "squares of numbers beyond 1e19 leave float32"},
)  # fmt: skip
status = cli.main(["--ops", "zscore,tanh,matmul"])
assert status == 0

# %% [markdown]
# ## Kinks
#
# `abs`, `relu`, `max`, `clip` have points without a derivative. A difference across the kink
# answers with the mean of both slopes, whatever the rule says, so it cannot judge there. Two things
# can be asked for instead: the answer is **stated** (a convention, written in the op's docstring),
# and it lies **between the one-sided derivatives**, in every direction.

# %%
figure, axes = plt.subplots(1, 3, figsize=(9, 2.6))
t = np.linspace(-1.5, 1.5, 201)
for ax, (name, f) in zip(axes, {"relu": mg.relu, "abs": np.abs, "hardtanh": mg.hardtanh}.items()):
    leaf = mg.tensor(t, requires_grad=True)
    y = f(leaf)
    y.sum().backward()
    ax.plot(t, y.detach().numpy())
    ax.plot(t, leaf.grad.numpy(), ".", markersize=3)
    ax.set_title(name)
    ax.grid(alpha=0.3)
axes[0].legend(["y", "gradient"], fontsize=8)
figure.tight_layout()


# %%
def gradient_at(f, *values):
    leaves = [mg.tensor(v, requires_grad=True) for v in values]
    f(*leaves).backward()
    return [leaf.grad.tolist() for leaf in leaves]


print("relu at 0             ", gradient_at(mg.relu, 0.0))
print("abs at 0              ", gradient_at(np.abs, 0.0))
print("max of [1, 2, 2]      ", gradient_at(np.max, [1.0, 2.0, 2.0]))
print("maximum(3, 3)         ", gradient_at(np.maximum, 3.0, 3.0))
print("clip(1, -1, 1)        ", gradient_at(lambda x: mg.clip(x, -1.0, 1.0), 1.0))
with np.errstate(divide="ignore"):
    print("sqrt at 0             ", gradient_at(np.sqrt, 0.0), "(no kink: the slope is infinite)")

# %% [markdown]
# Where maxima tie, the gradient is shared. Giving the whole gradient to each of the tied entries,
# as the plant `ties` does, is not between the one-sided derivatives: raise both tied entries by
# $\epsilon$ and the maximum rises by $\epsilon$, not by $2 \epsilon$. That is check K11:

# %%
from minigrad.testing.checks import kinks

print(inspect.getsource(kinks.between_one_sided))

# %% [markdown]
# ## Exercises
#
# ### Exercise 1
#
# If $f$ is written for complex numbers, $f'(x) \approx \operatorname{Im} f(x + i h) / h$ has no
# difference of nearly equal numbers. Write it with $h = 10^{-30}$. Why can the harness not use this
# for every op?


# %% answer
def complex_step(f, x): ...


# %% check
@exercise(1)
def check(complex_step):
    for f, df in ((np.sin, np.cos), (np.exp, np.exp)):
        error = abs(complex_step(f, 1.0) - df(1.0))
        hint = (
            f"The error is {error:.1e}: move x along the imaginary axis, take the imaginary part."
        )
        assert error < 1e-14, hint


# %% wrong
def complex_step(f, x):
    return (f(x + 1e-30) - f(x)) / 1e-30


# %% solution
# Exact to rounding. But |x|, max, comparisons and most compiled functions take no complex numbers,
# or mean something else by them.
def complex_step(f, x):
    return f(x + 1e-30j).imag / 1e-30


# %% [markdown]
# ### Exercise 2
#
# The rule `(g * np.cos(x)).T` for `sin`: for which of the shapes (4,), (1, 1), (3, 3), (2, 3) does
# it pass `gradcheck`? Which samples would you demand?

# %% answer
passes = ...  # four truth values


# %% check
@exercise(2)
def check(passes):
    transposed = mg.primitive(lambda x: np.sin(x), name="transposed_sine")
    transposed.vjp("x")(lambda g, x: (g * np.cos(x)).T)
    assert len(passes) == 4, "Give four truth values."
    for shape, answer in zip([(4,), (1, 1), (3, 3), (2, 3)], passes):
        try:
            right = bool(gradcheck(transposed, rng.standard_normal(shape), raise_exception=False))
        except mg.errors.RuleError:  # a gradient of another shape is refused
            right = False
        assert answer == right, f"Look at {shape}: which shape and which values does .T give?"


# %% wrong
passes = [True, True, True, False]

# %% solution
# Right for vectors (there .T does nothing) and for (1, 1). A square matrix has the right shape and
# wrong values; (2, 3) has another shape. So demand two unequal axes greater than 1.
passes = [True, True, False, False]

# %% [markdown]
# ### Exercise 3
#
# Here is `logsumexp` along the last axis with one wrong rule: `y` has an axis less than `x`, and
# the rule forgot it. Find a shape of `x` for which the rule is right all the same, one for which it
# is wrong, and repair it.


# %%
def logsumexp_with(rule):
    """logsumexp as a primitive with this rule."""
    op = mg.primitive(lambda x: np.log(np.exp(x).sum(axis=-1)), name="my_logsumexp")
    op.vjp("x")(rule)
    return op


def forgetful(g, x, y):
    return g * np.exp(x - y)


# %% answer
right_for = ...  # a shape, such as (3, 1, 2)
wrong_for = ...  # another


def repaired(g, x, y): ...


# %% check
@exercise(3)
def check(right_for, wrong_for, repaired):
    def holds(rule, shape):
        x = rng.standard_normal(shape)
        try:
            return bool(gradcheck(logsumexp_with(rule), x, raise_exception=False))
        except Exception:  # shapes that do not broadcast
            return False

    assert holds(forgetful, right_for), f"{right_for}: y lines up with the wrong axis of x."
    assert not holds(forgetful, wrong_for), f"{wrong_for}: here y broadcasts rightly."
    hint = "Give both g and y the axis that they lack: np.expand_dims takes tensors too."
    assert holds(repaired, (3, 3)) and holds(repaired, (2, 4)), hint
    op = logsumexp_with(repaired)
    hint = "The first derivative is right; write the rule with functions that take tensors."
    assert gradgradcheck(op, rng.standard_normal((2, 4)), raise_exception=False), hint


# %% wrong
right_for, wrong_for = (5,), (3, 3)


def repaired(g, x, y):
    return g * np.exp(x - mg.expand_dims(y, axis=-1))


# %% solution
# On a vector, y and g are numbers and broadcast rightly. On a square matrix they line up with the
# wrong axis.
right_for, wrong_for = (5,), (3, 3)


def repaired(g, x, y):
    return mg.expand_dims(g, axis=-1) * np.exp(x - mg.expand_dims(y, axis=-1))


# %% [markdown]
# ### Exercise 4
#
# `off(error)` is `sin` with a rule that multiplies by $1 + \text{error}$. What is the smallest
# error, to a power of ten, that `gradcheck` sees at five random points?


# %%
def off(error):
    op = mg.primitive(lambda x: np.sin(x), name="off_sine")
    op.vjp("x")(lambda g, x: g * np.cos(x) * (1 + error))
    return op


# %% answer
smallest = ...  # such as 1e-2


# %% check
@exercise(4)
def check(smallest):
    def sees(error):
        return not gradcheck(off(error), np.linspace(-1, 1, 5), raise_exception=False)

    assert sees(3 * smallest), f"gradcheck lets {3 * smallest:.0e} pass: the answer is larger."
    assert not sees(smallest / 30), f"gradcheck still sees {smallest / 30:.0e}: go on."


# %% wrong
smallest = 1e-3

# %% solution
# It sees 1e-6 and does not see 1e-8: its relative tolerance, compare.RTOL, is 1e-7.
smallest = 1e-6
