"""The calculus table: one file a family, each op's forward and derivative side by side."""

from . import work_table  # its rows fill the table of work.py
from .activation import *
from .attention import *
from .calculus import *
from .cast import *
from .combine import *
from .conv import *
from .distances import *
from .dropout import *
from .einsum import *
from .elementwise import *
from .fft import *
from .grid import *
from .image_columns import *
from .index import *
from .interp import *
from .layout import *
from .like import *
from .linalg import *
from .loss import *
from .matmul import *
from .matvec import *
from .nan import *
from .norm import *
from .numpy_functions import *
from .polynomials import *
from .pool import *
from .ranges import *
from .recurrent import *
from .reduce import *
from .resample import *
from .shape import *
from .softmax import *
from .statistics import *
from .stft import *
from .straight import *
from .weighted_reads import *
from .windowed_sums import *

# The ops, and not the files they come from, are what `from minigrad.ops import *` means.
__all__ = [name for name, entry in vars().items() if callable(entry) and name[0] != "_"]
