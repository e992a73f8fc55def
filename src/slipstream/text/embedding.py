"""An input to be embedded becomes a Prompt. Knows no lanes, and not how states are pooled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slipstream.contracts.errors import InvalidRequest
from slipstream.contracts.model import ModelInfo
from slipstream.contracts.placement import Needs
from slipstream.contracts.pooling import Pooling
from slipstream.contracts.row import Prompt
from slipstream.text.room import Room
from slipstream.text.tokenizer import Tokenizer


class Embedder:
    """For one model. Borrows `room`."""

    def __init__(self, info: ModelInfo, tokenizer: Tokenizer, room: Room) -> None:
        self._info = info
        self._tokenizer = tokenizer
        self._room = room

    def prompt(self, given: str | Sequence[int], param: str, size: int | None) -> Prompt:
        """Of an input that stands in the request at `param`; `size`: how many entries of the
        vector are wanted. With the special tokens that go around a text; ids stay as they are.

        Costs what the tokenizer costs. Raises InvalidRequest, ContextExceeded."""
        pooling = self._pooling(size)
        if not given:
            raise InvalidRequest(f"{param} is empty.", param=param)
        if isinstance(given, str):
            self._room.check_length(given, param)
            given = self._tokenizer.encode(given)
        self._room.check_ids(given, param)
        if len(given) > self._room.context:
            raise self._room.exceeded(len(given), param)
        needs = Needs(states=True)
        return Prompt(ids=tuple(given), max_tokens=1, needs=needs, pooling=pooling)

    def _pooling(self, size: int | None) -> Pooling:
        """A vector that is cut is made of length 1 again, whatever the whole one is."""
        pooling = self._info.pooling
        if pooling is None:
            raise InvalidRequest(
                f"The model {self._info.id} makes no embeddings: {self._info.no_pooling}. "
                "Serve a model that is made for them.",
                param="model",
            )
        if size is None:
            return pooling
        if not 1 <= size <= pooling.size:
            raise InvalidRequest(
                f"dimensions is {size}; this model's vectors have {pooling.size}.",
                param="dimensions",
            )
        return replace(pooling, size=size, normalized=True)
