"""The response around the output items: events, numbered, and the body that they end in.

It does not know where deltas come from, nor where a finished response is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slipstream.contracts.delta import Delta
from slipstream.contracts.errors import SlipstreamError
from slipstream.contracts.row import FinishReason
from slipstream.serve import sse
from slipstream.serve.api import Account
from slipstream.serve.errors import kind
from slipstream.serve.openai.reply import extension
from slipstream.serve.responses.output import COMPLETED, INCOMPLETE, Event, Output
from slipstream.serve.wire import Object, encode

Keep = Callable[[Mapping[str, Any]], None]


class ResponsesReply:
    """One reply, streamed or whole; see api.Reply. `head` is the response's fields that are known
    from the request; `keep` takes the finished response."""

    keep_alive = sse.COMMENT

    def __init__(self, head: Object, output: Output, ignored: Sequence[str], keep: Keep) -> None:
        self._head = dict(head)
        self._output = output
        self._ignored = ignored
        self._keep = keep
        self._numbered = 0

    def opening(self, account: Account) -> bytes:
        self._head |= self._drawing(account)
        kinds = ("response.created", "response.in_progress")
        return self._frames([{"type": k, "response": self._response("in_progress")} for k in kinds])

    def push(self, source: int, delta: Delta) -> bytes:
        return self._frames(self._output.push(delta))

    def ending(self, account: Account) -> bytes:
        response = self._finished(account)
        return self._frames([{"type": f"response.{response['status']}", "response": response}])

    def body(self, deltas: Sequence[tuple[int, Delta]], account: Account) -> Mapping[str, Any]:
        for _, delta in deltas:
            self._output.push(delta)
        return self._finished(account)

    def failed(self, error: SlipstreamError) -> bytes:
        """The frames that end a stream in which `error` came."""
        # The one code of this API for what a retry cannot mend.
        code = "invalid_prompt" if kind(error).status == 400 else "server_error"
        cause = {"code": code, "message": error.message}
        response = self._response("failed", error=cause)
        return self._frames([{"type": "response.failed", "response": response}])

    def _frames(self, events: Sequence[Event]) -> bytes:
        frames = []
        for event in events:
            numbered = {**event, "sequence_number": self._numbered}
            frames.append(sse.event(encode(numbered), event["type"]))
            self._numbered += 1
        return b"".join(frames)

    def _finished(self, account: Account) -> Mapping[str, Any]:
        self._head |= self._drawing(account)
        cut = self._output.finish is FinishReason.LENGTH
        more: Object = {"incomplete_details": {"reason": "max_output_tokens"}} if cut else {}
        if not cut:
            more["completed_at"] = int(time.time())
        response = self._response(INCOMPLETE if cut else COMPLETED, **more, usage=usage(account))
        response["slipstream"] = extension(account, self._ignored)
        self._keep(response)
        return response

    def _drawing(self, account: Account) -> Object:
        """How the tokens are drawn, by those fields that the head has."""
        sampling = account.report.sampling
        drawn = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": sampling.frequency_penalty,
        }
        return {name: value for name, value in drawn.items() if name in self._head}

    def _response(self, status: str, **more: Any) -> Object:
        return {**self._head, "status": status, "output": self._output.items, **more}


def usage(account: Account) -> Mapping[str, Any]:
    return {
        "input_tokens": account.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": account.report.cached_tokens,
            "cache_write_tokens": 0,  # nothing is charged for writing
        },
        "output_tokens": account.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": account.reasoning_tokens},
        "total_tokens": account.prompt_tokens + account.completion_tokens,
    }
