.PHONY: check test bench docs site pin

check:
	uv run --group dev ruff format --check .
	uv run --group dev ruff check .
	uv run --group dev mypy

test:
	uv run --group dev pytest

bench:
	uv run slipstream bench

# Writes the pages that the code dictates.
docs:
	uv run python scripts/docs.py

# Builds the documentation as a site, in site/.
site:
	uv run --group dev mkdocs build --strict

# Writes the exact versions into pyproject.toml. `python scripts/pin.py --upgrade` renews them.
pin:
	uv run --no-project python scripts/pin.py
