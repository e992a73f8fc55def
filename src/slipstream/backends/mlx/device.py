"""The device, and on a CPU the matrix library behind it. Imported before anything imports mlx.

libmlx on Linux is linked with the reference BLAS; symbols of a tuned one that is loaded first, and
globally, take their place.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

REFERENCE = "reference (slow)"
_CBWR_AUTO_STRICT = 0x10000 | 2  # MKL_CBWR_STRICT | MKL_CBWR_AUTO of mkl_types.h
_OPENBLAS_DIRS = ("openblas-pthread", "openblas-openmp", "openblas-serial")


@dataclass(frozen=True, slots=True)
class Blas:
    """Which matrix library serves the CPU. `path` is None for the built-in reference one."""

    name: str
    path: str | None


def load_blas() -> Blas:
    """Loads the first tuned BLAS that there is: a system OpenBLAS, else the `mkl` package.

    Must run before mlx is first imported in this process. Elsewhere than on Linux MLX brings a
    tuned one of its own.
    """
    if sys.platform != "linux":
        return Blas("Accelerate" if sys.platform == "darwin" else "built in", None)
    if "mlx.core" in sys.modules:
        return Blas("unknown (mlx was imported first)", None)
    for name, path in _candidates():
        try:
            library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
        if name == "MKL":
            # From here on a line of a product has the same bits beside any others; see
            # even.py. Where the processor cannot, MKL leaves it as it was.
            library.MKL_CBWR_Set(_CBWR_AUTO_STRICT)
        return Blas(name, path)
    return Blas(REFERENCE, None)


def _candidates() -> Iterator[tuple[str, str]]:
    lib = Path("/usr/lib") / f"{platform.machine()}-linux-gnu"
    for folder in _OPENBLAS_DIRS:
        path = lib / folder / "libopenblas.so.0"
        if path.exists():
            yield "OpenBLAS", str(path)
    if found := ctypes.util.find_library("openblas"):
        yield "OpenBLAS", found
    try:
        files = metadata.files("mkl") or []
    except metadata.PackageNotFoundError:
        return
    for file in files:
        if file.name.startswith("libmkl_rt.so"):
            yield "MKL", str(Path(file.locate()).resolve())


@dataclass(frozen=True, slots=True)
class Device:
    """Where the model runs. `memory` is in bytes."""

    kind: str  # "metal", "cuda" or "cpu"
    name: str
    memory: int

    @property
    def is_cpu(self) -> bool:
        return self.kind == "cpu"


def open_device() -> Device:
    """The fastest device that this MLX can use."""
    import mlx.core as mx

    if mx.metal.is_available():
        kind = "metal"
    elif mx.cuda.is_available():
        kind = "cuda"
    else:
        mx.set_default_device(mx.cpu)
        return Device("cpu", platform.processor() or platform.machine(), _host_memory())
    info = mx.device_info()
    memory = info.get("memory_size") or info.get("total_memory") or _host_memory()
    return Device(kind, str(info.get("device_name", kind)), int(memory))


def _host_memory() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 8 << 30
    kib = next(int(line.split()[1]) for line in lines if line.startswith("MemTotal"))
    return kib << 10


def report() -> Mapping[str, str]:
    """What `doctor` says of the device; imports mlx, loading a tuned BLAS first."""
    blas = load_blas()
    device = open_device()
    return {
        "device": device.kind,
        "device name": device.name,
        "device memory": f"{device.memory / 2**30:.1f} GiB",
        "BLAS": f"{blas.name} {blas.path or ''}".strip(),
    }
