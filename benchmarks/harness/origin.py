"""Where and with what a benchmark was run."""

import importlib.metadata
import textwrap
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

# The width that pages are wrapped at.
_WIDTH = 80
_SHORT_COMMIT = 7
_NAMES = {
    "python": "Python",
    "keras": "Keras",
    "tensorflow": "TensorFlow",
    "jax": "JAX",
    "ctranslate2": "CTranslate2",
}


def find_origin(packages: Sequence[str] = ()) -> dict[str, Any]:
    """Returns machine, versions, commit and date, a dict for JSON.

    The machine is the name of its processor, the cores that may be used and
    the instructions that make matrix products fast. This loads TensorFlow,
    whose memory would count as that of engines which are started afterwards.

    Args:
        packages: A sequence of strings, the names of further packages whose
            versions matter to the benchmark.
    """
    import keras

    from relative_attention.runs.provenance import provenance

    backend = keras.backend.backend()
    if backend != "tensorflow":
        packages = [*packages, backend]
    origin = provenance()
    for package in packages:
        try:
            origin[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            origin[package] = None
    return {**origin, "backend": backend}


def origin_line(
    origin: Mapping[str, Any], commits: Sequence[str] | None = None
) -> str:
    """Returns machine, versions, commits and date, wrapped, for a table.

    Args:
        origin: A mapping, see `find_origin`.
        commits: A sequence of strings, where not all rows are of one commit.
            Defaults to that of `origin`.
    """
    versions = [
        f"{name} {origin[key]}"
        for key, name in _NAMES.items()
        if origin.get(key)
    ]
    commits = commits or [origin["commit"] or "not recorded"]
    # What a commit had been changed to since ends with "+".
    short = [
        commit[:_SHORT_COMMIT] + "+" * commit.endswith("+")
        if " " not in commit
        else commit
        for commit in commits
    ]
    line = "; ".join(
        [
            origin["hardware"],
            ", ".join(versions),
            f"commit {' and '.join(short)}",
            origin["date"],
        ]
    )
    return textwrap.fill(f"{line}.", _WIDTH, break_on_hyphens=False)
