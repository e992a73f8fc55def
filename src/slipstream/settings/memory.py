"""Flags that say what may be held: bytes by kind, in which form, and on which disk."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from slipstream.contracts.errors import UsageError
from slipstream.contracts.kv import KvScheme, chosen
from slipstream.contracts.limits import MemoryLimits
from slipstream.settings.flag import flag

GB = 1 << 30
SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]?)B?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What may be held, in bytes."""

    kv_budget: float | None = flag(
        "--kv-budget",
        default=None,
        above=0,
        metavar="GB",
        help="memory for live rows (default: what weights and reserve leave of the budget)",
    )
    memory_budget: float | None = flag(
        "--memory-budget",
        default=None,
        above=0,
        metavar="GB",
        help="memory for weights, rows, caches and all else (default: 0.75 of the device's)",
    )
    kv_scheme: str | None = flag(
        "--kv-scheme",
        default=None,
        metavar="SCHEME",
        help="how rows hold keys and values: bf16 (the model's own type, the default), "
        "affine:BITS[:GROUP][@START], config (the model's kv_config.json), or turbo[:kN vM]",
    )
    kv_bits: int | None = flag(
        "--kv-bits",
        default=None,
        metavar="BITS",
        help="as --kv-scheme affine:BITS, as mlx_lm.server has it; rows stay in the group",
    )
    kv_group_size: int | None = flag(
        "--kv-group-size", default=None, metavar="N", help="for --kv-bits (default: 64)"
    )
    quantized_kv_start: int | None = flag(
        "--quantized-kv-start",
        default=None,
        least=0,
        metavar="TOKENS",
        help="for --kv-bits: where a row's codes begin (default: 5000)",
    )
    prefix_cache: float | None = flag(
        "--prefix-cache",
        default=None,
        least=0,
        metavar="GB",
        help="memory for what finished rows leave to later ones; 0 is off "
        "(default: a quarter of what weights leave)",
    )
    prompt_cache_bytes: str | None = flag(
        "--prompt-cache-bytes",
        default=None,
        metavar="SIZE",
        help="as --prefix-cache, in bytes, or like 500MB or 2GB (decimal, as mlx_lm.server has it)",
    )
    prompt_cache_size: int | None = flag(
        "--prompt-cache-size",
        default=None,
        least=0,
        metavar="N",
        help="of mlx_lm.server: 0 turns the prefix cache off; any other number changes nothing, "
        "for the cache is bounded in bytes",
    )
    ssd_cache: Path | None = flag(
        "--ssd-cache",
        default=None,
        metavar="DIR",
        help="a folder for prefixes that outlive the memory, and a restart (default: none)",
    )
    ssd_cache_size: float = flag(
        "--ssd-cache-size",
        default=32.0,
        above=0,
        metavar="GB",
        help="most that --ssd-cache may hold",
    )
    adapter_budget: float | None = flag(
        "--adapter-budget",
        default=None,
        above=0,
        metavar="GB",
        help="most memory of mounted adapters (default: a tenth of what weights leave)",
    )

    def check_memory(self) -> None:
        if self.prefix_cache is not None and self.prompt_cache_bytes is not None:
            raise UsageError(
                "--prefix-cache and --prompt-cache-bytes name the same memory. Give one.",
                param="prefix_cache",
            )
        if self.ssd_cache is not None and self._prefix_bytes == 0:
            raise UsageError(
                "--ssd-cache needs memory to restore prefixes into: leave --prefix-cache at its "
                "default, or above 0.",
                param="ssd_cache",
            )
        assert self.memory  # raises what is wrong with a size, or with the scheme

    @property
    def kv(self) -> KvScheme:
        """Raises UsageError."""
        return chosen(self.kv_scheme, self.kv_bits, self.kv_group_size, self.quantized_kv_start)

    @property
    def memory(self) -> MemoryLimits:
        return MemoryLimits(
            memory_budget=_gigabytes(self.memory_budget),
            kv_budget=_gigabytes(self.kv_budget),
            prefix_cache=self._prefix_bytes,
            kv_scheme=self.kv,
            adapters=_gigabytes(self.adapter_budget),
        )

    @property
    def ssd_cache_bytes(self) -> int:
        return int(self.ssd_cache_size * GB)

    @property
    def _prefix_bytes(self) -> int | None:
        if self.prompt_cache_size == 0:
            return 0
        if self.prompt_cache_bytes is not None:
            return size(self.prompt_cache_bytes)
        return _gigabytes(self.prefix_cache)


def size(text: str) -> int:
    """Bytes of --prompt-cache-bytes, a number that may have a unit: 500MB, 2G, 1048576; units are
    decimal. Raises UsageError."""
    match = SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"--prompt-cache-bytes is {text!r}; a size is like 500MB or 2GB.",
            param="prompt_cache_bytes",
        )
    return int(float(match[1]) * 1000 ** " KMGT".index(match[2].upper() or " "))


def _gigabytes(value: float | None) -> int | None:
    return None if value is None else int(value * GB)
