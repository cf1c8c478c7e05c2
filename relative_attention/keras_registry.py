"""Makes the package's classes known to Keras without importing them.

Keras finds a class of a `.keras` file in its registry, where a class enters
when its module is imported. The modules of this package are imported when
they are first used, so that a new process which is to load a file would find
nothing. Hence stand-ins are registered: at once where Keras is imported
already, else when it is. A stand-in imports its class when the class is
needed, and the class then takes its place in the registry.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from relative_attention.positions import class_paths

PACKAGE = "relative_attention"

# Every class with `register_keras_serializable`, by the package it is in.
_CLASSES = {
    "hub": (
        "transformer_parts.HiddenStates",
        "translation_backbone.TranslationBackbone",
        "translation_lm.TranslationLM",
        "translation_preprocessor.TranslationPreprocessor",
        "translation_tokenizer.TranslationTokenizer",
    ),
    "layers": (
        "attention.CrossAttention",
        "dropout.Dropout",
        "dense.FeedForward",
        "dense.HeadProjection",
        "blocks.LayerNormalization",
        "embeddings.LearnedPositions",
        "dense.MatrixInitializer",
        "attention.RelationAwareSelfAttention",
        "attention.RelativeGlobalAttention",
        "attention.RelativeSelfAttention",
        "attention.SelfAttention",
        "embeddings.SinusoidalPositions",
        "embeddings.TargetSpaceEmbedding",
        "embeddings.TokenEmbedding",
        "blocks.TransformerDecoderBlock",
        "blocks.TransformerEncoderBlock",
    ),
    "models": ("transformer.Transformer",),
    "positions": (
        "relative.PerHeadInitializer",
        *class_paths(),
    ),
    "training": (
        "averaging_adam.AveragingAdam",
        "masked_cross_entropy.MaskedCrossEntropy",
        "perplexity.Perplexity",
        "token_accuracy.TokenAccuracy",
        "transformer_schedule.TransformerSchedule",
    ),
}


def register_with_keras() -> None:
    """Registers the classes, now or when Keras is imported."""
    if sys.modules.get("keras") is not None:
        _register()
    else:
        sys.meta_path.insert(0, _KerasFinder())


def registered_names() -> list[str]:
    """Returns the names that the classes have in Keras' registry."""
    return [
        f"{PACKAGE}>{path.rpartition('.')[-1]}"
        for paths in _CLASSES.values()
        for path in paths
    ]


def _register() -> None:
    import keras

    registry = keras.saving.get_custom_objects()
    paths = [
        f"{PACKAGE}.{package}.{path}"
        for package, paths in _CLASSES.items()
        for path in paths
    ]
    for name, path in zip(registered_names(), paths):
        # What is imported already stays.
        registry.setdefault(name, _StandIn(path))


class _StandIn:
    """Stands for the class at a dotted path until that is first used."""

    def __init__(self, path: str):
        self._path = path

    def _resolve(self) -> Any:
        module, _, name = self._path.rpartition(".")
        return getattr(importlib.import_module(module), name)

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._resolve(), attribute)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._resolve()(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        # KerasHub compares the class that a preset names with those it knows,
        # which `issubclass` has brought by then.
        if isinstance(other, type):
            return f"{other.__module__}.{other.__name__}" == self._path
        return isinstance(other, _StandIn) and other._path == self._path

    def __hash__(self) -> int:
        return hash(self._path)

    def __repr__(self) -> str:
        return f"<class '{self._path}', not imported yet>"


class _KerasFinder(importlib.abc.MetaPathFinder):
    """Leaves finding Keras to the other finders; registers once it is there.

    Only the method of one loader is replaced, so that the module looks, to
    whoever asks, as if nothing had been.
    """

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "keras":
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    self._watch(spec.loader)
                return spec
        return None

    def _watch(self, loader: Any) -> None:
        def execute_and_register(module: ModuleType) -> None:
            del loader.exec_module
            loader.exec_module(module)
            # Only now: where importing Keras failed, it may be tried again.
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                _register()

        loader.exec_module = execute_and_register
