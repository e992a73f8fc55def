"""What adapter_config.json asks for, in both of its forms; what we cannot apply is refused by name.

Knows neither tensors nor the model. Sources: mlx-lm's tuner, and PEFT's LoraConfig.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipstream.contracts.errors import InvalidRequest

CONFIG = "adapter_config.json"
PEFT_NEEDS_NONE = (  # each changes more than low-rank parts of linear layers
    "modules_to_save",
    "target_parameters",
    "trainable_token_indices",
    "layer_replication",
    "alora_invocation_tokens",
    "fan_in_fan_out",
    "lora_bias",
    "use_qalora",
)
PEFT_CHANGES_BASE = ("pissa", "olora", "corda", "loftq")  # ways to begin that alter the base


@dataclass(frozen=True, slots=True)
class Rule:
    """What the configuration says of one target: its rank, and the factor of its product."""

    rank: int
    scale: float


@dataclass(frozen=True, slots=True)
class MlxForm:
    """As mlx-lm saves it: A is (in, rank), B (rank, out)."""

    rule: Rule
    dora: bool
    weights: str = "adapters.safetensors"

    def of(self, target: str) -> Rule:
        return self.rule


@dataclass(frozen=True, slots=True)
class PeftForm:
    """As PEFT saves it: A is (rank, in), B (out, rank). Patterns match the ends of paths."""

    rank: int
    alpha: float
    ranks: Mapping[str, int]
    alphas: Mapping[str, float]
    stabilised: bool
    dora: bool
    weights: str = "adapter_model.safetensors"

    def of(self, target: str) -> Rule:
        rank = int(matched(self.ranks, target, self.rank))
        alpha = float(matched(self.alphas, target, self.alpha))
        return Rule(rank, alpha / (math.sqrt(rank) if self.stabilised else rank))


Form = MlxForm | PeftForm


def matched(patterns: Mapping[str, Any], target: str, otherwise: Any) -> Any:
    """The value of the first pattern that is `target`, or its end after a dot."""
    for pattern, value in patterns.items():
        if re.fullmatch(rf"(.*\.)?({pattern})", target):
            return value
    return otherwise


def form(text: bytes) -> Form:
    """Raises InvalidRequest naming what is wrong, or cannot be applied."""
    try:
        config = json.loads(text)
    except ValueError as error:
        raise refused(f"{CONFIG} is not JSON") from error
    if not isinstance(config, dict):
        raise refused(f"{CONFIG} is not a JSON object")
    try:
        found = peft(config) if "peft_type" in config else mlx(config)
    except (TypeError, ValueError, KeyError, AttributeError, re.error) as error:
        raise refused(f"{CONFIG} has a value that cannot be meant ({error!r})") from error
    return found


def mlx(config: Mapping[str, Any]) -> MlxForm:
    kind = config.get("fine_tune_type", "lora")
    if kind not in ("lora", "dora"):
        raise refused(f"fine_tune_type is {kind!r}; those that can be applied are lora and dora")
    given = config.get("lora_parameters")
    if not isinstance(given, dict) or not {"rank", "scale"} <= given.keys():
        raise refused(f"{CONFIG} has neither peft_type nor lora_parameters with rank and scale")
    return MlxForm(Rule(positive(given["rank"], "rank"), finite(given["scale"])), kind == "dora")


def peft(config: Mapping[str, Any]) -> PeftForm:
    if config["peft_type"] != "LORA":
        raise refused(f"peft_type is {config['peft_type']!r}; only LORA can be applied")
    for name in PEFT_NEEDS_NONE:
        if config.get(name):
            raise refused(f"{name} is set, and cannot be applied")
    if config.get("bias", "none") != "none":
        raise refused(f"bias is {config['bias']!r}, and only none can be applied")
    start = config.get("init_lora_weights")
    if isinstance(start, str) and start.lower().startswith(PEFT_CHANGES_BASE):
        raise refused(f"init_lora_weights is {start!r}, which needs a changed base model")
    ranks = {k: positive(v, k) for k, v in (config.get("rank_pattern") or {}).items()}
    alphas = {k: finite(v) for k, v in (config.get("alpha_pattern") or {}).items()}
    for pattern in (*ranks, *alphas):
        re.compile(pattern)
    return PeftForm(
        positive(config["r"], "r"),
        finite(config["lora_alpha"]),
        ranks,
        alphas,
        bool(config.get("use_rslora")),
        bool(config.get("use_dora")),
    )


def positive(value: Any, name: str) -> int:
    if type(value) is not int or value < 1:
        raise refused(f"{name} is {value!r}, and must be a whole number from 1 on")
    return value


def finite(value: Any) -> float:
    if isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(value)
    return float(value)


def refused(why: str) -> InvalidRequest:
    return InvalidRequest(f"The adapter is refused: {why}.", param="path")
