"""Self-attention with relative position representations, in Keras 3.

The mechanism of Shaw, Uszkoreit and Vaswani (2018), with tensor2tensor's
numbers, and the translation models built on it. Every public name is here;
each is imported when it is first used, so that `import relative_attention`
is quick and needs no backend. `__init__.pyi` lists them for editors and type
checkers, which do not see what is imported on demand.
"""

import importlib
from typing import Any

import wrapt

from relative_attention.version import __version__

_PACKAGE_OF = {
    "InputError": "errors",
    "clipped_relative_positions": "ops",
    "relative_attention_inner": "ops",
    "CrossAttention": "layers",
    "FeedForward": "layers",
    "LearnedPositions": "layers",
    "RelationAwareSelfAttention": "layers",
    "RelativeGlobalAttention": "layers",
    "RelativeSelfAttention": "layers",
    "SelfAttention": "layers",
    "SinusoidalPositions": "layers",
    "TargetSpaceEmbedding": "layers",
    "TokenEmbedding": "layers",
    "TransformerDecoderBlock": "layers",
    "TransformerEncoderBlock": "layers",
    "TrainableModel": "models",
    "Transformer": "models",
    "TransformerConfig": "models",
    "preset_training": "models",
    "presets": "models",
    "FixedShapeBatches": "data",
    "ParallelCorpus": "data",
    "SubwordVocabulary": "data",
    "TokenVocabulary": "data",
    "TokenBatches": "data",
    "TokenCorpus": "data",
    "Vocabulary": "data",
    "length_buckets": "data",
    "write_spoken_numbers": "corpora",
    "AveragingAdam": "training",
    "MaskedCrossEntropy": "training",
    "Perplexity": "training",
    "TokenAccuracy": "training",
    "TransformerSchedule": "training",
    "average_checkpoints": "training",
    "averaged_weights": "training",
    "relation_tables": "training",
    "load_opennmt_tf": "convert",
    "load_tensor2tensor": "convert",
    "Ensemble": "decoding",
    "Translator": "decoding",
    "beam_search": "decoding",
    "sample": "decoding",
    "Translation": "decoding",
    "TranslationScore": "decoding",
    "corpus_perplexity": "decoding",
    "score_translations": "decoding",
    "LengthScore": "evaluation",
    "bleu_by_length": "evaluation",
    "corpus_bleu": "evaluation",
    "export_ctranslate2": "export",
    "export_saved_model": "export",
    "corpus_scores": "evaluation",
    "paired_bootstrap": "evaluation",
    "sentence_scores": "evaluation",
    "Recipe": "runs",
    "distill": "runs",
    "Study": "studies",
    "find_recipe": "runs",
    "find_study": "studies",
    "load_translator": "saving",
    "run_study": "studies",
    "save_translator": "saving",
    "train": "runs",
}

# Packages whose names stay in them, as `plot.curve_figure`.
_PACKAGES = ("hub", "plot", "positions")

_HUB_CLASSES = (
    "TranslationBackbone",
    "TranslationLM",
    "TranslationPreprocessor",
    "TranslationTokenizer",
)

__all__ = ["__version__", *_PACKAGE_OF, *_PACKAGES]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _PACKAGE_OF:
        from relative_attention.errors import did_you_mean

        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}."
            f"{did_you_mean(name, __all__)}"
        )
    package = importlib.import_module(f"{__name__}.{_PACKAGE_OF[name]}")
    return getattr(package, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


@wrapt.when_imported("keras")
def _register_with_keras(keras: Any) -> None:
    """Lets `keras.models.load_model` find classes that nobody used yet.

    A class enters the registry of Keras when its module is imported, here when
    its name is first used. Until then an object stands there that imports the
    class as soon as Keras asks it for anything.
    """
    registry = keras.saving.get_custom_objects()
    paths = dict.fromkeys(_HUB_CLASSES, "hub") | {
        name: package
        for name, package in _PACKAGE_OF.items()
        if package in ("layers", "models", "training")
    }
    for name, package in paths.items():
        registry.setdefault(
            f"{__name__}>{name}",
            wrapt.lazy_import(f"{__name__}.{package}", name),
        )
