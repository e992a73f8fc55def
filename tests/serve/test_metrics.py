"""GET /metrics: the official parser reads it, the docs list it, and no client can inflate it."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from slipstream.contracts.backend import Memory, PrefixStats
from slipstream.contracts.delta import Delta
from slipstream.contracts.errors import QueueFull, RowFault
from slipstream.contracts.report import EngineStats, LaneStats, SpecStats, TurnTimes
from slipstream.contracts.row import CancelReason, FinishReason
from slipstream.serve.app import App
from slipstream.serve.watch.metrics import FINISHES
from slipstream.settings import Settings

from .scripted import CHAT, COMPLETIONS, HELLO, MODEL, ScriptedEngine, chat, client_of, text

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
OPENMETRICS = {"accept": "application/openmetrics-text; version=1.0.0"}
PROMISED = (
    "requests_total",
    "placements_total",
    "placement_reasons_total",
    "rows_active",
    "queue_waiting",
    "queue_seconds",
    "ttft_seconds",
    "inter_token_seconds",
    "request_seconds",
    "prompt_tokens_total",
    "cached_tokens_total",
    "generated_tokens_total",
    "kv_bytes",
    "kv_budget_bytes",
    "prefix_cache_bytes",
    "prefix_cache_hits_total",
    "turn_seconds",
    "spec_drafted_total",
    "spec_accepted_total",
    "device_memory_bytes",
    "faults_total",
)
VLLM = (
    "num_requests_running",
    "num_requests_waiting",
    "kv_cache_usage_perc",
    "prefix_cache_queries",
    "prefix_cache_hits",
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "e2e_request_latency_seconds",
    "request_success",
    "prompt_tokens",
    "generation_tokens",
)
BUSY = EngineStats(
    turns=40,
    group=LaneStats(active=3, max=8, submitted=9),
    solo=LaneStats(active=1, max=1, submitted=2),
    waiting=5,
    memory=Memory(
        weights=100,
        kv=30,
        kv_budget=60,
        prefix_ram=7,
        active=140,
        peak=150,
        budget=200,
        prefix=PrefixStats(bytes=7, hits=4, ssd_bytes=9, ssd_hits=2),
    ),
    spec=SpecStats(drafted=12, accepted=8),
    times=TurnTimes(admit=0.5, prefill=1, step=2, publish=0.25, idle=8),
    prompt_tokens=700,
    cached_tokens=300,
    generated_tokens=90,
    placements={"none": 9, "lane_requested": 2},
    finish={"stop": 3, "stop_string": 1, "length": 2, "disconnect": 4, "row_fault": 1},
)


async def samples(client, **headers):
    """(name, labels) -> value of everything that is there."""
    reply = await client.get("/metrics", headers=headers)
    assert reply.status_code == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(reply.text)
        for sample in family.samples
    }


def value(found, name, **labels):
    return found[name, frozenset(labels.items())]


async def families(client):
    reply = await client.get("/metrics")
    return {family.name: family for family in text_string_to_metric_families(reply.text)}


async def test_every_promised_name_is_there_from_the_start(client):
    promised = [f"slipstream_{name}" for name in PROMISED] + [f"vllm:{name}" for name in VLLM]
    known = await families(client)
    assert [name for name in promised if name.removesuffix("_total") not in known] == []


async def test_the_page_lists_what_is_there_and_nothing_else(client):
    rows = re.findall(r"^\| `([\w:]+?)(?:{[\w,]+})?` \| (\w+) \|", PAGE.read_text("utf-8"), re.M)
    known = {
        name + ("_total" if family.type == "counter" else ""): family.type
        for name, family in (await families(client)).items()
        if not name.endswith("_created")
    }
    assert dict(rows) == known


async def test_the_page_names_the_labels(client, engine):
    engine.numbers = BUSY
    await client.post(CHAT, json=chat())
    listed = re.findall(r"^\| `([\w:]+?){([\w,]+)}` \|", PAGE.read_text("utf-8"), re.M)
    told = {name: set(labels.split(",")) for name, labels in listed}
    for name, family in (await families(client)).items():
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        known = name + ("_total" if family.type == "counter" else "")
        if not name.endswith("_created"):
            assert told.get(known, set()) == labels, known


async def test_the_dashboard_asks_for_what_is_there(client):
    board = json.loads((PAGE.parent / "grafana.json").read_text("utf-8"))
    asked = set(re.findall(r"slipstream_\w+", json.dumps(board)))
    await client.post(CHAT, json=chat())
    assert asked - {name for name, _ in await samples(client)} == set()
    assert len(board["panels"]) == len({panel["title"] for panel in board["panels"]})


async def test_numbers_come_from_one_snapshot_of_the_engine(client, engine):
    engine.numbers = BUSY
    found = await samples(client)
    assert value(found, "slipstream_rows_active") == 4
    assert value(found, "slipstream_queue_waiting") == 5
    assert value(found, "slipstream_kv_bytes") == 30
    assert value(found, "slipstream_prefix_cache_bytes", tier="ssd") == 9
    assert value(found, "slipstream_prefix_cache_hits_total", tier="ram") == 4
    assert value(found, "slipstream_placement_reasons_total", reason="lane_requested") == 2
    assert value(found, "slipstream_device_memory_bytes", kind="weights") == 100
    assert value(found, "slipstream_faults_total", kind="row_fault") == 1
    assert value(found, "slipstream_turn_seconds_sum", phase="idle") == 8
    assert value(found, "slipstream_turn_seconds_count", phase="idle") == 40


async def test_routers_find_the_names_of_vllm(client, engine):
    engine.numbers = BUSY
    found = await samples(client)
    model = {"model_name": MODEL}
    assert value(found, "vllm:num_requests_running", **model) == 4
    assert value(found, "vllm:kv_cache_usage_perc", **model) == 0.5
    assert value(found, "vllm:prefix_cache_queries_total", **model) == 700
    ends = {
        why: value(found, "vllm:request_success_total", **model, finished_reason=why)
        for why in ("stop", "length", "abort", "error")
    }
    assert ends == {"stop": 4, "length": 2, "abort": 4, "error": 1}


async def test_a_kv_budget_of_nothing_is_no_division(client):
    assert value(await samples(client), "vllm:kv_cache_usage_perc", model_name=MODEL) == 0


async def test_openmetrics_comes_to_who_asks_for_it(client):
    await client.post(CHAT, json=chat())
    plain, asked = await client.get("/metrics"), await client.get("/metrics", headers=OPENMETRICS)
    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert asked.headers["content-type"].startswith("application/openmetrics-text")
    assert asked.text.endswith("# EOF\n")
    assert [*openmetrics_families(asked.text)]


@pytest.mark.parametrize(("path", "body"), [(CHAT, chat()), (COMPLETIONS, text())])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_generation_is_counted_and_timed_once(client, path, body, stream):
    await client.post(path, json={**body, "stream": stream})
    found = await samples(client)
    assert value(found, "slipstream_requests_total", route=path, finish="stop") == 1
    placed = {"lane": "group", "method": "autoregressive"}
    assert value(found, "slipstream_placements_total", **placed) == 1
    for name in ("queue", "ttft", "request"):
        assert value(found, f"slipstream_{name}_seconds_count") == 1
    assert value(found, "slipstream_queue_seconds_sum") == pytest.approx(0.0015)


async def test_every_token_but_the_first_has_a_gap(client, engine):
    engine.script = HELLO  # 1, 1, 1 and 2 tokens
    await client.post(CHAT, json=chat())
    found = await samples(client)
    assert value(found, "slipstream_inter_token_seconds_count") == 4
    assert value(found, "vllm:inter_token_latency_seconds_count", model_name=MODEL) == 4


async def test_choices_have_gaps_of_their_own(client, engine):
    engine.script = (
        Delta(choice=0, text="a", tokens=1),
        Delta(choice=1, text="b", tokens=1),
        Delta(choice=0, tokens=1, finish=FinishReason.STOP),
        Delta(choice=1, tokens=1, finish=FinishReason.STOP),
    )
    await client.post(CHAT, json=chat(n=2))
    found = await samples(client)
    assert value(found, "slipstream_inter_token_seconds_count") == 2
    assert value(found, "slipstream_ttft_seconds_count") == 1


async def test_bad_ends_have_their_names(client, engine):
    engine.script = (Delta(text="a", tokens=1), RowFault("sampler", "broke"))
    await client.post(CHAT, json=chat())
    await client.post(CHAT, json=chat(stream=True))
    engine.refusal = QueueFull("full")
    await client.post(CHAT, json=chat())
    await client.post(CHAT, json={"messages": 1})
    found = await samples(client)
    assert value(found, "slipstream_requests_total", route=CHAT, finish="fault") == 2
    assert value(found, "slipstream_requests_total", route=CHAT, finish="refused") == 2


async def test_a_cancelled_request_is_counted_by_its_reason(client, engine):
    engine.script = (Delta(text="a", tokens=1), asyncio.Event())
    asking = asyncio.create_task(client.post(CHAT, json=chat()))
    await engine.submitted.wait()
    engine.runnings[0].cancel(CancelReason.DEADLINE)
    await asking
    found = await samples(client)
    assert value(found, "slipstream_requests_total", route=CHAT, finish="deadline") == 1


async def test_a_wrong_key_is_refused_before_its_route_is_known():
    async with client_of(ScriptedEngine(), api_keys=("right",)) as client:
        assert (await client.get("/metrics")).status_code == 401
        found = await samples(client, authorization="Bearer right")
    assert value(found, "slipstream_requests_total", route="other", finish="refused") == 1


async def test_ten_thousand_odd_requests_leave_few_labels(engine):
    app = App(engine, Settings())
    for number in range(10_000):
        await app(*odd(number))
    async with client_of(engine, app=app) as client:
        found = await samples(client)
        asked = await client.get("/metrics", headers=OPENMETRICS)
    assert [*openmetrics_families(asked.text)]
    counted = [dict(labels) for name, labels in found if name == "slipstream_requests_total"]
    assert {labels["route"] for labels in counted} == {"other", "/v1/models/{name:path}", CHAT}
    assert value(found, "slipstream_requests_total", route=CHAT, finish="stop") == 2000
    assert sum(found[key] for key in found if key[0] == "slipstream_requests_total") == 10_000
    assert {labels["finish"] for labels in counted} <= FINISHES
    assert len(found) < 500


def odd(number):
    """A request like no other: path, method, model, fields and headers are made up. Some are
    answered, most are refused."""
    name = f"{number}-é"
    match number % 5:
        case 0:
            return call("POST", CHAT, chat(model=name, **{f"field_{number}": 1}))
        case 1:
            return call("POST", CHAT, chat(user=name, seed=number), ("x-request-id", name))
        case 2:
            return call("GET", f"/{name}\n", None, ("traceparent", name))
        case _:
            method = ("GET", "POST", "DELETE", f"BREW{number}")[number % 4]
            return call(method, f"/v1/models/{name}")


def call(method, path, body=None, *headers):
    """The scope, receive and send of a request whose answer nobody reads."""
    media = [("content-type", "application/json")] if body is not None else []
    sent = [(name.encode(), value.encode()) for name, value in (*headers, *media)]
    left = [{"type": "http.request", "body": json.dumps(body).encode()}]

    async def receive():
        if not left:
            await asyncio.Event().wait()  # the client stays
        return left.pop()

    async def send(message):
        """Forgets it."""

    scope = {"type": "http", "method": method, "path": path, "headers": sent}
    return scope, receive, send


async def test_two_apps_share_no_numbers(client):
    await client.post(CHAT, json=chat())
    async with client_of(ScriptedEngine()) as other:
        assert value(await samples(other), "slipstream_request_seconds_count") == 0


GROWING = st.fixed_dictionaries(
    {
        name: st.integers(0, 50)
        for name in ("turns", "prompt_tokens", "cached_tokens", "generated_tokens")
    }
)


@given(
    steps=st.lists(st.tuples(GROWING, st.sampled_from([*FinishReason, *CancelReason])), max_size=4)
)
@hypothesis_settings(max_examples=10, deadline=None)
def test_counters_only_grow(steps):
    async def run():
        engine = ScriptedEngine()
        async with client_of(engine) as client:
            before = await samples(client)
            for more, end in steps:
                grown = {name: getattr(engine.numbers, name) + by for name, by in more.items()}
                finish = engine.numbers.finish
                finish = {**finish, end: finish.get(end, 0) + 1}
                engine.numbers = replace(engine.numbers, **grown, finish=finish)
                await client.post(CHAT, json=chat())
                after = await samples(client)
                for (name, labels), value in before.items():
                    if name.endswith(("_total", "_count", "_bucket", "_sum")):
                        assert after[name, labels] >= value, name
                before = after

    asyncio.run(run())
