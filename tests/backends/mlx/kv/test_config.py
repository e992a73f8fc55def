"""The model's own file of bits, and what a scheme refuses of a model."""

from __future__ import annotations

import json

import pytest

from parity import coded, tiny
from slipstream.backends.mlx.footprint import coded as codings
from slipstream.backends.mlx.kv.cache import CodedCache
from slipstream.backends.mlx.kv.config import FILE, layers_of, read_layers
from slipstream.backends.mlx.opening import OpenModel
from slipstream.contracts.errors import ModelError
from slipstream.contracts.kv import affine, parse


def test_each_layer_has_the_bits_that_the_file_gives_it(tmp_path):
    entries = [{"layer_idx": 0, "bits": 8, "group_size": 32}, {"layer_idx": 2, "bits": 4}]
    (tmp_path / FILE).write_text(json.dumps(entries))
    layers = read_layers(tmp_path)
    assert layers == {0: affine(8, 32), 2: affine(4, 64)}
    assert layers_of(parse("config"), tmp_path) == layers
    assert layers_of(parse("affine:8"), tmp_path) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "is not there"),
        ("{", "cannot be read"),
        ("{}", "it is not a list"),
        ("[3]", "is not an object"),
        ('[{"bits": 8}]', "layer_idx and bits"),
        ('[{"layer_idx": 0, "bits": true}]', "layer_idx and bits"),
        ('[{"layer_idx": 0, "bits": 6}]', "4 or 8 as bits, not 6"),
        ('[{"layer_idx": 0, "bits": 8, "group_size": 7}]', "group size, not 7"),
        ('[{"layer_idx": 0, "bits": 8}, {"layer_idx": 0, "bits": 4}]', "layer 0 twice"),
    ],
)
def test_a_file_that_is_not_right_is_named_with_what_is_wrong(tmp_path, text, says):
    if text is not None:
        (tmp_path / FILE).write_text(text)
    with pytest.raises(ModelError) as caught:
        read_layers(tmp_path)
    assert says in caught.value.message
    assert FILE in caught.value.message


def test_layers_without_an_entry_stay_as_they_are():
    model = OpenModel(coded.build("llama"), tiny.VOCABULARY)
    model.code(codings(model, parse("config"), {1: affine(4, 32)}))
    kinds = [isinstance(cache, CodedCache) for cache in model.new_caches()]
    assert kinds == [False, True, False]


@pytest.mark.parametrize("kind", ["llama", "qwen3_5"])
def test_a_layer_that_is_not_there_or_holds_no_keys_is_named(kind):
    model = OpenModel(coded.build(kind), tiny.VOCABULARY)
    layer = {"llama": 9, "qwen3_5": 0}[kind]
    with pytest.raises(ModelError, match=f"layer {layer}"):
        codings(model, parse("config"), {layer: affine(8, 32)})


def test_vectors_that_groups_do_not_divide_are_refused_with_the_fix():
    model = OpenModel(coded.build("llama"), tiny.VOCABULARY)  # heads of 32
    with pytest.raises(ModelError, match=r"32 numbers.*Take --kv-scheme affine:4:32"):
        codings(model, parse("affine:4"))
    model = OpenModel(tiny.build("llama"), tiny.VOCABULARY)  # heads of 8
    with pytest.raises(ModelError, match=r"keys of 8 numbers.*bf16"):
        codings(model, parse("affine:8:32"))


def test_a_model_that_keeps_no_keys_has_nothing_to_write():
    model = OpenModel(tiny.build("mamba2"), tiny.VOCABULARY)
    assert codings(model, parse("affine:8")) is None
