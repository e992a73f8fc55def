"""The clients: what to install of each, and which program of ours drives it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
INSTALL_PATIENCE = 900  # seconds
CLOSED = "http://127.0.0.1:9"  # nothing listens: whoever wants to go elsewhere fails at once
QUIET: Mapping[str, str] = {
    "LANG": "C.UTF-8",
    "HTTP_PROXY": CLOSED,
    "HTTPS_PROXY": CLOSED,
    "NO_PROXY": "127.0.0.1",
    "DO_NOT_TRACK": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENAI_API_KEY": "none",
    "NEXT_TELEMETRY_DISABLED": "1",
}
"""All of the environment that a client sees beside PATH, HOME and the servers' addresses."""


@dataclass(frozen=True, slots=True)
class Client:
    """`shown` is the package whose version is told; `program` lies in python/ or node/."""

    name: str
    packages: Sequence[str]
    shown: str
    program: str
    environment: str  # a folder; clients that share one share an install

    @property
    def node(self) -> bool:
        """Whether its packages are npm's."""
        return self.environment.startswith("node-")


def client(name: str, program: str, *packages: str, shown: str = "", home: str = "") -> Client:
    return Client(name, packages, shown or packages[0].partition("[")[0], program, home or name)


CLIENTS = (
    client("openai", "with_openai.py", "openai"),
    client("openai-responses", "with_openai_responses.py", "openai", home="openai"),
    client("anthropic", "with_anthropic.py", "anthropic"),
    client("litellm", "with_litellm.py", "litellm"),
    client("langchain-openai", "with_langchain.py", "langchain-openai"),
    client("pydantic-ai", "with_pydantic_ai.py", "pydantic-ai-slim[openai]"),
    client("llm", "with_llm.py", "llm"),
    client("node-openai", "with_openai.mjs", "openai"),
    client("node-anthropic", "with_anthropic.mjs", "@anthropic-ai/sdk"),
    client("node-ai-sdk", "with_ai_sdk.mjs", "ai", "@ai-sdk/openai", "@ai-sdk/openai-compatible"),
    client(
        "claude-code", "with_claude_code.py", "@anthropic-ai/claude-code", home="node-claude-code"
    ),
    client("codex", "with_codex.py", "@openai/codex", home="node-codex"),
    client("openresponses", "with_openresponses.py", "openresponses-types", "httpx"),
)


@dataclass(slots=True)
class Environment:
    """A folder with one client in it, and the home that the client gets."""

    client: Client
    folder: Path
    home: Path
    installed: str = field(default="", init=False)  # the version

    def install(self) -> None:
        """Raises CalledProcessError, TimeoutExpired, OSError where that cannot be had."""
        if not (self.folder / "done").exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            packages = self.client.packages
            for command in self._npm(packages) if self.client.node else self._pip(packages):
                subprocess.run(
                    command, check=True, timeout=INSTALL_PATIENCE, capture_output=True, text=True
                )
            (self.folder / "done").touch()
        self.installed = self._version()

    def _npm(self, packages: Sequence[str]) -> list[list[str]]:
        options = ["--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(self.folder)]
        return [["npm", "install", *options, *packages]]

    def _pip(self, packages: Sequence[str]) -> list[list[str]]:
        if uv := shutil.which("uv"):
            make = [uv, "venv", "--quiet", "--python", sys.executable, str(self.folder / "venv")]
            return [make, [uv, "pip", "install", "--quiet", "--python", self._python, *packages]]
        make = [sys.executable, "-m", "venv", str(self.folder / "venv")]
        return [make, [self._python, "-m", "pip", "install", "--quiet", *packages]]

    @property
    def _python(self) -> str:
        return str(self.folder / "venv" / "bin" / "python")

    def _version(self) -> str:
        shown = self.client.shown
        if self.client.node:
            package = self.folder / "node_modules" / shown / "package.json"
            return str(json.loads(package.read_text())["version"])
        ask = f"from importlib.metadata import version; print(version({shown!r}))"
        done = subprocess.run([self._python, "-c", ask], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def command(self) -> list[str]:
        """What runs the client's program. Node finds packages from where a program lies, so its
        programs are copied beside them."""
        program = self.client.program
        if program.endswith(".mjs"):
            shutil.copytree(HERE / "node", self.folder, dirs_exist_ok=True)
            return ["node", str(self.folder / program)]
        python = sys.executable if self.client.node else self._python
        return [python, str(HERE / "python" / program)]

    def variables(self, addresses: Mapping[str, str]) -> dict[str, str]:
        """A home of its own and nothing of ours, whoever runs this."""
        self.home.mkdir(parents=True, exist_ok=True)
        own = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "SLIPSTREAM_CLIENT": str(self.folder),
        }
        return {**QUIET, **own, **addresses}
