"""The command's first module: an interrupt while the rest is imported is an end, no traceback."""

from __future__ import annotations

import sys


def main() -> None:
    """Exit code 130 for an interrupt, else what `slipstream.cli.main` says."""
    try:
        from slipstream.cli.main import main as run  # pulls in all the verbs

        run()
    except KeyboardInterrupt:
        sys.exit(130)
