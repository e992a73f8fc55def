"""Load and its tables: what is sent, how much at a time, and what the figures are made of."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

import pytest

from slipstream.bench import result, serve, summary
from slipstream.bench.figures import bounds
from slipstream.bench.load import Level, Limits, Run, held, pushed
from slipstream.bench.marks import Marks
from slipstream.bench.plot import Panel, page, ticks
from slipstream.bench.target import Answer
from slipstream.bench.workloads import SHORTS, TURNS, WORKLOADS, Size, Talk, talks
from slipstream.contracts.errors import Fault, UsageError

from .servers import DONE, Scripted, listening, said, stream, targeted, usage, whole

GOOD = stream(said("a"), said("b"), usage(7, 2), DONE)
REFUSED = whole("429 Too Many Requests", {"error": {"message": "full"}})
SIZE = Size(prompt=16, output=4)
CLOSED = Level(clients=2)


def quiet(_text: str) -> None:
    pass


def first(workload: str, count: int, seed: str = "0") -> list[Talk]:
    return list(islice(talks(workload, seed, SIZE), count))


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_workload_is_the_same_for_the_same_seed_only(workload: str) -> None:
    assert first(workload, 9) == first(workload, 9) != first(workload, 9, seed="1")


@pytest.mark.parametrize("workload", sorted(WORKLOADS.keys() - {"shared-prefix"}))
def test_no_two_prompts_of_a_workload_begin_alike(workload: str) -> None:
    made = first(workload, 20)
    begins = [
        (talk.opening[0]["content"] if talk.opening else talk.questions[0])[:20] for talk in made
    ]
    assert len(set(begins)) == len(begins)


def test_agents_share_their_system_prompt_and_nothing_else() -> None:
    made = first("shared-prefix", 5)
    assert len({talk.opening[0]["content"] for talk in made}) == 1
    assert len({talk.questions[0] for talk in made}) == 5


def test_one_prompt_in_eight_is_long() -> None:
    made = first("long-among-short", 2 * (SHORTS + 1))
    longs = [talk for talk in made if talk.kind == "long"]
    shorts = [talk for talk in made if talk.kind == "short"]
    assert (len(longs), len(shorts)) == (2, 2 * SHORTS)
    assert min(map(words, longs)) > 10 * max(map(words, shorts))


def words(talk: Talk) -> int:
    return len(talk.questions[0].split())


def test_lengths_are_mixed_and_shapes_take_turns() -> None:
    assert len({(words(talk), talk.tokens) for talk in first("mixed-lengths", 12)}) > 6
    kinds = [talk.kind for talk in first("mixed-shapes", 6)]
    assert kinds == ["greedy", "seeded", "penalised", "logprobs", "schema", "greedy"]


@pytest.mark.anyio
async def test_a_chat_goes_on_with_what_was_answered() -> None:
    answers: list[Answer] = []
    async with targeted(server := Scripted(GOOD)) as target:
        await held(target, first("chat", 1)[0], Limits(requests=1), answers)
    assert [len(body["messages"]) for body in server.bodies] == [2 * n for n in range(1, TURNS + 1)]
    assert server.bodies[1]["messages"][2] == {"role": "assistant", "content": "ab"}
    assert len(answers) == TURNS


@pytest.mark.anyio
async def test_a_chat_ends_at_its_first_failure() -> None:
    answers: list[Answer] = []
    async with targeted(Scripted(GOOD, REFUSED)) as target:
        await held(target, first("chat", 1)[0], Limits(requests=1), answers)
    assert [answer.failed for answer in answers] == [None, "status 429"]


@pytest.mark.anyio
async def test_a_closed_loop_keeps_its_clients_busy_and_sends_what_it_should() -> None:
    async with targeted(server := Scripted(GOOD, crowd=3)) as target:
        conversations = talks("equal", "0", SIZE)
        run = await pushed(target, conversations, Level(clients=3), Limits(requests=7), "")
    assert (server.most, len(run.answers)) == (3, 7)


@pytest.mark.anyio
async def test_an_open_loop_does_not_wait_for_answers() -> None:
    async with targeted(server := Scripted(GOOD, crowd=5)) as target:
        conversations = talks("equal", "0", SIZE)
        run = await pushed(target, conversations, Level(rate=1e6), Limits(requests=5), "")
    assert (server.most, len(run.answers)) == (5, 5)


@pytest.mark.anyio
async def test_no_conversation_begins_after_the_time_is_up() -> None:
    async with targeted(server := Scripted(GOOD)) as target:
        limits = Limits(requests=100, seconds=0.0)
        await pushed(target, talks("equal", "0", SIZE), CLOSED, limits, "")
    assert len(server.bodies) == 2


@pytest.mark.anyio
async def test_servers_take_turns_and_are_asked_the_same() -> None:
    one, two = Scripted(GOOD), Scripted(GOOD)
    order: list[str] = []
    plan = serve.Plan(workloads=["equal"], levels=[CLOSED], rounds=3, warmup=0, size=SIZE)
    async with targeted(one, "one") as a, targeted(two, "two") as b:
        cells = await serve.compare([a, b], plan, rows=quiet, progress=order.append)
    assert [said.split(": ")[1] for said in order] == ["one", "two", "two", "one", "one", "two"]
    assert sorted(map(json.dumps, one.bodies)) == sorted(map(json.dumps, two.bodies))
    assert len({json.dumps(body["messages"]) for body in one.bodies}) == len(one.bodies) == 12
    assert [(cell.server, len(cell.runs)) for cell in cells] == [("one", 3), ("two", 3)]


@pytest.mark.anyio
async def test_a_server_that_answers_nothing_ends_the_bench_with_its_words() -> None:
    plan = serve.Plan(workloads=["equal"], levels=[CLOSED], size=SIZE)
    async with targeted(Scripted(REFUSED)) as target:
        with pytest.raises(Fault, match="full"):
            await serve.compare([target], plan, rows=quiet, progress=quiet)


@pytest.mark.anyio
async def test_a_server_that_fails_one_workload_is_measured_all_the_same() -> None:
    plan = serve.Plan(workloads=["equal", "seeded"], levels=[CLOSED], rounds=1, size=SIZE)
    notes: list[str] = []
    async with targeted(Scripted(GOOD, REFUSED, GOOD)) as target:
        cells = await serve.compare([target], plan, rows=quiet, progress=notes.append)
    assert "fails at seeded" in notes[0] and "full" in notes[0]
    assert [len(cell.good) for cell in cells] == [4, 4]


@pytest.mark.anyio
async def test_the_only_model_of_a_server_is_asked_and_several_must_be_chosen_from() -> None:
    ids = [["m", "m:adapter"], ["m", "n"], []]
    replies = [whole("200 OK", {"data": [{"id": name} for name in names]}) for names in ids]
    async with listening(Scripted(*replies)) as url:
        (target,) = await serve.targets([url], [], None, {"seed": 1})
        assert (target.more, target.url) == ({"seed": 1, "model": "m"}, f"{url}/chat/completions")
        with pytest.raises(UsageError, match="m, n"):
            await serve.targets([url], [], None, {})
        (target,) = await serve.targets([url], [], None, {})
        assert target.more == {}


@pytest.mark.anyio
async def test_one_address_given_twice_makes_two_names() -> None:
    made = await serve.targets(["http://host:1", "http://host:1/v1"], ["m"], None, {})
    assert [target.name for target in made] == ["host:1", "host:1 (2)"]
    with pytest.raises(UsageError, match="--model"):
        await serve.targets(["http://host:1"] * 3, ["m", "n"], None, {})


def answer(
    *times: float, kind: str = "equal", counted: int | None = None, failed: str | None = None
) -> Answer:
    """Asked at 0, with a piece at each of `times`, in seconds."""
    marks = Marks(0.0, [(time, 1) for time in times])
    return Answer(marks, kind=kind, counted=counted, failed=failed, prompt=7)


def cell(server: str, *runs: Sequence[Answer], seconds: float = 2.0) -> summary.Cell:
    return summary.Cell("equal", CLOSED, server, [Run(answers, seconds) for answers in runs])


def test_times_are_defined_as_the_field_has_them() -> None:
    times = answer(0.5, 0.7, 1.5, counted=6).times
    assert times == pytest.approx({"ttft": 500, "e2e": 1500, "tpot": 200, "gap": 800})
    assert "tpot" not in answer(0.5).times and "gap" not in answer(0.5).times


def test_failures_are_counted_by_kind_and_are_misses_of_goodput() -> None:
    good, slow = answer(0.1, 0.2), answer(0.9, 1.0)
    bad = [answer(0.1, failed="status 429"), answer(failed="broken"), answer(failed="broken")]
    row = summary.rate_row(cell("one", [good, slow, *bad]), bounds(["ttft:500"]))
    assert (row["sent"], row["failed"]) == (5, "broken x2, status 429 x1")
    assert (row["good_share"], row["good_req_s"], row["req_s"]) == (0.2, 0.5, 1.0)
    assert row["tok_s"] == 2.0


def test_the_table_says_who_counted_the_tokens() -> None:
    rows = [[answer(0.1, counted=3)], [answer(0.1)], [answer(0.1, counted=3), answer(0.1)], []]
    found = [summary.counted_by(answers) for answers in rows]
    assert found == ["usage", "chunks", "chunks+usage", "-"]


def test_kinds_of_a_workload_are_told_apart() -> None:
    rows = summary.time_rows(
        cell(
            "one", [answer(0.1, kind="short"), answer(0.2, kind="short"), answer(3.0, kind="long")]
        )
    )
    firsts = {row["kind"]: (row["count"], row["p50"]) for row in rows if row["metric"] == "ttft_ms"}
    assert firsts == {"all": (3, 200.0), "long": (1, 3000.0), "short": (2, pytest.approx(150.0))}


def test_ratios_above_one_mean_that_the_first_is_better() -> None:
    fast, slow = answer(0.1, 0.2), answer(0.2, 0.4)
    ours = cell("ours", [fast], [fast], seconds=1.0)
    theirs = cell("theirs", [slow], [slow], seconds=2.0)
    (row,) = summary.ratio_rows([ours, theirs])
    assert (row["first"], row["over"], row["verdict"]) == ("ours", "theirs", "ahead")
    assert (row["tok_s"], row["ttft"], row["tpot"]) == pytest.approx((2.0, 2.0, 2.0))
    (row,) = summary.ratio_rows([theirs, ours])
    assert (row["tok_s"], row["verdict"]) == (0.5, "behind")


def test_a_round_without_any_answer_has_no_ratio_and_is_still_in_the_table() -> None:
    cells = [cell("ours", [answer(0.1)]), cell("theirs", [answer(failed="connect")])]
    assert summary.ratio_rows(cells) == []
    assert summary.rate_row(cells[1], ())["failed"] == "connect x1"


def test_the_result_is_written_as_text_json_and_a_plot(tmp_path: Path) -> None:
    cells = [cell("ours", [answer(0.1, 0.2)]), cell("<theirs>", [answer(0.2, 0.4)])]
    made = result.Result.of(cells, bounds(["tpot:50"]))
    made.write(tmp_path / "new", {"seed": 0})
    told = json.loads((tmp_path / "new" / "bench.json").read_text())
    assert told["rates"][0]["server"] == "ours" and told["plan"] == {"seed": 0}
    assert "one round" in (tmp_path / "new" / "bench.txt").read_text()
    drawn = ElementTree.fromstring((tmp_path / "new" / "bench.svg").read_text())
    assert "<theirs>" in "".join(drawn.itertext())


def test_a_plot_places_more_higher_and_later_further() -> None:
    text = page([[Panel("rate", "clients", "tok/s", {"one": [(1, 10), (4, 20), (16, 5)]})]])
    points = re.search(r'points="([^"]+)"', text)
    assert points is not None
    places = [tuple(map(float, point.split(","))) for point in points[1].split()]
    assert places[0][0] < places[1][0] < places[2][0]
    assert places[1][1] < places[0][1] < places[2][1]
    assert places[1][0] - places[0][0] == pytest.approx(places[2][0] - places[1][0], abs=0.2)


@pytest.mark.parametrize("most", [0.0, 0.3, 1.0, 7.0, 999.0, 12345.0])
def test_an_axis_has_few_round_steps_and_room_for_all(most: float) -> None:
    steps = ticks(most)
    assert steps[0] == 0 and steps[-1] >= most and 2 <= len(steps) <= 6


def test_a_plot_of_nothing_is_still_a_page() -> None:
    ElementTree.fromstring(page([[Panel("rate", "clients", "tok/s", {})]]))


def test_a_level_has_a_name() -> None:
    assert [Level(clients=4).name, Level(rate=0.5).name] == ["c=4", "0.5/s"]
