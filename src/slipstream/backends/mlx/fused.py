"""Level 2, fused: the usual attention, its projections over all rows at once.

Only cache update and attention go row by row, or segment by segment. Which mixers qualify is read
from what their call uses, never from a model's name; numbers are checked at load.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.base import scaled_dot_product_attention

from slipstream.backends.mlx.adapters.adapted import look_ahead
from slipstream.backends.mlx.attention import attend as attend_many
from slipstream.backends.mlx.attention import worth
from slipstream.backends.mlx.even import filled
from slipstream.backends.mlx.kv.attention import attend
from slipstream.backends.mlx.kv.cache import CodedCache
from slipstream.backends.mlx.mixer import (
    Bundle,
    Forward,
    LayerCaches,
    Mixer,
    Stage,
)
from slipstream.backends.mlx.packed import Segment
from slipstream.backends.mlx.rotary import Rotary

_SCALES = ("scale", "sm_scale")
_HEADS = ("n_heads", "num_heads", "num_attention_heads")
_KV_HEADS = ("n_kv_heads", "num_kv_heads", "num_key_value_heads")
_PARTS = ("q_proj", "k_proj", "v_proj", "o_proj", "rope", "q_norm", "k_norm", "sinks", "head_dim")
_KNOWN = frozenset((*_PARTS, *_SCALES, *_HEADS, *_KV_HEADS))
_NEEDED = frozenset(("q_proj", "k_proj", "v_proj", "o_proj", "rope"))


@dataclass(frozen=True, slots=True)
class Shape:
    head_size: int
    scale: float


def shape_of(mixer: nn.Module) -> Shape | None:
    """How `mixer` attends, or None when its call uses anything that we do not know."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(type(mixer).__call__)))
    except (OSError, TypeError, SyntaxError):
        return None
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    if not _NEEDED <= used <= _KNOWN:
        return None
    scale = next((getattr(mixer, name) for name in _SCALES if name in used), None)
    size = head_size(mixer)
    return Shape(size, float(scale)) if scale is not None and size else None


def head_size(mixer: nn.Module) -> int | None:
    if isinstance(found := getattr(mixer, "head_dim", None), int):
        return found
    heads = next((getattr(mixer, name) for name in _HEADS if hasattr(mixer, name)), None)
    return int(mixer.q_proj.weight.shape[0]) // heads if heads else None


class FusedAttention(Mixer):
    """x (1, tokens, width) -> the same; keys and values live in the rows' caches or, where the
    layer is `packed`, in segments."""

    def __init__(
        self,
        held: nn.Module,
        stage: Stage,
        shape: Shape,
        layer: int,
        *,
        packed: bool,
        rotary: Rotary | None = None,
        on_host: bool = False,
    ) -> None:
        """`rotary`: does what the mixer's own rotary module does; None: that one is asked.
        `on_host`: see attention.py."""
        super().__init__(held, stage)
        self._shape = shape
        self._layer = layer
        self._packed = packed
        self._rotary = rotary
        self._on_host = on_host
        self._sinks: mx.array | None = held.sinks if "sinks" in held else None

    def __call__(self, x: mx.array, *args: Any, **kwargs: Any) -> Any:
        forward = self._stage.forward
        if forward is None:
            return self.held(x, *args, **kwargs)
        values_given = (*args, *kwargs.values())
        masks = next((v for v in values_given if isinstance(v, Bundle)), None)
        caches = next(v for v in values_given if isinstance(v, LayerCaches))
        queries, keys, values = self._project(x[0], forward)
        outputs = []
        start = 0
        for segment in forward.segments if self._packed else ():
            stop = start + len(segment.rows)
            outputs.append(
                self._segment(segment, *(a[start:stop] for a in (queries, keys, values)))
            )
            start = stop
        outputs += self._singles(forward, caches, masks, queries, keys, values)
        joined = outputs[0] if len(outputs) == 1 else mx.concatenate(outputs, axis=0)
        return self.held.o_proj(filled(joined, x.shape[1], axis=0).reshape(1, x.shape[1], -1))

    def _project(self, x: mx.array, forward: Forward) -> tuple[mx.array, mx.array, mx.array]:
        """(tokens, width) -> queries, keys, values, each (tokens, heads, 1, head size)."""
        held, size = self.held, self._shape.head_size
        tokens = x.shape[0]
        look_ahead(x, (held.q_proj, held.k_proj, held.v_proj))
        queries = held.q_proj(x).reshape(tokens, -1, 1, size)
        keys = held.k_proj(x).reshape(tokens, -1, 1, size)
        values = held.v_proj(x).reshape(tokens, -1, 1, size)
        if "q_norm" in held:
            queries = held.q_norm(queries)
        if "k_norm" in held:
            keys = held.k_norm(keys)
        # A token is a batch of one here, so that each is turned to its own position.
        if self._rotary is not None:
            table = forward.table(self._rotary, x.dtype)
            return self._rotary.turned(queries, table), self._rotary.turned(keys, table), values
        positions = forward.positions
        return held.rope(queries, offset=positions), held.rope(keys, offset=positions), values

    def _segment(
        self, segment: Segment, queries: mx.array, keys: mx.array, values: mx.array
    ) -> mx.array:
        k, v = segment.update(self._layer, keys[:, :, 0], values[:, :, 0])
        return self._one(queries, k, v, segment.mask)

    def _one(self, q: mx.array, k: mx.array, v: mx.array, mask: mx.array | None) -> mx.array:
        return mx.fast.scaled_dot_product_attention(
            q, k, v, scale=self._shape.scale, mask=mask, sinks=self._sinks
        )

    def _many(self, cache: Any, q: mx.array, k: mx.array, v: mx.array, mask: Any) -> mx.array:
        """Queries of one row, (1, heads, n, size) -> the same."""
        scale, sinks = self._shape.scale, self._sinks
        if self._on_host and worth(q, k, mask):
            return attend_many(q, k, v, scale=scale, mask=mask, sinks=sinks)
        more = {} if sinks is None else {"sinks": sinks}
        return scaled_dot_product_attention(q, k, v, cache=cache, scale=scale, mask=mask, **more)

    def _coded(
        self, cache: CodedCache, q: mx.array, k: mx.array, v: mx.array, mask: Any
    ) -> mx.array:
        """One row's, read from its codes: (1, heads, n, size) -> (n, heads, 1, size)."""
        keys, values = cache.append(k, v)
        scale, sinks = self._shape.scale, self._sinks
        output = attend(q, keys, values, cache.coding, scale=scale, mask=mask, sinks=sinks)
        return output.transpose(2, 1, 0, 3)

    def _singles(
        self,
        forward: Forward,
        caches: LayerCaches,
        masks: Bundle | None,
        queries: mx.array,
        keys: mx.array,
        values: mx.array,
    ) -> list[mx.array]:
        outputs = []
        packed = forward.packed if self._packed else 0
        for index, span in enumerate(forward.spans[packed:], packed):
            q, k, v = (
                a[span.start : span.stop].transpose(2, 1, 0, 3) for a in (queries, keys, values)
            )
            own = caches.of(span)
            mask = None if masks is None else masks.items[index]
            if isinstance(own, CodedCache):
                outputs.append(self._coded(own, q, k, v, mask))
                continue
            k, v = own.update_and_fetch(k, v)
            if span.size == 1 and mask is None:
                outputs.append(self._one(q, k, v, None))
                continue
            output = self._many(own, q, k, v, mask)
            outputs.append(output.transpose(2, 1, 0, 3))  # from (1, heads, n, size)
        return outputs
