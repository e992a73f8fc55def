"""Two adapters that mlx-lm trained on the starter, alone, halved, added up and mixed in a batch."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slipstream.backends.mlx.device import load_blas
from slipstream.contracts.adapters import AdapterUse
from slipstream.library import Engine
from slipstream.models.obtain import obtain
from slipstream.settings import cache_home
from slipstream.text.sink import Folded, fold

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SCRIPTS = Path(__file__).parents[2] / "scripts"
QUESTIONS = ("Tell me about the sea.", "Where is the cat?")
MIXES: tuple[tuple[tuple[str, float], ...], ...] = (
    (("upper", 1.0),),
    (("french", 1.0),),
    (),
    (("upper", 0.5),),
    (("upper", 1.0), ("french", 1.0)),
)
TOKENS = 20


@pytest.fixture(scope="module")
def folder(pytestconfig: pytest.Config) -> Path:
    """The trained adapters; they are kept, since training takes a while."""
    cache = pytestconfig.cache
    assert cache is not None
    made: Path = cache.mkdir("adapters")
    sys.path.insert(0, str(SCRIPTS))
    import train_adapters

    load_blas()
    for name in train_adapters.STYLES:
        if not (made / name / "adapters.safetensors").exists():
            train_adapters.train(made, name)
    return made


def asked(question: str, mix: Sequence[tuple[str, float]]) -> dict[str, Any]:
    return {
        "messages": [{"role": "user", "content": question}],
        "adapters": tuple(AdapterUse(*use) for use in mix),
        "max_tokens": TOKENS,
        "temperature": 0.0,
        "logprobs": 0,
    }


async def answer(engine: Engine, **fields: Any) -> Folded:
    return fold([delta async for delta in engine.stream(fields.pop("messages"), **fields)])


def merged(model: Any, folder: Path, mix: Sequence[tuple[str, float]]) -> None:
    """Adds the adapters to the weights, as mlx-lm's own layers would be fused."""
    import mlx.core as mx

    for name, strength in mix:
        tensors = mx.load(str(folder / name / "adapters.safetensors"))
        for path in {key.rpartition(".")[0] for key in tensors}:
            module: Any = model
            for part in path.split("."):
                module = module[int(part)] if part.isdecimal() else module[part]
            product = tensors[f"{path}.lora_a"] @ tensors[f"{path}.lora_b"]
            module.weight = module.weight + 10.0 * strength * product.T
    mx.eval(model.parameters())


def cold(folder: Path, mix: Sequence[tuple[str, float]]) -> list[Folded]:
    """What a model with `mix` in its weights says, row after row on the solo lane."""

    def load(info: Any, memory: Any, chunk: int, disk: Any) -> Any:
        from slipstream.backends.mlx.backend import MlxBackend
        from slipstream.backends.mlx.device import open_device
        from slipstream.backends.mlx.load import load_model

        device = open_device()
        model = load_model(info.path, device)
        merged(model, folder, mix)
        return MlxBackend(model, device, info.vocab_size, limits=memory, level=1)

    async def main() -> list[Folded]:
        from slipstream.settings import Settings

        info = obtain(None, cache_home(), download=True)
        async with Engine(Settings(prefix_cache=0.0), info, load) as engine:
            return [await answer(engine, lane="solo", **asked(q, ())) for q in QUESTIONS]

    return asyncio.run(main())


def alike(one: Folded, other: Folded) -> bool:
    pairs = list(zip(one.logprobs, other.logprobs, strict=True))
    return one.text == other.text and all(abs(a.logprob - b.logprob) < 5e-3 for a, b in pairs)


def test_each_mix_equals_merged_weights_alone_and_with_the_others(folder: Path) -> None:
    expected = {mix: cold(folder, mix) for mix in MIXES}

    async def main() -> None:
        given = tuple(f"{name}={folder / name}" for name in ("upper", "french"))
        async with Engine.load(adapters=given, prefix_cache=0.0) as engine:
            for mix in MIXES:
                alone = await answer(engine, **asked(QUESTIONS[0], mix))
                assert alike(alone, expected[mix][0]), mix
            rows = [(mix, place % 2) for place, mix in enumerate((*MIXES, *MIXES[:3]))]
            together = await asyncio.gather(
                *(answer(engine, **asked(QUESTIONS[q], mix)) for mix, q in rows)
            )
            for (mix, question), said in zip(rows, together, strict=True):
                assert alike(said, expected[mix][question]), mix

    asyncio.run(main())
    upper = expected[MIXES[0]][0].text
    assert upper == upper.upper()
    assert expected[MIXES[1]][0].text != expected[MIXES[2]][0].text
