"""What `serve` makes of --trace and --otlp before anything runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from slipstream.cli.serve import tracing
from slipstream.contracts.errors import UsageError
from slipstream.settings import Settings


def test_without_flags_there_is_no_tracer():
    with tracing(Settings()) as tracer:
        assert tracer is None


def test_a_trace_file_is_there_from_the_start_and_closed_at_the_end(tmp_path: Path):
    path = tmp_path / "trace.json"
    with tracing(Settings(trace=path)) as tracer:
        assert tracer is not None
        assert len(json.loads(path.read_text())) == 1


def test_a_trace_file_that_cannot_be_made_is_wrong_usage(tmp_path: Path):
    with (
        pytest.raises(UsageError, match="--trace: "),
        tracing(Settings(trace=tmp_path / "absent" / "file")),
    ):
        pass


@pytest.mark.parametrize("url", ["localhost:4318", "grpc://host", ""])
def test_a_collector_needs_an_address(url: str):
    with pytest.raises(UsageError, match="--otlp"), tracing(Settings(otlp=url)):
        pass


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "slipstream.serve.watch.trace_otlp", None)
    with (
        pytest.raises(UsageError, match=r"slipstream\[otlp\]"),
        tracing(Settings(otlp="http://localhost:4318")),
    ):
        pass
