"""From a name to a whole model folder, read: resolve, then convert or download where allowed."""

from __future__ import annotations

from pathlib import Path

from slipstream.contracts.errors import ModelError
from slipstream.contracts.model import ModelInfo
from slipstream.models import disk, find, folder, hub, starter
from slipstream.models.progress import Progress, silent


def obtain(
    name: str | None,
    cache: Path,
    *,
    hub_cache: Path | None = None,
    download: bool = False,
    progress: Progress = silent,
) -> ModelInfo:
    """The model that `name` means, complete on disk. `cache` is settings.cache_home().

    Without `download` a hub model that is not here is an error. Raises ModelError.
    """
    match find.resolve(name, lambda: disk.models(cache, hub_cache)):
        case find.Starter():
            path, id = starter.ensure(cache, progress=progress), starter.NAME
        case find.Folder(path, id):
            pass
        case find.HubId(id):
            if not download:
                raise ModelError(
                    f"{id} is not on this disk, or not whole. Get it with `slipstream get {id}`."
                )
            progress(f"Getting {id} from the hub", 0, 0)
            path = hub.download(id, hub_cache)
    folder.check(path)
    return folder.read(path, id)
