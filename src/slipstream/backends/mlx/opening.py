"""Opens a model once, at load: its mixers are held by ours, its head sees sampled tokens only.

Done the way LoRA layers are put into an MLX model. Closed again, the model is as it was.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.cache import KVCache, make_prompt_cache

from slipstream.backends.mlx.even import filled
from slipstream.backends.mlx.fused import FusedAttention, Shape, shape_of
from slipstream.backends.mlx.kv.cache import Coding
from slipstream.backends.mlx.kv.plan import Codings
from slipstream.backends.mlx.mixer import Bundle, Forward, Holder, LayerCaches, Mixer, Stage
from slipstream.backends.mlx.rotary import Rotary, shared

if TYPE_CHECKING:
    from slipstream.backends.mlx.adapters.blend import Blend

GENERIC, FUSED, PACKED = 1, 2, 3


class Head(Holder):
    """The projection to the vocabulary, over sampled tokens only."""

    def __call__(self, x: mx.array) -> mx.array:
        return self.held(self._stage.wanted(x))


class TiedHead(Head):
    """An embedding that is also the head: looking up is unchanged."""

    def __call__(self, x: mx.array) -> mx.array:
        return self.held(x)

    def as_linear(self, x: mx.array) -> mx.array:
        return self.held.as_linear(self._stage.wanted(x))


class OpenModel:
    """A model whose rows can share a forward. `model` is taken and changed in place.

    Without a mixer that can be found, `mixers_found` is false and only `plain` may be called.
    """

    def __init__(self, model: nn.Module, vocab_size: int, *, on_cpu: bool = False) -> None:
        """`on_cpu`: layers share tables of rotary positions, and the host does the softmax of
        prompts; see rotary.py and attention.py."""
        self.model = model
        self.stage = Stage()
        self.level = GENERIC
        self.codings: Codings | None = None
        self.fewest = 1  # tokens of a forward; it is filled up where a row has fewer
        self._mixers = list(find_mixers(model.layers))
        for name, parent, held in self._mixers:
            parent[name] = Mixer(held, self.stage)
        self.shapes = self._find_shapes()
        self._on_cpu = on_cpu
        self._rotaries = self._find_rotaries() if on_cpu else {}
        open_heads(model, vocab_size, self.stage)

    def _find_shapes(self) -> dict[int, Shape]:
        shapes = {}
        caches = self.new_caches()
        for index, layer in enumerate(self.model.layers):
            own = [held for _, parent, held in self._mixers if parent is layer]
            if len(own) == 1 and index < len(caches) and hasattr(caches[index], "update_and_fetch"):
                shape = shape_of(own[0])
                if shape is not None:
                    shapes[index] = shape
        return shapes

    def _find_rotaries(self) -> dict[int, Rotary]:
        ropes = {layer: self.mixer(layer).held.rope for layer in self.shapes}
        return shared(
            {layer: Rotary.of(rope, self.shapes[layer].head_size) for layer, rope in ropes.items()}
        )

    @property
    def mixers_found(self) -> bool:
        return bool(self._mixers)

    def mixer(self, layer: int) -> Mixer:
        """The one mixer of a layer that can be fused, as it is now."""
        parent = self.model.layers[layer]
        return next(parent[name] for name, owner, _ in self._mixers if owner is parent)

    def code(self, codings: Codings | None) -> None:
        """From now on rows hold keys and values as `codings` say."""
        self.codings = codings
        self.set_level(self.level)

    def new_caches(self) -> list[Any]:
        """One row's caches, empty."""
        return self.plain_caches() if self.turns_at else self.coded_caches()

    def plain_caches(self) -> list[Any]:
        """As the model comes with them."""
        return make_prompt_cache(self.model)

    def coded_caches(self) -> list[Any]:
        """In the form that the rows' caches have in the end."""
        plain = self.plain_caches()
        return plain if self.codings is None else self.codings.coded(plain)

    @property
    def turns_at(self) -> int:
        """Tokens after which a row's caches turn to codes; 0 when they do not, or begin so."""
        return 0 if self.codings is None else self.codings.start

    @property
    def forms(self) -> Sequence[str]:
        """The names of the forms in which rows hold keys and values, the last one first; that of
        the model's own type is empty."""
        if self.codings is None:
            return ("",)
        return (self.codings.name, "") if self.turns_at else (self.codings.name,)

    @property
    def expanding(self) -> Sequence[Coding]:
        """Of the caches whose keys and values are decoded whole for each forward."""
        if self.codings is None:
            return ()
        fused = {(index,) for index in self.reading}
        return [coding for path, coding in self.codings.by_path.items() if path not in fused]

    @property
    def reading(self) -> Sequence[int]:
        """The layers that attend to codes as they are."""
        if self.codings is None or self.level < FUSED:
            return ()
        return [index for index in self.shapes if (index,) in self.codings.by_path]

    @property
    def fusible(self) -> Sequence[int]:
        """The layers whose projections can run over all rows at once."""
        return tuple(self.shapes)

    @property
    def packable(self) -> Sequence[int]:
        """The layers whose rows can share a rectangle, at the level that is set."""
        if self.level < PACKED:
            return ()
        caches = self.new_caches()
        return tuple(i for i in self.shapes if type(caches[i]) is KVCache)

    def set_level(self, level: int) -> None:
        """Uses the mixers of `level` (GENERIC, FUSED or PACKED) wherever a layer can."""
        self.level = level
        packable = set(self.packable)
        for name, parent, held in self._mixers:
            index = self._layer_of(parent)
            shape = self.shapes.get(index)
            if level >= FUSED and shape is not None:
                parent[name] = FusedAttention(
                    held,
                    self.stage,
                    shape,
                    index,
                    packed=index in packable,
                    rotary=self._rotaries.get(index),
                    on_host=self._on_cpu,
                )
            else:
                parent[name] = Mixer(held, self.stage)

    def _layer_of(self, parent: nn.Module) -> int:
        """The index of the layer that `parent` is, or -1."""
        return next((i for i, layer in enumerate(self.model.layers) if layer is parent), -1)

    def hidden(self, tokens: int) -> mx.array:
        """Zeros in the shape and type of the activations between layers: (1, tokens, width)."""
        embedding = next(m for m in self.model.modules() if isinstance(m, TiedHead))
        return mx.zeros_like(embedding(mx.zeros((1, tokens), mx.int32)))

    def blank(self, layer: int, length: int) -> tuple[mx.array, mx.array]:
        """Zero keys and values for a fused layer, each (1, heads, length, size)."""
        held, size = self.mixer(layer).held, self.shapes[layer].head_size
        keys, values = (project(self.hidden(1)) for project in (held.k_proj, held.v_proj))
        return tuple(
            mx.zeros((1, a.shape[-1] // size, length, size), a.dtype) for a in (keys, values)
        )

    def attention(
        self, layer: int, hidden: mx.array, forward: Forward, mask: Any = None
    ) -> mx.array:
        """One fused layer's mixer alone, over a forward of single tokens, or of one row's under
        `mask`."""
        masks = None if mask is None else Bundle((mask,))
        self.stage.forward = forward
        try:
            return self.mixer(layer)(hidden, masks, LayerCaches(forward, (layer,)))
        finally:
            self.stage.forward = None

    def logits(
        self,
        tokens: mx.array,
        forward: Forward,
        heads: Sequence[int],
        blend: Blend | None = None,
    ) -> mx.array:
        """tokens (1, n) of many rows -> logits (len(heads), vocabulary) of the tokens `heads`.

        `blend`: their adapters, where there are any."""
        if blend is None and tokens.shape[1] < self.fewest:
            tokens = filled(tokens, self.fewest, axis=1)
            forward.positions = filled(forward.positions, self.fewest, axis=0)
        caches: list[Any] = forward.spans[0].row.caches
        layered = [LayerCaches(forward, (index,)) for index in range(len(caches))]
        self.stage.forward = forward
        try:
            return self._call(tokens, layered, heads, blend)
        finally:
            self.stage.forward = None

    def plain(
        self,
        tokens: mx.array,
        caches: Sequence[Any],
        heads: Sequence[int],
        blend: Blend | None = None,
    ) -> mx.array:
        """The model as it came: one row on its own caches, otherwise as `logits`."""
        return self._call(tokens, list(caches), heads, blend)

    def _call(
        self, tokens: mx.array, caches: list[Any], heads: Sequence[int], blend: Blend | None
    ) -> mx.array:
        self.stage.heads, self.stage.blend = heads, blend
        try:
            logits: mx.array = self.model(tokens, cache=caches)[0]
        finally:
            self.stage.heads = self.stage.blend = None
        if logits.shape[0] != len(heads):  # a head that was not found sees every token
            logits = logits[mx.array(heads)]
        return logits


def find_mixers(layers: Sequence[nn.Module]) -> Iterator[tuple[str, nn.Module, nn.Module]]:
    """(name, parent, mixer) of each shallowest module below a layer whose call takes a cache."""
    for layer in layers:
        yield from _below(layer)


def _below(parent: nn.Module) -> Iterator[tuple[str, nn.Module, nn.Module]]:
    for name, child in list(parent.children().items()):
        if not isinstance(child, nn.Module):
            continue
        if "cache" in inspect.signature(type(child).__call__).parameters:
            yield name, parent, child
        else:
            yield from _below(child)


def open_heads(parent: nn.Module, vocab_size: int, stage: Stage) -> None:
    """Puts ours around what projects to the vocabulary: a linear head, or a tied embedding.

    Looks outside of the layers only: those stand in lists."""
    for name, child in list(parent.children().items()):
        if isinstance(child, nn.Embedding | nn.QuantizedEmbedding):
            parent[name] = TiedHead(child, stage)
        elif isinstance(child, nn.Linear | nn.QuantizedLinear):
            if child.weight.shape[0] == vocab_size:
                parent[name] = Head(child, stage)
        elif isinstance(child, nn.Module):
            open_heads(child, vocab_size, stage)
