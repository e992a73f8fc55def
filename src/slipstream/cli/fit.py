"""`fit`: does a model fit this machine, with which context and how many rows. Reads no weights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstream.cli.terminal import FAILED, progress, size
from slipstream.contracts.errors import UsageError
from slipstream.contracts.kv import KvForm, KvScheme
from slipstream.contracts.model import ModelInfo
from slipstream.settings import Settings, cache_home

if TYPE_CHECKING:
    from slipstream.backends.mlx.fit import Fit


def fit(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="a model on disk (default: the starter)")
    ] = None,
    context: Annotated[
        int | None, typer.Option("--context", help="tokens of a row (default: as many as fit)")
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=1, help="rows at once")] = 1,
    memory_budget: Annotated[
        float | None, typer.Option("--memory-budget", metavar="GB", help="as for serve")
    ] = None,
    kv_budget: Annotated[
        float | None, typer.Option("--kv-budget", metavar="GB", help="as for serve")
    ] = None,
    kv_scheme: Annotated[
        str | None, typer.Option("--kv-scheme", metavar="SCHEME", help="as for serve")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="for programs: a JSON object")] = False,
) -> None:
    """Say whether a model fits here, from its headers. The exit code is 1 if it does not."""
    settings = Settings(
        context=context, memory_budget=memory_budget, kv_budget=kv_budget, kv_scheme=kv_scheme
    )
    info = obtained(model)
    if context is not None and context > info.context:
        raise UsageError(f"--context {context} is more than this model's {info.context} tokens.")

    from slipstream.backends.mlx.device import open_device
    from slipstream.backends.mlx.fit import measure

    found = measure(info.path, info.vocab_size, open_device(), settings.memory)
    numbers = described(info, found, context, rows, settings.kv)
    typer.echo(json.dumps(numbers, indent=2) if as_json else spoken(numbers))
    if not numbers["fits"]:
        raise typer.Exit(FAILED)


def obtained(name: str | None) -> ModelInfo:
    from slipstream.models.obtain import obtain

    with progress() as draw:
        return obtain(name, cache_home(), progress=draw)


def described(
    info: ModelInfo, found: Fit, wanted: int | None, rows: int, scheme: KvScheme
) -> dict[str, Any]:
    """What `--json` prints of `rows` rows of `wanted` tokens. Bytes are bytes, lengths tokens."""
    from slipstream.models.folder import stored_bytes

    longest = found.longest(rows)
    longest = info.context if longest is None else min(longest, info.context)
    context = wanted or longest
    most = found.rows(max(1, context))
    reason = found.obstacle
    if reason is None and most < rows:
        need = size(rows * found.row.most(max(1, context)))
        reason = (
            f"{rows} rows of {context:,} tokens need {need}. "
            f"There is room for {most}, or for {rows} of {longest:,} tokens."
        )
    return {
        "model": info.id,
        "fits": reason is None,
        "reason": reason,
        "device": found.device.kind,
        "memory": found.device.memory,
        "memory_budget": found.budget,
        "weights_stored": stored_bytes(info.path),
        "weights": found.weights,
        "kv_scheme": str(scheme),
        "kv_budget": found.kv_budget,
        "bytes_per_token": found.row.per_token,
        "bytes_fixed": found.row.fixed,
        "windows": windows(found),
        "model_context": info.context,
        "context": context,
        "rows": rows,
        "most_rows": most,
        "longest": longest,
    }


def windows(found: Fit) -> list[tuple[int, int]]:
    """(most tokens, bytes a token) of the layers that look back so far, together."""
    sums: dict[int, int] = {}
    for tokens, each in found.row.windows:
        sums[tokens] = sums.get(tokens, 0) + each
    return sorted(sums.items())


def spoken(numbers: dict[str, Any]) -> str:
    stored, weights = numbers["weights_stored"], numbers["weights"]
    widened = weights > 1.1 * stored
    lines = {
        "model": f"{numbers['model']}, context {numbers['model_context']:,} tokens",
        "device": f"{numbers['device']}, {size(numbers['memory'])} of memory",
        "weights": f"{size(weights)} in memory, {size(stored)} on disk"
        + (f"; on a {numbers['device']} they are widened to float32" if widened else ""),
        "budget": f"{size(numbers['memory_budget'])}, of it {size(numbers['kv_budget'])} for rows",
        "a row": row(numbers),
        "rows": f"{numbers['most_rows']:,} of {numbers['context']:,} tokens at once",
        "context": f"up to {numbers['longest']:,} tokens each, with {numbers['rows']} at once",
        "fits": "yes" if numbers["fits"] else f"no: {numbers['reason']}",
    }
    return "\n".join(f"{name:8} {line}" for name, line in lines.items())


def row(numbers: dict[str, Any]) -> str:
    scheme = numbers["kv_scheme"]
    held = "" if scheme == KvForm.MODEL else f" as {scheme}"
    parts = [f"{size(numbers['bytes_per_token'])} a token{held}"]
    if numbers["bytes_fixed"]:
        parts.append(f"{size(numbers['bytes_fixed'])} whatever its length")
    for tokens, each in numbers["windows"]:
        parts.append(f"{size(each)} for each of its last {tokens:,} tokens")
    return ", ".join(parts)
