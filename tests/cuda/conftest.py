"""Devices for the tests: the real one where there is one, and the stand-in everywhere."""

import importlib.util
import pathlib
import sys

import pytest

import minigrad as mg
from minigrad.backends import device, philox
from minigrad.backends.caches import Cache
from minigrad.custom import rule_variants
from minigrad.custom.variants import change
from minigrad.fusion import launch
from minigrad.on_gpu import install
from minigrad.parallel import streams, work


def _load(name: str):
    """A module of this folder, by its path: the tests are no package."""
    spec = importlib.util.spec_from_file_location(
        name, pathlib.Path(__file__).parent / f"{name}.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


stand_in_streams = sys.modules.get("stand_in_streams") or _load("stand_in_streams")
stand_in = sys.modules.get("stand_in") or _load("stand_in")
host_kernels = sys.modules.get("host_kernels") or _load("host_kernels")
small_models = sys.modules.get("small_models") or _load("small_models")


@pytest.fixture(scope="module", autouse=True)
def forwards_for_a_gpu_go_with_the_module():
    """What the first use of a GPU gives the ops is taken away again: other tests want none."""
    ops = [entry for entry in mg.engine.registry.op if hasattr(entry, "implementation")]
    before = {entry: entry.variants for entry in ops}
    installed = bool(install._installed)
    yield
    if installed or not install._installed:
        return
    for entry, variants in before.items():
        if entry.variants != variants:
            change(entry, variants)
    take_rules_from_a_gpu()
    install._installed.clear()
    device.on_first_gpu.append(install.install)


def take_rules_from_a_gpu():
    for entry, variants in list(rule_variants._by_device.get("cuda", {}).items()):
        for variant in variants:
            rule_variants.remove_from_rules(entry, variant)


@pytest.fixture
def fake(monkeypatch):
    """CuPy's stand-in: arrays that refuse NumPy's, on a machine without a GPU."""
    pytest.importorskip("scipy")
    import scipy.linalg
    import scipy.special  # noqa: F401  (what the stand-in hands on)

    cupy = stand_in.install(monkeypatch)
    monkeypatch.setattr(mg.backends.random, "_on_devices", {})
    monkeypatch.setattr(streams, "_homes", {})  # streams of the stand-in are not for a real GPU
    monkeypatch.setattr(work, "_trials", Cache("trials of the stand-in", max_entries=16))
    yield cupy
    assert not stand_in_streams.faults, stand_in_streams.faults[:3]


@pytest.fixture
def two(fake, monkeypatch):
    """Two GPUs of the stand-in, which refuses work of the current one on memory of the other."""
    monkeypatch.setattr(fake.cuda.runtime, "getDeviceCount", lambda: 2)
    before = device.on_second_gpu[:]
    mg.zeros(1, device="cuda:1")
    yield fake
    if before:
        mg.engine.modes.add_check(-1)
        device.on_second_gpu, device.several = before, False


@pytest.fixture
def kernels(request, monkeypatch):
    """The sources of the kernels that have run, on the GPU or, compiled for the host, without one.

    Asked for by `on_both`.
    """
    if request.param == "gpu":
        request.getfixturevalue("gpu")
        return None
    if not host_kernels.usable():
        pytest.skip("no C++ compiler with 16-bit floats here")
    cupy = request.getfixturevalue("fake")
    monkeypatch.setitem(cupy.__dict__, "RawKernel", host_kernels.RawKernel)
    monkeypatch.setattr(host_kernels.RawKernel, "calls", [])
    for name in ("kernels", "launches"):  # those of the stand-in are not for a real GPU
        monkeypatch.setattr(launch, name, Cache(f"{name} of the stand-in", max_entries=256))
    monkeypatch.setattr(philox, "_kernels", {})
    return host_kernels.RawKernel.calls


@pytest.fixture
def gpu():
    """The real GPU; without one the test is skipped."""
    if not mg.cuda.is_available():
        pytest.skip("no GPU here: CuPy and an NVIDIA driver are needed")
    import cupy

    return cupy
