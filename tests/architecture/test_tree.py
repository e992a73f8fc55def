"""This repository passes every check of its own shape."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

from slipstream.contracts import errors
from slipstream.contracts.clock import MonotonicClock
from slipstream.contracts.placement import Reason
from slipstream.contracts.report import EngineStats
from slipstream.contracts.row import CancelReason, FinishReason
from slipstream.serve.names import ServedNames
from slipstream.serve.queries import Queries
from slipstream.settings import flags

from . import documents, imports, repository, sizes, style

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
STANDARD = sys.stdlib_module_names


def test_rooms_import_only_what_the_data_flow_allows():
    assert imports.wrong_rooms(SOURCE) == []


def test_each_library_is_imported_by_its_home_only():
    assert imports.wrong_libraries(SOURCE, STANDARD) == []


def test_only_settings_reads_the_environment():
    assert imports.environment_readers(SOURCE) == []


def test_imports_have_no_cycle():
    assert imports.cycles(SOURCE) == []


def test_files_classes_functions_and_openings_keep_their_budgets():
    assert sizes.oversized(SOURCE, sizes.EXCEPTIONS) == []


def test_nobody_probes_objects_of_ours():
    assert style.probes(SOURCE, style.PROBES) == []


def test_nobody_swallows_every_error():
    assert style.swallowed(SOURCE, style.SWALLOWS) == []


def test_modules_and_classes_hold_no_mutable_state():
    assert style.mutable_state(SOURCE, style.STATE) == []


def test_bytes_are_accounted_at_one_place():
    assert style.accountants(SOURCE) == []


def test_nothing_is_left_unfinished():
    assert style.unfinished(SOURCE) == []


def test_every_file_and_symbol_that_the_docs_name_exists():
    assert documents.missing_names(ROOT) == []


def test_every_link_of_the_docs_leads_somewhere():
    assert documents.broken_links(ROOT) == []


def test_the_flow_page_walks_ten_hops_through_real_symbols():
    assert documents.wrong_hops(ROOT) == []


def test_every_invariant_names_the_test_that_guards_it():
    assert documents.wrong_invariants(ROOT) == []


def test_readme_ci_and_make_run_the_same_commands():
    assert documents.wrong_commands(ROOT) == []


def test_generated_pages_are_as_the_code_would_write_them():
    script = [sys.executable, str(ROOT / "scripts" / "docs.py"), "--check"]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_flags_page_holds_every_spelling_of_every_flag():
    table = (ROOT / "docs" / "reference" / "flags.md").read_text("utf-8")
    spellings = [name for flag in flags().values() for name in flag.names]
    assert [name for name in spellings if f"`{name}" not in table] == []


def test_every_reason_for_the_solo_lane_is_explained():
    page = ROOT / "docs" / "concepts.md"
    assert documents.undocumented(page, [reason.value for reason in Reason]) == []


def test_every_way_to_end_is_explained():
    page = ROOT / "docs" / "concepts.md"
    ends = [reason.value for kind in (FinishReason, CancelReason) for reason in kind]
    assert documents.undocumented(page, ends) == []


def test_every_error_code_is_documented():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    codes = {kind.code for kind in kinds if issubclass(kind, errors.Refusal | errors.Fault)}
    assert documents.undocumented(ROOT / "docs" / "api.md", sorted(codes - {None})) == []


def test_the_api_page_lists_the_routes_that_there_are():
    assert documents.wrong_routes(ROOT) == []


def test_every_key_of_stats_is_documented():
    engine = SimpleNamespace(info=SimpleNamespace(id="model"), stats=EngineStats)
    names = ServedNames("model", ())
    queries = Queries(engine, names, strict=False, clock=MonotonicClock(), created=0)
    stats = json.loads(asyncio.run(queries.stats({}, None)).body)
    assert documents.undocumented(ROOT / "docs" / "api.md", leaves(stats)) == []


def leaves(answer: Mapping[str, object], prefix: str = "") -> Iterator[str]:
    """Dotted names of all values; an empty object counts as a value."""
    for key, value in answer.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def test_no_file_names_a_registry_a_machine_or_a_ticket():
    assert repository.forbidden_words(ROOT) == []


def test_no_lock_file_is_let_in():
    assert repository.lock_files(ROOT) == []


def test_every_package_is_pinned_by_an_exact_version():
    assert repository.loose_versions(ROOT) == []
