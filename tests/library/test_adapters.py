"""Adapters of a running engine: they come and go while requests of others run on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from parity import loras, tiny
from parity.adapted import Kit, backend, spec, text
from slipstream.backends.mlx.adapters.files import read
from slipstream.contracts.adapters import AdapterUse
from slipstream.contracts.backend import Adapting
from slipstream.contracts.clock import MonotonicClock
from slipstream.contracts.completion import Completion
from slipstream.contracts.errors import InvalidRequest, NotFound, Unavailable, UsageError
from slipstream.contracts.limits import Limits
from slipstream.contracts.placement import Needs
from slipstream.contracts.row import CancelReason, Prompt
from slipstream.engine.gateway import Gateway
from slipstream.engine.session import Session
from slipstream.library.adapters import AdapterShelf
from slipstream.settings import Settings


@asynccontextmanager
async def running(made: Adapting, **flags: object) -> AsyncIterator[tuple[AdapterShelf, Gateway]]:
    shelf = AdapterShelf(Settings(**flags))
    gateway = Gateway(shelf.watching(lambda: made), Limits(), MonotonicClock())
    gateway.start()
    try:
        await gateway.wait_ready()
        await shelf.start(gateway)
        yield shelf, gateway
    finally:
        await gateway.close(0.0)


def folder(path: Path, seed: int = 1, only: str = "") -> Path:
    return loras.write_mlx(path, loras.random(tiny.build("llama"), seed, only=only))


def asked(adapters: tuple[AdapterUse, ...] | None) -> Completion:
    return Completion(request_id="r", model="m", text="x", adapters=adapters)


async def submit(
    shelf: AdapterShelf, gateway: Gateway, name: str, length: int = 9, tokens: int = 5
) -> Session:
    uses = await shelf.admit(asked((AdapterUse(name),)))
    needs = Needs(adapters=uses)
    prompt = Prompt(ids=tuple(text(1, length)), max_tokens=tokens, needs=needs)
    return gateway.submit([prompt])[0]


async def tokens(session: Session) -> list[int]:
    return [event.token async for batch in session.batches() for event in batch]


def test_what_flags_name_is_there_from_the_start(tmp_path: Path) -> None:
    async def main() -> None:
        flags = {"adapters": (f"a={folder(tmp_path / 'a')}",)}
        async with running(backend("llama"), **flags) as (shelf, gateway):
            assert shelf.names == ("a",)
            assert await shelf.admit(asked(None)) == ()
            assert len(await tokens(await submit(shelf, gateway, "a"))) == 5

    asyncio.run(main())


def test_a_default_is_what_a_request_that_names_none_runs_with(tmp_path: Path) -> None:
    async def main() -> None:
        path = folder(tmp_path / "a")
        async with running(backend("llama"), adapter_path=path) as (shelf, _):
            assert await shelf.admit(asked(None)) == (AdapterUse("default"),)
            assert await shelf.admit(asked(())) == ()

    asyncio.run(main())


@pytest.mark.parametrize(
    "flags",
    [
        {"adapters": ("a=/nowhere",)},
        {"adapters": ("a",)},
        {"adapters": ("=x",)},
        {"adapters": ("a:b=x",)},
        {"adapters": ("a=x", "a=y")},
        {"adapter_path": Path("/nowhere")},
        {"adapters": ("default=x",), "adapter_path": Path("x")},
    ],
)
def test_flags_that_cannot_be_meant_are_wrong_usage(flags: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="adapter"):
        AdapterShelf(Settings(**flags))


def test_a_flag_of_another_model_is_wrong_usage(tmp_path: Path) -> None:
    async def main() -> None:
        path = loras.write_mlx(tmp_path, loras.random(tiny.build("mamba2"), 1))
        async with running(backend("llama"), adapters=(f"a={path}",)):
            pass

    with pytest.raises(UsageError, match=r"--adapter a: .*no layers\.0\.mixer"):
        asyncio.run(main())


def test_one_in_use_is_refused_or_goes_after_the_last_row(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(backend("llama")) as (shelf, gateway):
            await shelf.mount("a", folder(tmp_path / "a"))
            session = await submit(shelf, gateway, "a", tokens=100_000)
            assert [one.rows for one in shelf.listed()] == [1]
            with pytest.raises(InvalidRequest) as refusal:
                await shelf.unmount("a", when_idle=False)
            assert refusal.value.code == "adapter_in_use"
            leaving = asyncio.create_task(shelf.unmount("a", when_idle=True))
            await asyncio.sleep(0)
            with pytest.raises(InvalidRequest, match="not mounted"):
                await submit(shelf, gateway, "a")
            assert not leaving.done()
            session.cancel(CancelReason.DISCONNECT)
            assert (await leaving).name == "a"
            assert shelf.listed() == []
            with pytest.raises(NotFound):
                await shelf.unmount("a", when_idle=True)

    asyncio.run(main())


def test_whoever_stops_waiting_for_the_last_row_leaves_the_adapter_there(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(backend("llama")) as (shelf, gateway):
            await shelf.mount("a", folder(tmp_path / "a"))
            session = await submit(shelf, gateway, "a", tokens=100_000)
            leaving = asyncio.create_task(shelf.unmount("a", when_idle=True))
            await asyncio.sleep(0)
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)
            assert shelf.names == ("a",)
            session.cancel(CancelReason.DISCONNECT)

    asyncio.run(main())


def test_a_mount_whose_caller_leaves_still_ends_in_both_tables(tmp_path: Path) -> None:
    async def main() -> None:
        made = backend("llama")
        async with running(made) as (shelf, _):
            mounting = asyncio.create_task(shelf.mount("a", folder(tmp_path / "a")))
            while not shelf.busy:  # noqa: ASYNC110 nobody tells when it begins
                await asyncio.sleep(0)
            mounting.cancel()
            await asyncio.gather(mounting, return_exceptions=True)
            await shelf.mount("b", folder(tmp_path / "b", 2))
            assert set(shelf.names) == made.adapters.names == {"a", "b"}

    asyncio.run(main())


def test_dora_runs_alone_and_whole(tmp_path: Path) -> None:
    async def main() -> None:
        made = Kit.of("llama", tmp_path / "kit").engine
        for name in ("a", "b", "d"):
            made.adapters.unmount(name)
        async with running(made) as (shelf, _):
            await shelf.mount("d", tmp_path / "kit" / "d")
            await shelf.mount("a", tmp_path / "kit" / "a")
            assert await shelf.admit(asked((AdapterUse("d"),)))
            for uses in ((AdapterUse("d", 0.5),), (AdapterUse("d"), AdapterUse("a"))):
                with pytest.raises(InvalidRequest, match="DoRA") as refusal:
                    await shelf.admit(asked(uses))
                assert refusal.value.param == "adapter"

    asyncio.run(main())


def test_the_least_recently_used_of_the_unused_goes_first(tmp_path: Path) -> None:
    async def main() -> None:
        files = {n: folder(tmp_path / n, seed) for seed, n in enumerate("abcde")}
        size = backend("llama").adapters.mount("x", read(files["a"])).info.bytes
        async with running(backend("llama", adapters=3 * size)) as (shelf, gateway):
            for name in "abc":
                await shelf.mount(name, files[name])
            await shelf.admit(asked((AdapterUse("a"),)))
            assert (await shelf.mount("d", files["d"])).unmounted == ("b",)
            sessions = [await submit(shelf, gateway, n, tokens=100_000) for n in ("c", "a", "d")]
            with pytest.raises(Unavailable):
                await shelf.mount("e", files["e"])
            assert shelf.names == ("a", "c", "d")
            sessions[1].cancel(CancelReason.DISCONNECT)
            await gateway.unused("a")
            assert (await shelf.mount("e", files["e"])).unmounted == ("a",)
            for session in sessions:
                session.cancel(CancelReason.DISCONNECT)

    asyncio.run(main())


def test_a_hundred_mounts_and_unmounts_under_load_change_no_rows_tokens(tmp_path: Path) -> None:
    kit = Kit.of("llama", tmp_path / "kit", None)
    for name in ("a", "b", "d"):
        kit.engine.adapters.unmount(name)
    expected = {
        name: [token for token, _ in kit.twin(text(1, 9), [(name, 1.0)] if name else [])]
        for name in ("", "a", "b")
    }
    broken = folder(tmp_path / "broken", 5)
    (broken / "adapters.safetensors").write_bytes(b"short")
    guests = [folder(tmp_path / f"g{n}", n + 9) for n in range(3)]

    async def ask(shelf: AdapterShelf, gateway: Gateway, name: str) -> None:
        while not done.is_set():
            uses = await shelf.admit(asked((AdapterUse(name),) if name else ()))
            one = spec(text(1, 9), [(use.name, use.scale) for use in uses]).prompt
            session = gateway.submit([replace(one, logprobs=None)])[0]
            assert await tokens(session) == expected[name]
            answered[name] += 1

    async def main() -> None:
        async with running(kit.engine) as (shelf, gateway):
            for name in ("a", "b"):
                await shelf.mount(name, tmp_path / "kit" / name)
            asking = [asyncio.create_task(ask(shelf, gateway, n)) for n in ("", "a", "b", "a")]
            draw = random.Random(1)
            for turn in range(100):
                name = f"guest{turn % 3}"
                await shelf.mount(name, draw.choice(guests))
                if turn % 10 == 0:
                    with pytest.raises(InvalidRequest):
                        await shelf.mount("broken", broken)
                guest = await submit(shelf, gateway, name, tokens=2)
                await shelf.unmount(name, when_idle=True)
                assert guest.outcome is not None
            assert shelf.names == ("a", "b")
            done.set()
            await asyncio.gather(*asking)

    done = asyncio.Event()
    answered = dict.fromkeys(expected, 0)
    asyncio.run(main())
    assert min(answered.values()) > 0
