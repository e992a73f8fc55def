"""With the BLAS that a server loads, codes do not depend on who else is there, to the bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("scheme", ["turbo", "affine:4:32"])
def test_rows_in_codes_hold_the_same_bits_alone_and_in_company(scheme: str) -> None:
    command = [sys.executable, "-m", "parity.company", scheme]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    blas, verdict, _ = done.stdout.split()
    if blas != "MKL":
        pytest.skip(f"{blas} promises nothing of the kind")
    assert verdict == "equal"
