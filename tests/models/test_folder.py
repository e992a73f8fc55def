"""What a model folder says of itself, and how a broken one is found out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipstream.contracts.errors import ModelError
from slipstream.models import folder

from . import folders


def test_a_folder_is_read_without_its_weights(tmp_path: Path) -> None:
    folders.write_json(tmp_path / "tiny" / "config.json", folders.CONFIG)
    info = folder.read(tmp_path / "tiny")
    assert (info.id, info.context, info.vocab_size, info.eos_ids) == ("tiny", 64, 8, (2,))
    assert info.chat_template is None


def test_a_snapshot_of_the_hub_has_the_hubs_id(tmp_path: Path) -> None:
    assert folder.read(folders.hub_model(tmp_path, "org/tiny")).id == "org/tiny"


def test_the_callers_id_wins(tmp_path: Path) -> None:
    assert folder.read(folders.model(tmp_path), id="mine").id == "mine"


@pytest.mark.parametrize("key", ["n_positions", "n_ctx", "max_seq_len", "seq_length"])
def test_the_context_has_many_names(tmp_path: Path, key: str) -> None:
    folders.write_json(tmp_path / "config.json", {"vocab_size": 8, key: 99})
    assert folder.read(tmp_path).context == 99


def test_a_multimodal_config_is_read_inside(tmp_path: Path) -> None:
    text = {"vocab_size": 8, "max_position_embeddings": 32, "eos_token_id": [3, 4, 3]}
    folders.write_json(tmp_path / "config.json", {"model_type": "vlm", "text_config": text})
    info = folder.read(tmp_path)
    assert (info.context, info.vocab_size, info.eos_ids) == (32, 8, (3, 4))


def test_the_tokenizers_limit_counts_where_the_config_names_none(tmp_path: Path) -> None:
    folders.write_json(tmp_path / "config.json", {"vocab_size": 8})
    folders.write_json(tmp_path / "tokenizer_config.json", {"model_max_length": 4096})
    assert folder.read(tmp_path).context == 4096


def test_a_placeholder_for_no_limit_is_not_a_limit(tmp_path: Path) -> None:
    folders.write_json(tmp_path / "config.json", {"vocab_size": 8})
    folders.write_json(tmp_path / "tokenizer_config.json", {"model_max_length": 1e30})
    assert folder.read(tmp_path).context == folder.UNSTATED_CONTEXT


def test_generation_config_decides_on_the_end(tmp_path: Path) -> None:
    folders.write_json(tmp_path / "generation_config.json", {"eos_token_id": [5, 6]})
    assert folder.read(folders.model(tmp_path)).eos_ids == (5, 6)


@pytest.mark.parametrize("token", ["</s>", {"content": "</s>"}])
def test_the_tokenizer_names_the_end_where_no_config_does(tmp_path: Path, token: object) -> None:
    folders.write_json(tmp_path / "config.json", {"vocab_size": 8})
    folders.write_json(tmp_path / "tokenizer_config.json", {"eos_token": token})
    added = [{"id": 7, "content": "</s>"}]
    folders.write_json(
        tmp_path / "tokenizer.json", {"model": {"vocab": {"a": 0}}, "added_tokens": added}
    )
    assert folder.read(tmp_path).eos_ids == (7,)


@pytest.mark.parametrize("vocab", [{"a": 0, "b": 1}, [["a", -1.0], ["b", -2.0]]])
def test_the_vocabulary_is_counted_where_no_config_says(tmp_path: Path, vocab: object) -> None:
    folders.write_json(tmp_path / "config.json", {})
    folders.write_json(tmp_path / "tokenizer.json", {"model": {"vocab": vocab}})
    assert folder.read(tmp_path).vocab_size == 2


def test_the_template_file_comes_before_the_tokenizers(tmp_path: Path) -> None:
    folders.model(tmp_path)
    folders.write_json(tmp_path / "tokenizer_config.json", {"chat_template": "old"})
    assert folder.read(tmp_path).chat_template == "old"
    folders.write_json(tmp_path / "chat_template.json", {"chat_template": "newer"})
    assert folder.read(tmp_path).chat_template == "newer"
    (tmp_path / "chat_template.jinja").write_text("newest")
    assert folder.read(tmp_path).chat_template == "newest"


def test_of_several_templates_the_default_is_taken(tmp_path: Path) -> None:
    named = [{"name": "rag", "template": "r"}, {"name": "default", "template": "d"}]
    folders.write_json(tmp_path / "tokenizer_config.json", {"chat_template": named})
    assert folder.read(folders.model(tmp_path)).chat_template == "d"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "no config.json"),
        ("{", "not valid JSON"),
        ("[]", "not a JSON object"),
        ("{}", "no vo"),
    ],
)
def test_a_bad_config_is_named(tmp_path: Path, text: str | None, says: str) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelError, match=says) as caught:
        folder.read(tmp_path)
    assert str(tmp_path) in caught.value.message and "\n" not in caught.value.message


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not a folder"):
        folder.read(tmp_path / "model.gguf")


def test_a_whole_folder_passes(tmp_path: Path) -> None:
    folder.check(folders.model(tmp_path))


def test_every_shard_of_the_index_must_be_there(tmp_path: Path) -> None:
    folders.shard(tmp_path / "model-1.safetensors")
    weights = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    folders.write_json(tmp_path / folder.INDEX, {"weight_map": weights})
    with pytest.raises(ModelError, match=r"model-2\.safetensors is missing"):
        folder.check(tmp_path)


def test_every_shard_that_a_name_counts_must_be_there(tmp_path: Path) -> None:
    folders.shard(tmp_path / "model-00001-of-00002.safetensors")
    with pytest.raises(ModelError, match=r"model-00002-of-00002\.safetensors is missing"):
        folder.check(tmp_path)


def test_a_dangling_link_is_a_missing_shard(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").symlink_to(tmp_path / "gone")
    with pytest.raises(ModelError, match="is missing"):
        folder.check(tmp_path)


def test_a_folder_without_weights_fails(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="has no weights"):
        folder.check(tmp_path)


def test_a_shard_cut_anywhere_is_found_out(tmp_path: Path) -> None:
    path = folders.shard(tmp_path / "model.safetensors")
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError, match="truncated"):
            folder.check(tmp_path)


def test_a_shard_with_more_than_it_should_is_found_out(tmp_path: Path) -> None:
    path = folders.shard(tmp_path / "model.safetensors")
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(ModelError, match="1 bytes too many"):
        folder.check(tmp_path)


@pytest.mark.parametrize("header", [b"[]", b'{"a": {}}', b'{"a": 1}', b"\xff\xfe", b"null"])
def test_a_header_of_another_shape_is_no_safetensors(tmp_path: Path, header: bytes) -> None:
    length = len(header).to_bytes(8, "little")
    (tmp_path / "model.safetensors").write_bytes(length + header)
    with pytest.raises(ModelError, match="not a safetensors file"):
        folder.check(tmp_path)


def test_an_index_that_names_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / folder.INDEX).write_text(json.dumps({"weight_map": {}}))
    with pytest.raises(ModelError, match="names no weight file"):
        folder.check(tmp_path)
