"""The verbs from outside: exit codes, one clear line, and no weight before it is needed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from models import folders
from slipstream.cli import doctor, main
from slipstream.cli.serve import announcer
from slipstream.cli.terminal import Lines, guarded, size
from slipstream.contracts.errors import ModelError, UsageError
from slipstream.models import starter

HEAVY = ("mlx", "transformers", "numpy", "gguf", "huggingface_hub", "rich", "starlette")
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """`slipstream` in a process of its own, with empty caches."""
    environment = {
        **os.environ,
        "SLIPSTREAM_CACHE": str(tmp_path / "cache"),
        "HF_HUB_CACHE": str(tmp_path / "hub"),
    }
    code = "from slipstream.cli.main import main; main()"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code, *arguments]
        return subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )

    return run


def failing(error: BaseException) -> typer.Typer:
    def command() -> None:
        raise error

    app = typer.Typer()
    app.command()(guarded(command))
    return app


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (ModelError("The folder is empty."), 1, "slipstream: The folder is empty.\n"),
        (UsageError("Name one."), 2, "slipstream: Name one.\n"),
        (KeyboardInterrupt(), 130, ""),
        (typer.Exit(3), 3, ""),
    ],
)
def test_an_error_is_one_line_and_a_code(error: BaseException, code: int, says: str) -> None:
    result = CliRunner().invoke(failing(error), [])
    assert (result.exit_code, result.stderr, result.stdout) == (code, says, "")


def test_a_fault_of_ours_is_one_line_too() -> None:
    result = CliRunner().invoke(failing(ZeroDivisionError("division by zero")), [])
    assert result.exit_code == 1 and result.stderr.count("\n") == 1
    assert "ZeroDivisionError: division by zero" in result.stderr


def test_the_version_is_one_line(run: Run) -> None:
    done = run("--version")
    assert done.returncode == 0 and done.stdout.startswith("slipstream ")


def test_the_help_names_every_verb_and_loads_nothing_heavy() -> None:
    code = (
        "import sys; from slipstream.cli.main import app\n"
        "try: app()(['--help'])\n"
        f"finally: print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.endswith("[]\n")
    for verb in ("serve", "generate", "chat", "get", "ls", "rm", "doctor"):
        assert f"  {verb} " in done.stdout


def test_an_interrupt_of_the_imports_is_an_end_without_a_word() -> None:
    code = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from slipstream.cli.entry import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("arguments", [["sevre"], ["ls", "--jsn"], ["rm"], ["generate"]])
def test_wrong_usage_is_code_two(arguments: list[str]) -> None:
    result = CliRunner().invoke(main.app(), arguments)
    assert result.exit_code == 2 and "Traceback" not in result.output


@pytest.mark.parametrize(
    "arguments", [["serve", "absent"], ["generate", "Hi", "--model", "absent"]]
)
def test_a_model_that_is_not_there_is_one_line(run: Run, arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("slipstream: There is no model 'absent' here.")
    assert done.stderr.count("\n") == 1


def test_a_hub_model_without_a_network_is_one_line(run: Run) -> None:
    done = run("get", "org/absent")
    assert done.returncode == 1 and "the hub cannot be reached" in done.stderr


@pytest.mark.parametrize("name", ["absent", "a/b/c"])
def test_get_wants_a_hub_id(run: Run, name: str) -> None:
    assert run("get", name).returncode == 2


def test_ls_tells_programs_what_is_there(run: Run, tmp_path: Path) -> None:
    path = folders.hub_model(tmp_path / "hub", "org/tiny")
    (folders.hub_model(tmp_path / "hub", "org/half") / "model.safetensors").unlink()
    half, tiny = json.loads(run("ls", "--json").stdout)
    assert (tiny["id"], tiny["path"], tiny["problem"]) == ("org/tiny", str(path), None)
    assert tiny["size"] > 0 and "has no weights" in half["problem"]


def test_ls_tells_people_what_is_there(run: Run, tmp_path: Path) -> None:
    assert "No model is on this disk yet" in run("ls").stdout
    folders.hub_model(tmp_path / "hub", "org/tiny")
    assert run("ls").stdout.split()[0] == "org/tiny"


def test_rm_removes_only_when_told_to(run: Run, tmp_path: Path) -> None:
    folders.hub_model(tmp_path / "hub", "org/tiny")
    asked = run("rm", "tiny")
    assert asked.returncode == 2 and "--yes" in asked.stderr
    assert run("rm", "tiny", "--yes").stdout.startswith("Removed org/tiny")
    assert json.loads(run("ls", "--json").stdout) == []


def test_get_starter_prints_where_it_is(run: Run, tmp_path: Path) -> None:
    done = run("get", "starter")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(starter.folder(tmp_path / "cache"))
    assert done.stderr.count("\n") == 1, "not a terminal: one line, no bar"


def test_doctor_looks_at_everything_and_changes_nothing(tmp_path: Path) -> None:
    checks = list(doctor.examined(tmp_path / "cache"))
    named = {check.name: check for check in checks}
    assert {"python", "mlx", "device", "cache folder", "starter model", "port"} <= set(named)
    assert {check.state for check in checks} <= {"ok", "warn", "missing"}
    assert not (tmp_path / "cache").exists()


def test_doctor_tells_programs_the_same(run: Run) -> None:
    done = run("doctor", "--json")
    assert {"name", "state", "detail", "fix"} == set(json.loads(done.stdout)[0])


def test_doctor_sees_a_taken_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert doctor.port("127.0.0.1", taken.getsockname()[1]).state == doctor.WARN


def test_doctor_names_a_package_that_is_not_installed() -> None:
    check = doctor.package("no-such-package")
    assert (check.state, check.fix) == (doctor.MISSING, "install no-such-package")


def test_the_first_announcement_comes_with_a_request_to_paste(
    capsys: pytest.CaptureFixture[str],
) -> None:
    announce = announcer(guarded_by_key=True)
    announce("Listening on http://127.0.0.1:8080")
    announce("Ready: tiny at http://127.0.0.1:8080")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and "curl http://127.0.0.1:8080/v1/chat/completions" in lines[1]
    assert "Authorization: Bearer" in lines[1]


def test_without_a_terminal_work_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    for done in range(3):
        lines("Converting", done, 3)
    assert capsys.readouterr().err == "Converting ...\n"


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (98_362_432, "98.4 MB"), (3.2e12, "3200.0 GB")]
)
def test_sizes_are_for_people(count: float, text: str) -> None:
    assert size(count) == text
