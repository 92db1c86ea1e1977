"""Bad input to convolution, pooling, norms, losses, attention, transforms and linear algebra.

Each error names the function, the argument or its shape, and the rule that was broken.
"""

import numpy as np
import pytest

import minigrad as mg

pytestmark = pytest.mark.promise(
    "bad input names function, argument and rule; beginner errors name the fix"
)

one = np.ones
index = np.array([0, 1])
linalg, fft = mg.linalg, mg.fft
Singular = np.linalg.LinAlgError

CASES = [
    # convolution
    (lambda: mg.conv2d(one((1, 3, 5, 5)), one((4, 1, 3, 3)), groups=2), ValueError,
     r"conv2d: with groups=2, x \(1, 3, 5, 5\) of 3 channels needs w"),
    (lambda: mg.conv2d(one((1, 4, 5, 5)), one((3, 2, 3, 3)), groups=2), ValueError,
     r"O divisible by groups; got w \(3, 2, 3, 3\)"),
    (lambda: mg.conv2d(one((1, 4, 5, 5)), one((3, 2, 3, 3)), groups=0), ValueError,
     "conv2d: groups must be an int ≥ 1, got 0"),
    (lambda: mg.conv_transpose1d(one((1, 4, 5)), one((4, 2, 3)), groups=0), ValueError,
     "conv_transpose1d: groups must be an int ≥ 1, got 0"),
    (lambda: mg.conv3d(one((1, 1, 2, 2, 2)), one((1, 1, 3, 3, 3))), ValueError,
     r"conv3d: the kernel \(3, 3, 3\).*larger than the padded input \(size \(2, 2, 2\)"),
    (lambda: mg.conv2d(one((1, 3, 5, 5)), one((4, 3, 3, 3)), one(3)), ValueError,
     r"conv2d: b must have shape \(4,\), got \(3,\)"),
    (lambda: mg.conv2d(one((1, 3, 5, 5)), one((4, 3, 3, 3)), padding=-1), ValueError,
     "conv2d: padding must be an int ≥ 0, or 2 of them, got -1"),
    (lambda: mg.conv2d(one((1, 3, 5, 5)), one((4, 3, 3, 3)), padding="same", stride=2), ValueError,
     r"conv2d: padding 'same' needs stride 1, got \(2, 2\)"),
    (lambda: mg.conv_transpose2d(one((1, 3, 5, 5)), one((3, 2, 3, 3)), output_padding=1),
     ValueError, r"output_padding \(1, 1\) must be smaller than the stride \(1, 1\)"),
    # pooling and resampling
    (lambda: mg.max_pool2d(one((1, 1, 2, 2)), 3), ValueError,
     r"max_pool2d: the kernel \(3, 3\).*larger than the padded input"),
    (lambda: mg.avg_pool2d(one((1, 1, 4, 4)), 2, padding=2), ValueError,
     "avg_pool2d: padding .* at most half of the kernel"),
    (lambda: mg.max_pool2d(one((1, 1, 4, 4)), 2.0), ValueError,
     "max_pool2d: kernel_size must be an int ≥ 1, or 2 of them, got 2.0"),
    (lambda: mg.adaptive_avg_pool2d(one((1, 4, 4)), (2,)), ValueError,
     r"adaptive_avg_pool2d: output size must be an int ≥ 1, or 2 of them, got \(2,\)"),
    (lambda: mg.upsample(one((1, 1, 4, 4)), scale_factor=(1, 2, 3)), ValueError,
     r"upsample: scale_factor must be a positive number, or 2 of them.*got \(1, 2, 3\)"),
    (lambda: mg.upsample(one((1, 1, 4, 4)), size=3, recompute_scale_factor=True), ValueError,
     "upsample: recompute_scale_factor is for scale_factor.*a size, here 3"),
    (lambda: mg.rotary(one((3, 4)), np.arange(3), cos=one((3, 2)), sin=one((3, 2))), ValueError,
     "rotary: cos and sin say the positions"),
    # normalisation
    (lambda: mg.group_norm(one((2, 6, 3)), 4), ValueError,
     r"group_norm: num_groups=4 must be an int that divides the 6 channels \(axis 1 of x "
     r"\(2, 6, 3\)\)"),
    (lambda: mg.group_norm(one((2, 6, 3)), 2.0), ValueError,
     "group_norm: num_groups=2.0 must be an int"),
    (lambda: mg.batch_norm(one((2, 6, 3))), ValueError,
     "batch_norm: training=False takes its statistics from running_mean and running_var"),
    (lambda: mg.instance_norm(one((2, 6, 3)), use_input_stats=False), ValueError,
     "instance_norm: use_input_stats=False takes its statistics from running_mean"),
    (lambda: mg.layer_norm(one((2, 6)), (5,)), ValueError,
     r"layer_norm: normalized_shape=\(5,\) must be the last axes of x.*\(2, 6\)"),
    (lambda: mg.batch_norm(one((1, 3)), one(3), one(3), training=True), ValueError,
     r"more than one value for each channel; x has shape \(1, 3\)"),
    (lambda: mg.repeat(one(3), 1.5), TypeError, "repeats says how often, in integers; got float64"),
    (lambda: mg.max_pool2d(one((1, 1, 2, 2)) * 1j, 2), TypeError,
     "max_pool.*x must be real, got complex128: complex numbers have no order"),
    # losses
    (lambda: mg.cross_entropy(one((2, 3)), np.array([0, 3])), ValueError,
     r"indices from 0 to 3, but x \(2, 3\) has 3 classes.*ignore_index=-100"),
    (lambda: mg.cross_entropy(one((2, 3)), one((2, 3)), one(2)), ValueError,
     r"weight must have shape \(3,\), one entry for each class, got \(2,\)"),
    (lambda: mg.cross_entropy(one((2, 3)), index, label_smoothing=2), ValueError,
     "cross_entropy: label_smoothing must be from 0 to 1, got 2"),
    (lambda: mg.cross_entropy(one((2, 3), int), index), ValueError,
     r"cross_entropy: x must hold floats \(N, C, ...\).*got int64 \(2, 3\)"),
    (lambda: mg.nll(one((2, 3)), one(2)), TypeError,
     "nll: target must hold class indices, integers; got float64"),
    *[
        (lambda loss=loss: loss(one((2, 1)), one(2)), ValueError,
         rf"{name}: x \(2, 1\) and target \(2,\) must have the same shape")
        for name, loss in {"mse": mg.mse, "l1": mg.l1, "huber": mg.huber, "bce": mg.bce,
                           "bce_with_logits": mg.bce_with_logits, "kl_div": mg.kl_div,
                           "hinge": mg.hinge}.items()
    ],
    (lambda: mg.huber(one(2), one(2), delta=-1), ValueError, "huber: delta must be positive"),
    (lambda: mg.cosine_embedding(one((2, 3)), one((2, 4)), one(2)), ValueError,
     r"cosine_embedding: .*got a \(2, 3\), b \(2, 4\), target \(2,\)"),
    (lambda: mg.triplet(one((2, 3)), one((2, 4)), one((2, 3))), ValueError,
     r"triplet: needs vectors of one length.*\(2, 4\)"),
    # attention
    (lambda: mg.scaled_dot_product_attention(one((2, 3)), one((4, 5)), one((4, 3))), ValueError,
     r"same number of features; got q \(2, 3\), k \(4, 5\), v \(4, 3\)"),
    (lambda: mg.scaled_dot_product_attention(one((2, 3)), one((4, 3)), one((4, 3)), block_size=0),
     ValueError, "block_size must be an int ≥ 1, or None; got 0"),
    (lambda: mg.scaled_dot_product_attention(one((2, 3)), one((4, 3)), one((4, 3)), dropout_p=2),
     ValueError, "dropout_p is a probability, from 0 to 1; got 2"),
    (lambda: mg.rotary(one((5, 4)), np.arange(3)), ValueError,
     r"rotary: positions \(3,\) must broadcast against .* \(5,\)"),
    # transforms
    (lambda: fft.fft(one(4), n=0), ValueError, "fft: 0 data points along axis 0"),
    (lambda: fft.fft(one(4), n=2.5), TypeError, "the lengths n or s must be integers, got"),
    (lambda: fft.rfft(one(4) * 1j), TypeError, r"rfft: needs a real array.*complex128 \(4,\)"),
    (lambda: fft.irfft(one(1)), ValueError, "irfft: 0 data points along axis 0; give n"),
    (lambda: fft.fft(one(4), norm="x"), ValueError, "norm='x'; choose 'backward', 'ortho'"),
    # linear algebra
    (lambda: linalg.triangular_solve(np.zeros((2, 2)), one(2)), Singular, "(?i)singular"),
    (lambda: linalg.lstsq(one((3, 2)), one(2)), Singular, r"the same m; got \(3, 2\) and \(2,\)"),
    (lambda: linalg.svd(np.full((2, 2), np.nan)), Singular, "holds inf or NaN"),
    (lambda: linalg.tensorinv(one((2, 3, 4)), ind=1), Singular,
     r"tensorinv: the first 1 axes \(2,\) and the others \(3, 4\)"),
    (lambda: linalg.matrix_norm(one((3, 3)), ord=3), ValueError, "ord=3; choose 'fro'"),
    (lambda: linalg.lu_solve(linalg.lu_factor(np.eye(3)), 1.0), ValueError,
     r"lu_solve: b must be .* n = 3, got \(\)"),
    # shapes that do not fit, and the ops that others are made of under the names users call
    (lambda: mg.repeat(mg.tensor(one(3)), [1, 2]), ValueError,
     r"repeat: repeats is one number, or one for each of the 3 elements of x \(3,\) along axis 0"),
    (lambda: mg.tensor(one(3)).__setitem__(slice(2), one(3)), ValueError,
     r"x\[index\] = value: x, float64 \(3,\), has shape \(2,\) at the index, and value"),
    (lambda: mg.select(mg.tensor(one((2, 3))), 1, 2), TypeError, r"mg.take\(x, index, axis=axis\)"),
    (lambda: mg.nn.Bilinear(2, 3, 4)(mg.tensor(one((5, 3))), one((5, 3))), ValueError,
     r"bilinear: a .* got a \(5, 3\), b \(5, 3\), weight \(4, 2, 3\)"),
    # one axis where several are given, lengths below zero
    (lambda: mg.diff(mg.tensor(one((3, 4))), axis=(0, 1)), TypeError,
     r"axis must be one integer here, got \(0, 1\)"),
    (lambda: mg.repeat(mg.tensor(one((3, 4))), 2, axis=(1, 0)), TypeError,
     r"axis must be one integer here, got \(1, 0\)"),
    (lambda: mg.index_add(mg.tensor(one((3, 4))), (0, 1), [0], one((1, 4))), TypeError,
     r"axis must be one integer here, got \(0, 1\)"),
    (lambda: mg.cummax(mg.tensor(one((3, 4))), (0, 1)), TypeError,
     r"axis must be one integer here, got \(0, 1\)"),
    (lambda: fft.rfft(mg.tensor(one((3, 4))), axis=(0, 1)), TypeError,
     r"axis must be one integer here, got \(0, 1\)"),
    (lambda: fft.irfft(mg.tensor(one(4)), n=-1), ValueError,
     "n=-1 data points; a transform needs at least one, or n=None"),
    (lambda: mg.resize(mg.tensor(one(4)), (3, -1)), ValueError,
     r"resize: no length of the new shape may be negative, got \(3, -1\)"),
    (lambda: mg.std(mg.tensor(one(4)), ddof=1, correction=0), ValueError,
     "std: ddof=1 and correction=0 are two names"),
    (lambda: mg.nanvar(mg.tensor(one(4)), ddof=1, correction=1), ValueError,
     "nanvar: ddof=1 and correction=1 are two names"),
    (lambda: mg.take_along_axis(mg.tensor(one((3, 4))), -1, axis=0), TypeError,
     "indices must be an array with as many axes as x, got the number -1"),
    (lambda: mg.put_along_axis(mg.tensor(one((3, 4))), 1, 0.0, axis=0), TypeError,
     "indices must be an array with as many axes as x, got the number 1"),
    # values that mean nothing
    (lambda: mg.embedding(np.array([0, -1]), mg.tensor(one((3, 2)))), IndexError,
     "embedding: indices count from 0 to 2, got -1; for padding"),
    (lambda: mg.layer_norm(mg.tensor(one((2, 3))), 3, eps=-1.0), ValueError,
     "layer_norm: eps must be 0 or more, got -1.0"),
    (lambda: mg.bce(mg.tensor([0.5]), np.array([2.0])), ValueError,
     "bce: target must hold probabilities, from 0 to 1; got 2.0 to 2.0"),
]  # fmt: skip

# Errors of an op, or of NumPy: courtesy/ puts the call before them.
SHOWN = [
    (lambda: mg.glu(np.array(1.0)), np.exceptions.AxisError,
     r"glu\(x: float64 \(\)\): axis -1 is out of bounds"),
    (lambda: mg.topk(one((2, 3)), 1, axis=9), np.exceptions.AxisError,
     r"topk\(x: float64 \(2, 3\), k: 1, axis=9\): axis 9 is out of bounds"),
    (lambda: mg.logcumsumexp(one(()), axis=1), np.exceptions.AxisError,
     r"logcumsumexp\(x: float64 \(\), axis=1\): axis 1 is out of bounds"),
    (lambda: mg.floor(one(2) * 1j), TypeError,
     r"floor\(x: complex128 \(2,\)\).* real numbers: apply it to x.real and x.imag"),
    (lambda: mg.bitwise_left_shift(one(2), 1), TypeError,
     r"bitwise_left_shift\(.* integers here: x.astype\(int\)"),
    (lambda: fft.fftn(one((4, 4)), s=(2, 3), axes=(0,)), ValueError,
     r"fftn\(.*: 2 lengths s=\(2, 3\) for 1 axes \(0,\)"),
    (lambda: linalg.solve(one((2, 2)), one(2)), Singular,
     r"solve\(a: float64 \(2, 2\), b: float64 \(2,\)\): Singular matrix"),
    (lambda: linalg.solve(np.eye(2), one(3)), ValueError,
     r"solve\(.*b must be \(n,\) or \(…, n, k\) with n = 2, got \(3,\)"),
    (lambda: linalg.inv(one((2, 3))), Singular, r"inv\(x: float64 \(2, 3\)\).*square"),
    (lambda: linalg.cholesky(-np.eye(2)), Singular, "cholesky.*not positive definite"),
    (lambda: mg.tensor(one((2, 3))) + one(4), ValueError,
     r"axis -1 is 3 and 4 long: lengths must be equal, or 1"),
    (lambda: mg.where(one((2, 1, 3)) > 0, mg.tensor(one((5, 3))), one((4, 3))), ValueError,
     "axis -2 is 1 and 5 and 4 long"),
    (lambda: mg.concatenate([mg.tensor(one((2, 3))), one((3, 4))]), ValueError,
     r"^concatenate\(arrays\[0\]: float64 \(2, 3\)"),
    (lambda: mg.stack([mg.tensor(one(2)), one(3)]), ValueError, r"^stack\(arrays\[0\]"),
    (lambda: linalg.svd(mg.tensor(one(3))), Singular, r"^svd\(x: float64 \(3,\)"),
    (lambda: linalg.eigh(mg.tensor(one((2, 3)))), Singular, r"^eigh\(x: float64 \(2, 3\)"),
]  # fmt: skip


@pytest.mark.parametrize("call, error, match", CASES, ids=[match[:40] for *_, match in CASES])
def test_the_error_names_the_argument_its_shape_and_the_rule(call, error, match):
    with pytest.raises(error, match=match):
        call()


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize("call, error, match", SHOWN, ids=[match[:40] for *_, match in SHOWN])
def test_the_error_shows_the_call(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_an_ignored_sample_with_nan_costs_nothing_also_with_smoothing():
    x = mg.tensor(np.array([[np.nan, np.inf], [0.0, 0.0]]), requires_grad=True)
    y = mg.cross_entropy(x, np.array([-100, 0]), label_smoothing=0.2)
    y.backward()
    assert y.item() == pytest.approx(np.log(2))
    np.testing.assert_allclose(x.grad.numpy(), [[0, 0], [-0.4, 0.4]], atol=1e-12)


@pytest.mark.layer("courtesy")
def _have_common_dtype(*dtypes) -> bool:
    try:
        return np.result_type(*dtypes) is not None
    except TypeError:
        return False


def test_dtypes_without_a_common_one_are_to_be_cast():
    eight_bits = np.ones(2, pytest.importorskip("ml_dtypes").float8_e4m3fn)
    if _have_common_dtype("float16", eight_bits.dtype):
        pytest.skip("from ml_dtypes 0.7 on these dtypes have a common one")
    with pytest.raises(TypeError, match=r"matmul\(a: float16 .*b: float8.*Cast one of them first"):
        mg.matmul(mg.ones(2, dtype="float16"), eight_bits)


@pytest.mark.layer("courtesy")
def test_a_function_of_scipys_is_said_to_have_no_form_for_long_doubles():
    with pytest.raises(
        TypeError, match=r"no form for long doubles: x.astype\(mg.float64\) has one"
    ):
        mg.gelu(mg.ones(2, dtype=np.longdouble))
