"""Forwards for a GPU, where the op's NumPy calls would be slow; the rules stay as they are.

elements.py     elementwise ops: the row of the calculus table as one kernel, both ways; and casts
rows.py         softmax and its kin, sums
norms.py        layer, rms, group, instance and batch normalisation
losses.py       cross entropy on class indices
products.py     matrix products through cuBLAS
attention.py    cuDNN for 16-bit floats, else matrices of scores, as many as fit a workspace
convolution.py  cuDNN where its front end is installed, else products of whole batches
cudnn_*.py      the graphs that cuDNN is given, and the plans it makes of them
pooling.py      maxima and sums of windows; pooling_rows.py: where they are small; row_text.py
dropout.py      dropout, drawn where it is used
optimizers.py   an optimizer's update as one kernel

Each of these gives ops a forward for "cuda" that falls back to the op's own where arrays do not
allow a kernel. They are installed when a GPU is first used: without one nobody pays.
"""

from ..backends import device
from . import install as _install

device.on_first_gpu.append(_install.install)
