"""Every public name must have an entry in the reference."""

import inspect

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

import relative_attention as ra


def public_names() -> set[str]:
    """Returns the full names of all classes and functions for users."""
    names = set()
    for name in set(ra.__all__) - {"__version__"}:
        public = getattr(ra, name)
        if inspect.ismodule(public):
            names |= {f"{public.__name__}.{own}" for own in public.__all__}
        else:
            names.add(f"{ra.__name__}.{name}")
    return names


def check(app: Sphinx, env: BuildEnvironment) -> None:
    entries = set(env.get_domain("py").objects)
    missing = sorted(public_names() - entries)
    if missing:
        raise ExtensionError(
            f"Public names without an entry in docs/api/: {missing}."
        )


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("env-check-consistency", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
