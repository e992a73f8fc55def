"""Mounting and unmounting on the device: what is held, what it costs, who is in the way."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx_lm.models.switch_layers import SwitchLinear

from parity import loras, tiny
from parity.adapted import Kit, alike, backend, run, spec, text
from slipstream.backends.mlx.adapters.adapted import Adapted, masked
from slipstream.backends.mlx.adapters.files import read
from slipstream.backends.mlx.backend import MlxBackend
from slipstream.backends.mlx.device import open_device
from slipstream.backends.mlx.load import to_float32
from slipstream.backends.mlx.mixer import Stage
from slipstream.contracts.backend import Advance
from slipstream.contracts.errors import Fault, InvalidRequest, Unavailable
from slipstream.contracts.limits import MemoryLimits


def folder(path: Path, seed: int = 1, only: str = "", kind: str = "llama") -> Path:
    return loras.write_mlx(path, loras.random(tiny.build(kind), seed, only=only))


def test_only_what_an_adapter_changes_is_held_and_only_as_long(tmp_path: Path) -> None:
    engine = backend("llama")
    before = str(engine.model.model)
    engine.adapters.mount("q", read(folder(tmp_path / "q", only="q_proj")))
    engine.adapters.mount("also", read(folder(tmp_path / "also", 2, only="layers.0")))
    held = [m for m in engine.model.model.modules() if isinstance(m, Adapted)]
    assert len(held) == 3 + 6
    engine.adapters.unmount("also")
    held = [m for m in engine.model.model.modules() if isinstance(m, Adapted)]
    assert len(held) == 3
    engine.adapters.unmount("q")
    assert str(engine.model.model) == before


def test_experts_and_what_stands_above_them_are_put_back_too(tmp_path: Path) -> None:
    engine = backend("deepseek_v3")
    before = str(engine.model.model)
    made = read(folder(tmp_path / "up", only="switch_mlp.up", kind="deepseek_v3"))
    engine.adapters.mount("up", made)
    engine.adapters.mount("all", read(folder(tmp_path / "all", 2, kind="deepseek_v3")))
    engine.adapters.unmount("all")
    assert "Router" in str(engine.model.model)
    engine.adapters.unmount("up")
    assert str(engine.model.model) == before


class Counting(nn.Module):
    """What it gives is one object, so whoever adds anything gives another."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = mx.zeros((4, 4))
        self._given = mx.ones((1, 3, 4))

    def __call__(self, x: mx.array) -> mx.array:
        return self._given


def test_a_forward_without_adapters_calls_what_is_held_and_nothing_else() -> None:
    held = Counting()
    assert Adapted(held, Stage())(mx.zeros((1, 3, 4))) is held(mx.zeros((1, 3, 4)))


def test_a_target_that_the_model_never_calls_is_refused(tmp_path: Path) -> None:
    engine = backend("llama")
    engine.model.model.layers[1].spare = nn.Linear(32, 32, bias=False)
    tensors = {
        "layers.1.spare.lora_a": mx.zeros((32, 4)),
        "layers.1.spare.lora_b": mx.zeros((4, 32)),
    }
    before = str(engine.model.model)
    made = read(loras.write_mlx(tmp_path, tensors))
    with pytest.raises(InvalidRequest, match=r"does not call layers\.1\.spare"):
        engine.adapters.mount("a", made)
    assert str(engine.model.model) == before


def test_one_in_use_and_one_that_is_unknown_stay(tmp_path: Path) -> None:
    engine = backend("llama")
    engine.adapters.mount("a", read(folder(tmp_path / "a")))
    row = engine.open(spec(text(1, 9), [("a", 1.0)]))
    with pytest.raises(InvalidRequest, match="1 rows run") as refusal:
        engine.adapters.unmount("a")
    assert refusal.value.code == "adapter_in_use"
    engine.release(row)
    engine.release(row)
    engine.adapters.unmount("a")
    with pytest.raises(InvalidRequest, match="no adapter"):
        engine.adapters.unmount("a")
    with pytest.raises(Fault, match="not mounted any more"):
        engine.open(spec(text(1, 9), [("a", 1.0)]))


def test_a_fork_holds_the_adapters_too(tmp_path: Path) -> None:
    mine = Kit.of("llama", tmp_path)
    ids = text(1, 20)
    first = mine.engine.open(spec(ids, [("a", 1.0)]))
    mine.engine.launch([Advance(first, 19)])
    mine.engine.collect(0)
    second = mine.engine.fork(first, spec(ids, [("a", 1.0)]))
    mine.engine.release(first)
    with pytest.raises(InvalidRequest, match="1 rows run"):
        mine.engine.adapters.unmount("a")
    mine.engine.launch([Advance(second, 1)])
    assert mine.engine.collect(0)[0].token == mine.twin(ids, [("a", 1.0)])[0][0]


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    engine = backend("llama")
    engine.adapters.mount("a", read(folder(tmp_path / "a")))
    with pytest.raises(InvalidRequest, match="mounted already") as refusal:
        engine.adapters.mount("a", read(folder(tmp_path / "b", 2)))
    assert refusal.value.param == "name"


def test_bytes_are_counted_among_the_weights_and_taken_from_the_rows(tmp_path: Path) -> None:
    engine = backend("llama")
    before = engine.memory()
    info = engine.adapters.mount("a", read(folder(tmp_path / "a"))).info
    after = engine.memory()
    tensors = loras.random(tiny.build("llama"), 1)
    held = sum(t.nbytes for t in tensors.values())
    lows = sum(t.nbytes for name, t in tensors.items() if name.endswith("lora_a"))
    # Its own, and room for the copies that forwards read: of A there may be another one.
    assert info.bytes == 2 * held + lows
    assert after.weights - before.weights == before.kv_budget - after.kv_budget == info.bytes
    engine.adapters.unmount("a")
    assert engine.memory() == replace(before, active=engine.memory().active)


def bounded(most: int) -> MlxBackend:
    limits = MemoryLimits(prefix_cache=0, adapters=most)
    return MlxBackend(tiny.build("llama"), open_device(), tiny.VOCABULARY, limits=limits)


def test_those_that_may_go_do_so_in_their_order_and_no_more_than_must(tmp_path: Path) -> None:
    files = [read(folder(tmp_path / str(n), n)) for n in range(4)]
    size = backend("llama").adapters.mount("x", files[0]).info.bytes
    engine = bounded(3 * size)
    for n in range(3):
        engine.adapters.mount(str(n), files[n])
    row = engine.open(spec(text(1, 9), [("1", 1.0)]))
    with pytest.raises(Unavailable, match="--adapter-budget"):
        engine.adapters.mount("3", files[3])
    assert engine.adapters.names == {"0", "1", "2"}
    assert engine.adapters.mount("3", files[3], ["1", "2", "0"]).unmounted == ("2",)
    assert engine.adapters.names == {"0", "1", "3"}
    engine.release(row)


def test_one_that_can_never_fit_sends_nobody_away(tmp_path: Path) -> None:
    small, large = folder(tmp_path / "s", only="layers.0.mlp.up"), folder(tmp_path / "l")
    engine = bounded(20_000)
    engine.adapters.mount("s", read(small))
    with pytest.raises(Unavailable):
        engine.adapters.mount("l", read(large), ["s"])
    assert engine.adapters.names == {"s"}


@pytest.mark.parametrize("kind", ["llama", "deepseek_v3"])
def test_quantised_weights_are_adapted_as_what_they_stand_for(kind: str, tmp_path: Path) -> None:
    def quantised() -> nn.Module:
        model = tiny.build(kind)
        nn.quantize(model, 32, 8, class_predicate=fits)
        return model

    def fits(path: str, module: nn.Module) -> bool:
        kinds = (nn.Linear, SwitchLinear)
        return "layers" in path and isinstance(module, kinds) and module.weight.shape[-1] % 32 == 0

    limits = MemoryLimits(prefix_cache=0)
    engine = MlxBackend(quantised(), open_device(), tiny.VOCABULARY, limits=limits)
    tensors = {}
    for name, dora in (("a", False), ("d", True)):
        tensors[name] = loras.random(tiny.build(kind), 1, dora=dora)
        written = loras.write_mlx(tmp_path / name, tensors[name], dora=dora)
        engine.adapters.mount(name, read(written))
    for name in tensors:
        model = quantised()
        to_float32(model)
        if kind == "deepseek_v3":  # experts stay in codes there
            model = dense_experts(model)
        merged = loras.merge(model, [(tensors[name], 1.0)])
        twin = MlxBackend(merged, open_device(), tiny.VOCABULARY, limits=limits, level=1)
        ids = text(2, 30)
        assert alike(run(engine, [spec(ids, [(name, 1.0)])])[0], run(twin, [spec(ids)])[0])


def dense_experts(model: nn.Module) -> nn.Module:
    for layer in model.layers:
        for name, module in list(layer.named_modules()):
            if type(module).__name__ != "QuantizedSwitchLinear":
                continue
            plain = SwitchLinear(module.input_dims, module.output_dims, module.num_experts, False)
            plain.weight = mx.dequantize(
                module.weight, module.scales, module.biases, group_size=32, bits=8
            )
            *path, last = name.split(".")
            parent = layer
            for part in path:
                parent = parent[part]
            parent[last] = plain
    return model


def test_half_a_float_that_runs_over_stays_with_its_own_token() -> None:
    low = mx.array([[mx.inf, 2.0]], mx.float16)
    assert masked(low, mx.array([[0.0, 1.0]], mx.float16)).tolist() == [[0.0, 2.0]]


def test_of_one_that_has_gone_nothing_stays_beside_one_that_stays(tmp_path: Path) -> None:
    engine = backend("llama")
    engine.adapters.mount("stays", read(folder(tmp_path / "stays")))

    def held() -> int:
        run(engine, [spec(text(1, 8), (("stays", 1.0),))])
        gc.collect()
        return mx.get_active_memory()

    before = held()
    engine.adapters.mount("goes", read(folder(tmp_path / "goes", 2)))
    run(engine, [spec(text(1, 8), (("stays", 1.0), ("goes", 1.0)))])
    gc.collect()
    more = mx.get_active_memory() - before
    engine.adapters.unmount("goes")
    gc.collect()
    assert 0 < more
    assert mx.get_active_memory() - before <= 0
    assert held() - before < more / 10
