"""Counts of ops that are not elementwise: one row each, `counts(names, forward, backward)`.

In a row c.n is the number of elements of the first output, c.m of the first input, c.inputs and
c.outputs are shapes. Matrix decompositions: G. H. Golub and C. F. Van Loan, "Matrix Computations",
4th ed. (2013), the leading term at the place named; their backward: the products and solves in the
rule. Fourier transforms: 5 N log₂ N, as the FFTW benchmark counts (www.fftw.org/speed).
"""

from math import prod

from .work import Call, counts, levels


def _none(c: Call) -> float:
    return 0


def _each(weight: float):
    """So many operations for each element of the larger of the first input and the output."""
    return lambda c: weight * max(c.n, c.m)


def _steps(c: Call) -> float:
    """The products of all steps of a recurrent scan with its weight."""
    return 2 * c.m * c.inputs[1][-1]


# -- data moved, nothing computed --------------------------------------------------------------
counts(
    "real imag conj cast discretize device_copy copy positive contiguous tril triu diagonal "
    "diagonal_dx getitem setitem take take_along_axis put_along_axis zeros_like ones_like "
    "empty_like full_like identity_like concatenate_arrays stack_arrays pad_zeros flip roll "
    "reshape transpose swapaxes squeeze expand_dims unfold nll_pick nll_spread class_targets "
    "split_heads join_heads view_as_complex scatter_places "
    "attention_seeds lu_exchanges lu_order unpool_places write_places read_places window_columns",
    _none,
)
counts("broadcast_to hermitian_from", _none, lambda c: c.n)  # its gradient is a sum
counts("pad_repeated", _none, lambda c: c.n)
counts("getitem_dx take_dx add_along_axis unfold_dx bin_sums pad_repeated_dx", lambda c: c.m, _none)
counts("grid_places", lambda c: 4 * c.n, _none)


def _weighted(c: Call) -> float:
    """A multiply-add for each of C channels and each of the places (…, K, P)."""
    return 2 * c.inputs[0][-2] * prod(c.inputs[2])


counts("weighted_reads weighted_reads_dx weighted_reads_dw", _weighted)
counts("windowed_sums", lambda c: 2 * c.n * c.inputs[1][1])
counts("binary_exponent running_argmax", _each(1))
counts("any all count_nonzero argmax argmin isclose array_equal sign modf argwhere", _each(1))
counts("abs", _each(1), _each(2))
counts("tanh", _each(10), _each(3))  # of most elements: those in the tails cost more
counts("angle", _each(10), _each(8))
counts("unwrap", _each(6), _none)

# -- reductions and scans ----------------------------------------------------------------------
counts("sum cumsum", _each(1), _none)
counts("mean", _each(1), lambda c: c.n)  # g/n, before it is spread
counts("max min extremum_at", _each(1), _each(3))
counts("prod", _each(1), _each(3))
counts("var", _each(4), _each(3))
counts("std", _each(4), _each(4))
counts("p_norm", _each(3), _each(4))
counts(
    "row_distances",
    lambda c: 3 * c.n * c.inputs[0][-1],
    lambda c: 8 * c.n * c.inputs[0][-1],
    joint=True,
)
counts("logsumexp", _each(13), _each(12))
counts("weighted_logsumexp", _each(17), _each(17))
counts("weighted_sign", _each(17))
counts("logcumsumexp", _each(20), _each(14))
counts("cumprod", _each(1), _each(6))
counts("linear_recurrence", lambda c: 2 * c.n, lambda c: 2 * c.n)
counts("power_product", _each(13), lambda c: 15 * c.m * c.m / max(c.n, 1))
counts("softmax", _each(17), _each(4))
counts("log_softmax", _each(14), _each(13))
counts("softmax_dx", _each(4), _each(12))
counts("log_softmax_dx", _each(13), _each(30))
counts("standardize", _each(8), lambda c: 12 * c.n, joint=True)
counts("standardize_dx", _each(10), lambda c: 20 * c.n, joint=True)
counts("standardize_dw", _each(4), lambda c: 8 * c.m, joint=True)
counts("lstm_gates", lambda c: 72 * c.n, lambda c: 20 * c.n, joint=True)
counts("gru_gates", lambda c: 49 * c.n, lambda c: 17 * c.n, joint=True)
counts(
    "lstm_scan",
    lambda c: 72 * c.n + c.m + _steps(c),
    lambda c: 20 * c.n + 2 * _steps(c),
    joint=True,
)
counts(
    "gru_scan",
    lambda c: 49 * c.n + c.m + _steps(c),
    lambda c: 17 * c.n + 2 * _steps(c),
    joint=True,
)
counts(
    "rnn_scan",
    lambda c: 11 * c.n + _steps(c),
    lambda c: 4 * c.n + 2 * _steps(c),
    joint=True,
)
counts("drop", _each(2), _each(1))
counts("drop_dx", _each(1))

# -- sorting: comparisons, with the last axis for the sorted one ---------------------------------
counts(
    "argsort argpartition top_places unique_places scatter_rows order_statistics ranked",
    lambda c: c.m * levels(c.inputs[0][-1] if c.inputs[0] else 1),
    _none,
)
counts("searchsorted", lambda c: c.n * levels(c.m), _none)

# -- products ----------------------------------------------------------------------------------
# Bartels and Stewart: Golub and Van Loan, §7.6.3; a root: one Schur form
counts("solve_sylvester", lambda c: 25 * (c.inputs[0][-1] ** 3 + c.inputs[1][-1] ** 3))
counts("sqrtm", lambda c: 28 * c.m * c.inputs[0][-1])
counts("matmul", lambda c: 2 * c.n * c.inputs[0][-1])


def _linear(c: Call) -> float:
    """x (…, k), w (k, n) or (n, k): 2 k for each element of the result, 1 more for a bias."""
    return 2 * c.n * c.inputs[0][-1] + (c.n if len(c.inputs) > 2 and c.inputs[2] else 0)


counts("linear", _linear, lambda c: c.n if c.slot == 2 else 2 * c.n * c.inputs[0][-1])


def _contract(c: Call) -> float:
    """A multiply-add for each combination of all labels' values."""
    sizes: dict = {}
    for label, shape in zip(c.params["labels"], c.inputs):
        sizes |= zip(label, shape)
    return 2 * prod(sizes.values())


counts("contract", _contract, needs="labels")
counts("convolve_full slide", lambda c: 2 * c.m * (c.inputs[1][-1] if c.inputs[1] else 1))
counts("cross_last", lambda c: 3 * c.n)
counts("polyval", lambda c: 2 * c.n * (c.inputs[0][0] if c.inputs[0] else 1))


def _conv(c: Call) -> float:
    """y (N, O, *out), w (O, C/groups, *kernel): a multiply-add for each weight of its channel."""
    w = c.inputs[1]
    bias = c.n if len(c.inputs) > 2 and c.inputs[2] else 0
    return 2 * c.n * prod(w[1:]) + bias


counts("conv", _conv, lambda c: c.n if c.slot == 2 else 2 * c.n * prod(c.inputs[1][1:]))
counts("conv_dx", lambda c: 2 * c.m * prod(c.inputs[1][1:]))
counts("conv_dw", lambda c: 2 * c.m * prod(c.outputs[0][1:]))


def _attention(c: Call) -> float:
    """q (…, L, E), k (…, S, E), v (…, S, V): scores, softmax, mixture; causal ones not halved."""
    q, k, v = c.inputs[:3]
    scores = prod(q[:-1]) * k[-2]
    return scores * (2 * q[-1] + 2 * v[-1] + 17)


def _attention_backward(c: Call) -> float:
    """The scores again, and four products of their size: for v, the scores, q and k."""
    q, k, v = c.inputs[:3]
    scores = prod(q[:-1]) * k[-2]
    return scores * (6 * q[-1] + 4 * v[-1] + 17)


def _attention_grads(c: Call) -> float:
    return _attention_backward(Call(c.inputs[1:], c.outputs, c.params))


def _self_attention(c: Call, products: int, passes: int) -> float:
    """x (…, …, 3·heads·d): products of d multiply-adds a score, and passes over the scores."""
    x, heads = c.inputs[0], c.params["heads"]
    scores = x[0] * x[1] * x[c.params.get("time", 0)] * heads
    return scores * (2 * products * x[2] // (3 * heads) + passes)


counts(
    "self_attention",
    lambda c: _self_attention(c, 2, 17),
    lambda c: _self_attention(c, 4, 5),
    needs="heads",
)
counts("attention_kept", lambda c: 10 * c.n)
counts("attention", _attention, _attention_backward, joint=True)
counts("attention_grads", _attention_grads, lambda c: 3 * _attention_grads(c), joint=True)

# -- windows -----------------------------------------------------------------------------------


def _windows(c: Call) -> float:
    return c.n * prod(c.params["how"].kernel)


counts("max_pool", _windows, lambda c: 3 * _windows(c), needs="how")
counts("sum_pool", _windows, needs="how")
counts("max_pool_indices", _windows, _none, needs="how")
counts("column_sums", lambda c: c.m, _none)
counts("max_pool_dx", lambda c: 3 * c.m * prod(c.params["how"].kernel), needs="how")
counts("max_pool_pick", lambda c: 3 * c.n * prod(c.params["how"].kernel), needs="how")
counts("sum_pool_dx", lambda c: c.m * prod(c.params["how"].kernel), needs="how")

# -- Fourier -----------------------------------------------------------------------------------


def _fft(c: Call) -> float:
    """5 N log₂ N a complex transform; the table's factor for complex numbers is taken out."""
    shape = max(c.inputs[0], c.outputs[0], key=prod)
    length = prod(shape[axis] for axis in c.params["axes"])
    return 5 / 4 * prod(shape) * levels(length)


counts("dft", _fft, needs="axes")
counts("rdft irdft", lambda c: _fft(c) / 2, needs="axes")  # a real signal: half the work

# -- losses ------------------------------------------------------------------------------------
counts("cross_entropy_index", _each(14), _each(13), joint=True)
counts("cross_entropy_dx", lambda c: 13 * max(c.m, prod(c.inputs[1])), _each(13), joint=True)


def _linear_nll(c: Call) -> float:
    """x (N, n), w (C, n): the logits, and their exponentials and sums."""
    (samples, features), (classes, _) = c.inputs[:2]
    return samples * classes * (2 * features + 14)


def _linear_nll_grads(c: Call) -> float:
    """a, d, x, w: the logits again, and two products of their size."""
    (samples, features), (classes, _) = c.inputs[2:4]
    return samples * classes * (6 * features + 13)


def _linear_nll_backward(c: Call) -> float:
    return _linear_nll_grads(Call([(), (), *c.inputs], c.outputs, c.params))


counts("linear_nll", _linear_nll, _linear_nll_backward, joint=True)
counts("linear_nll_grads", _linear_nll_grads, lambda c: 2 * _linear_nll_grads(c), joint=True)
counts("nll_index", lambda c: 2 * prod(c.inputs[1]), _none)
counts("smoothed_targets", _each(2), _none)
counts("ctc_states", _none)


def _ctc(c: Call) -> float:
    """A log-sum of three for each frame and state of the extended labels, both ways."""
    frames = c.inputs[0]
    states = c.inputs[1][-1] if c.inputs[1] else 1
    return 2 * 36 * frames[0] * frames[1] * states


counts("ctc_terms", _ctc, lambda c: 2 * _ctc(c), joint=True)
counts("ctc_dx", lambda c: 2 * _ctc(Call(c.inputs[1:], c.outputs, c.params)), joint=True)

# -- linear algebra, for stacks of (m, n) matrices -----------------------------------------------


def _stack(shape: tuple) -> tuple[int, int, int]:
    """(how many, rows, columns) of a stack of matrices."""
    return prod(shape[:-2]), shape[-2], shape[-1]


def _cubic(forward: float, backward: float):
    """forward n³ and backward n³ operations for each square matrix of order n."""

    def times(constant: float):
        def count(c: Call) -> float:
            stack, _, n = _stack(c.inputs[0])
            return constant * stack * n**3

        return count

    return times(forward), times(backward)


counts("lu_factors", lambda c: _products(c, 1 / 3), lambda c: _products(c, 2))  # §3.2.7; rule
counts("cholesky", *_cubic(1 / 3, 4))  # §4.2.5; a product and two triangular solves of n columns
counts("inv", *_cubic(2, 4))  # §3.2.7 with n right-hand sides; two products
counts("det slogdet_parts", *_cubic(2 / 3, 2))  # §3.2.7; an inverse
counts("det_shifts", *_cubic(22, 22))  # a singular value decomposition
counts("eigh_pairs", *_cubic(9, 6))  # §8.3.3, with vectors; three products
counts("eigvalsh", *_cubic(4 / 3, 11))  # §8.3.3, values alone; then vectors and a product
counts("eig_pairs", *_cubic(25, 8))  # §7.5.6, with vectors; products and a solve
counts("matrix_exp", *_cubic(44 / 3, 8 * 44 / 3))  # N. Higham (2005): 6 products and a solve;
#                                      backward: that of a matrix of twice the order


def _solve(c: Call) -> float:
    """2/3 n³ for the factors, 2 n² for each column (§3.2.7)."""
    stack, _, n = _stack(c.inputs[0])
    return stack * 2 / 3 * n**3 + 2 * n * c.n


def _triangular(c: Call) -> float:
    """n² for each column (§3.1.2)."""
    return c.inputs[0][-1] * c.n


counts("solve", _solve, lambda c: _solve(c) + 2 * c.inputs[0][-1] * c.n, joint=True)
counts("triangular_solve", _triangular, lambda c: 3 * _triangular(c), joint=True)


def _banded(c: Call) -> float:
    """2 l (l + u) for each column's factor, 2 (2 l + u) for each entry of the solution (§4.3.5)."""
    l, u = c.params["lower"], c.params["upper"]
    return 2 * l * (l + u) * c.m / (l + u + 1) + 2 * (2 * l + u) * c.n


counts("banded_solve", _banded, lambda c: _banded(c) + 2 * c.n, joint=True, needs="lower upper")


def _qr(c: Call) -> float:
    """2 n² (m − n/3) for R and as much for n columns of Q (§5.2.1)."""
    stack, m, n = _stack(c.inputs[0])
    return stack * 4 * n * n * (m - n / 3)


def _svd(c: Call) -> float:
    """6 m n² + 20 n³ with both factors, m ≥ n (§8.6.3)."""
    stack, *sides = _stack(c.inputs[0])
    m, n = max(sides), min(sides)
    return stack * (6 * m * n * n + 20 * n**3)


def _products(c: Call, count: float) -> float:
    """So many products of an (m, n) by an (n, n) matrix."""
    stack, *sides = _stack(c.inputs[0])
    m, n = max(sides), min(sides)
    return 2 * count * stack * m * n * n


def _svdvals(c: Call) -> float:
    """2 m n² + 2 n³, values alone (§8.6.3)."""
    stack, *sides = _stack(c.inputs[0])
    m, n = max(sides), min(sides)
    return stack * (2 * m * n * n + 2 * n**3)


counts("qr_factors", _qr, lambda c: _products(c, 4))
counts("svd_factors", _svd, lambda c: _products(c, 6))
counts("svdvals", _svdvals, lambda c: _svd(c) + _products(c, 1))
counts("matrix_rank", _svdvals, _none)
counts("pseudoinverse", lambda c: _svd(c) + _products(c, 1), lambda c: _products(c, 8))
counts(
    "least_squares",
    lambda c: _svd(c) + 4 * max(c.inputs[0][-2:]) * c.n,
    lambda c: _svd(c) + _products(c, 1) + 12 * max(c.inputs[0][-2:]) * c.n,
    joint=True,
)
