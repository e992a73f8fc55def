"""Conversations as templates get them, with tools where they have them."""

from __future__ import annotations

from typing import Any

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": 'Tells the weather <now> & "here", für Köln.',
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Which city"},
                "days": {"type": "array", "items": {"type": "integer"}, "default": 1},
                "unit": {"type": "string", "enum": ["c", "f"]},
            },
            "required": ["city"],
        },
    },
}


def _says(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


CALL = {
    "id": "call12345",
    "type": "function",
    "function": {"name": "get_weather", "arguments": {"city": "Köln", "days": [1, 2]}},
}
CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "one": [_says("user", "Hello!")],
    "system": [_says("system", "Be brief. "), _says("user", "  Why is the sky blue?\n")],
    "turns": [
        _says("user", "One?"),
        _says("assistant", "Two.\n"),
        _says("user", "Three?"),
        _says("assistant", "<think>\nhm\n</think>\n\nFour."),
        _says("user", "Five?"),
    ],
    "ends_with_assistant": [_says("user", "Say it."), _says("assistant", "It, and mo")],
    "unicode": [_says("user", '漢字 🙂 <b>&amp;</b> "quoted" {{ braces }} {% tags %}')],
    "empty": [_says("user", ""), _says("assistant", ""), _says("user", "go")],
    "developer": [_says("developer", "Rules."), _says("user", "Hi")],
    "two_users": [_says("user", "a"), _says("user", "b")],
    "reasoning": [
        _says("user", "q"),
        _says("assistant", "a", reasoning_content="because"),
        _says("user", "and?"),
    ],
    "null_content": [
        _says("user", "q"),
        {"role": "assistant", "content": None},
        _says("user", "r"),
    ],
    "parts": [
        {
            "role": "user",
            "content": [{"type": "text", "text": "first "}, {"type": "text", "text": "second"}],
        }
    ],
}
WITH_TOOLS: dict[str, list[dict[str, Any]]] = {
    "offered": [_says("system", "Use tools."), _says("user", "Weather?")],
    "called": [
        _says("user", "Weather in Köln?"),
        _says("assistant", "", tool_calls=[CALL]),
        _says("tool", '{"sky": "grün"}', tool_call_id="call12345", name="get_weather"),
    ],
    "answered": [
        _says("user", "Weather in Köln?"),
        _says("assistant", "Looking.", tool_calls=[CALL], reasoning_content="must look"),
        _says("tool", "rain", tool_call_id="call12345", name="get_weather"),
        _says("assistant", "It rains."),
        _says("user", "Thanks"),
    ],
}
