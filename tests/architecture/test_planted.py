"""Every check of the tree is seen to pass on a clean tree and to fail on a planted fault."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import pytest

from . import documents, imports, repository, sizes, style

ROOT = Path(__file__).resolve().parents[2]
TEST = "pip install uv && uv run --group dev pytest"
HOPS = "".join(f"| {n} | step | `engine/driver.py:turn` |\n" for n in range(1, 11))
INVARIANTS = "".join(f"| I{n} | holds | `tests/test_all.py` |\n" for n in range(1, 10))
PROJECT = """
[project]
dependencies = ["mlx[cpu]>=1; sys_platform == 'linux'"]
[dependency-groups]
dev = ["pytest>=9"]
[tool.uv]
constraint-dependencies = ["mlx==1.0", "pytest==9.0"]
"""
CLEAN = {
    "pyproject.toml": PROJECT,
    ".gitignore": "uv.lock\n",
    "README.md": f"```\n{TEST}\n```\nSee [the flow](docs/flow.md) and `engine/driver.py`.\n",
    "Makefile": "check:\n\truff check\n\ntest:\n\tuv run --group dev pytest\n",
    ".ci/run": f"ruff check\n{TEST}\n",
    "docs/api.md": "| `GET /health` | well | \n",
    "docs/flow.md": HOPS,
    "docs/invariants.md": INVARIANTS,
    "tests/test_all.py": "",
    "uv.lock": "left out by .gitignore",
    "src/slipstream/__init__.py": "",
    "src/slipstream/contracts/words.py": '"""Words."""\n\nimport enum\n',
    "src/slipstream/engine/driver.py": (
        '"""Turns."""\n\nfrom slipstream.contracts import words\n\ndef turn():\n    return words\n'
    ),
    "src/slipstream/serve/app.py": (
        '"""Routes."""\n\n\ndef paths(q):\n    return {"/health": Methods(GET=q.health)}\n'
    ),
    "src/slipstream/backends/mlx/device.py": '"""The device."""\n\nimport mlx.core\n',
}

Check = Callable[[Path], Iterable[str]]


def on_source(check: Callable[[Path], list[str]]) -> Check:
    return lambda root: check(root / "src")


wrong_rooms = on_source(imports.wrong_rooms)
wrong_libraries = on_source(partial(imports.wrong_libraries, standard=sys.stdlib_module_names))
environment_readers = on_source(imports.environment_readers)
cycles = on_source(imports.cycles)
oversized = on_source(partial(sizes.oversized, exceptions={}))
probes = on_source(partial(style.probes, allowed={}))
swallowed = on_source(partial(style.swallowed, allowed={}))
mutable_state = on_source(partial(style.mutable_state, allowed={}))
accountants = on_source(style.accountants)
unfinished = on_source(style.unfinished)


def undocumented(root: Path) -> list[str]:
    return documents.undocumented(root / "README.md", ["engine/driver.py"])


def grow(root: Path, files: Mapping[str, str]) -> Path:
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return root


def function_of(lines: int) -> str:
    return "def long():\n" + "    x = 1\n" * (lines - 1)


def class_of(lines: int) -> str:
    return "class Long:\n" + "    x = 1\n" * (lines - 1)


ENGINE = "src/slipstream/engine/new.py"
CONTRACT = "src/slipstream/contracts/new.py"
MLX = "src/slipstream/backends/mlx/new.py"
HOST = "py" + "pi.org"
HOME = "/ro" + "ot/thing"
TICKET = "see iss" + "ue #12"

# (check, file, its text, what the complaint says)
FAULTS = [
    (wrong_rooms, ENGINE, "import slipstream.backends.mlx.device", "engine imports backends.mlx"),
    (wrong_rooms, ENGINE, "from ..backends.mlx import device", "engine imports backends.mlx"),
    (wrong_rooms, CONTRACT, "def f():\n    from slipstream.engine import driver", "imports engine"),
    (wrong_rooms, MLX, "from slipstream.engine.driver import turn", "backends.mlx imports engine"),
    (
        wrong_rooms,
        MLX,
        "import importlib\nimportlib.import_module('slipstream.engine.driver')",
        "backends.mlx imports engine",
    ),
    (wrong_rooms, "src/slipstream/attic/new.py", "", "no room"),
    (wrong_libraries, CONTRACT, "import numpy", "contracts imports numpy"),
    (wrong_libraries, ENGINE, "def f():\n    import mlx.core", "engine imports mlx"),
    (wrong_libraries, "src/slipstream/text/new.py", "from mlx_lm import load", "text imports"),
    (wrong_libraries, "src/slipstream/text/new.py", "import starlette", "text imports starlette"),
    (
        wrong_libraries,
        "src/slipstream/text/new.py",
        "from importlib import import_module\nimport_module('ml' + 'x')",
        "a computed name",
    ),
    (environment_readers, ENGINE, "import os\nos.environ['A']", "reads the environment"),
    (environment_readers, ENGINE, "import os\nos.getenv('A')", "reads the environment"),
    (environment_readers, ENGINE, "from os import environ", "reads the environment"),
    (oversized, ENGINE, '"""Long."""\n' + "x = 1\n" * 399, "400 lines"),
    (oversized, ENGINE, '"""Long."""\n' + class_of(250), "Long: 250 lines"),
    (oversized, ENGINE, '"""Long."""\n' + function_of(50), "long: 50 lines"),
    (oversized, ENGINE, '"""One.\n' + "More.\n" * 7 + '"""\n', "opens with 9 lines"),
    (oversized, ENGINE, "x = 1\n", "without saying its job"),
    (probes, ENGINE, "hasattr(1, 'a')", "asks with hasattr"),
    (probes, ENGINE, "getattr(1, 'a', None)", "asks with getattr"),
    (probes, ENGINE, "type(1).__name__ == 'int'", "compares a type by its name"),
    (swallowed, ENGINE, "try:\n    1\nexcept Exception:\n    pass", "goes on"),
    (swallowed, ENGINE, "try:\n    1\nexcept (ValueError, BaseException) as e:\n    e", "goes on"),
    (swallowed, ENGINE, "def f():\n    try:\n        1\n    except:\n        return", "goes on"),
    (mutable_state, ENGINE, "SEEN = {}", "holds mutable state"),
    (mutable_state, ENGINE, "if True:\n    seen: list[int] = [1]", "holds mutable state"),
    (mutable_state, ENGINE, "class A:\n    seen = set()", "holds mutable state"),
    (mutable_state, ENGINE, "x = 1\ndef f():\n    global x", "rebinds"),
    (accountants, ENGINE, "Memory(kv=1)\nMemory(kv=2)", "a second time"),
    (unfinished, ENGINE, "x = 1  # TO" + "DO: more", "a note to come back"),
    (unfinished, ENGINE, "def f():\n    raise NotImplementedError", "NotImplementedError"),
    (unfinished, ENGINE, 'def f():\n    """Later."""\n    ...', "f has an empty body"),
    (unfinished, ENGINE, "def f():\n    ...", "f has an empty body"),
    (documents.missing_names, "docs/a.md", "`engine/gone.py`", "does not exist"),
    (documents.missing_names, "docs/a.md", "`engine/driver.py:gone`", "does not exist"),
    (documents.missing_names, "docs/a.md", "`slipstream.engine.gone`", "does not exist"),
    (documents.broken_links, "docs/a.md", "[here](gone.md)", "leads nowhere"),
    (documents.wrong_hops, "docs/flow.md", HOPS.replace("| 7 |", "| 8 |"), "not numbered"),
    (documents.wrong_hops, "docs/flow.md", HOPS.replace(":turn", "", 1), "names no symbol"),
    (documents.wrong_invariants, "docs/invariants.md", "| I1 | holds | none |", "names no test"),
    (documents.wrong_invariants, "docs/invariants.md", INVARIANTS[:40], "not I1 to I9"),
    (documents.wrong_routes, "docs/api.md", "`POST /health`", "there is no POST /health"),
    (documents.wrong_routes, "docs/api.md", "nothing", "GET /health is not documented"),
    (documents.wrong_commands, "README.md", "pytest", "does not say how"),
    (documents.wrong_commands, ".ci/run", "ruff check\npytest", "does not run the README's"),
    (documents.wrong_commands, ".ci/run", TEST, "does not run `ruff check`"),
    (documents.wrong_commands, "Makefile", "test:\n\tpytest -x\n", "is not the README's"),
    (undocumented, "README.md", "nothing", "is not documented"),
    (repository.forbidden_words, "notes.txt", f"from {HOST}", f"names {HOST}"),
    (repository.forbidden_words, "notes.txt", f"in {HOME}", "a path of one machine"),
    (repository.forbidden_words, "notes.txt", TICKET, "a ticket"),
    (
        repository.loose_versions,
        "pyproject.toml",
        PROJECT.replace('"pytest==9.0"', ""),
        "pytest has no exact version",
    ),
    (
        repository.loose_versions,
        "pyproject.toml",
        PROJECT.replace("mlx==1.0", "mlx>=1.0"),
        "is no exact version",
    ),
    (repository.lock_files, ".gitignore", "dist/", "is a lock file"),
]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return grow(tmp_path_factory.mktemp("clean"), CLEAN)


@pytest.mark.parametrize(("check", "path", "text", "complaint"), FAULTS)
def test_a_planted_fault_is_found(
    check: Check, path: str, text: str, complaint: str, clean: Path, tmp_path: Path
):
    assert check(clean) == []
    found = check(grow(tmp_path, {**CLEAN, path: text}))
    assert any(complaint in line for line in found), found


def test_a_cycle_through_a_function_is_found(tmp_path: Path):
    there = {CONTRACT: "def f():\n    from . import other\n"}
    back = {"src/slipstream/contracts/other.py": "import slipstream.contracts.new\n"}
    assert cycles(grow(tmp_path, CLEAN | there)) == []
    assert len(cycles(grow(tmp_path, back))) == 1


def test_an_exception_allows_what_it_names(tmp_path: Path):
    source = grow(tmp_path, {ENGINE: '"""Long."""\n' + function_of(50)}) / "src"
    assert sizes.oversized(source, {"engine/new.py:long": "a table"}) == []


@pytest.mark.parametrize(
    "check", [sizes.oversized, style.probes, style.swallowed, style.mutable_state]
)
def test_an_exception_without_need_is_found(check: Callable, clean: Path):
    assert check(clean / "src", {"engine/driver.py": "old"}) == [
        "engine/driver.py: needs no exception"
    ]


def test_a_room_without_foreign_objects_gets_no_exception_for_probing(tmp_path: Path):
    source = grow(tmp_path, {ENGINE: "hasattr(1, 'a')"}) / "src"
    assert style.probes(source, {"engine/new.py": "please"}) != []


def test_a_broad_handler_that_raises_again_is_fine(tmp_path: Path):
    text = "try:\n    1\nexcept BaseException as e:\n    raise ValueError from e"
    assert swallowed(grow(tmp_path, {ENGINE: text})) == []


def test_a_protocol_may_have_empty_bodies(tmp_path: Path):
    text = "from typing import Protocol\nclass P(Protocol):\n    def f(self): ...\n"
    assert unfinished(grow(tmp_path, {ENGINE: text})) == []


def test_an_old_generated_page_is_found(tmp_path: Path):
    docs = tmp_path / "docs"
    shutil.copytree(ROOT / "docs", docs)
    (docs / "reference" / "flags.md").write_text("old", "utf-8")
    script = [sys.executable, str(ROOT / "scripts" / "docs.py"), "--check", "--docs", str(docs)]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "flags.md: is old" in done.stdout
