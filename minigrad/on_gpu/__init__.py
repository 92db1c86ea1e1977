"""Forwards for a GPU, where the op's NumPy calls would be slow; the rules do not change.

elements.py     elementwise ops: a row of the calculus table is one kernel each way; casts
rows.py         softmax, related ops and sums
norms.py        layer, rms, group, instance and batch normalisation
losses.py       cross entropy on class indices
products.py     matrix products through cuBLAS
attention.py    cuDNN for 16-bit floats, else matrices of scores, as many as fit in a workspace
convolution.py  cuDNN where its front end is installed, else products of whole batches
cudnn_*.py      graphs for cuDNN, and the plans that it makes of them
pooling.py      maxima and sums of windows; pooling_rows.py, row_text.py: of small windows
dropout.py      dropout, with the random numbers drawn inside its kernel
optimizers.py   an optimizer's update as one kernel

Each of these gives ops a forward for "cuda" that falls back to the op's own where arrays do not
allow a kernel. They are installed when a GPU is first used: programs without a GPU pay nothing.
"""

from ..backends import device
from . import install as _install

device.on_first_gpu.append(_install.install)
