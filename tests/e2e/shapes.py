"""Requests of every kind, and what of their answers must be the same in any company."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from .server import CHAT, chat

TEXT = "/v1/completions"
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of request. `fields` beside a question, or beside a text to be continued."""

    name: str
    fields: Mapping[str, Any]
    route: str = CHAT

    def body(self, subject: str, length: int) -> dict[str, Any]:
        """About `subject`, `length` tokens long at most."""
        asked = f"Say something about {subject}."
        base = chat(asked) if self.route == CHAT else {"prompt": asked, "temperature": 0}
        return {**base, "max_tokens": length, **self.fields}


SHAPES = (
    Shape("plain", {}),
    Shape("top_p", {"temperature": 1, "top_p": 0.9, "seed": 11}),
    Shape(
        "penalties and bias",
        {
            "repetition_penalty": 1.3,
            "presence_penalty": 0.5,
            "frequency_penalty": 0.5,
            "logit_bias": {"260": -100, "28": 2},
        },
    ),
    Shape("logprobs", {"logprobs": True, "top_logprobs": 5}),
    Shape(
        "schema",
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": SCHEMA},
            }
        },
    ),
    Shape("regex", {"guided_regex": "[A-Z][a-z]{2,9} [0-9]{3}"}),
    Shape("choice", {"guided_choice": ["yes, it is", "no, it is not", "perhaps"]}),
    Shape("min_p", {"temperature": 1.2, "min_p": 0.05, "seed": 12}),
    Shape("xtc", {"temperature": 1, "xtc_probability": 0.5, "xtc_threshold": 0.1, "seed": 13}),
    Shape("top_k", {"temperature": 1, "top_k": 20, "seed": 14}),
    Shape("two choices", {"temperature": 1, "seed": 15, "n": 2}),
    Shape("stop strings", {"stop": [" is", " of"]}),
    Shape("min_tokens", {"min_tokens": 6, "temperature": 0.7, "seed": 16}),
    Shape("ignore_eos", {"ignore_eos": True}),
    Shape("echo and logprobs", {"echo": True, "logprobs": 3}, TEXT),
    Shape("seeded schema", {"temperature": 1, "seed": 17, "guided_json": SCHEMA}),
)


async def reply(http: httpx.AsyncClient, route: str, body: Mapping[str, Any]) -> dict[str, Any]:
    response = await http.post(route, json=body)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def apart(body: Mapping[str, Any], salt: str) -> dict[str, Any]:
    """The same request, which computes its prompt itself."""
    return {**body, "cache_salt": salt}


def answers(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(text, finish reason) of each choice of a reply."""
    return [
        (one["message"]["content"] if "message" in one else one["text"], one["finish_reason"])
        for one in body["choices"]
    ]
