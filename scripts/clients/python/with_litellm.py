"""LiteLLM, on the OpenAI routes and on the Anthropic one."""

import json

import checks
import litellm

litellm.telemetry = False
HELLO = [{"role": "user", "content": checks.HELLO}]
ON = {"model": f"openai/{checks.MODEL}", "api_key": checks.KEY, "num_retries": 0}
STARTER = {**ON, "api_base": f"{checks.STARTER}/v1"}
TOLD = {**ON, "api_base": f"{checks.TOLD}/v1"}
CLAUDE = {**ON, "model": "anthropic/claude-slipstream", "api_base": checks.STARTER}


def chat() -> str:
    other = litellm.completion(messages=HELLO, max_tokens=16, **CLAUDE)
    checks.said(other.choices[0].message.content)
    reply = litellm.completion(messages=HELLO, max_tokens=16, **STARTER)
    return checks.said(reply.choices[0].message.content)


def stream() -> str:
    other = litellm.completion(messages=HELLO, max_tokens=16, stream=True, **CLAUDE)
    checks.joined([chunk.choices[0].delta.content or "" for chunk in other])
    chunks = litellm.completion(messages=HELLO, max_tokens=16, stream=True, **STARTER)
    return checks.joined([chunk.choices[0].delta.content or "" for chunk in chunks])


def tools() -> str:
    function = {"name": "get_weather", "parameters": checks.PLACE}
    offered = [{"type": "function", "function": function}]
    asked = [{"role": "user", "content": checks.ASK}]
    first = litellm.completion(
        messages=asked, tools=offered, tool_choice="required", max_tokens=64, **STARTER
    )
    message = first.choices[0].message
    call = message.tool_calls[0]
    result = checks.weather(**json.loads(call.function.arguments))
    answers = [
        {"role": "tool", "tool_call_id": one.id, "content": result} for one in message.tool_calls
    ]
    second = litellm.completion(
        messages=[*asked, message, *answers],
        tools=offered,
        tool_choice="none",
        max_tokens=16,
        **STARTER,
    )
    return checks.said(second.choices[0].message.content)


def structured() -> str:
    schema = {"name": "trip", "schema": checks.TRIP, "strict": True}
    form = {"type": "json_schema", "json_schema": schema}
    reply = litellm.completion(messages=HELLO, response_format=form, max_tokens=64, **STARTER)
    return checks.is_trip(json.loads(reply.choices[0].message.content))


def cancel() -> str:
    counting = [{"role": "user", "content": checks.COUNT}]
    stream = litellm.completion(messages=counting, stream=True, **TOLD)
    for _, chunk in zip(range(5), stream, strict=False):
        assert chunk.choices
    stream.completion_stream.close()
    return "left after 5 chunks"


checks.run(chat, stream, tools, structured, cancel)
