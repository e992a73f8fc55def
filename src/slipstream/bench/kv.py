"""`bench kv`: what each KV scheme takes, costs and says, beside the model's own type."""

from __future__ import annotations

import pydoc_data.topics
from collections.abc import Sequence

from slipstream.backends.mlx.device import load_blas
from slipstream.contracts.errors import UsageError
from slipstream.contracts.kv import KvForm, KvScheme, parse
from slipstream.contracts.model import ModelInfo
from slipstream.text.tokenizer import Tokenizer

SCHEMES = (
    *("affine:8", "affine:8:32", "affine:4", "affine:4:32"),
    *("turbo:k8v8", "turbo:k8v4", "turbo:k8v3", "turbo:k4v4", "turbo:k4v3", "turbo:k3v2"),
)
Cell = float | int | str | None


def run(info: ModelInfo, schemes: Sequence[str], tokens: int) -> list[dict[str, Cell]]:
    """A row for each scheme; the first is the model's own type. Times are over its times.

    The text is the language reference that comes with Python. Raises UsageError, ModelError."""
    chosen = [KvScheme(), *map(parse, schemes)]
    for scheme in chosen:
        if scheme.form is KvForm.CONFIG or scheme.start:
            raise UsageError(f"bench kv compares uniform schemes that begin at once, not {scheme}.")
    text = "\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    ids = Tokenizer.load(info.path).encode(text[: 8 * tokens], add_special_tokens=True)
    ids = ids[: min(tokens, info.context)]

    load_blas()  # before mlx, never after it
    from slipstream.backends.mlx.kv.measure import worths

    found = worths(info.path, info.vocab_size, list(dict.fromkeys(chosen)), ids)
    plain = found[chosen[0]]
    return [
        {
            "scheme": str(scheme),
            "bytes_token": worth.measured,
            "projected": worth.projected,
            "share": worth.measured / plain.measured,
            "rows_4000_in_1GB": worth.rows,
            "write": worth.write / plain.write,
            "scores": worth.scores / plain.scores,
            "mix": worth.mix / plain.mix,
            "perplexity": worth.perplexity,
            "kl_millinats": 1000 * worth.divergence,
        }
        for scheme, worth in found.items()
    ]
