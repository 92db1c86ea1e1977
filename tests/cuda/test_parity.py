"""Every op on a device gives what it gives on the host, and meets no NumPy array on the way."""

import pytest

from minigrad.backends.device import On
from minigrad.testing import run
from minigrad.testing.case import Context
from minigrad.testing.checks import device
from minigrad.testing.checks.device import k14
from minigrad.testing.spec import specs

pytestmark = pytest.mark.promise(
    "every op, and control flow and solvers in transforms, gives on a device what it gives on"
    " the host; a training step copies nothing (K14)"
)

run.load_samples()
CONTEXT = Context("fast", 0)
NAMES = [name for name in run.op_names() if name in specs]


# What CuPy has not; docs/gpu.md lists it. It raises a DeviceError: Bessel functions of other orders
# than 0 and 1, functions of matrices, and of mg.special what is below, or only its derivative.
LACKING = set("jv yv iv ive kv kve j1 y1 i1 i1e k1 k1e".split())
LACKING |= {f"bessel_{kind}" for kind in ("j", "y", "i", "ie", "k", "ke")}
LACKING |= {"sqrtm", "solve_sylvester", "banded_solve", "solve_banded"}
LACKING |= {f"spherical_{kind}{n}" for kind in "jik" for n in ("", "n")}
LACKING |= {f"airy{kind}" for kind in ("", "_ai", "_ai_prime", "_bi", "_bi_prime")}
LACKING |= set("chebyshev gegenbauer hermite hermite_e jacobi laguerre".split())
LACKING |= {name for name in NAMES if name.startswith("eval_")}
LACKING |= set("hypergeometric hyp0f1 hyp1f1 hyp2f1 exprel ellipe ellipem1 ellipk ellipkm1".split())
LACKING |= set("boxcox boxcox1p inv_boxcox inv_boxcox1p powm1 ndtri_exp owens_t".split())
LACKING |= set("dawsn erfi spence sici sine_integral shichi sinh_integral".split())
LACKING |= set("fresnel fresnel_sine fresnel_cosine lambert_w lambertw wrightomega".split())


def held(name, outcome) -> None:
    assert outcome.status != "fail", told(outcome)
    if name not in LACKING:
        assert outcome.comparisons or outcome.status == "skip"


def told(outcome) -> str:
    return "\n".join(f"{sample}: {message}" for sample, message, _ in outcome.failures)


@pytest.mark.parametrize("name", NAMES)
def test_an_op_runs_on_the_stand_in_as_on_the_host(name, fake):
    outcome = run.check_one(specs[name], k14, CONTEXT)
    held(name, outcome)


@pytest.mark.parametrize("name", NAMES)
def test_an_op_runs_on_the_gpu_as_on_the_host(name, gpu):
    outcome = run.check_one(specs[name], k14, CONTEXT)
    held(name, outcome)


# Their samples make arrays of their own, which lie on the current GPU.
BESIDE = {"svd", "svd_factors", "eig", "eig_pairs", "ctc_dx"}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in BESIDE])
def test_an_op_and_its_rules_run_on_the_gpu_of_the_arrays_not_on_the_current_one(
    name, two, monkeypatch
):
    monkeypatch.setattr(device, "gpu_module", lambda: On(two, 1))
    outcome = run.check_one(specs[name], k14, CONTEXT)
    held(name, outcome)
