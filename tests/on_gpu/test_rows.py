"""Which sums one kernel may do: the others are left to the op, with its errors."""

import pytest

import minigrad as mg
from minigrad.on_gpu.rows import _way

pytestmark = pytest.mark.promise(
    "kernels agree with float64; cuDNN and products agree; a captured step gives the eager "
    "numbers (on a GPU)"
)


@pytest.mark.parametrize("axes", [(2,), (-3,), (0, 0), (1, -1), (0, 5)])
def test_an_axis_that_is_not_there_or_twice_is_not_for_the_kernel(axes):
    assert _way((4, 3), axes, False) is None


def test_a_sum_along_columns_rows_or_all_is_for_the_kernel():
    assert _way((4, 3), (0,), False) == (4, 1, (3,), (3,))
    assert _way((4, 3), (-1,), True) == (1, 3, (4,), (4, 1))
    assert _way((4, 3), None, False) == (1, 12, (), ())


def test_nothing_is_for_the_kernel_where_no_axis_is_left_out():
    assert _way((), None, False) is None
    assert _way((4, 3), (), False) is None


@pytest.mark.skipif(not mg.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("axis", [2, -3, (0, 0)])
def test_a_gpu_refuses_the_axes_that_the_host_refuses(axis):
    for device in ("cpu", "cuda"):
        with pytest.raises(ValueError):
            mg.sum(mg.ones(4, 3, device=device), axis=axis)
