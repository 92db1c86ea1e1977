"""What linear algebra refuses, and what it says then."""

import numpy as np
import pytest

import minigrad as mg


@pytest.mark.parametrize("call", [mg.linalg.eigh, mg.linalg.eigvalsh, np.linalg.eigh])
@pytest.mark.parametrize("triangle", [mg.eye(2), "X", True, None])
def test_what_names_no_triangle_is_refused(call, triangle):
    with pytest.raises(ValueError, match="UPLO must be 'L' or 'U', the triangle"):
        call(mg.eye(2), triangle)
    assert call(mg.eye(2), "u") is not None


@pytest.mark.layer("courtesy")
def test_equations_between_numbers_are_refused_by_their_shapes():
    with pytest.raises(ValueError, match=r"solve.*b must be \(n,\) or .* n = 1, got \(\)"):
        mg.linalg.solve(mg.eye(1), 0)
    with pytest.raises(np.linalg.LinAlgError, match=r"a must hold square matrices .* shape \(\)"):
        mg.linalg.solve(1, mg.eye(1))
    with pytest.raises(ValueError, match=r"triangular_solve.*b must be \(n,\) .* got \(\)"):
        mg.linalg.triangular_solve(mg.eye(1), 0)


def test_the_two_bounds_of_pinv_are_not_given_together():
    with pytest.raises(ValueError, match="rcond and rtol are two names of one bound"):
        np.linalg.pinv(mg.eye(2), rcond=0.1, rtol=0.2)
    np.testing.assert_array_equal(mg.linalg.pinv(mg.eye(2), rtol=0.2).numpy(), np.eye(2))
