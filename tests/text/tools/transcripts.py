"""What models of each family write when they call tools, as the families document it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slipstream.text.tools.syntax import Toolbox

Call = tuple[str, dict[str, Any]]


def tool(name: str, required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    function = {"name": name, "description": f"To {name}.", "parameters": parameters}
    return {"type": "function", "function": function}


WORD, WHOLE, FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
TOOLS = (
    tool("get_weather", ("city",), city=WORD, days=WHOLE, unit={"enum": ["c", "f"]}),
    tool("search", ("pattern",), pattern=WORD, options={"type": "object"}, tags={"type": "array"}),
    tool("write_file", ("path", "content"), path=WORD, content=WORD, force=FLAG),
    tool("now"),
)
TOOLBOX = Toolbox(TOOLS)


@dataclass(frozen=True)
class Transcript:
    form: str  # its name
    text: str  # as the model writes it, special tokens included
    shown: str
    calls: tuple[Call, ...]
    declared: str  # what the family's template has of it


COLOGNE: Call = ("get_weather", {"city": "Köln 🌧", "days": 3})
SEARCH: Call = ("search", {"pattern": '^\\d{4}-\\d\\d "x"$', "options": {"deep": {"a": [1, None]}}})
FILE: Call = (
    "write_file",
    {"path": "a.md", "content": 'def f():\n    return "<b>" # it\'s\n', "force": True},
)
NOW: Call = ("now", {})

WEATHER_JSON = '{"city": "Köln 🌧", "days": 3}'
SEARCH_JSON = '{"pattern": "^\\\\d{4}-\\\\d\\\\d \\"x\\"$", "options": {"deep": {"a": [1, null]}}}'
XML_FILE = (
    "<parameter=path>\na.md\n</parameter>\n<parameter=content>\n"
    'def f():\n    return "<b>" # it\'s\n\n</parameter>\n<parameter=force>\nTrue\n</parameter>\n'
)

TRANSCRIPTS = (
    Transcript(
        "hermes",
        'Let me look.\n\n<tool_call>\n{"name": "get_weather", "arguments": ' + WEATHER_JSON + "}\n"
        '</tool_call>\n<tool_call>\n{"name": "search", "arguments": ' + SEARCH_JSON + "}\n"
        "</tool_call>",
        "Let me look.",
        (COLOGNE, SEARCH),
        '<tools>{{ tool | tojson }}</tools> <tool_call>{"name": <function-name>}</tool_call>',
    ),
    Transcript(
        "llama",
        '{"name": "get_weather", "parameters": ' + WEATHER_JSON + "}",
        "",
        (COLOGNE,),
        '{"name": "\' + tool_call.name + \'", \' "parameters": <|python_tag|>',
    ),
    Transcript(
        "llama",
        '<|python_tag|>{"type": "function", "name": "search", "parameters": ' + SEARCH_JSON + "}; "
        '{"name": "now", "parameters": {}}',
        "",
        (SEARCH, NOW),
        "<|python_tag|>",
    ),
    Transcript(
        "llama",
        '<|python_tag|>brave_search.call(query="MLX on CUDA", count=3)',
        "",
        (("brave_search", {"query": "MLX on CUDA", "count": 3}),),
        "<|python_tag|>",
    ),
    Transcript(
        "mistral_list",
        'Sure. [TOOL_CALLS] [{"name": "get_weather", "arguments": ' + WEATHER_JSON + ', "id": '
        '"9Ae3bDc2F"}, {"name": "now", "arguments": {}}]',
        "Sure.",
        (COLOGNE, NOW),
        "[TOOL_CALLS] [",
    ),
    Transcript(
        "mistral",
        "[TOOL_CALLS]get_weather[ARGS]" + WEATHER_JSON + "[TOOL_CALLS]search[CALL_ID]a1b2c3d4e"
        "[ARGS]" + SEARCH_JSON,
        "",
        (COLOGNE, SEARCH),
        "[TOOL_CALLS]name[ARGS]",
    ),
    Transcript(
        "qwen_coder",
        "I write it.\n<tool_call>\n<function=write_file>\n" + XML_FILE + "</function>\n"
        "</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
        "I write it.",
        (FILE, NOW),
        "<tool_call>\n<function=example_function_name>\n<parameter=",
    ),
    Transcript(
        "seed",
        "<seed:tool_call>\n<function=write_file>\n" + XML_FILE + "</function>\n</seed:tool_call>",
        "",
        (FILE,),
        "<seed:tool_call>\n<function=name>",
    ),
    Transcript(
        "glm",
        "\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Köln 🌧</arg_value>\n"
        "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n<tool_call>now\n"
        "</tool_call>",
        "",
        (COLOGNE, NOW),
        "<tool_call>{function-name}\n<arg_key>",
    ),
    Transcript(
        "glm",
        "<tool_call>search<arg_key>pattern</arg_key><arg_value>"
        + SEARCH[1]["pattern"]
        + "</arg_value><arg_key>options</arg_key><arg_value>{'deep': {'a': [1, None]}}</arg_value>"
        "</tool_call>",
        "",
        (SEARCH,),
        "<tool_call>{function-name}<arg_key>",
    ),
    Transcript(
        "longcat",
        "<longcat_tool_call>get_weather\n<longcat_arg_key>city</longcat_arg_key>\n"
        "<longcat_arg_value>Köln 🌧</longcat_arg_value>\n<longcat_arg_key>days</longcat_arg_key>\n"
        "<longcat_arg_value>3</longcat_arg_value>\n</longcat_tool_call>",
        "",
        (COLOGNE,),
        "<longcat_tool_call>",
    ),
    Transcript(
        "deepseek_v3",
        "Gern.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
        + WEATHER_JSON
        + "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n"
        "```json\n" + SEARCH_JSON + "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "Gern.",
        (COLOGNE, SEARCH),
        "<｜tool▁call▁begin｜>' + tool['type'] + '\n' + '```json' + '\n'",
    ),
    Transcript(
        "deepseek_v31",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
        + WEATHER_JSON
        + "<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
        "<｜tool▁calls▁end｜>",
        "",
        (COLOGNE, NOW),
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>",
    ),
    Transcript(
        "deepseek_markup",
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter '
        'name="city" string="true">Köln 🌧</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="days" string="false">3'
        "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        "",
        (COLOGNE,),
        "<｜DSML｜function_calls>",
    ),
    Transcript(
        "kimi",
        "Ok.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
        "<|tool_call_argument_begin|>" + WEATHER_JSON + "<|tool_call_end|><|tool_call_begin|>"
        "functions.search:1<|tool_call_argument_begin|>" + SEARCH_JSON + "<|tool_call_end|>"
        "<|tool_calls_section_end|>",
        "Ok.",
        (COLOGNE, SEARCH),
        "<|tool_call_begin|>{{ id }}<|tool_call_argument_begin|>",
    ),
    Transcript(
        "minimax",
        '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Köln 🌧'
        '</parameter>\n<parameter name="days">3</parameter>\n</invoke>\n<invoke name="now">\n'
        "</invoke>\n</minimax:tool_call>",
        "",
        (COLOGNE, NOW),
        "<minimax:tool_call>",
    ),
    Transcript(
        "granite",
        '<|tool_call|>[{"name": "get_weather", "arguments": ' + WEATHER_JSON + '}, {"name": "now", '
        '"arguments": {}}]',
        "",
        (COLOGNE, NOW),
        "<|tool_call|>",
    ),
    Transcript(
        "command",
        '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "search", "parameters": '
        + SEARCH_JSON
        + "}\n]<|END_ACTION|>",
        "",
        (SEARCH,),
        "<|START_ACTION|>",
    ),
    Transcript(
        "nemotron",
        '<TOOLCALL>[{"name": "get_weather", "arguments": ' + WEATHER_JSON + "}]</TOOLCALL>",
        "",
        (COLOGNE,),
        "<TOOLCALL>",
    ),
    Transcript(
        "hunyuan",
        '<tool_calls>[{"name": "search", "arguments": ' + SEARCH_JSON + "}]</tool_calls>",
        "",
        (SEARCH,),
        "<tool_calls>",
    ),
    Transcript(
        "internlm",
        'Ja.<|action_start|><|plugin|>\n{"name": "get_weather", "parameters": '
        + WEATHER_JSON
        + "}<|action_end|>",
        "Ja.",
        (COLOGNE,),
        "<|action_start|><|plugin|>",
    ),
    Transcript(
        "pythonic",
        "[get_weather(city='Köln 🌧', days=3), search(pattern='^\\\\d{4}-\\\\d\\\\d \"x\"$', "
        'options={"deep": {"a": [1, None]}})]',
        "",
        (COLOGNE, SEARCH),
        "[func_name1(params_name1=params_value1)]",
    ),
    Transcript(
        "liquid",
        'Einen Moment.\n<|tool_call_start|>[get_weather(city="Köln 🌧", days=3), now()]'
        "<|tool_call_end|>",
        "Einen Moment.",
        (COLOGNE, NOW),
        "<|tool_call_start|>",
    ),
    Transcript(
        "olmo",
        '<function_calls>get_weather(city="Köln 🌧", days=3)\nnow()</function_calls>',
        "",
        (COLOGNE, NOW),
        "<functions></functions><function_calls></function_calls>",
    ),
    Transcript(
        "tool_code",
        "```tool_code\nget_weather(city='Köln 🌧', days=3)\n```",
        "",
        (COLOGNE,),
        "```tool_code",
    ),
    Transcript(
        "function_gemma",
        "<start_function_call>call:get_weather{city:<escape>Köln 🌧<escape>,days:3}"
        "<end_function_call><start_function_call>call:now{}<end_function_call>",
        "",
        (COLOGNE, NOW),
        "<start_function_call>call:",
    ),
    Transcript(
        "gemma4",
        '<|tool_call>call:search{pattern:<|"|>^\\d{4}-\\d\\d "x"$<|"|>,options:{deep:{a:[1,null]}}}'
        "<tool_call|>",
        "",
        (SEARCH,),
        "<|tool_call>call:",
    ),
    Transcript(
        "plain",
        '{"name": "get_weather", "arguments": ' + WEATHER_JSON + "}",
        "",
        (COLOGNE,),
        "nothing known",
    ),
)
HARMONY = (
    "<|channel|>analysis<|message|>The user asks\nabout rain.<|end|><|start|>assistant<|channel|>"
    "commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary "
    "to=functions.get_weather <|constrain|>json<|message|>" + WEATHER_JSON + "<|call|>"
)
