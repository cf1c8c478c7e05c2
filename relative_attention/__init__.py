"""Self-attention with relative position representations, in Keras 3.

The mechanism of Shaw, Uszkoreit and Vaswani (2018), with tensor2tensor's
numbers, and the translation models built on it. Every public name is here;
each is imported when it is first used, so that `import relative_attention`
is quick and needs no backend.
"""

import importlib

from relative_attention.keras_registry import register_with_keras
from relative_attention.version import __version__

_ROOM_OF = {
    "InputError": "errors",
    "clipped_relative_positions": "ops",
    "relative_attention_inner": "ops",
    "CrossAttention": "layers",
    "FeedForward": "layers",
    "LearnedPositions": "layers",
    "RelationAwareSelfAttention": "layers",
    "RelativeGlobalAttention": "layers",
    "RelativeSelfAttention": "layers",
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
    "find_recipe": "runs",
    "load_translator": "saving",
    "save_translator": "saving",
    "train": "runs",
}

# Rooms whose names stay in them, as `plot.curve_figure`.
_ROOMS = ("plot",)

__all__ = ["__version__", *_ROOM_OF, *_ROOMS]


def __getattr__(name):
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _ROOM_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room = importlib.import_module(f"{__name__}.{_ROOM_OF[name]}")
    return getattr(room, name)


def __dir__():
    return sorted([*globals(), *__all__])


register_with_keras()
