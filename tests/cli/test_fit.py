"""`fit` says what a model needs here, and reads no weight for it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from slipstream.cli import main
from slipstream.models import starter
from slipstream.settings import cache_home

WIDTH, LAYERS, WORDS = 8192, 40, 32_000
CONFIG = {
    "model_type": "llama",
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "intermediate_size": 4 * WIDTH,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-5,
    "vocab_size": WORDS,
    "max_position_embeddings": 16384,
    "tie_word_embeddings": True,
}


def shapes() -> Iterator[tuple[str, list[int]]]:
    yield "model.embed_tokens.weight", [WORDS, WIDTH]
    yield "model.norm.weight", [WIDTH]
    for n in range(LAYERS):
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"model.layers.{n}.{name}.weight", [WIDTH]
        for name, out in (("q", WIDTH), ("k", WIDTH // 8), ("v", WIDTH // 8), ("o", WIDTH)):
            yield f"model.layers.{n}.self_attn.{name}_proj.weight", [out, WIDTH]
        for name in ("gate", "up"):
            yield f"model.layers.{n}.mlp.{name}_proj.weight", [4 * WIDTH, WIDTH]
        yield f"model.layers.{n}.mlp.down_proj.weight", [WIDTH, 4 * WIDTH]


@pytest.fixture
def huge(tmp_path: Path) -> Path:
    """A model of 78 GB whose weights are a hole in a file."""
    header, end = {}, 0
    for name, shape in shapes():
        start, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    folder = tmp_path / "huge"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
    return folder


def fit(*arguments: str) -> Result:
    return CliRunner().invoke(main.app(), ["fit", *arguments])


def numbers(*arguments: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(fit(*arguments, "--json").stdout)
    return found


def test_a_model_larger_than_memory_is_judged_without_reading_it(huge: Path) -> None:
    found = numbers(str(huge), "--memory-budget", "50")
    assert not found["fits"] and "--memory-budget" in str(found["reason"])
    assert found["weights"] > 70e9 and found["kv_budget"] == found["most_rows"] == 0
    each = 2 * LAYERS * 1024 * 2  # keys and values of 8 heads of 128, two bytes each
    assert found["bytes_per_token"] in (each, 2 * each)  # or four, on a CPU
    assert fit(str(huge), "--memory-budget", "50").exit_code == 1


def test_with_memory_enough_it_fits(huge: Path) -> None:
    found = numbers(str(huge), "--memory-budget", "2000")
    assert found["fits"] and found["reason"] is None
    assert found["context"] == found["longest"] == 16384


def test_rows_and_contexts_trade() -> None:
    starter.ensure(cache_home())
    one = numbers("--kv-budget", "0.125")
    assert one["fits"] and one["context"] == one["longest"] != one["model_context"] == 8192
    assert not numbers("--kv-budget", "0.125", "--context", "8192")["fits"]
    short = numbers("--kv-budget", "0.25", "--context", "512", "--rows", "4")
    assert short["fits"] and short["most_rows"] >= 4
    many = numbers("--kv-budget", "0.25", "--context", "512", "--rows", "4000")
    assert not many["fits"] and many["longest"] < 512


def test_people_read_lines() -> None:
    starter.ensure(cache_home())
    result = fit("--context", "1024")
    assert result.exit_code == 0 and result.stdout.splitlines()[-1].split() == ["fits", "yes"]


def test_a_context_that_the_model_does_not_have_is_wrong_usage() -> None:
    starter.ensure(cache_home())
    assert fit("--context", "100000").exit_code == 2


def test_a_model_that_is_not_on_disk_is_not_fetched() -> None:
    result = fit("org/absent")
    assert result.exit_code == 1 and "not on this disk" in result.stderr
