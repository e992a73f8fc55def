"""A server that streams at a fixed pace and computes nothing: `scripts/paced_server.py PORT`.

Two load generators that measure it must agree on a machine of any size, whatever they take of it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

FIRST, GAP = 0.4, 0.05  # seconds to the first token, and between two
MODEL = "paced"


def chunk(**fields: Any) -> str:
    made = {"id": "chatcmpl-0", "object": "chat.completion.chunk", "created": 0, "model": MODEL}
    return f"data: {json.dumps({**made, **fields})}\n\n"


async def stream(body: dict[str, Any]) -> AsyncIterator[str]:
    tokens = body.get("max_completion_tokens") or body.get("max_tokens") or 16
    words = sum(len(str(message["content"]).split()) for message in body["messages"])
    for number in range(tokens):
        await asyncio.sleep(GAP if number else FIRST)
        choice = {"index": 0, "delta": {"content": " word"}, "finish_reason": None}
        yield chunk(choices=[choice])
    yield chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "length"}])
    usage = {"prompt_tokens": words, "completion_tokens": tokens, "total_tokens": words + tokens}
    yield chunk(choices=[], usage=usage)
    yield "data: [DONE]\n\n"


async def chat(request: Request) -> StreamingResponse:
    return StreamingResponse(stream(await request.json()), media_type="text/event-stream")


async def models(_: Request) -> JSONResponse:
    return JSONResponse({"object": "list", "data": [{"id": MODEL, "object": "model"}]})


async def ready(_: Request) -> JSONResponse:
    return JSONResponse({"status": "ready"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    routes = [
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/v1/models", models),
        Route("/health", ready),
        Route("/ready", ready),
    ]
    uvicorn.run(Starlette(routes=routes), port=parser.parse_args().port, log_level="warning")


if __name__ == "__main__":
    main()
