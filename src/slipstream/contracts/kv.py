"""How the keys and values of rows are held: the model's own type, or one of the smaller forms.

Knows the spelling of `--kv-scheme` and of mlx_lm.server's three flags; no arrays.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from slipstream.contracts.errors import UsageError

AFFINE_BITS = (4, 8)
AFFINE_GROUPS = (32, 64, 128)
TURBO_BITS = (2, 3, 4, 8)
GROUP = 64  # numbers that share a scale, unless it is said
START = (
    5000  # tokens, where --kv-bits is given without --quantized-kv-start, as mlx_lm.server has it
)

_AFFINE = re.compile(r"affine:(\d+)(?::(\d+))?(?:@(\d+))?")
_TURBO = re.compile(r"turbo(?:[: ]k(\d+) ?v(\d+))?")
_FORMS = "bf16, affine:BITS[:GROUP][@START], config, or turbo[:kN vM]"


class KvForm(StrEnum):
    MODEL = "bf16"  # whatever type the model computes in
    AFFINE = "affine"
    CONFIG = "config"
    TURBO = "turbo"


@dataclass(frozen=True, slots=True, kw_only=True)
class KvScheme:
    """Bits a number. Affine: `key_bits` and `value_bits` are equal, and `group` numbers share a
    scale. `start`: a row holds its first tokens in the model's type until it has so many.

    Raises UsageError, naming --kv-scheme, when the numbers cannot be meant."""

    form: KvForm = KvForm.MODEL
    key_bits: int = 0
    value_bits: int = 0
    group: int = 0
    start: int = 0

    def __post_init__(self) -> None:
        if self.form is KvForm.AFFINE:
            _one_of("bits", self.key_bits, AFFINE_BITS)
            _one_of("a group size", self.group, AFFINE_GROUPS)
        if self.form is KvForm.TURBO:
            _one_of("bits of keys (k)", self.key_bits, TURBO_BITS)
            _one_of("bits of values (v)", self.value_bits, TURBO_BITS)

    @property
    def codes(self) -> bool:
        """Rows come to hold something else than the model's own type."""
        return self.form is not KvForm.MODEL

    def __str__(self) -> str:
        match self.form:
            case KvForm.AFFINE:
                start = f"@{self.start}" if self.start else ""
                return f"affine:{self.key_bits}:{self.group}{start}"
            case KvForm.TURBO:
                return f"turbo:k{self.key_bits}v{self.value_bits}"
            case form:
                return form.value


def affine(bits: int, group: int = GROUP, start: int = 0) -> KvScheme:
    return KvScheme(form=KvForm.AFFINE, key_bits=bits, value_bits=bits, group=group, start=start)


def turbo(key_bits: int = 8, value_bits: int = 3) -> KvScheme:
    return KvScheme(form=KvForm.TURBO, key_bits=key_bits, value_bits=value_bits)


def parse(text: str) -> KvScheme:
    """What --kv-scheme says. Raises UsageError."""
    text = text.strip()
    if text in (KvForm.MODEL, KvForm.CONFIG):
        return KvScheme(form=KvForm(text))
    if match := _AFFINE.fullmatch(text):
        bits, group, start = match.groups()
        return affine(int(bits), int(group or GROUP), int(start or 0))
    if match := _TURBO.fullmatch(text):
        return turbo(*map(int, match.groups())) if match[1] else turbo()
    raise UsageError(f"--kv-scheme is {text!r}; it is {_FORMS}.", param="kv_scheme")


def chosen(scheme: str | None, bits: int | None, group: int | None, start: int | None) -> KvScheme:
    """What --kv-scheme says, or the three flags of mlx_lm.server. Raises UsageError when both are
    given and differ, or when the others have no --kv-bits to apply to."""
    given = None if scheme is None else parse(scheme)
    if bits is None:
        if group is not None or start is not None:
            raise UsageError(
                "--kv-group-size and --quantized-kv-start need --kv-bits; or give all in one, as "
                "--kv-scheme affine:BITS:GROUP@START.",
                param="kv_bits",
            )
        return given or KvScheme()
    listed = affine(bits, GROUP if group is None else group, START if start is None else start)
    if given is not None and given != listed:
        raise UsageError(
            f"--kv-scheme is {given}, but --kv-bits and its companions say {listed}. Give one.",
            param="kv_scheme",
        )
    return listed


def _one_of(what: str, value: int, allowed: tuple[int, ...]) -> None:
    if value not in allowed:
        *most, last = map(str, allowed)
        raise UsageError(
            f"--kv-scheme takes {', '.join(most)} or {last} as {what}, not {value}.",
            param="kv_scheme",
        )
