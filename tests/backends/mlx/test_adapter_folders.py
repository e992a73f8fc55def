"""An adapter's folder is understood whole, or refused in one sentence with nothing changed."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from parity import loras, tiny
from parity.adapted import alike, backend, run, spec, text
from slipstream.backends.mlx.adapters.files import read
from slipstream.contracts.errors import InvalidRequest

Q, UP = "layers.0.self_attn.q_proj", "layers.1.mlp.up_proj"
IDS = text(1, 20)


def mlx_folder(folder: Path, **changes: object) -> Path:
    return loras.write_mlx(folder, {**loras.random(tiny.build("llama"), 1), **changes})


def config(folder: Path, **changes: object) -> None:
    file = folder / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def said(folder: Path, scale: float = 1.0) -> list[tuple[int, float]]:
    engine = backend("llama")
    engine.adapters.mount("a", read(folder))
    return run(engine, [spec(IDS, [("a", scale)])])[0]


def merged(tensors: loras.Tensors, scale: float) -> list[tuple[int, float]]:
    from slipstream.backends.mlx.backend import MlxBackend
    from slipstream.backends.mlx.device import open_device

    model = loras.merge(tiny.build("llama"), [(tensors, 1.0)], scale=scale)
    return run(MlxBackend(model, open_device(), tiny.VOCABULARY, level=1), [spec(IDS)])[0]


@pytest.mark.parametrize(
    ("more", "scale"),
    [
        ({}, 2.0),
        ({"lora_alpha": 6}, 1.5),
        ({"use_rslora": True}, 8 / math.sqrt(4)),
        ({"alpha_pattern": {"self_attn.*": 4, "mlp.*": 4}}, 1.0),
        ({"alpha_pattern": {r"model.layers.\d+.*": 12}}, 3.0),
        ({"target_modules": ["q_proj"], "bias": "none", "modules_to_save": None}, 2.0),
    ],
)
def test_peft_folders_mean_what_peft_means(
    tmp_path: Path, more: dict[str, object], scale: float
) -> None:
    tensors = loras.random(tiny.build("llama"), 1)
    assert alike(said(loras.write_peft(tmp_path, tensors, **more)), merged(tensors, scale))


def test_a_rank_pattern_gives_targets_ranks_of_their_own(tmp_path: Path) -> None:
    tensors = loras.random(tiny.build("llama"), 1, only="mlp")
    tensors |= loras.random(tiny.build("llama"), 2, only="q_proj", rank=2)
    folder = loras.write_peft(tmp_path, tensors, lora_alpha=8, rank_pattern={"q_proj": 2})
    halved = {
        name: tensor * 2 if "q_proj.lora_b" in name else tensor for name, tensor in tensors.items()
    }
    assert alike(said(folder), merged(halved, 2.0))  # alpha 8 over rank 2 is 4


@pytest.mark.parametrize("flat", [True, False])
def test_dora_of_peft(tmp_path: Path, flat: bool) -> None:
    tensors = loras.random(tiny.build("llama"), 3, dora=True)
    folder = loras.write_peft(tmp_path, tensors, use_dora=True)
    if not flat:
        file = str(folder / "adapter_model.safetensors")
        loaded = {
            name + ".weight" if "magnitude" in name else name: array[None]
            if "magnitude" in name
            else array
            for name, array in mx.load(file).items()
        }
        mx.save_safetensors(file, loaded)
    assert alike(said(folder), merged(tensors, 2.0))


@pytest.mark.parametrize("kind", [mx.float16, mx.bfloat16])
def test_tensors_of_half_the_size_are_widened(tmp_path: Path, kind: mx.Dtype) -> None:
    tensors = {n: t.astype(kind) for n, t in loras.random(tiny.build("llama"), 1).items()}
    wide = {name: tensor.astype(mx.float32) for name, tensor in tensors.items()}
    assert alike(said(loras.write_mlx(tmp_path, tensors)), merged(wide, 2.0))


def cut(folder: Path) -> None:
    file = folder / "adapters.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def longer(folder: Path) -> None:
    file = folder / "adapters.safetensors"
    file.write_bytes(file.read_bytes() + b"x")


def head_only(folder: Path) -> None:
    (folder / "adapters.safetensors").write_bytes(b"\xff\x00\x00")


def not_a_header(folder: Path) -> None:
    (folder / "adapters.safetensors").write_bytes((9).to_bytes(8, "little") + b"not json!")


def gone(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def configured(**changes: object) -> Callable[[Path], None]:
    return lambda folder: config(folder, **changes)


def tensors(**changes: object) -> Callable[[Path], None]:
    """Dots are written as __; None takes a tensor away."""

    def write(folder: Path) -> None:
        file = str(folder / "adapters.safetensors")
        found = dict(mx.load(file))
        for name, value in changes.items():
            name = "model." + name.replace("__", ".")
            if value is None:
                del found[name]
            else:
                found[name] = value
        mx.save_safetensors(file, found)

    return write


BROKEN = [
    (lambda folder: [f.unlink() for f in folder.iterdir()], "adapter_config.json"),
    (gone("adapter_config.json"), "adapter_config.json"),
    (gone("adapters.safetensors"), "adapters.safetensors"),
    (lambda folder: (folder / "adapter_config.json").write_text("{"), "not JSON"),
    (lambda folder: (folder / "adapter_config.json").write_text("[]"), "JSON object"),
    (lambda folder: (folder / "adapter_config.json").write_text("{}"), "lora_parameters"),
    (lambda folder: (folder / "adapter_config.json").write_bytes(b"\xff\xfe"), "not JSON"),
    (configured(fine_tune_type="full"), "fine_tune_type"),
    (configured(lora_parameters={"rank": 0, "scale": 1.0}), "rank"),
    (configured(lora_parameters={"rank": 4, "alpha": 1.0}), "scale"),
    (configured(lora_parameters={"rank": 4, "scale": "x"}), "cannot be meant"),
    (configured(lora_parameters={"rank": 5, "scale": 1.0}), "rank of .* is 4 .* and 5"),
    (configured(fine_tune_type="dora"), "magnitude"),
    (cut, "it has"),
    (longer, "it has"),
    (head_only, "cut short"),
    (not_a_header, "header"),
    (tensors(layers__0__self_attn__q_proj__lora_a=mx.zeros((48, 4))), r"A of layers.0"),
    (tensors(layers__0__self_attn__q_proj__lora_b=mx.zeros((4, 48))), r"B of layers.0"),
    (tensors(layers__0__self_attn__q_proj__lora_b=None), "q_proj, b is missing"),
    (tensors(layers__0__self_attn__q_proj__m=mx.zeros((32,))), "q_proj, magnitude"),
    (tensors(layers__9__mlp__up_proj__lora_a=mx.zeros((32, 4))), "b is missing"),
    (tensors(embed_tokens__lora_a=mx.zeros((97, 4))), "embed_tokens"),
    (tensors(layers__0__self_attn__q_proj__bias=mx.zeros((32,))), "q_proj.bias"),
    (
        tensors(
            layers__9__mlp__up_proj__lora_a=mx.zeros((32, 4)),
            layers__9__mlp__up_proj__lora_b=mx.zeros((4, 64)),
        ),
        "no layers.9.mlp.up_proj",
    ),
    (
        tensors(
            layers__0__mlp__w1__lora_a=mx.zeros((32, 4)),
            layers__0__mlp__w1__lora_b=mx.zeros((4, 64)),
        ),
        "no layers.0.mlp.w1",
    ),
    (
        tensors(
            layers__0__input_layernorm__lora_a=mx.zeros((32, 4)),
            layers__0__input_layernorm__lora_b=mx.zeros((4, 32)),
        ),
        "RMSNorm, and no linear layer",
    ),
    (
        tensors(
            vision_tower__layers__0__mlp__fc__lora_a=mx.zeros((32, 4)),
            vision_tower__layers__0__mlp__fc__lora_b=mx.zeros((4, 32)),
        ),
        "vision_tower",
    ),
    (tensors(layers__0__self_attn__q_proj__lora_a=mx.full((32, 4), math.inf)), "infinity"),
    (tensors(layers__0__self_attn__q_proj__lora_a=mx.zeros((32, 4), mx.int32)), "type I32"),
]
PEFT_BROKEN = [
    ({"peft_type": "IA3"}, "IA3"),
    ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
    ({"bias": "all"}, "bias"),
    ({"fan_in_fan_out": True}, "fan_in_fan_out"),
    ({"lora_bias": True}, "lora_bias"),
    ({"trainable_token_indices": [1]}, "trainable_token_indices"),
    ({"target_parameters": ["x"]}, "target_parameters"),
    ({"init_lora_weights": "pissa_niter_4"}, "pissa"),
    ({"r": 8}, "rank of .* is 4 .* and 8"),
    ({"r": True}, "r is True"),
    ({"lora_alpha": None}, "cannot be meant"),
    ({"rank_pattern": {"(": 4}}, "cannot be meant"),
    ({"use_dora": True}, "magnitude"),
]


@pytest.mark.parametrize(("harm", "words"), BROKEN)
def test_a_broken_folder_is_refused_and_changes_nothing(
    tmp_path: Path, harm: Callable[[Path], None], words: str
) -> None:
    folder = mlx_folder(tmp_path / "x")
    harm(folder)
    refused(folder, words)


@pytest.mark.parametrize(("changes", "words"), PEFT_BROKEN)
def test_what_peft_can_and_we_cannot_is_refused_by_name(
    tmp_path: Path, changes: dict[str, object], words: str
) -> None:
    tensors = loras.random(tiny.build("llama"), 1)
    refused(loras.write_peft(tmp_path / "x", tensors, **changes), words)


def test_a_folder_that_is_none_and_one_of_another_model(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "there is no folder")
    other = loras.random(tiny.build("mamba2"), 1)
    refused(loras.write_mlx(tmp_path / "y", other), "no layers.0.mixer")


def refused(folder: Path, words: str) -> None:
    engine = backend("llama")
    before = (str(engine.model.model), engine.memory().weights)
    with pytest.raises(InvalidRequest, match=words) as refusal:
        engine.adapters.mount("a", read(folder))
    assert refusal.value.param == "path"
    assert (str(engine.model.model), engine.memory().weights) == before
    assert engine.abilities.adapters == frozenset()


def test_the_digest_is_of_the_content(tmp_path: Path) -> None:
    one, two = mlx_folder(tmp_path / "one"), mlx_folder(tmp_path / "two")
    assert read(one).digest == read(two).digest
    config(two, lora_parameters={"rank": 4, "scale": 3.0})
    assert read(one).digest != read(two).digest


def test_whatever_bytes_a_file_has_it_is_taken_or_refused(tmp_path: Path) -> None:
    folder = mlx_folder(tmp_path / "x")
    file = folder / "adapters.safetensors"
    whole = file.read_bytes()
    generator = np.random.default_rng(1)
    for _ in range(200):
        bent = bytearray(whole)
        for place in generator.integers(0, min(len(whole), 4000), 3):
            bent[place] = generator.integers(0, 256)
        file.write_bytes(bytes(bent))
        with contextlib.suppress(InvalidRequest):  # and nothing else
            read(folder)
