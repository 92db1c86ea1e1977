"""CUDA's compiler as a library, from NVIDIA's wheels: it needs no GPU."""

import ctypes
import pathlib
import sys


def root() -> pathlib.Path | None:
    """The folder of the wheels nvidia-cuda-nvrtc and nvidia-cuda-runtime, if both are there."""
    for folder in sys.path:
        found = pathlib.Path(folder) / "nvidia" / "cu13"
        library = found / "lib" / "libnvrtc.so.13"
        if library.exists() and (found / "include" / "cuda_fp16.h").exists():
            return found
    return None


def compile(source: str) -> str:
    """The compiler's messages; raises RuntimeError with them where it fails."""
    folder = root()
    assert folder is not None
    nvrtc = ctypes.CDLL(str(folder / "lib" / "libnvrtc.so.13"))
    program = ctypes.c_void_p()
    code = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), b"fused.cu", 0, None, None
    )
    assert code == 0, f"nvrtcCreateProgram: {code}"
    options = [b"--gpu-architecture=compute_90", b"--std=c++17", f"-I{folder / 'include'}".encode()]
    failed = nvrtc.nvrtcCompileProgram(
        program, len(options), (ctypes.c_char_p * len(options))(*options)
    )
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise RuntimeError(log.value.decode())
    return log.value.decode()
