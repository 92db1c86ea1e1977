"""Names of PyTorch that are spelled differently here: the error for one says what to write."""

import inspect
import opcode
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..backends.dtypes import INSTALL, bfloat16
from ..engine.registry import numpy_table

_NAMES = {
    "cat": "mg.concatenate", "clamp": "clip", "numel": "size", "nelement": "size", "dim": "ndim",
    "type": "astype", "float": "astype(np.float32)", "double": "astype(np.float64)",
    "half": "astype(np.float16)", "long": "astype(np.int64)", "bool": "astype(bool)",
    "cpu": 'to("cpu")', "cuda": 'to("cuda")',
    "from_numpy": "mg.as_tensor, which shares the array's memory", "mm": "matmul",
    "bmm": "matmul", "mv": "matmul", "t": "T", "expand_as": "broadcast_to",
    "r_": "mg.hstack([...])", "c_": "mg.column_stack([...])",
    "element_size": "itemsize", "addbmm": "mg.addbmm", "bernoulli": "mg.bernoulli",
    "chain_matmul": "mg.linalg.multi_dot", "clamp_max": "mg.minimum", "clamp_min": "mg.maximum",
    "complex": "a + 1j * b", "concat": "mg.concatenate", "device": 'a string, "cpu" or "cuda:0"',
    "eq": "a == b", "ge": "a >= b", "ger": "mg.outer", "get_default_dtype": "dtype= of each call",
    "gt": "a > b", "igamma": "mg.special.gammainc", "igammac": "mg.special.gammaincc",
    "inverse": "mg.linalg.inv", "is_complex": 'x.dtype.kind == "c"',
    "is_floating_point": 'x.dtype.kind == "f"', "is_tensor": "isinstance(x, mg.Tensor)",
    "le": "a <= b", "lt": "a < b", "movedim": "moveaxis", "msort": "mg.sort(x, axis=0)",
    "mvlgamma": "mg.special.multigammaln", "ne": "a != b", "new_ones": "mg.ones(shape, dtype=)",
    "new_zeros": "mg.zeros(shape, dtype=)", "pinverse": "mg.linalg.pinv",
    "repeat_interleave": "repeat", "reshape_as": "reshape(y.shape)", "rsub": "b - a",
    "scalar_tensor": "mg.tensor", "set_default_dtype": "dtype= of each call", "sgn": "mg.sign",
    "split_with_sizes": "mg.split, at mg.cumsum of the sizes", "swapdims": "swapaxes",
    "take_along_dim": "mg.take_along_axis", "tensor_split": "mg.array_split",
    "threshold": "mg.nn.functional.threshold", "trapz": "mg.trapezoid",
    "values": "the result itself: max, min and sort give values alone",
    "indices": "argmax(axis), argmin(axis) or argsort(axis)",
    "type_as": "astype(y.dtype)", "unbind": "mg.unstack", "unsqueeze": "expand_dims",
    "view_as": "reshape(y.shape)", "vmap": "mg.func.vmap",
    "int": "astype(np.int32)", "short": "astype(np.int16)", "byte": "astype(np.uint8)",
    "char": "astype(np.int8)", "H": "mT.conj()", "mH": "mT.conj()", "adjoint": "mT.conj()",
    "ndimension": "ndim", "is_nonzero": "bool(x)", "is_same_size": "x.shape == y.shape",
    "histc": "mg.histogram(x, bins, (low, high))[0]", "new_full": "mg.full(shape, value, dtype=)",
    "new_empty": "mg.empty(shape, dtype=)", "new_tensor": "mg.tensor(data, dtype=)",
    "is_cuda": 'x.device != "cpu"', "stride": "x.detach().numpy().strides, in bytes",
    "is_contiguous": "x.detach().numpy().flags.c_contiguous",
    "data_ptr": "x.detach().numpy().ctypes.data",
    "normal_": "mg.nn.init.normal_(x, mean, std)", "uniform_": "mg.nn.init.uniform_(x, low, high)",
    "bernoulli_": "x[...] = mg.bernoulli(p)",
    "at": "x[index] = value, or mg.setitem(x, value, index=index) for a changed copy",
    "block_until_ready": "nothing on the host, mg.cuda.synchronize() on a GPU",
    "get_device": "x.device", "detach_": "x = x.detach()", "assign": "x[...] = value",
    "fill": "x[...] = value", "put": "x[index] = values", "flat": "ravel()",
    "zero_grad": "optimizer.zero_grad(), or x.grad = None", "value": "item() or numpy()",
    "eval": "nothing: results are computed at once", "get_shape": "shape", "rank": "ndim",
    "to_numpy": "x.detach().numpy()", "asnumpy": "x.detach().numpy()",
    "toarray": "x.detach().numpy()", "storage": "x.detach().numpy(), which shares its memory",
    "to_list": "tolist()", "ndims": "ndim", "num_elements": "size", "gpu": 'to("cuda")',
    "attach_grad": "requires_grad_()", "assign_add": "x += v", "assign_sub": "x -= v",
    "register_backward_hook": "register_hook", "normalize": "mg.nn.functional.normalize",
    "cast": "astype(dtype)", "stop_gradient": "x.detach()", "clip_by_value": "clip",
    "pin_memory": "nothing: x.to(device) copies at once",
    "share_memory_": "nothing: a DataLoader's workers hand batches over themselves",
    "map_": "an op on x, such as mg.exp(x), or mg.func.vmap(f)(x)",
}  # fmt: skip
# What NumPy's arrays have: where no tensor has it either, the array of one does.
_OF_ARRAYS = [name for name in dir(np.ndarray) if name[0] != "_"]
_DIGITS = "mg.data.load_digits(), smaller digits that need no download"
_PICTURE = "mg.dump_graph(loss, 'graph.json') and then `minigrad-viz graph.json`"
_GRADCHECK = "minigrad.testing.gradcheck, after `import minigrad.testing`"
_DEVICE = 'device="cuda", or "cpu"'
_CLIP = "mg.nn.utils.clip_grad_norm_"
_CROSS_ENTROPY = "mg.nn.CrossEntropyLoss, which takes scores before the softmax"
_GLOBAL_MEAN = "mg.nn.AdaptiveAvgPool2d(1)"
_COSINE = "mg.optim.lr_scheduler.CosineAnnealingLR"
_WARMUP = "mg.optim.lr_scheduler.LinearLR, and SequentialLR to go on with another schedule"
# What PyTorch's modules mean by a name, and not its tensors: looked up first there.
_OF_MODULES = {
    "float": "mg.float32", "double": "mg.float64", "half": "mg.float16", "long": "mg.int64",
    "int": "mg.int32", "short": "mg.int16", "byte": "mg.uint8", "char": "mg.int8",
    "bool": "mg.bool_", "cfloat": "mg.complex64", "cdouble": "mg.complex128",
    "array": "mg.tensor, which copies", "asarray": "mg.as_tensor",
    "bucketize": "mg.searchsorted(boundaries, x)", "broadcast_tensors": "mg.broadcast_arrays",
    "broadcast_shapes": "np.broadcast_shapes", "clone": "x.clone()", "detach": "x.detach()",
    "finfo": "np.finfo", "iinfo": "np.iinfo", "can_cast": "np.can_cast",
    "promote_types": "np.promote_types", "result_type": "np.result_type",
    "tril_indices": "np.tril_indices", "triu_indices": "np.triu_indices",
    "range": "mg.arange, which ends before its end", "row_stack": "mg.vstack",
    "nuclear_norm": 'mg.linalg.matrix_norm(x, ord="nuc")',
    "frobenius_norm": "mg.linalg.matrix_norm", "set_default_device": "device= of each call",
    "hann_window": "scipy.signal.windows.hann(n, sym=False)",
    "hamming_window": "scipy.signal.windows.hamming(n, sym=False)",
    "lstm_cell": "mg.nn.LSTMCell", "gru_cell": "mg.nn.GRUCell", "lstm": "mg.nn.LSTM",
    "gru": "mg.nn.GRU", "rnn_tanh": "mg.nn.RNN",
    "gradgradcheck": "minigrad.testing.gradgradcheck, after `import minigrad.testing`",
    "load_cifar": _DIGITS, "load_dataset": _DIGITS, "load_mnist": _DIGITS, "MNIST": _DIGITS,
    "mnist": _DIGITS, "CIFAR10": _DIGITS,
    "plot": _PICTURE, "show": _PICTURE, "draw": _PICTURE, "draw_graph": _PICTURE,
    "plot_graph": _PICTURE, "make_dot": _PICTURE, "visualize": _PICTURE,
    "visualise": _PICTURE,
    "grad_check": _GRADCHECK, "gradient_check": _GRADCHECK, "check_grad": _GRADCHECK,
    "check_grads": _GRADCHECK, "check_gradients": _GRADCHECK, "gradcheck": _GRADCHECK,
    "view": "x.view(shape)", "expand": "mg.broadcast_to", "item": "x.item()",
    "zero_grad": "optimizer.zero_grad()", "eval": "model.eval()", "train_step": "mg.train.Trainer",
    "ndarray": "mg.Tensor", "dtype": "np.dtype", "grad_fn": "x.node", "gpu": _DEVICE,
    "mps": _DEVICE, "device_put": "x.to(device)", "device_get": "x.detach().numpy()",
    "cuda_is_available": "mg.cuda.is_available()", "cuda_available": "mg.cuda.is_available()",
    "device_count": "mg.cuda.device_count()", "num_threads": "mg.get_num_threads()",
    "requires_grad": "x.requires_grad, or mg.tensor(data, requires_grad=True)",
    "set_seed": "mg.manual_seed", "random_seed": "mg.manual_seed",
    "uniform": "low + (high - low) * mg.rand(shape)", "random_uniform": "mg.rand",
    "random_normal": "mg.randn", "truncated_normal": "mg.nn.init.trunc_normal_",
    "nograd": "mg.no_grad()", "no_gradient": "mg.no_grad()", "to_tensor": "mg.as_tensor",
    "ToTensor": "mg.as_tensor", "variable": "mg.tensor(data, requires_grad=True)",
    "placeholder": "nothing: functions take tensors", "function": "mg.compile",
    "script": "mg.compile, for a training step", "jnp": "mg itself", "pmap": "mg.distributed",
    "map": "mg.func.vmap, or mg.func.scan", "vectorize": "mg.func.vmap",
    "einops": "x.reshape and x.transpose", "rearrange": "x.reshape and x.transpose",
    "custom_gradient": "@mg.primitive with @op.vjp, or mg.Function",
    "add_n": "sum(tensors)", "top_k": "mg.topk", "reduce_any": "mg.any", "reduce_all": "mg.all",
    "squared_difference": "(a - b) ** 2", "moments": "mg.var_mean, the variance first",
    "l2_normalize": "mg.nn.functional.normalize", "batch_matmul": "matmul",
    "dot_general": "mg.einsum", "gather_nd": "x[index]", "boolean_mask": "x[mask]",
    "scatter_nd": "mg.index_add, or x[index] = values", "clip_by_norm": _CLIP,
    "clip_by_global_norm": _CLIP, "global_norm": "mg.nn.utils.get_total_norm",
    "softmax_cross_entropy": "mg.cross_entropy", "cross_entropy_loss": "mg.cross_entropy",
    "summary": "model.summary()", "state_dict": "model.state_dict()",
    "load_state_dict": "model.load_state_dict(mg.load(path))",
    "save_model": "mg.save(model.state_dict(), path)",
    "load_model": "model.load_state_dict(mg.load(path))",
    "Dense": "mg.nn.Linear(in_features, out_features)", "Layer": "mg.nn.Module",
    "Model": "mg.nn.Module", "Param": "mg.nn.Parameter", "Embed": "mg.nn.Embedding",
    "Activation": "mg.nn.ReLU, mg.nn.Tanh, ...", "Swish": "mg.nn.SiLU",
    "MSE": "mg.nn.MSELoss", "MeanSquaredError": "mg.nn.MSELoss", "MAE": "mg.nn.L1Loss",
    "NLL": "mg.nn.NLLLoss", "BCE": "mg.nn.BCELoss", "BCEWithLogits": "mg.nn.BCEWithLogitsLoss",
    "CE": _CROSS_ENTROPY, "CrossEntropy": _CROSS_ENTROPY,
    "SoftmaxCrossEntropy": _CROSS_ENTROPY, "SoftmaxCrossEntropyLoss": _CROSS_ENTROPY,
    "CategoricalCrossentropy": _CROSS_ENTROPY, "SparseCategoricalCrossentropy": _CROSS_ENTROPY,
    "Conv": "mg.nn.Conv1d, Conv2d or Conv3d", "Deconv2d": "mg.nn.ConvTranspose2d",
    "MaxPool": "mg.nn.MaxPool1d, MaxPool2d or MaxPool3d", "MaxPooling2D": "mg.nn.MaxPool2d",
    "AvgPool": "mg.nn.AvgPool1d, AvgPool2d or AvgPool3d", "AveragePooling2D": "mg.nn.AvgPool2d",
    "BatchNorm": "mg.nn.BatchNorm1d, BatchNorm2d or BatchNorm3d",
    "BatchNormalization": "mg.nn.BatchNorm1d, BatchNorm2d or BatchNorm3d",
    "LayerNormalization": "mg.nn.LayerNorm", "GlobalAvgPool": _GLOBAL_MEAN,
    "GlobalAveragePooling2D": _GLOBAL_MEAN, "UpSampling2D": "mg.nn.Upsample",
    "ZeroPadding2D": "mg.nn.ZeroPad2d", "Attention": "mg.nn.MultiheadAttention",
    "Reshape": "mg.nn.Unflatten, or x.reshape in forward",
    "View": "mg.nn.Unflatten, or x.reshape in forward",
    "Lambda": "a mg.nn.Module whose forward calls the function",
    "Input": "nothing: layers take tensors of any batch size",
    "MLP": "mg.nn.Sequential of mg.nn.Linear and mg.nn.ReLU", "initializers": "mg.nn.init",
    "attention": "mg.nn.functional.scaled_dot_product_attention",
    "flash_attention": "mg.nn.functional.scaled_dot_product_attention",
    "Momentum": "mg.optim.SGD(params, lr, momentum=0.9)", "GradientDescent": "mg.optim.SGD",
    "AdamWithDecay": "mg.optim.AdamW", "apply_updates": "optimizer.step()",
    "step": "optimizer.step()", "lr_schedulers": "mg.optim.lr_scheduler",
    "CosineLR": _COSINE, "Cosine": _COSINE, "cosine_decay_schedule": _COSINE,
    "CosineAnnealing": _COSINE, "ExponentialDecay": "mg.optim.lr_scheduler.ExponentialLR",
    "StepDecay": "mg.optim.lr_scheduler.StepLR", "WarmupLR": _WARMUP, "LinearWarmup": _WARMUP,
    "Warmup": _WARMUP, "get_linear_schedule_with_warmup": _WARMUP,
    "ema": "mg.optim.swa_utils.AveragedModel", "EMA": "mg.optim.swa_utils.AveragedModel",
    "SWA": "mg.optim.swa_utils.AveragedModel", "transforms": "functions in a Dataset's __getitem__",
    "shuffle": "mg.data.DataLoader(dataset, shuffle=True)",
    "value_and_gradient": "mg.func.value_and_grad",
    "record_function": "mg.scope(name)",
    "Size": "tuple: a shape is a plain tuple", "spmm": "matmul: matrices are dense",
    "sparse": "dense matrices; for the rows of one that is sparse, mg.take and mg.index_add",
    "set_printoptions": "np.set_printoptions", "profiler": "mg.profile and minigrad-profile",
    "SparseAdam": "mg.optim.Adam, since gradients are dense (sparse= has no effect); unlike "
    "SparseAdam it moves rows without a gradient by their momentum too",
    "SyncBatchNorm": "mg.distributed.SyncBatchNorm",
    "DistributedDataParallel": "mg.distributed.DataParallel",
    "get_rank": "mg.distributed.rank()", "get_world_size": "mg.distributed.size()",
    "world_size": "mg.distributed.size()", "init_process_group": "mg.distributed.init()",
    "destroy_process_group": "nothing: the end of the program ends the world",
    "recv": "mg.distributed.receive", "all_gather_into_tensor": "mg.distributed.all_gather",
    "reduce_scatter_tensor": "mg.distributed.reduce_scatter",
    "ReduceOp": 'op="sum", "mean", "max" or "min"',
    "DataParallel": "mg.distributed.DataParallel",
    "custom_fwd": "with mg.autocast(enabled=False): inside forward",
    "custom_bwd": "nothing: a backward runs in the dtypes of its forward",
    "weight_norm": "mg.nn.utils.weight_norm", "spectral_norm": "mg.nn.utils.spectral_norm",
    "householder_product": "the q of mg.linalg.qr",
    "distributions": "mg.stats for densities, mg.normal and mg.multinomial to draw",
    "Normal": "mg.stats.norm", "Uniform": "mg.stats.uniform", "Exponential": "mg.stats.expon",
    "StudentT": "mg.stats.t", "MultivariateNormal": "mg.stats.multivariate_normal",
    "Categorical": "mg.multinomial to draw, mg.nn.functional.cross_entropy for −log p",
    "TransformerBlock": "mg.nn.TransformerEncoderLayer",
    "FloatTensor": "mg.tensor(data, dtype=np.float32)",
    "LongTensor": "mg.tensor(data, dtype=np.int64)",
    "HalfTensor": "mg.tensor(data, dtype=np.float16)",
    "is_bf16_supported": "True: bfloat16 is there on every device",
    "set_device": 'with mg.cuda.device(number):, or device="cuda:1"',
    "get_device_properties": "mg.cuda.get_device_name and mg.cuda.memory_info",
    "get_device_capability": "mg.cuda.get_device_name",
    "mem_get_info": "mg.cuda.memory_info",
    "max_memory_reserved": "mg.cuda.max_memory_allocated",
    "reset_max_memory_allocated": "mg.cuda.reset_peak_memory_stats",
    "manual_seed_all": "mg.manual_seed", "seed_all": "mg.manual_seed",
    "CUDAGraph": "mg.cuda.capture", "make_graphed_callables": "mg.cuda.capture",
    "default_stream": "mg.cuda.current_stream",
    "parametrize": "mg.nn.utils.parametrize",
    "autograd": "mg.grad, mg.backward, mg.Function and mg.func",
    "utils": "mg.data, mg.nn.utils and mg.checkpoint",
    "jit": "mg.compile, for a training step, and mg.fuse, for elementwise functions",
    "lax": "mg.func.cond, switch, scan, while_loop and fori_loop; all else is mg's own",
    "grad_and_value": "mg.func.value_and_grad, which gives (value, gradient)",
    "functionalize": "nothing: transforms take functions that write in place",
    "forward_ad": "mg.func.jvp", "make_dual": "mg.func.jvp", "unpack_dual": "mg.func.jvp",
    "dual_level": "mg.func.jvp", "clip_grad_norm": "mg.nn.utils.clip_grad_norm_",
    "default_convert": "mg.tensor",
    "tree": "mg.func.tree_map and mg.func.tree_leaves",
    "tree_util": "mg.func.tree_map and mg.func.tree_leaves",
    "flatten_util": "mg.func.ravel_pytree",
    "GradientTape": "mg.func.value_and_grad(f)(x), or y.backward() and x.grad",
    "Variable": "mg.tensor(data, requires_grad=True)", "constant": "mg.tensor",
    "keras": "mg.nn, with PyTorch's names, and mg.train.Trainer",
    "reduce_sum": "mg.sum", "reduce_mean": "mg.mean", "reduce_max": "mg.max",
    "reduce_min": "mg.min", "reduce_prod": "mg.prod", "convert_to_tensor": "mg.as_tensor",
    "softmax_cross_entropy_with_logits": "mg.cross_entropy",
    "sparse_softmax_cross_entropy_with_logits": "mg.cross_entropy",
    "sigmoid_cross_entropy_with_logits": "mg.bce_with_logits", "F": "mg.nn.functional",
    "custom_vjp": "@mg.primitive with @op.vjp, or mg.Function",
    "custom_jvp": "@mg.primitive with @op.jvp, or mg.Function",
    "remat": "mg.checkpoint",
    "PRNGKey": "mg.manual_seed(seed)", "random": "mg.manual_seed, mg.rand, mg.randn, ...",
    "numpy": "mg itself; NumPy's own functions take tensors too",
    "default_rng": "np.random.default_rng(seed), as generator=",
    "rng": "np.random.default_rng(seed), as generator=",
    "Generator": "np.random.default_rng(seed), as generator=",
    "upsample": "mg.nn.functional.interpolate",
    "upsample_nearest": "mg.nn.functional.interpolate",
    "upsample_bilinear": 'mg.nn.functional.interpolate(x, ..., "bilinear", align_corners=True)',
    "LinearCrossEntropyOptions": "nothing: mg.nn.LinearCrossEntropyLoss never holds all logits",
    "CrossMapLRN2d": "mg.nn.LocalResponseNorm, whose windows let the first channel go; "
    "CrossMapLRN2d's do not",
    "native_channel_shuffle": "mg.nn.functional.channel_shuffle",
    "conv_tbc": "conv1d(x.transpose(1, 2, 0), w.transpose(2, 1, 0), b), channels before the steps",
    **{
        f"{kind}_pool{dims}d_with_indices": f"{kind}_pool{dims}d(..., return_indices=True)"
        for kind in ("max", "adaptive_max", "fractional_max")
        for dims in (1, 2, 3) if (kind, dims) != ("fractional_max", 1)
    },
    "Container": "mg.nn.Module", "NLLLoss2d": "mg.nn.NLLLoss, which takes images too",
    "RNNBase": "mg.nn.RNN, mg.nn.LSTM and mg.nn.GRU",
    "RNNCellBase": "mg.nn.RNNCell, mg.nn.LSTMCell and mg.nn.GRUCell",
    "stateless": "mg.func.functional_call",
    "clip_grad": "mg.nn.utils.clip_grad_norm_ and clip_grad_value_",
    "convert_parameters": "mg.nn.utils.parameters_to_vector and vector_to_parameters",
    "multi_head_attention_forward": "mg.nn.MultiheadAttention, or scaled_dot_product_attention",
    "inv_ex": "mg.linalg.inv, which raises LinAlgError where there is no inverse",
    "solve_ex": "mg.linalg.solve, which raises LinAlgError where there is no solution",
    "cholesky_ex": "mg.linalg.cholesky, which raises LinAlgError where there is no factor",
    "lu_factor_ex": "mg.linalg.lu_factor",
    "ldl_factor": "mg.linalg.lu_factor", "ldl_solve": "mg.linalg.lu_solve",
    "hfft2": 'mg.fft.irfft2(mg.conj(x), norm="forward")',
    "hfftn": 'mg.fft.irfftn(mg.conj(x), norm="forward")',
    "ihfft2": 'mg.conj(mg.fft.rfft2(x, norm="forward"))',
    "ihfftn": 'mg.conj(mg.fft.rfftn(x, norm="forward"))',
    "airy_ai": "mg.special.airy(x)[0]",
    "bessel_j0": "mg.special.j0", "bessel_j1": "mg.special.j1",
    "bessel_y0": "mg.special.y0", "bessel_y1": "mg.special.y1",
    "modified_bessel_i0": "mg.special.i0", "modified_bessel_i1": "mg.special.i1",
    "modified_bessel_k0": "mg.special.k0", "modified_bessel_k1": "mg.special.k1",
    "scaled_modified_bessel_k0": "mg.special.k0e", "scaled_modified_bessel_k1": "mg.special.k1e",
    "spherical_bessel_j0": "mg.special.spherical_jn(0, x)",
    "chebyshev_polynomial_t": "mg.special.eval_chebyt(n, x)",
    "chebyshev_polynomial_u": "mg.special.eval_chebyu(n, x)",
    "hermite_polynomial_h": "mg.special.eval_hermite(n, x)",
    "hermite_polynomial_he": "mg.special.eval_hermitenorm(n, x)",
    "laguerre_polynomial_l": "mg.special.eval_laguerre(n, x)",
    "legendre_polynomial_p": "mg.special.eval_legendre(n, x)",
}  # fmt: skip
if bfloat16 is None:
    _OF_MODULES["bfloat16"] = f"a dtype of the package ml_dtypes: {INSTALL}"
_IN_PLACE = (
    "abs_ add_ addcdiv_ addcmul_ bernoulli_ ceil_ clamp_ clip_ copy_ cos_ detach_ div_ exp_ fill_ "
    "floor_ index_add_ index_copy_ lerp_ log_ masked_fill_ mul_ neg_ normal_ pow_ reciprocal_ "
    "relu_ round_ rsqrt_ scatter_ scatter_add_ sigmoid_ sin_ sqrt_ sub_ tanh_ transpose_ uniform_ "
    "unsqueeze_ zero_ index_fill_ index_put_ masked_scatter_ scatter_reduce_ fill_diagonal_ tril_ "
    "triu_ clamp_min_ clamp_max_ remainder_ fmod_ cumsum_ cumprod_ squeeze_ erf_ log1p_ expm1_"
).split()
# PyTorch's or NumPy's name of an argument -> the names that it may have here; and
# nn.functional's way back.
_ARGUMENTS = {
    "dim": ("axis", "axes"), "dims": ("axes", "axis"), "keepdim": ("keepdims",),
    "input": ("x", "a", "p"), "input1": ("a",), "input2": ("b",), "other": ("b",),
    "exponent": ("b",), "weight": ("w", "weights"), "interpolation": ("method",),
    "offset": ("k",),
    "bias": ("b",), "query": ("q",), "key": ("k",), "value": ("v",), "start_dim": ("start",),
    "end_dim": ("end",), "shifts": ("shift",), "diagonal": ("k",), "size": ("shape",),
    "correction": ("ddof",), "axis": ("dim",), "keepdims": ("keepdim",), "shape": ("size",),
    "dim0": ("axis1",), "dim1": ("axis1",), "dim2": ("axis2",), "end": ("stop",),
    "steps": ("num",), "N": ("n",), "M": ("m",), "learning_rate": ("lr",), "beta1": ("betas",),
    "beta2": ("betas",), "use_bias": ("bias",), "strides": ("stride",), "pad": ("padding",),
    "batchsize": ("batch_size",), "batch": ("batch_size",), "test_size": ("test",),
    "random_state": ("seed",), "require_grad": ("requires_grad",),
    "a": ("x",), "m": ("x",), "arr": ("x",), "ary": ("x",), "tup": ("arrays",), "a_min": ("min",),
    "a_max": ("max",), "a1": ("a",), "a2": ("b",), "x1": ("a",), "x2": ("b",),
}  # fmt: skip
# (function, PyTorch's name of an argument) -> what does here what is meant, before all others.
_FUNCTIONS = {
    ("transpose", "dim0"): "swapaxes(axis1=, axis2=)",
    ("transpose", "dim1"): "swapaxes(axis1=, axis2=)",
    ("swapaxes", "dim1"): "axis2=",  # PyTorch counts its axes from 0, those of a diagonal from 1
    ("add", "alpha"): "a + alpha * b",
    ("sub", "alpha"): "a - alpha * b",
    ("norm", "p"): "ord=",
    ("var", "unbiased"): "ddof=1 for True, ddof=0 (the default here) for False",
    ("std", "unbiased"): "ddof=1 for True, ddof=0 (the default here) for False",
    ("load", "map_location"): "device=",
    ("gradcheck", "eps"): "nothing: it chooses its steps itself",
    ("gradcheck", "atol"): "nothing: it follows from the rounding of the differences",
    ("gradcheck", "rtol"): "nothing: it follows from the rounding of the differences",
    ("load", "weights_only"): "nothing: no file is ever executed",
    ("div", "rounding_mode"): 'a // b for "floor", mg.trunc(a / b) for "trunc"',
}
_FUNCTIONS |= {  # what NumPy's function and the method take, and the op does not
    (name, option): f"np.{name}(x, {option}=), which takes tensors, or x.{name}({option}=)"
    for name, options in {
        "sum": "initial where", "prod": "initial where", "max": "initial where",
        "min": "initial where", "mean": "where", "any": "where", "all": "where",
        "var": "where mean", "std": "where mean",
    }.items()
    for option in options.split()
}  # fmt: skip

# What to write instead of a NumPy option that the function here does not accept.
INSTEAD_OF = {
    "where": "Instead of where=, select with mg.where(mask, a, b), before or after.",
    "casting": "Instead of casting=, write y.astype(dtype), which casts whatever it is.",
    "dtype": "Instead of dtype=, write x.astype(dtype) before or y.astype(dtype) after.",
    "order": "Leave order= out: the order in memory is not part of a tensor's value, and "
    "np.asarray(y.detach(), order=) has it.",
    "copy": "Instead of copy=True, write y.copy(); without it y shares x's memory where it can.",
    "device": "Leave device= out: the result lies where the tensor does; y.to(device) moves it.",
    "kind": "Leave kind= out: there is one way to do it.",
    "subok": "Leave subok= out: a result is a plain tensor.",
    "overwrite_input": "Leave overwrite_input= out: no argument is overwritten.",
    "signature": "Instead of signature=, write dtype=, the result's.",
    "axes": "Instead of axes=, put the axes in their places with mg.moveaxis.",
}  # fmt: skip


def argument_here(name: str, fn: Callable | inspect.Signature) -> str:
    """fn's own name, as `axis=`, for an argument of this name in PyTorch (or NumPy); "" if none."""
    if hint := _FUNCTIONS.get((getattr(fn, "__name__", ""), name)):
        return hint
    own = (fn if isinstance(fn, inspect.Signature) else inspect.signature(fn)).parameters
    here = next((here for here in (name, *_ARGUMENTS.get(name, ())) if here in own), "")
    starred = here and own[here].kind is inspect.Parameter.VAR_POSITIONAL
    if not here:
        return ""
    return f"{here}, by position" if starred else f"{here}="


def no_such_name(owner: str, name: str, room: Any = None) -> AttributeError:
    """The AttributeError for a missing name; it says what to write, where that is known.

    Where it is not, Python suggests a similarly spelt name of `room` in the traceback.
    """
    tables = (_NAMES, _OF_MODULES) if owner == "a tensor" else (_OF_MODULES, _NAMES)
    hint = next((t[name] for t in tables if name in t), None) or _name_here(name)
    if hint is None and owner == "a tensor" and name in _OF_ARRAYS:
        hint = f"x.detach().numpy().{name}, of its array"
    of_tensors = owner in ("a tensor", "minigrad")
    if hint is None and of_tensors and name.endswith("_") and not name.startswith("_"):
        hint = f"the new value of {name[:-1]}, or an operator such as x += v"
    elif hint is None and name.endswith("_") and callable(vars(room or object).get(name[:-1])):
        hint = f"x = {name[:-1]}(x)"
    elif hint is None and room is not None:
        hint = _of_same_letters(name, room)
    tail = f"; here it is {hint}" if hint else ""
    error = AttributeError(f"{owner} has no attribute {name!r}{tail}", name=name)
    if not hint:
        error.obj = room
    return error


def _of_same_letters(name: str, room: Any) -> str | None:
    """The name in this module that differs in capitals and underscores alone: Relu is ReLU."""
    letters = _letters(name)
    names = getattr(room, "__all__", None) or [n for n in vars(room) if n[0] != "_"]
    return next((here for here in names if _letters(here) == letters), None)


def _letters(name: str) -> str:
    return name.replace("_", "").lower()


def missing_names_of(module: str) -> Callable[[str], Any]:
    """A `__getattr__` for a module: the error for a name that it does not have."""

    def __getattr__(name: str) -> Any:
        if name[:2] == "__":  # Python itself asks for these
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        error = no_such_name(module, name, sys.modules[module])
        if error.obj is None and _is_import(sys._getframe(1)):
            # `from module import name` would replace our message by its own
            raise ImportError(str(error), name=module) from None
        raise error

    return __getattr__


def _is_import(frame: Any) -> bool:
    """Whether the frame is executing a `from ... import`."""
    return frame.f_code.co_code[frame.f_lasti] == opcode.opmap.get("IMPORT_FROM")


class MissingName:
    """A descriptor at a name that PyTorch's tensors have and ours do not: reading it says what to
    write.

    A `__getattr__` would need no list of names. But up to Python 3.11 a class that has one loses
    the interpreter's fast attribute access, and an op reads six attributes.
    """

    def __init__(self, name: str):
        self.name = name

    @staticmethod
    def stand_in(kind: type, names: Iterable[str] = (*_NAMES, *_IN_PLACE, *_OF_ARRAYS)) -> None:
        """Put one at each of these names that the class does not have."""
        for name in names:
            if not hasattr(kind, name):
                setattr(kind, name, MissingName(name))

    def __get__(self, x: Any, kind: Any = None) -> Any:
        raise no_such_name("a tensor", self.name)


_NAMESPACES = (
    "linalg", "special", "func", "nn.functional", "nn", "optim", "fft", "data", "amp", "nn.utils",
    "nn.utils.parametrize", "nn.utils.rnn", "nn.init", "optim.lr_scheduler", "optim.swa_utils",
    "distributed",
)  # fmt: skip


def _name_here(name: str) -> str | None:
    """Where else in the library this name exists, as text; None if nowhere."""
    import minigrad  # the finished library: this runs only for an error

    if name in vars(minigrad):
        return f"mg.{name}"
    for namespace in _NAMESPACES:
        room = minigrad
        for part in namespace.split("."):
            room = getattr(room, part)
        if name in getattr(room, "__all__", ()):
            return f"mg.{namespace}.{name}"
    function = getattr(np, name, None)
    known = callable(function) and function in numpy_table
    return f"np.{name}, which takes tensors" if known else None
