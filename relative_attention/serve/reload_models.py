"""Takes up models whose folders were replaced."""

import asyncio
import logging

from relative_attention.serve.metrics import Metrics
from relative_attention.serve.served_models import Fingerprint
from relative_attention.serve.served_models import ServedModel
from relative_attention.serve.served_models import ServedModels
from relative_attention.serve.served_models import fingerprint
from relative_attention.serve.served_models import load_model

_LOG = logging.getLogger("relative_attention.serve")


async def reload_models(
    models: ServedModels, metrics: Metrics, seconds: float
) -> None:
    """Looks at the folders of all models from time to time, for ever.

    A folder is loaded once it looks the same twice, and what was loaded is
    used if it still does: half of one model and half of another never are. A
    folder that cannot be loaded leaves the model as it was.

    Args:
        models: dict that changed models are put into.
        metrics: `Metrics` that are told of it.
        seconds: float. How long to wait between two looks.
    """
    seen: dict[str, Fingerprint] = {}
    failed: dict[str, Fingerprint] = {}
    while True:
        await asyncio.sleep(seconds)
        for name, model in list(models.items()):
            found = await _seen(model)
            is_at_rest = seen.get(name) == found
            seen[name] = found
            if found in ((), model.fingerprint, failed.get(name)):
                continue
            if not is_at_rest:
                continue
            loaded = await _loaded(model)
            if loaded is None:
                failed[name] = found
            elif loaded.fingerprint == await _seen(model):
                models[name] = loaded
                metrics.model_version.labels(name).set(loaded.version)
                _LOG.warning("%s is now version %d.", name, loaded.version)


async def _seen(model: ServedModel) -> Fingerprint:
    """Returns what is in a model's folder now, nothing if none can look.

    A disk of the network that is away for a moment must not end the watch.
    """
    try:
        return await asyncio.to_thread(fingerprint, model.folder)
    except OSError:
        return ()


async def _loaded(model: ServedModel) -> ServedModel | None:
    """Returns what is in a model's folder now, or `None` if it is none."""
    try:
        return await asyncio.to_thread(
            load_model, model.name, model.folder, model.version + 1
        )
    except Exception as error:
        _LOG.warning(
            "%s stays version %d: %s", model.name, model.version, error
        )
        return None
