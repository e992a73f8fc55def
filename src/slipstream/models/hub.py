"""Fetches a repository from the Hugging Face hub into the hub's own cache, file by file.

Only what an MLX model needs. The hub library draws its progress on a terminal, and nowhere else.
"""

from __future__ import annotations

import errno
import sys
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HFValidationError,
    HTTPError,  # of whichever HTTP library the hub library is built on
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)
from huggingface_hub.utils import disable_progress_bars

from slipstream.contracts.errors import ModelError

PATTERNS = ("model*.safetensors", "*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken")


def download(id: str, hub: Path | None = None) -> Path:
    """The folder of the newest revision of `id`, complete. `hub` None is the library's default.

    Files appear under their names only when whole; a later call fetches only the missing ones.
    Raises ModelError with what to do.
    """
    if not sys.stderr.isatty():
        disable_progress_bars()
    try:
        return Path(snapshot_download(id, cache_dir=hub, allow_patterns=list(PATTERNS)))
    except HFValidationError as error:
        raise ModelError(f"{id!r} is not a hub id; one looks like org/name.") from error
    except GatedRepoError as error:
        raise ModelError(
            f"{id} needs its terms accepted: do so on its page at the hub, then `hf auth login`."
        ) from error
    except RepositoryNotFoundError as error:
        raise ModelError(
            f"The hub has no model {id}, or it is private. Check the name, or `hf auth login`."
        ) from error
    except LocalEntryNotFoundError as error:
        raise ModelError(
            f"{id} is not on this disk, and the hub cannot be reached. Check the network (and "
            "HF_HUB_OFFLINE), name a folder, or name no model: the starter needs no hub."
        ) from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise ModelError(
                f"The disk is full; {id} is not whole yet. Make room (`slipstream rm` removes a "
                "model) and try again: whole files stay."
            ) from error
        raise interrupted(id, error) from error
    except HTTPError as error:
        raise interrupted(id, error) from error


def interrupted(id: str, error: Exception) -> ModelError:
    return ModelError(f"The download of {id} stopped: {error}. Try again: whole files stay.")
