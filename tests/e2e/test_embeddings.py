"""A folder that declares pooling, from its files to vectors; and one that does not."""

from __future__ import annotations

import asyncio
import base64
import json
from array import array
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import mlx.core as mx
import openai
import pytest
from mlx.utils import tree_flatten
from tokenizers import processors

from parity import tiny
from slipstream import Engine
from slipstream.contracts.errors import ContextExceeded, InvalidRequest
from slipstream.models import folder
from slipstream.serve.app import App
from slipstream.settings import Settings
from text import vocabularies

pytestmark = pytest.mark.anyio

WIDTH = 32
TEXTS = ["hello world", "the quick brown fox " * 9, "naïve café", "a", "hello words " * 30]
CONFIG = {**tiny._COMMON, **tiny.CONFIGS["llama"], "model_type": "llama", "vocab_size": 512}


def write(path: Path, *, pooling: bool) -> Path:
    """A tiny random model as embedding models are stored: no head, names without a prefix, and a
    tokenizer that puts the end after each text."""
    made = tiny.build("llama", vocab_size=512, tie_word_embeddings=True)
    weights = {
        name.removeprefix("model."): array
        for name, array in tree_flatten(made.parameters())
        if not name.startswith("lm_head")
    }
    path.mkdir()
    mx.save_safetensors(str(path / "model.safetensors"), weights)
    backend = vocabularies.byte_level()
    end = backend.token_to_id("</s>")
    backend.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", end)]
    )
    backend.save(str(path / "tokenizer.json"))
    (path / "config.json").write_text(json.dumps({**CONFIG, "eos_token_id": end}))
    if pooling:
        (path / "1_Pooling").mkdir()
        declared = {"word_embedding_dimension": WIDTH, "pooling_mode_lasttoken": True}
        (path / "1_Pooling" / "config.json").write_text(json.dumps(declared))
        steps = [{"idx": 2, "path": "2_Normalize", "type": "models.Normalize"}]
        (path / "modules.json").write_text(json.dumps(steps))
    return path


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    path = write(tmp_path_factory.mktemp("models") / "embedder", pooling=True)
    async with Engine(Settings(batch=3, queue=1, prefill_chunk=64), folder.read(path)) as opened:
        yield opened


def numbers(vector: bytes) -> list[float]:
    return array("f", vector).tolist()


async def test_texts_at_once_have_the_vectors_that_each_has_alone(engine: Engine) -> None:
    together = await engine.embed(TEXTS)
    for text, vector in zip(TEXTS, together.vectors, strict=True):
        alone = await engine.embed([text])
        assert numbers(vector) == pytest.approx(numbers(alone.vectors[0]), abs=2e-5)
        assert sum(one * one for one in numbers(vector)) == pytest.approx(1)
        tokens = len(engine.tokenize(text=text, add_special_tokens=True))
        assert alone.report.prompt_tokens == tokens


async def test_a_text_ends_as_its_tokenizer_says_and_ids_stay_as_they_are(engine: Engine) -> None:
    ids = engine.tokenize(text="hello world", add_special_tokens=True)
    assert engine.detokenize(ids).endswith("</s>")
    of_text, of_ids = (await engine.embed(["hello world", ids])).vectors
    assert numbers(of_text) == pytest.approx(numbers(of_ids), abs=2e-5)
    bare = (await engine.embed([ids[:-1]])).vectors[0]
    assert numbers(bare) != pytest.approx(numbers(of_ids), abs=1e-3)


async def test_a_cut_vector_is_the_beginning_made_of_length_one(engine: Engine) -> None:
    whole = numbers((await engine.embed(["hello"])).vectors[0])[:5]
    cut = numbers((await engine.embed(["hello"], dimensions=5)).vectors[0])
    length = sum(one * one for one in whole) ** 0.5
    assert cut == pytest.approx([one / length for one in whole], abs=1e-5)


@pytest.mark.parametrize(
    ("inputs", "dimensions", "param"),
    [
        ([], None, "input"),
        (["a", ""], None, "input[1]"),
        ([[]], None, "input"),
        ([[511], [512]], None, "input[1]"),
        (["a"], WIDTH + 1, "dimensions"),
        (["a"], 0, "dimensions"),
    ],
)
async def test_bad_inputs_are_refused_by_name(engine: Engine, inputs, dimensions, param) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await engine.embed(inputs, dimensions=dimensions)
    assert refused.value.param == param


async def test_an_input_may_fill_the_context_and_no_more(engine: Engine) -> None:
    await engine.embed([[5] * engine.context])
    with pytest.raises(ContextExceeded):
        await engine.embed(["a", [5] * (engine.context + 1)])


async def test_a_cancelled_request_leaves_nothing_behind(engine: Engine) -> None:
    before = engine.stats()
    asking = asyncio.create_task(engine.embed([[5] * 900] * 50))
    for _ in range(60):
        await asyncio.sleep(0)  # until its first rows are there
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await engine.embed(["hello"])
    assert before.group.submitted < engine.stats().group.submitted < before.group.submitted + 50
    assert engine.stats().waiting == 0


async def test_the_official_client_reads_vectors_and_answers_go_on(engine: Engine) -> None:
    transport = httpx.ASGITransport(App(engine, Settings()))
    async with httpx.AsyncClient(transport=transport) as http:
        client = openai.AsyncOpenAI(base_url="http://t/v1", api_key="-", http_client=http)
        answer = client.completions.create(model="default", prompt="hello", max_tokens=9)
        vectors = client.embeddings.create(model="default", input=TEXTS)
        said, made = await asyncio.gather(answer, vectors)
        coded = await client.embeddings.create(
            model="default", input=TEXTS[0], encoding_format="base64"
        )
    assert said.usage.completion_tokens == 9
    assert [len(one.embedding) for one in made.data] == [WIDTH] * len(TEXTS)
    raw = base64.b64decode(coded.data[0].embedding)
    assert numbers(raw) == pytest.approx(made.data[0].embedding, abs=2e-5)


async def test_a_model_that_makes_none_says_why(tmp_path: Path) -> None:
    path = write(tmp_path / "talker", pooling=False)
    async with Engine(Settings(), folder.read(path)) as engine:
        with pytest.raises(InvalidRequest, match=r"talker.*1_Pooling") as refused:
            await engine.embed(["a"])
        assert refused.value.param == "model"
        assert refused.value.code == "invalid_value"
