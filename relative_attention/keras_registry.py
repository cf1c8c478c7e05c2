"""Classes of this package in the registry of Keras, before they are imported.

`keras.models.load_model` finds the classes of a file in a registry. A class
enters the registry when its module is imported, which here happens when the
name of the class is first used. But files must load after `import
relative_attention` alone. So the registry has objects that import a class as
soon as Keras uses it. If Keras is imported after this package, an import hook
fills the registry then.

The objects rely on what Keras 3.10 and 3.15 do with a registered class.
`tests/test_keras_files.py` and `tests/hub` fail if another version differs.
"""

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Mapping
from typing import Any

_PACKAGE = "relative_attention"
_HUB_CLASSES = (
    "TranslationBackbone",
    "TranslationLM",
    "TranslationPreprocessor",
    "TranslationTokenizer",
)


def register_with_keras(module_of: Mapping[str, str]) -> None:
    """Registers the classes now, or as soon as something imports Keras.

    Args:
        module_of: the module of each public name of the package.
    """
    if sys.modules.get("keras") is not None:
        _register(module_of)
    else:
        sys.meta_path.insert(0, _AfterKeras(module_of))


def _register(module_of: Mapping[str, str]) -> None:
    import keras

    from relative_attention.layers import positions

    registry = keras.saving.get_custom_objects()
    modules = {
        **dict.fromkeys(_HUB_CLASSES, f"{_PACKAGE}.hub"),
        **dict.fromkeys(positions.__all__, positions.__name__),
        **{
            name: module
            for name, module in module_of.items()
            # Functions are in the same modules.
            if name[0].isupper()
            and module.endswith((".layers", ".models", ".training"))
        },
    }
    for name, module in modules.items():
        registry.setdefault(f"{_PACKAGE}>{name}", _LazyClass(module, name))


class _LazyClass:
    """Stands for a class until it is used, then imports it."""

    def __init__(self, module: str, name: str) -> None:
        self._place = module, name

    # As a class is asked what it is, such as whether it is a function.
    __class__ = property(lambda self: type)

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

    def __init__(self, module_of: Mapping[str, str]) -> None:
        self._module_of = module_of

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
            _register(self._module_of)

        spec.loader.exec_module = execute_and_register  # type: ignore
        return spec
