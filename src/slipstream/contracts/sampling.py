"""How a row draws its tokens: one resolved record, and the one place where ranges are checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType

from slipstream.contracts.errors import InvalidRequest

SEED_BITS = 63

# field -> (lowest, highest, lowest is itself allowed)
RANGES: Mapping[str, tuple[float, float, bool]] = MappingProxyType(
    {
        "temperature": (0.0, 100.0, True),
        "top_p": (0.0, 1.0, True),
        "top_k": (-1, 1 << 31, True),
        "min_p": (0.0, 1.0, True),
        "xtc_probability": (0.0, 1.0, True),
        "xtc_threshold": (0.0, 0.5, True),
        "repetition_penalty": (0.0, 100.0, False),
        "repetition_context_size": (0, 1 << 31, True),
        "presence_penalty": (-2.0, 2.0, True),
        "presence_context_size": (0, 1 << 31, True),
        "frequency_penalty": (-2.0, 2.0, True),
        "frequency_context_size": (0, 1 << 31, True),
        "seed": (-(1 << SEED_BITS), (1 << (SEED_BITS + 1)) - 1, True),
        "min_tokens": (0, 1 << 31, True),
    }
)
BIAS_RANGE = (-100.0, 100.0)


def check_range(name: str, value: float) -> None:
    """Raises InvalidRequest naming `name` when `value` lies outside RANGES or is not finite."""
    low, high, closed = RANGES[name]
    inside = (low <= value if closed else low < value) and value <= high  # never so for a NaN
    if not inside:
        sign = "at least" if closed else "greater than"
        raise InvalidRequest(
            f"{name} is {value!r}; it must be {sign} {low:g} and at most {high:g}.", param=name
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Every number that shapes a draw. The defaults are neutral: greedy, nothing filtered.

    Context sizes count tokens back from the newest; 0 means the whole history.
    Noise of a draw depends on (seed, position in the row) and nothing else.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0  # 0 and -1: off
    min_p: float = 0.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    repetition_penalty: float = 1.0
    repetition_context_size: int = 20
    presence_penalty: float = 0.0
    presence_context_size: int = 0
    frequency_penalty: float = 0.0
    frequency_context_size: int = 0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int = 0
    min_tokens: int = 0

    def __post_init__(self) -> None:
        for name in RANGES:
            check_range(name, getattr(self, name))
        for token, bias in self.logit_bias.items():
            low, high = BIAS_RANGE
            if token < 0 or not low <= bias <= high:
                raise InvalidRequest(
                    f"logit_bias[{token}] is {bias!r}; ids are whole numbers from 0 and "
                    f"values lie in {low:g}..{high:g}.",
                    param="logit_bias",
                )

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0

    @classmethod
    def resolve(
        cls, given: Mapping[str, object], defaults: Mapping[str, object], seed: int
    ) -> Sampling:
        """`given` (what the client set) over `defaults` (the server's); `seed` when none is given.

        Keys are field names of this class; a value of None counts as not given.
        Raises InvalidRequest naming the field.
        """
        known = {f.name for f in fields(cls)}
        values: dict[str, object] = {"seed": seed}
        for source in (defaults, given):
            values.update({k: v for k, v in source.items() if k in known and v is not None})
        return cls(**values)  # type: ignore[arg-type]
