"""The models that a server has loaded."""

import dataclasses
import pathlib
from collections.abc import Callable
from collections.abc import Mapping

from relative_attention.decoding import Translator
from relative_attention.saving import load_translator
from relative_attention.serve.alternatives import find_alternatives

# What a server reads of a folder; results and checkpoints may change.
_PARTS = ("config.json", "model.safetensors", "*vocabulary.*")

# Name, inode, size and time of change of each file that a model consists of.
Fingerprint = tuple[tuple[str, int, int, int], ...]


@dataclasses.dataclass(frozen=True, eq=False)
class ServedModel:
    """A model as it was when it was loaded.

    A request keeps the one that it began with: when its folder is replaced,
    another takes its place in `ServedModels`, and this one goes when its last
    request is answered.

    Attributes:
        name: string. What requests call it.
        folder: path of its folder.
        version: int. `1`, and one more each time it was replaced.
        translator: `Translator`.
        fingerprint: of the files that it was loaded from.
    """

    name: str
    folder: pathlib.Path
    version: int
    translator: Translator
    fingerprint: Fingerprint


# Models by name; that of a name changes when its folder is replaced.
ServedModels = dict[str, ServedModel]


def load_models(
    folders: Mapping[str, pathlib.Path],
    report: Callable[[str], object] = lambda line: None,
) -> ServedModels:
    """Loads models, and has each translate once, so that it is ready.

    Args:
        folders: dict of names to folders.
        report: called with a line before each model, as one may take a minute.
            Defaults to nothing.

    Raises:
        InputError: if one cannot be loaded.
    """
    models = {}
    for number, (name, folder) in enumerate(folders.items(), start=1):
        report(f"Loading {name} ({number} of {len(folders)})")
        models[name] = load_model(name, folder, version=1)
    return models


def load_model(name: str, folder: pathlib.Path, version: int) -> ServedModel:
    """Loads a model, and has it translate once, which makes its graph."""
    before = fingerprint(folder)
    translator = load_translator(folder)
    _warm_up(translator)
    return ServedModel(name, folder, version, translator, before)


def _warm_up(translator: Translator) -> None:
    """Does once whatever is asked of a model, as the first time makes graphs.

    The first client would wait seconds for them, and all others with it.
    """
    translator.search(["."])
    translator.search(["."], translator.num_beams)
    find_alternatives(translator, ".", "", 1)


def fingerprint(folder: pathlib.Path) -> Fingerprint:
    """Returns what tells a model's files from others at the same place.

    Files that are not there are left out, as those of a folder that is just
    being replaced.
    """
    found = []
    for part in _PARTS:
        for path in sorted(folder.glob(part)):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            found.append(
                (path.name, status.st_ino, status.st_size, status.st_mtime_ns)
            )
    return tuple(found)
