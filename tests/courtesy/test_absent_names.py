"""What PyTorch or JAX has in its modules and minigrad has not: the error says what to write."""

import operator
import re

import pytest

import minigrad as mg
from minigrad.courtesy import foreign_tables


@pytest.mark.parametrize(
    ("module", "name", "here"),
    [
        (mg.optim, "SparseAdam", "mg.optim.Adam, since gradients are dense"),
        (mg.nn, "DataParallel", "mg.distributed.DataParallel"),
        (mg.nn, "Adam", "mg.optim.Adam"),
        (mg.nn, "weight_norm", "mg.nn.utils.weight_norm"),
        (mg.data, "DistributedSampler", "mg.distributed.DistributedSampler"),
        (mg.distributed, "DistributedDataParallel", "mg.distributed.DataParallel"),
        (mg.distributed, "get_rank", r"mg.distributed.rank\(\)"),
        (mg.distributed, "world_size", r"mg.distributed.size\(\)"),
        (mg.distributed, "Adam", "mg.optim.Adam"),
        (mg.amp, "custom_fwd", r"with mg.autocast\(enabled=False\): inside forward"),
        (mg, "autograd", "mg.grad, mg.backward, mg.Function and mg.func"),
        (mg, "utils", "mg.data, mg.nn.utils and mg.checkpoint"),
        (mg, "is_autocast_enabled", "mg.amp.is_autocast_enabled"),
        (mg.nn.functional, "pdist", "mg.pdist"),
        (mg.nn.functional, "relu_", r"x = relu\(x\)"),
        (mg.nn.functional, "upsample", "mg.nn.functional.interpolate"),
        (mg.nn.functional, "upsample_bilinear", "mg.nn.functional.interpolate"),
        (mg.nn.functional, "max_pool2d_with_indices", r"max_pool2d\(..., return_indices=True\)"),
        (mg.nn.functional, "conv_tbc", r"conv1d\(x.transpose\(1, 2, 0\)"),
        (mg.nn, "RNNBase", "mg.nn.RNN, mg.nn.LSTM and mg.nn.GRU"),
        (mg.nn.utils, "stateless", "mg.func.functional_call"),
        (mg.nn, "LinearCrossEntropyOptions", "nothing: mg.nn.LinearCrossEntropyLoss never holds"),
        (mg.nn, "CrossMapLRN2d", "mg.nn.LocalResponseNorm"),
        (mg.special, "bessel_j0", "mg.special.j0"),
        (mg.special, "chebyshev_polynomial_t", r"mg.special.eval_chebyt\(n, x\)"),
        (mg.linalg, "inv_ex", "mg.linalg.inv, which raises LinAlgError"),
        (mg.linalg, "vander", "mg.vander"),
        (mg.fft, "hfft2", r"mg.fft.irfft2\(mg.conj\(x\)"),
        (mg, "from_numpy", "mg.as_tensor, which shares the array's memory"),
        (mg, "float", "mg.float32"),
        (mg, "long", "mg.int64"),
        (mg, "Size", "tuple: a shape is a plain tuple"),
        (mg, "spmm", "matmul: matrices are dense"),
        (mg, "set_printoptions", "np.set_printoptions"),
        (mg, "profiler", "mg.profile and minigrad-profile"),
        (mg, "jit", "mg.compile, for a training step"),
        (mg, "gradcheck", "minigrad.testing.gradcheck"),
        (mg, "load_mnist", r"mg.data.load_digits\(\)"),
        (mg, "plot", "mg.dump_graph"),
        (mg, "lax", "mg.func.cond, switch, scan"),
        (mg.func, "grad_and_value", r"mg.func.value_and_grad, which gives \(value, gradient\)"),
        (mg, "forward_ad", "mg.func.jvp"),
        (mg, "tree_map", "mg.func.tree_map"),
        (mg, "asarray", "mg.as_tensor"),
        (mg, "record_function", r"mg.scope\(name\)"),
        (mg, "tree_util", "mg.func.tree_map and mg.func.tree_leaves"),
        (mg, "GradientTape", r"mg.func.value_and_grad\(f\)\(x\), or y.backward"),
        (mg, "reduce_mean", "mg.mean"),
        (mg.nn, "softmax_cross_entropy_with_logits", "mg.cross_entropy"),
        (mg.nn, "F", "mg.nn.functional"),
        (mg.nn.utils, "clip_grad_norm", "mg.nn.utils.clip_grad_norm_"),
        (mg.func, "custom_vjp", "@mg.primitive with @op.vjp, or mg.Function"),
        (mg.func, "stop_gradient", r"x.detach\(\)"),
        (mg.func, "checkpoint", "mg.checkpoint"),
        (mg, "bucketize", r"mg.searchsorted\(boundaries, x\)"),
        (mg, "histc", r"mg.histogram\(x, bins, \(low, high\)\)\[0\]"),
        (mg, "broadcast_tensors", "mg.broadcast_arrays"),
        (mg, "clone", r"x.clone\(\)"),
        (mg, "finfo", "np.finfo"),
        (mg, "hann_window", r"scipy.signal.windows.hann\(n, sym=False\)"),
        (mg, "lstm_cell", "mg.nn.LSTMCell"),
        (mg, "check_grads", "minigrad.testing.gradcheck"),
        (mg, "make_dot", "mg.dump_graph"),
        (mg, "zero_grad", r"optimizer.zero_grad\(\)"),
        (mg, "set_seed", "mg.manual_seed"),
        (mg, "device_put", r"x.to\(device\)"),
        (mg, "boolean_mask", r"x\[mask\]"),
        (mg.func, "map", "mg.func.vmap, or mg.func.scan"),
        (mg.nn, "Dense", r"mg.nn.Linear\(in_features, out_features\)"),
        (mg.nn, "CrossEntropy", "mg.nn.CrossEntropyLoss, which takes scores"),
        (mg.nn, "GlobalAveragePooling2D", r"mg.nn.AdaptiveAvgPool2d\(1\)"),
        (mg.optim, "Momentum", r"mg.optim.SGD\(params, lr, momentum=0.9\)"),
        (mg.optim, "apply_updates", r"optimizer.step\(\)"),
        (mg.optim.lr_scheduler, "CosineLR", "mg.optim.lr_scheduler.CosineAnnealingLR"),
        (mg.data, "CIFAR10", r"mg.data.load_digits\(\)"),
    ],
)
def test_a_name_of_pytorchs_or_jax_s_modules_is_answered_with_ours(module, name, here):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; here it is {here}"):
        getattr(module, name)


@pytest.mark.parametrize(
    ("module", "name", "here"),
    [
        (mg.nn, "Relu", "ReLU"),
        (mg.nn, "Conv2D", "Conv2d"),
        (mg.nn, "MultiHeadAttention", "MultiheadAttention"),
        (mg.optim, "adamw", "AdamW"),
        (mg.data, "Dataloader", "DataLoader"),
        (mg.nn.functional, "maxpool2d", "max_pool2d"),
    ],
)
def test_a_name_in_other_capitals_is_answered_with_ours(module, name, here):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; here it is {here}$"):
        getattr(module, name)


def test_every_name_of_minigrad_in_a_hint_exists():
    for hint in [*foreign_tables.NAMES.values(), *foreign_tables.OF_MODULES.values()]:
        for path in re.findall(r"mg((?:\.[A-Za-z_]\w*)+)", hint):
            operator.attrgetter(path[1:])(mg)


def test_a_function_that_is_no_method_here_is_named_as_one():
    with pytest.raises(AttributeError, match="here it is mg.take_along_axis"):
        mg.ones(2).take_along_dim  # noqa: B018


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("values", "the result itself: max, min and sort give values alone"),
        ("indices", "argmax(axis), argmin(axis) or argsort(axis)"),
        ("strides", "x.detach().numpy().strides, of its array"),
        ("tobytes", "x.detach().numpy().tobytes, of its array"),
        ("stride", "x.detach().numpy().strides, in bytes"),
        ("mH", "mT.conj()"),
        ("adjoint", "mT.conj()"),
        ("ndimension", "ndim"),
        ("float", "astype(np.float32)"),
        ("at", "x[index] = value, or mg.setitem"),
        ("normal_", "mg.nn.init.normal_(x, mean, std)"),
        ("uniform_", "mg.nn.init.uniform_(x, low, high)"),
        ("fill", "x[...] = value"),
        ("int", "astype(np.int32)"),
        ("index_put_", "the new value of index_put"),
        ("resize", "mg.resize"),
        ("zero_grad", "optimizer.zero_grad(), or x.grad = None"),
        ("to_numpy", "x.detach().numpy()"),
        ("cast", "astype(dtype)"),
        ("gpu", 'to("cuda")'),
        ("get_shape", "shape"),
        ("assign_add", "x += v"),
        ("unbind", "mg.unstack"),
    ],
)
def test_what_arrays_of_numpy_and_pytorch_have_is_answered_with_what_to_write(name, here):
    with pytest.raises(
        AttributeError, match=re.escape(f"no attribute '{name}'; here it is {here}")
    ):
        getattr(mg.ones(2), name)
    assert not hasattr(mg.nn, "strides")


@pytest.mark.parametrize("module", [mg.nn, mg.optim, mg.data, mg.amp, mg.nn.utils, mg.fft, mg.func])
def test_a_name_that_is_nowhere_has_no_hint(module):
    for name in ("clip_grads_", "__wrapped__"):
        assert not hasattr(module, name)
        with pytest.raises(AttributeError) as caught:
            getattr(module, name)
        assert "here it is" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("from minigrad.optim import SparseAdam", "here it is mg.optim.Adam, since"),
        ("from minigrad import autograd", "here it is mg.grad, mg.backward"),
        ("from minigrad.nn import SyncBatchNorm", "here it is mg.distributed.SyncBatchNorm"),
        ("from minigrad.cuda import amp", "here it is mg.amp"),
    ],
)
def test_an_import_of_a_name_that_is_elsewhere_says_what_to_write(line, hint):
    with pytest.raises(ImportError, match=hint):
        exec(line, {})


def test_an_import_of_a_name_that_is_nowhere_is_pythons_error():
    with pytest.raises(ImportError, match="cannot import name 'Adamm' from 'minigrad.optim'"):
        exec("from minigrad.optim import Adamm", {})
    assert not hasattr(mg.optim, "SparseAdam")


@pytest.mark.parametrize("name", ["amp", "set_device", "manual_seed_all", "mem_get_info"])
def test_names_of_pytorchs_cuda_say_what_they_are_here(name):
    with pytest.raises(AttributeError, match=f"minigrad.cuda has no attribute '{name}'; here it"):
        getattr(mg.cuda, name)


@pytest.mark.parametrize(
    ("module", "name", "hint"),
    [
        ("stats", "Normal", "here it is mg.stats.norm"),
        ("stats", "Categorical", "here it is mg.multinomial to draw"),
        ("nn", "TransformerBlock", "here it is mg.nn.TransformerEncoderLayer"),
    ],
)
def test_a_distribution_or_layer_of_another_name_says_what_it_is_here(module, name, hint):
    with pytest.raises(AttributeError, match=f"minigrad.{module} has no .*; {hint}"):
        getattr(getattr(mg, module), name)


@pytest.mark.parametrize("name", ["gpu", "GPU", "mps:0"])
def test_another_name_for_a_gpu_says_what_to_write(name):
    for x in (mg.ones(2), mg.nn.Linear(2, 2)):
        with pytest.raises(TypeError, match="for a GPU write 'cuda'"):
            x.to(name)


def test_detach_in_place_says_what_to_write():
    with pytest.raises(AttributeError, match=r"here it is x = x.detach\(\)"):
        mg.ones(2).detach_()
