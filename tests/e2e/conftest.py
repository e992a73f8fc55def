"""One server for each module; what the process's end has to say is looked at once more."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from .server import Server, client, ready


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log_file = tmp_path_factory.mktemp("server") / "log"
    with ready(log_file, "--batch", "16", "--queue", "300") as served:
        yield served
        assert served.process.poll() is None, "it is still there"
        assert "Traceback" not in served.log and "ERROR" not in served.log


@pytest.fixture
async def http(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with client(server) as opened:
        yield opened
