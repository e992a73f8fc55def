"""Rows in codes take the bytes that are projected, and are known by them before they are there."""

from __future__ import annotations

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from parity import coded, tiny
from slipstream.backends.mlx.backend import MlxBackend
from slipstream.backends.mlx.device import open_device
from slipstream.backends.mlx.footprint import footprint, leaves
from slipstream.backends.mlx.opening import FUSED, GENERIC, OpenModel
from slipstream.contracts.backend import Advance
from slipstream.contracts.kv import parse
from slipstream.contracts.limits import MemoryLimits
from slipstream.contracts.placement import Lane
from slipstream.contracts.row import Prompt, RowSpec

SCHEMES = ("affine:8:32", "affine:4:32", "turbo")


def held(caches: list) -> int:
    arrays = [a for _, a in tree_flatten([c.state for c in leaves(caches)])]
    return sum(a.nbytes for a in arrays if isinstance(a, mx.array))


def filled(model: OpenModel, tokens: int) -> list:
    caches = model.coded_caches()
    model.plain(mx.zeros((1, tokens), mx.int32), caches, [tokens - 1])
    return caches


@pytest.mark.parametrize("tokens", [1, 255, 257, 300])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", coded.KINDS)
def test_the_projection_holds_and_is_near(kind, scheme, tokens):
    model = coded.opened(kind, scheme)
    foot = footprint(model)
    real = held(filled(model, tokens))
    slack = sum((most + tokens) * each for most, each in foot.windows)
    assert real <= foot.at(tokens, chunk=tokens) <= real + slack


@pytest.mark.parametrize("scheme", SCHEMES)
def test_bytes_a_token_are_what_the_codecs_say(scheme):
    model = coded.opened("llama", scheme)
    codings = model.codings.by_path.values()
    assert footprint(model).per_token == sum(coding.token_bytes for coding in codings)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_row_in_codes_is_smaller(scheme):
    model = coded.opened("llama", scheme)
    plain = footprint(OpenModel(coded.build("llama"), tiny.VOCABULARY))
    assert footprint(model).at(1000) < 0.5 * plain.at(1000)


def test_caches_that_are_decoded_for_a_forward_are_counted_once_at_most():
    model = coded.opened("llama", "affine:8:32")
    model.set_level(FUSED)
    assert footprint(model).expanded == 0
    model.set_level(GENERIC)
    foot = footprint(model)
    assert foot.expanded == 2 * (32 + 32) * 4  # heads, keys and values, float32
    assert foot.most(100) == foot.at(100) + 100 * foot.expanded
    longest = foot.longest(5_000_000)
    assert foot.most(longest) <= 5_000_000 < foot.most(longest + 257)


def test_a_row_that_turns_is_counted_in_the_form_that_it_has():
    late = footprint(coded.opened("llama", "affine:8:32@600"))
    plain = footprint(OpenModel(coded.build("llama"), tiny.VOCABULARY))
    model = coded.opened("llama", "affine:8:32")
    model.set_level(late_level := coded.opened("llama", "affine:8:32@600").level)
    early = footprint(model)
    assert late_level == model.level
    assert late.at(600) == plain.at(600)
    assert late.at(601) == early.at(601)
    assert late.most(5000) >= late.at(5000)
    assert late.most(700) > early.most(700)  # it was larger on its way
    for budget in (100_000, 1_000_000, 3_000_000):
        longest = late.longest(budget)
        assert late.most(longest) <= budget


@pytest.mark.parametrize("scheme", ["affine:8:32", "affine:8:32@20", "turbo"])
def test_what_a_row_holds_is_what_the_backend_reports(scheme):
    limits = MemoryLimits(kv_scheme=parse(scheme), prefix_cache=0)
    backend = MlxBackend(
        coded.build("llama"), open_device(), tiny.VOCABULARY, limits=limits, level=FUSED
    )
    ids = tuple(i % tiny.VOCABULARY for i in range(30))
    spec = RowSpec(key=1, lane=Lane.GROUP, prompt=Prompt(ids=ids, max_tokens=9), deadline=0.0)
    row = backend.open(spec)
    for tokens in (10, 20):
        backend.launch([Advance(row, tokens)])
        backend.collect(0)
        assert backend.memory().kv == row.nbytes()
        assert backend.memory().kv <= backend.project(spec)


def test_one_cache_at_a_time_is_there_in_both_forms():
    model, tokens = coded.opened("llama", "affine:8:32@20"), 50_000
    caches = model.plain_caches()
    for cache in caches:
        keys = mx.random.normal((1, 4, tokens, 32))
        cache.update_and_fetch(keys, keys)
    mx.eval([cache.state for cache in caches])
    del keys, cache
    whole = sum(cache.nbytes for cache in caches)
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    model.codings.turn(caches)
    codes = sum(cache.nbytes for cache in caches)
    assert mx.get_peak_memory() - before < 1.1 * codes / len(caches)
    assert mx.get_active_memory() - before < 0.9 * (codes - whole)
