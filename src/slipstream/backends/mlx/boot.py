"""From a model folder to a backend, in the order that MLX needs. Importing this is cheap."""

from __future__ import annotations

import logging
from collections.abc import Callable

from slipstream.backends.mlx.device import REFERENCE, load_blas, open_device
from slipstream.backends.mlx.prefix.disk.tier import DiskTier
from slipstream.contracts.backend import Adapting
from slipstream.contracts.limits import MemoryLimits
from slipstream.contracts.model import ModelInfo

log = logging.getLogger(__name__)


def boot(
    info: ModelInfo,
    memory: MemoryLimits,
    chunk: int,
    disk: Callable[[], DiskTier] | None = None,
) -> Adapting:
    """Loads `info`'s weights and opens the model; to be called on the device thread.

    `chunk`: most tokens of a row in one forward. `disk` opens the disk tier, where there is one.
    The first call in a process takes seconds longer: it imports mlx-lm. Raises ModelError."""
    blas = load_blas()
    device = open_device()
    if device.is_cpu and blas.name == REFERENCE:
        log.warning(
            "No tuned BLAS was found, so matrix products on this CPU are 20 to 60 times slower. "
            "Install libopenblas0-pthread (Debian), or the package mkl."
        )
    # After the BLAS, never before it.
    from slipstream.backends.mlx.backend import MlxBackend
    from slipstream.backends.mlx.kv.config import layers_of
    from slipstream.backends.mlx.load import load_model

    backend = MlxBackend(
        load_model(info.path, device),
        device,
        info.vocab_size,
        limits=memory,
        chunk=chunk,
        disk=disk,
        kv_layers=layers_of(memory.kv_scheme, info.path),
    )
    if memory.kv_scheme.codes:
        log.info("rows hold keys and values as %s", memory.kv_scheme)
    log.info("sharing level %d on %s %s", backend.verdict.level, device.kind, blas.name)
    for note in backend.verdict.notes:
        log.debug("self-check: %s", note)
    return backend
