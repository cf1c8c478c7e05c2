"""Self-attention with relative position representations, in Keras 3.

The mechanism of Shaw, Uszkoreit and Vaswani (2018), with the same outputs as
tensor2tensor, and translation models built on it. All public names are here.
Each is imported on first use, so `import relative_attention` is quick and needs
no backend. `__init__.pyi` lists them, for this module and for editors and type
checkers, which do not see imports on demand. Which file has what:
`docs/contributing/architecture.md`.
"""

import ast
import importlib
import pkgutil
from typing import Any

from relative_attention.keras_registry import register_with_keras
from relative_attention.version import __version__


def _modules_of_names() -> dict[str, str]:
    """Returns where the stub imports each public name from."""
    stub = pkgutil.get_data(__name__, "__init__.pyi")
    return {
        alias.name: str(node.module)
        for node in ast.parse(stub or b"").body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


_MODULE_OF = _modules_of_names()

__all__ = [*_MODULE_OF]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        from relative_attention.errors import did_you_mean

        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}."
            f"{did_you_mean(name, __all__)}"
        )
    module = _MODULE_OF[name]
    # Packages that keep their own names, such as `plot.curve_figure`.
    is_package = module == __name__
    try:
        found = importlib.import_module(
            f"{module}.{name}" if is_package else module
        )
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(__name__):
            raise
        from relative_attention.errors import missing_package

        raise missing_package(f"`ra.{name}`", error) from None
    return found if is_package else getattr(found, name)


def __dir__() -> list[str]:
    # Not the modules that this file imports, which are no part of it.
    return sorted([*__all__, *(n for n in globals() if n.startswith("__"))])


register_with_keras(_MODULE_OF)
