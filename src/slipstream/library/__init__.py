"""The engine as a Python library; the server is one user of it."""

from slipstream.library.engine import Engine
from slipstream.library.running import Running

__all__ = ("Engine", "Running")
