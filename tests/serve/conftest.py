"""An engine that plays a script, and two ways to reach it: in process and over a socket."""

from __future__ import annotations

import pytest

from .scripted import ScriptedEngine, client_of


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
async def client(engine: ScriptedEngine):
    async with client_of(engine) as opened:
        yield opened
