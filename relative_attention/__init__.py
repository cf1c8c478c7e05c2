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

import wrapt

from relative_attention.version import __version__

_HUB_CLASSES = (
    "TranslationBackbone",
    "TranslationLM",
    "TranslationPreprocessor",
    "TranslationTokenizer",
)


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
    if module == __name__:
        return importlib.import_module(f"{__name__}.{name}")
    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


@wrapt.when_imported("keras")
def _register_with_keras(keras: Any) -> None:
    """Lets `keras.models.load_model` find classes that were not used yet.

    A class enters the registry of Keras when its module is imported, here when
    its name is first used. Until then the registry has an object that imports
    the class as soon as Keras uses it.
    """
    registry = keras.saving.get_custom_objects()
    from relative_attention.layers import positions

    modules = {
        **dict.fromkeys(_HUB_CLASSES, f"{__name__}.hub"),
        **dict.fromkeys(positions.__all__, positions.__name__),
        **{
            name: module
            for name, module in _MODULE_OF.items()
            if module.endswith((".layers", ".models", ".training"))
        },
    }
    for name, module in modules.items():
        registry.setdefault(
            f"{__name__}>{name}", wrapt.lazy_import(module, name)
        )
