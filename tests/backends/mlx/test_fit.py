"""What is said of a model before it is loaded is what holds once it is."""

from __future__ import annotations

from slipstream.backends.mlx.backend import MlxBackend
from slipstream.backends.mlx.device import open_device
from slipstream.backends.mlx.fit import measure
from slipstream.backends.mlx.load import load_model
from slipstream.contracts.limits import MemoryLimits
from slipstream.contracts.placement import Lane
from slipstream.contracts.row import Prompt, RowSpec
from slipstream.models import folder, starter
from slipstream.settings import cache_home

MB = 1 << 20


def test_the_headers_say_what_the_loaded_model_says() -> None:
    info = folder.read(starter.ensure(cache_home()))
    device, limits = open_device(), MemoryLimits(memory_budget=900 * MB, kv_budget=100 * MB)
    before = measure(info.path, info.vocab_size, device, limits)
    model = load_model(info.path, device)
    loaded = MlxBackend(model, device, info.vocab_size, limits=limits, level=1, chunk=0)
    memory = loaded.memory()
    assert (before.budget, before.weights, before.kv_budget) == (
        memory.budget,
        memory.weights,
        memory.kv_budget,
    )
    assert before.longest(rows=1) == loaded.abilities.context
    spec = RowSpec(key=1, lane=Lane.GROUP, prompt=Prompt(ids=(1,), max_tokens=99), deadline=0.0)
    assert before.rows(100) == memory.kv_budget // loaded.project(spec)
