"""What holds for every test: few threads, no clock, no hub; slow ones only when asked for."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# Nothing here is timed: a busy machine must not fail a test.
settings.register_profile("slipstream", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slipstream")

# Read when numpy, mlx and tokenizers are first imported, so set before any of them is.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"

# In the background of a shell SIGINT is ignored, and every child would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves slow tests out, unless -m says what to run (`-m slow`, `-m "slow or not slow"`)."""
    if config.getoption("markexpr"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    items[:] = [item for item in items if item not in slow]
    config.hook.pytest_deselected(items=slow)
