"""Names of a package that are imported on first use."""

import importlib
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> Callable[[str], Any]:
    """Returns a `__getattr__` for a package.

    Args:
        package: string, the `__name__` of the package.
        modules: dict, by name, of the modules of the package that have them.
    """

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}"
            )
        module = importlib.import_module(f"{package}.{modules[name]}")
        return getattr(module, name)

    return find
