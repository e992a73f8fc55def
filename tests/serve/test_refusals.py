"""A refused request leaves nothing behind."""

from __future__ import annotations

import gc
import weakref

import pytest

from slipstream.contracts.errors import InvalidRequest

from .scripted import ScriptedEngine, client_of

pytestmark = pytest.mark.anyio


class Body:
    """Stands for what a request brings along."""


class Refusing(ScriptedEngine):
    async def submit(self, completion):
        body = Body()
        self.kept = weakref.ref(body)
        raise InvalidRequest("No.")


async def test_what_a_refused_request_held_goes_without_the_garbage_collector():
    engine = Refusing()
    async with client_of(engine) as client:
        gc.disable()
        try:
            reply = await client.post("/v1/completions", json={"prompt": "Hello"})
            assert reply.status_code == 400
            assert engine.kept() is None
        finally:
            gc.enable()
