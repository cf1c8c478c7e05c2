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
import importlib.abc
import importlib.util
import pkgutil
import sys
from typing import Any

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


def _register_with_keras() -> None:
    """Lets `keras.models.load_model` find classes that were not used yet.

    A class enters the registry of Keras when its module is imported, here when
    its name is first used. Until then the registry has an object that imports
    the class as soon as Keras uses it.
    """
    import keras

    from relative_attention.layers import positions

    registry = keras.saving.get_custom_objects()
    modules = {
        **dict.fromkeys(_HUB_CLASSES, f"{__name__}.hub"),
        **dict.fromkeys(positions.__all__, positions.__name__),
        **{
            name: module
            for name, module in _MODULE_OF.items()
            # Functions are in the same modules.
            if name[0].isupper()
            and module.endswith((".layers", ".models", ".training"))
        },
    }
    for name, module in modules.items():
        registry.setdefault(f"{__name__}>{name}", _LazyClass(module, name))


class _LazyClass:
    """Stands for a class until it is used, then imports it."""

    def __init__(self, module: str, name: str) -> None:
        self._place = module, name

    # As a class is asked what it is, such as whether it is a function.
    __class__ = property(lambda self: type)  # type: ignore[assignment]

    def _class(self) -> Any:
        module, name = self._place
        return getattr(importlib.import_module(module), name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._class(), name)

    # KerasHub looks for tasks whose `backbone_cls` is what a file names.
    def __eq__(self, other: object) -> bool:
        return bool(self._class() == other)

    def __hash__(self) -> int:
        return hash(self._class())


class _AfterKeras(importlib.abc.MetaPathFinder):
    """Registers the classes as soon as something imports Keras."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != "keras":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        # Keras may only be looked for, and its import may fail, if its backend
        # is missing: the next import is another try.
        sys.meta_path.insert(0, self)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_register(module: Any) -> None:
            execute(module)
            sys.meta_path.remove(self)
            _register_with_keras()

        spec.loader.exec_module = execute_and_register  # type: ignore
        return spec


if sys.modules.get("keras") is not None:
    _register_with_keras()
else:
    sys.meta_path.insert(0, _AfterKeras())
