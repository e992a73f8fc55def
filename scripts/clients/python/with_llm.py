"""The `llm` command. It decides by itself when to call, so all goes to the told model."""

import json
import os
import sys
from pathlib import Path

import checks
from commands import output, started

HOME = Path(os.environ["HOME"], "llm")
LLM = (str(Path(sys.executable).with_name("llm")), "-m", "slipstream")
HERE = {"LLM_USER_PATH": str(HOME), "OPENAI_API_KEY": checks.KEY}
FUNCTION = """
def get_weather(city: str) -> str:
    "The weather in a city."
    return f"It is sunny in {city}."
"""
HOME.mkdir(parents=True, exist_ok=True)
(HOME / "extra-openai-models.yaml").write_text(
    f"""- model_id: slipstream
  model_name: {checks.MODEL}
  api_base: {checks.TOLD}/v1
  supports_tools: true
  supports_schema: true
"""
)


def chat() -> str:
    return checks.said(output([*LLM, "--no-stream", checks.HELLO], **HERE))


def stream() -> str:
    return checks.said(output([*LLM, "SAY: one two three"], **HERE))


def tools() -> str:
    return checks.repeated(output([*LLM, "--functions", FUNCTION, checks.ORDER], **HERE))


def structured() -> str:
    order = 'SAY: {"city": "Rome", "days": 2}'
    return checks.is_trip(
        json.loads(output([*LLM, "--schema", json.dumps(checks.TRIP), order], **HERE))
    )


def cancel() -> str:
    with started([*LLM, checks.COUNT], **HERE) as process:
        found = process.stdout.read(9)
    return f"interrupted after {found.decode()!r}"


checks.run(chat, stream, tools, structured, cancel)
