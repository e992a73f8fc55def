"""A prompt's own log-probabilities, however it is cut into chunks and whatever fails meanwhile."""

from __future__ import annotations

import pytest

from parity import tiny
from slipstream.backends.mlx.backend import MlxBackend
from slipstream.backends.mlx.device import open_device
from slipstream.contracts.backend import Advance, Row
from slipstream.contracts.placement import Lane
from slipstream.contracts.row import Prompt, RowSpec, Scored

IDS = tuple((11 + 7 * i) % tiny.VOCABULARY for i in range(12))
PROMPT = Prompt(ids=IDS, max_tokens=4, logprobs=2, prompt_logprobs=True)
CLOSE = 1e-4


@pytest.fixture(scope="module")
def backend() -> MlxBackend:
    return MlxBackend(tiny.build("llama"), open_device(), tiny.VOCABULARY, level=1)


def opened(backend: MlxBackend, key: int) -> Row:
    return backend.open(RowSpec(key=key, lane=Lane.GROUP, prompt=PROMPT, deadline=0.0))


def scored(backend: MlxBackend, row: Row) -> tuple[Scored, ...]:
    """What comes with the first draw, once all of the prompt is read."""
    backend.launch([Advance(row, row.pending)])
    (drawn,) = backend.collect(0)
    backend.release(row)
    return drawn.scored


def values(found: tuple[Scored, ...]) -> list[float | None]:
    assert tuple(one.token for one in found) == IDS
    assert all(len(one.top) == 2 for one in found[1:])
    assert found[0].logprob is None
    return [one.logprob for one in found[1:]]


@pytest.fixture(scope="module")
def expected(backend: MlxBackend) -> list[float | None]:
    return values(scored(backend, opened(backend, 1)))


@pytest.mark.parametrize("chunk", [1, 5, 11])
def test_chunks_do_not_change_the_scores(
    backend: MlxBackend, expected: list[float | None], chunk: int
) -> None:
    row = opened(backend, 2)
    while row.pending > chunk:
        backend.launch([Advance(row, chunk)])
    assert values(scored(backend, row)) == pytest.approx(expected, abs=CLOSE)


@pytest.mark.parametrize("read", [True, False])
def test_a_prompt_that_starts_over_is_scored_once_and_whole(
    backend: MlxBackend, expected: list[float | None], read: bool
) -> None:
    row = opened(backend, 3)
    backend.launch([Advance(row, 5)])
    if read:
        backend.collect(0)
    backend.rewind(row, [])
    assert values(scored(backend, row)) == pytest.approx(expected, abs=CLOSE)


def test_a_row_that_has_drawn_is_not_scored_again(backend: MlxBackend) -> None:
    row = opened(backend, 4)
    backend.launch([Advance(row, row.pending)])
    (drawn,) = backend.collect(0)
    backend.rewind(row, [drawn.token])
    assert scored(backend, row) == ()
