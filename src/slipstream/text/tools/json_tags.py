"""Families that write calls as JSON between two tags of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipstream.text.tools.json_calls import bound, tagged
from slipstream.text.tools.literal import dumps
from slipstream.text.tools.syntax import Piece, Syntax

HERMES = Syntax(
    name="hermes",
    declared=(("<tool_call>",),),
    openers=("<tool_call>",),
    tokens=("</tool_call>",),
    read=tagged("</tool_call>"),
    bound=bound("<tool_call>\n", "arguments", "\n</tool_call>"),
    between="\n",
)
GRANITE = Syntax(
    name="granite",
    declared=(("<|tool_call|>",),),
    openers=("<|tool_call|>",),
    tokens=("<|/tool_call|>",),
    read=tagged("<|/tool_call|>"),
    bound=bound("", "arguments", ""),
    around=("<|tool_call|>[", "]"),
    between=", ",
)
HUNYUAN = Syntax(
    name="hunyuan",
    declared=(("<tool_calls>",),),
    openers=("<tool_calls>",),
    tokens=("</tool_calls>",),
    read=tagged("</tool_calls>"),
    bound=bound("", "arguments", ""),
    around=("<tool_calls>[", "]</tool_calls>"),
    between=", ",
)
NEMOTRON = Syntax(
    name="nemotron",
    declared=(("<TOOLCALL>",),),
    openers=("<TOOLCALL>",),
    tokens=("</TOOLCALL>",),
    read=tagged("</TOOLCALL>"),
    bound=bound("", "arguments", ""),
    around=("<TOOLCALL>[", "]</TOOLCALL>"),
    between=", ",
)
INTERN = Syntax(
    name="internlm",
    declared=(("<|action_start|>", "<|plugin|>"),),
    openers=("<|action_start|><|plugin|>",),
    tokens=("<|action_start|>", "<|plugin|>", "<|action_end|>"),
    read=tagged("<|action_end|>"),
    bound=bound("<|action_start|><|plugin|>\n", "parameters", "<|action_end|>"),
)


def _command(name: str, schema: Mapping[str, Any]) -> Sequence[Piece]:
    begin = f'{{"tool_call_id": "0", "tool_name": {dumps(name)}, "parameters": '
    return [begin, schema, "}"]


COMMAND = Syntax(
    name="command",
    declared=(("<|START_ACTION|>",),),
    openers=("<|START_ACTION|>",),
    tokens=("<|END_ACTION|>",),
    read=tagged("<|END_ACTION|>"),
    bound=_command,
    around=("<|START_ACTION|>[\n    ", "\n]<|END_ACTION|>"),
    between=",\n    ",
)
