"""What the pinning script makes of the requirements that uv resolves."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

PIN = runpy.run_path(str(Path(__file__).resolve().parents[2] / "scripts" / "pin.py"))
pins = PIN["pins"]


def test_markers_extras_and_order_are_left_out():
    lines = ["mlx[cpu]==1.0 ; sys_platform == 'linux'", "attrs==26.1.0"]
    assert pins(lines) == ["attrs==26.1.0", "mlx==1.0"]


def test_two_versions_of_a_package_keep_their_markers():
    lines = ["a==1 ; sys_platform == 'linux'", "a==2 ; sys_platform != 'linux'"]
    assert pins(lines) == lines


def test_an_address_is_refused():
    with pytest.raises(SystemExit, match="not an exact version"):
        pins(["a @ file:///somewhere/a"])
