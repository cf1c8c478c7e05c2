"""Exports translators to CTranslate2, an engine for CPUs and GPUs."""

from collections.abc import Iterator
from typing import Any

from relative_attention.decoding import Translator
from relative_attention.errors import InputError
from relative_attention.errors import install_hint
from relative_attention.export.ctranslate2_spec import transformer_spec
from relative_attention.export.ctranslate2_vocabulary import check_vocabulary
from relative_attention.export.ctranslate2_vocabulary import (
    describe_vocabularies,
)
from relative_attention.export.ctranslate2_vocabulary import save_vocabularies
from relative_attention.files import AnyPath
from relative_attention.files import atomic_directory
from relative_attention.files import check_is_free
from relative_attention.models import Transformer
from relative_attention.models.finite_weights import check_finite
from relative_attention.tensor_type import Tensor

# CTranslate2 4.8 stores weights as one of these. In all of them, biases, layer
# normalization and relation tables are floats.
QUANTIZATIONS = (
    "float32",
    "float16",
    "bfloat16",
    "int16",
    "int8",
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
)

# CTranslate2 has relative or absolute positions, not both.
_POSITION_ENCODINGS = ("relative", "sinusoidal", "learned", None)

# CTranslate2's own limit on sources, unless it is told another. A table of
# absolute positions that is as long never runs out by default.
_LEAST_POSITIONS = 1024


def export_ctranslate2(
    translator: Translator, directory: AnyPath, quantization: str | None = None
) -> None:
    """Writes a translator as a model that CTranslate2 loads.

    It needs nothing of this package any more, nor Keras: `ctranslate2` and
    `sentencepiece` translate with it.

        engine = ctranslate2.Translator(directory)
        pieces = sentencepiece.SentencePieceProcessor(
            f"{directory}/vocabulary.model"
        )
        results = engine.translate_batch(
            pieces.encode(lines, out_type=str),
            beam_size=4,
            length_penalty=0.4,
            min_decoding_length=0,
        )
        translations = pieces.decode([r.hypotheses[0] for r in results])

    The folder holds `model.bin`, `config.json`, the tokens by id
    (`shared_vocabulary.json`, or one of each side) and the vocabulary itself,
    named as in a model directory: `vocabulary.model`, `.subwords` or
    `.tokens` (with `vocabulary.tokens.sentencepiece`, its SentencePiece model,
    if it has one), or `source_vocabulary.*` and `target_vocabulary.*`.
    tensor2tensor's subwords are cut by `SubwordVocabulary`, which has no
    counterpart there: `encode`, then `pieces`, makes tokens; their indices in
    the list of tokens are what `decode` takes. CTranslate2 itself adds what
    sources begin and end with.

    The model gives the same probabilities, so greedy search (`beam_size=1`)
    finds the same translations. These settings are CTranslate2's, not the
    translator's:

     - `length_penalty` alpha divides by `len^alpha`, where `beam_search`
       divides by `((5 + len) / 6)^alpha`. For alpha 0.6 and sentences of
       10 to 15 tokens, 0.4 comes nearest (`0.6 * len / (5 + len)`); longer
       ones want up to 0.6.
     - `min_decoding_length` is 1 there; with 0 a translation may be empty, as
       here. A line of blanks is translated there; here it stays empty.
     - `max_decoding_length` (256) limits every translation alike, where
       `max_extra_length` counts from the length of the source; a source is
       cut at `max_input_length` (1,024), which is `max_source_length` here.

    Written are relative positions that the heads share, of keys, of values or
    of both; none at all; and absolute ones, sinusoidal or learned, as a table
    of 1,024 rows (or as many as `max_source_length + max_extra_length`, or
    the learned ones, if that is more), beyond which CTranslate2 raises an
    error. Heads may have any size. A token id 0 embeds to zero, which where
    logits share the embeddings takes a matrix more in the file.

    On an AMD processor with AVX2 and without VNNI, CTranslate2 4.8 made
    errors of int8 log-probabilities nine times as large as with the
    environment variable `CT2_USE_MKL=1`.

    Args:
        translator: `Translator` of a `Transformer`, with vocabularies that
            are `Vocabulary`, `SubwordVocabulary` or `TokenVocabulary`.
        directory: path of the folder to make. It is whole or not there.
        quantization: string. How to store the weights: `"float32"`,
            `"float16"`, `"bfloat16"`, `"int16"`, `"int8"`, `"int8_float32"`,
            `"int8_float16"` or `"int8_bfloat16"`. `"int8"` is about a quarter
            of the size and on a CPU the fastest. Defaults to `None`,
            `"float32"`.

    Raises:
        ValueError: if the quantization is unknown.
        InputError: if `ctranslate2` is not installed, `directory` holds
            something, CTranslate2 cannot express the model (relation tables
            for each head, or another `position_encoding` than those above),
            the vocabularies do not fit it, or a weight is not finite or too
            large for float16; nothing is written then.

    Reference:
     - [CTranslate2](https://opennmt.net/CTranslate2/)
    """
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise ValueError(
            f"`quantization` must be None or one of {', '.join(QUANTIZATIONS)}."
            f" Received: quantization={quantization!r}."
        )
    _check_installed()
    check_is_free(directory)
    model = translator.model
    _check_model(model)
    config = model.config
    source_size = config.source_vocabulary_size or config.vocabulary_size
    source = check_vocabulary(
        "source", translator.source_vocabulary, source_size
    )
    target = check_vocabulary(
        "target", translator.vocabulary, config.vocabulary_size
    )
    spec = transformer_spec(model, _num_positions(translator))
    describe_vocabularies(spec, source, target, config.start_token_id)
    _optimize(spec, quantization)
    with atomic_directory(directory) as folder:
        save_vocabularies(folder, source, target)
        spec.save(str(folder))


def _check_installed() -> None:
    """Raises `InputError` if `ctranslate2` is not installed."""
    try:
        import ctranslate2  # noqa: F401
    except ImportError as error:
        raise InputError(
            "This export needs `ctranslate2`. Install it with "
            f"{install_hint('ctranslate2')}."
        ) from error


def _check_model(model: Any) -> None:
    """Refuses a model that CTranslate2 has no variables for."""
    if not isinstance(model, Transformer):
        raise InputError(
            "The translator's model must be a `Transformer`. Received: "
            f"{type(model).__name__}."
        )
    if any(layer.quantization_mode for layer in model._flatten_layers()):
        raise InputError(
            "CTranslate2 takes a model of floats and quantizes it itself. "
            "Received: a quantized model. Load it anew and pass "
            '`quantization="int8"`.'
        )
    config = model.config
    if config.position_encoding not in _POSITION_ENCODINGS:
        known = ", ".join(map(repr, _POSITION_ENCODINGS))
        raise InputError(
            f"For CTranslate2 `position_encoding` must be one of {known}. "
            f"Received: position_encoding={config.position_encoding!r}. "
            "`export_saved_model` takes every one."
        )
    tables = list(_relation_tables(model))
    # A table for each head of one head is a table that all heads share.
    if any(len(table.shape) == 3 and table.shape[0] > 1 for table in tables):
        raise InputError(
            "CTranslate2 has one relation table for all heads of a layer, and "
            f"this model one for each of its {config.num_heads}. Train with "
            "`share_relations_across_heads: true`, as tensor2tensor does."
        )


def _relation_tables(model: Transformer) -> Iterator[Tensor]:
    """Yields every table of relation embeddings, of keys and of values."""
    for block in (*model.encoder_blocks, *model.decoder_blocks):
        for table in (
            block.self_attention.key_relation_embeddings,
            block.self_attention.value_relation_embeddings,
        ):
            if table is not None:
                yield table


def _num_positions(translator: Translator) -> int:
    """Returns how many absolute positions a translation may need."""
    return max(
        _LEAST_POSITIONS,
        translator.max_source_length + translator.max_extra_length,
    )


def _check_finite(spec: Any, quantization: str | None) -> None:
    """Refuses arrays that are not finite, or will not be as they are stored."""
    is_half = quantization in ("float16", "int8_float16")
    for name, variable in spec.variables().items():
        # A string says that there is no array, or names another variable.
        if isinstance(variable, str) or "float" not in variable.dtype:
            continue
        array = variable.numpy()
        # Matrices of int8 have a scale, and no largest number.
        stays = quantization == "int8_float16" and array.ndim > 1
        check_finite(
            {name: array}, "float16" if is_half and not stays else "float32"
        )


def _optimize(spec: Any, quantization: str | None) -> None:
    """Stores equal arrays once, and quantises them."""
    spec.validate()
    _check_finite(spec, quantization)
    if quantization not in ("bfloat16", "int8_bfloat16"):
        spec.optimize(quantization)
        return
    # CTranslate2 rounds to bfloat16 with PyTorch, which it does not come with.
    import ml_dtypes

    spec.optimize("int8_float32" if "int8" in quantization else None)
    for name, variable in spec.variables().items():
        # A string names another variable of an equal array.
        if isinstance(variable, str) or name.endswith("_scale"):
            continue
        if variable.dtype == "float32" and not variable.is_scalar():
            variable.array = variable.array.astype(ml_dtypes.bfloat16)
