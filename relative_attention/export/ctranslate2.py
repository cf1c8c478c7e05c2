"""Exports translators to CTranslate2, an engine for CPUs and GPUs.

A specification of CTranslate2 is a tree of Python objects whose attributes are
the arrays of its `model.bin`. Its matrices are `(outputs, inputs)`, the
transpose of those of Keras, and heads follow one another along one axis:

    here, D inputs            there
    query/kernel (D, N, H)    self_attention.linear[0], rows 0 to N * H
    key/kernel (D, N, H)      the same matrix, rows N * H to 2 * N * H
    value/kernel (D, N, H)    the same, the rest
    output/kernel (N, H, D)   self_attention.linear[1], (D, N * H)

In cross-attention the query has `linear[0]` for itself, keys and values share
`linear[1]`, and the output is `linear[2]`. Every array is a copy, because
CTranslate2 quantizes in place.

`write_ctranslate2` works on a config and arrays by name, without Keras.
"""

import math
from collections.abc import Iterable
from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any
from typing import TypeAlias

import numpy as np

from relative_attention.data import SubwordVocabulary
from relative_attention.data import TokenVocabulary
from relative_attention.data import Vocabulary
from relative_attention.data.vocabulary import load_processor
from relative_attention.data.vocabulary_kinds import VOCABULARY_KINDS
from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.data.vocabulary_kinds import check_vocabulary_fits
from relative_attention.data.vocabulary_kinds import is_same_vocabulary
from relative_attention.errors import InputError
from relative_attention.errors import check_packages
from relative_attention.files import AnyPath
from relative_attention.files import atomic_directory
from relative_attention.files import check_is_free
from relative_attention.layers.positions import NOTHING
from relative_attention.layers.positions import RELATIVE
from relative_attention.layers.positions import find_names
from relative_attention.layers.positions import relation_tables
from relative_attention.models import TransformerConfig
from relative_attention.models.config import END_ID
from relative_attention.models.weights import check_finite
from relative_attention.models.weights import stored_weights
from relative_attention.saving.model_directory import save_vocabularies

if TYPE_CHECKING:
    from relative_attention.decoding import Translator

# Weights by the names that they have in a file of a model's folder, or the
# rest of a name below a part of the model.
_Arrays: TypeAlias = Mapping[str, np.ndarray]
# A matrix `(outputs, inputs)` and its bias, `None` without one.
_Linear: TypeAlias = tuple[np.ndarray, np.ndarray | None]

# CTranslate2 4.8 stores weights as one of these. In all of them, biases, layer
# normalization and relation tables are floats.
_QUANTIZATIONS = (
    "float32",
    "float16",
    "bfloat16",
    "int16",
    "int8",
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
)

# CTranslate2's own limit on sources, unless it is told another. A table of
# absolute positions that is as long never runs out by default.
_LEAST_POSITIONS = 1024


def export_ctranslate2(
    translator: "Translator",
    directory: AnyPath,
    quantization: str | None = None,
) -> None:
    """Writes a translator as a model that CTranslate2 loads.

    To translate with CTranslate2 from this package, no export is needed: see
    `engine` of `load_translator`.

    What is written needs neither this package nor Keras: `ctranslate2` and
    `sentencepiece` translate lines with it. The lines must be in the form of
    `clean_text`, unless the vocabulary keeps exact text.

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
    CTranslate2 has no counterpart of tensor2tensor's subwords: of a
    `SubwordVocabulary`, `encode` and then `pieces` make the tokens, and
    `decode` takes their indices in the list of tokens. CTranslate2 itself
    adds what sources begin and end with.

    The model gives the same probabilities, so greedy search (`beam_size=1`)
    finds the same translations. These settings are CTranslate2's, not the
    translator's:

     - `length_penalty` alpha divides by `len^alpha`, where `beam_search`
       divides by `((5 + len) / 6)^alpha`. For alpha 0.6 and sentences of
       10 to 15 tokens, 0.4 comes nearest (`0.6 * len / (5 + len)`); longer
       ones want up to 0.6.
     - `min_decoding_length` is 1 there; with 0 a translation may be empty, as
       here. A line of blanks is translated there; here it stays empty.
     - `max_decoding_length` (256) is the limit of every translation, while
       `max_extra_length` counts from the length of the source; a source is
       cut at `max_input_length` (1,024), which is `max_source_length` here.

    A model may have relative positions that the heads share, of keys, of
    values or of both; no positions; or absolute ones, sinusoidal or learned.
    Absolute positions become a table of 1,024 rows, or of `max_source_length +
    max_extra_length`, or of all learned positions, if that is more.
    CTranslate2 raises an error beyond the table. Heads may have any size. The
    token id 0 embeds to zero; if logits share the embeddings, the file has one
    more matrix for that.

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
            of the size. Defaults to `None`,
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
    if quantization is not None and quantization not in _QUANTIZATIONS:
        known = ", ".join(_QUANTIZATIONS)
        raise ValueError(
            f"`quantization` must be None or one of {known}. Received: "
            f"quantization={quantization!r}."
        )
    check_packages(
        "This export needs `ctranslate2`", "ctranslate2", "ctranslate2"
    )
    check_is_free(directory)
    model = translator.model
    _check_model(model)
    config = model.config
    source = _checked_vocabulary("source", translator.source_vocabulary, config)
    target = _checked_vocabulary("target", translator.vocabulary, config)
    write_ctranslate2(
        config,
        stored_weights(model, "float32"),
        (source, target),
        translator.max_source_length + translator.max_extra_length,
        directory,
        quantization,
    )


def write_ctranslate2(
    config: TransformerConfig,
    arrays: Mapping[str, np.ndarray],
    vocabularies: tuple[AnyVocabulary, AnyVocabulary],
    num_positions: int,
    directory: AnyPath,
    quantization: str | None = None,
) -> None:
    """Writes what `export_ctranslate2` does, of weights, without Keras.

    Args:
        config: `TransformerConfig` that `check_config` accepts.
        arrays: dict of the name of each weight, as in a `.safetensors` file,
            to its array.
        vocabularies: those of source and target.
        num_positions: int. Fewest rows of a table of absolute positions.
        directory, quantization: see `export_ctranslate2`.

    Raises:
        InputError: if a weight is not finite or too large for float16.
    """
    source, target = vocabularies
    spec = _transformer_spec(
        config, arrays, max(_LEAST_POSITIONS, num_positions)
    )
    _set_vocabularies(spec, source, target, config.start_token_id)
    _optimize(spec, quantization)
    if is_same_vocabulary(source, target):
        source = target
    with atomic_directory(directory) as folder:
        save_vocabularies(source, target, folder)
        spec.save(str(folder))


def _check_model(model: Any) -> None:
    """Refuses a model that CTranslate2 has no variables for."""
    from relative_attention.models import Transformer

    if not isinstance(model, Transformer):
        raise InputError(
            "The translator's model must be a `Transformer`. Received: "
            f"{type(model).__name__}."
        )
    if any(layer.quantization_mode for layer in model._flatten_layers()):
        raise InputError(
            "CTranslate2 takes a model of floats and quantizes it itself. "
            "Received: a quantized model. Load it again and pass "
            '`quantization="int8"`.'
        )
    check_config(model.config, "`export_saved_model` takes every model.")


def check_config(config: TransformerConfig, way_out: str) -> None:
    """Refuses an architecture that CTranslate2 lacks, with a way out."""
    names = find_names(config.position_encoding)
    # It has relative or absolute positions, not both.
    if names.in_attention != NOTHING and (
        names.in_attention != RELATIVE or names.on_embeddings is not None
    ):
        raise InputError(
            "For CTranslate2 `position_encoding` must be one of 'relative', "
            "'sinusoidal', 'learned', None. "
            f"Received: position_encoding={config.position_encoding!r}. "
            f"{way_out}"
        )
    # With one head, a table for each head is a table that all heads share.
    if (
        names.in_attention == RELATIVE
        and config.num_heads > 1
        and any(len(shape) == 3 for shape in relation_tables(config).values())
    ):
        raise InputError(
            "CTranslate2 has one relation table for all heads of a layer, and "
            f"this model one for each of its {config.num_heads}. Train with "
            "`share_relations_across_heads: true`, as tensor2tensor does. "
            f"{way_out}"
        )


def _checked_vocabulary(
    side: str, vocabulary: Any, config: TransformerConfig
) -> AnyVocabulary:
    """Returns a vocabulary that has pieces and fits the model's size."""
    known = tuple(VOCABULARY_KINDS.values())
    if not isinstance(vocabulary, known):
        kinds = ", ".join(f"`{kind.__name__}`" for kind in known)
        raise InputError(
            f"The {side} vocabulary must be one of {kinds}, whose pieces are "
            f"strings. Received: {type(vocabulary).__name__}."
        )
    check_vocabulary_fits(side, len(vocabulary), config)
    return vocabulary


def _transformer_spec(
    config: TransformerConfig, arrays: _Arrays, num_positions: int
) -> Any:
    """Returns CTranslate2's description of a model, with its weights.

    A table of absolute positions has at least `num_positions` rows.
    """
    from ctranslate2.specs import transformer_spec as specs

    positions = find_names(config.position_encoding).on_embeddings
    head_dim = max(config.head_dim, config.value_dim or config.head_dim)
    arguments: dict[str, Any] = {
        "pre_norm": config.normalize_first,
        # Without relation tables CTranslate2 adds sinusoidal positions. So a
        # model without any positions gets relation tables of zeros.
        "relative_position": positions is None,
        "head_dim": (
            None
            if head_dim * config.num_heads == config.hidden_dim
            else head_dim
        ),
    }
    encoder = specs.TransformerEncoderSpec(
        config.num_encoder_layers, config.num_heads, **arguments
    )
    decoder = specs.TransformerDecoderSpec(
        config.num_decoder_layers,
        config.num_heads,
        # The attention it returns is the mean of the last layer's heads.
        alignment_heads=0,
        **arguments,
    )
    _set_embeddings(encoder, decoder, config, arrays)
    for side, name in ((encoder, "encoder"), (decoder, "decoder")):
        if positions is not None and not _is_built_in(config):
            side.position_encodings.encodings = _position_table(
                config, _part(arrays, f"{name}_positions"), num_positions
            )
        # Pre-norm alone has a last normalization, behind all the blocks.
        if config.normalize_first:
            _set_norm(side.layer_norm, _part(arrays, f"{name}_norm"))
        for index, layer in enumerate(side.layer):
            block = _part(arrays, f"{name}_block_{index}")
            _set_block(layer, block, config, head_dim)
    spec = specs.TransformerSpec(encoder, decoder)
    spec.config.layer_norm_epsilon = config.layer_norm_epsilon
    return spec


def _part(arrays: _Arrays, name: str) -> _Arrays:
    """Returns the arrays of a part of a model, by the rest of their names."""
    start = f"{name}/"
    return {
        key.removeprefix(start): array
        for key, array in arrays.items()
        if key.startswith(start)
    }


def _set_embeddings(
    encoder: Any, decoder: Any, config: TransformerConfig, arrays: _Arrays
) -> None:
    """Sets the embeddings of both sides, and the projection to logits."""
    names = ["source_embedding", "target_embedding"]
    if config.share_embeddings in ("all", "source_target"):
        names = ["embedding", "embedding"]
    source, target = (_array(arrays[f"{name}/embeddings"]) for name in names)
    output = _array(arrays.get("output_embedding/embeddings", target))
    # Padding embeds to zero, also as the first input of the decoder. The logit
    # of padding uses the row as it is. CTranslate2 could zero the first input
    # by itself. But it would also zero a whole prefix when it looks for
    # alternatives.
    source[0] = 0
    target[0] = 0
    if config.use_target_space_embedding:
        # All other embeddings are multiplied by sqrt(D).
        scale = math.sqrt(config.hidden_dim)
        source += _array(arrays["target_space_embedding/embedding"]) / scale
    encoder.embeddings[0].weight = source
    decoder.embeddings.weight = target
    decoder.projection.weight = output
    if config.output_bias:
        decoder.projection.bias = _array(arrays["output_bias"])


def _is_built_in(config: TransformerConfig) -> bool:
    """Returns whether CTranslate2 computes these positions by itself.

    It computes tensor2tensor's formula for even sizes, counted from 1.
    """
    return (
        config.position_encoding == "sinusoidal"
        and config.first_position == 1
        and config.hidden_dim % 2 == 0
        and config.hidden_dim > 2
    )


def _position_table(
    config: TransformerConfig, arrays: _Arrays, num_positions: int
) -> np.ndarray:
    """Returns a row for each position, at least `num_positions` of them."""
    if config.position_encoding != "learned":
        numbers = np.arange(num_positions) + config.first_position
        return sinusoidal_table(numbers, config.hidden_dim)
    rows = _array(arrays["embeddings"])
    # Positions beyond the learned ones share the last row.
    num_missing = max(config.first_position + num_positions - len(rows), 0)
    rows = np.pad(rows, ((0, num_missing), (0, 0)), mode="edge")
    return rows[config.first_position :]


def sinusoidal_table(positions: np.ndarray, hidden_dim: int) -> np.ndarray:
    """Returns what `SinusoidalPositions` adds: `(T,)` -> float32 `(T, D)`."""
    # In the order and the precision of the layer.
    num_timescales = hidden_dim // 2
    log_increment = math.log(10_000) / max(num_timescales - 1, 1)
    frequencies = np.exp(
        np.arange(num_timescales, dtype="float32") * -log_increment
    )
    angles = positions.astype("float32")[:, None] * frequencies
    encodings = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    return np.pad(encodings, ((0, 0), (0, hidden_dim % 2)))


def _set_block(
    spec: Any, arrays: _Arrays, config: TransformerConfig, head_dim: int
) -> None:
    """Sets all of a layer of the encoder or of the decoder."""
    for name, attention in (
        ("self_attention", spec.self_attention),
        ("cross_attention", getattr(spec, "attention", None)),
    ):
        if attention is not None:
            part = _part(arrays, name)
            _set_attention(attention, part, config, head_dim)
            _set_norm(attention.layer_norm, _part(arrays, f"{name}_norm"))
            if hasattr(attention, "relative_position_keys"):
                _set_relations(attention, part, head_dim)
    for name, linear in (
        ("intermediate", spec.ffn.linear_0),
        ("output", spec.ffn.linear_1),
    ):
        dense = _part(arrays, f"feed_forward/{name}")
        _set_linear(linear, (_array(dense["kernel"]).T, _array(dense["bias"])))
    _set_norm(spec.ffn.layer_norm, _part(arrays, "feed_forward_norm"))


def _set_attention(
    spec: Any, arrays: _Arrays, config: TransformerConfig, head_dim: int
) -> None:
    """Sets the matrices of an attention layer, and its scale."""
    query, key, value, output = _head_matrices(arrays, head_dim)
    if len(spec.linear) == 2:
        _set_linear(spec.linear[0], query, key, value)
    else:
        _set_linear(spec.linear[0], query)
        _set_linear(spec.linear[1], key, value)
    _set_linear(spec.linear[-1], output)
    # Otherwise CTranslate2 multiplies queries by `head_dim^-0.5`.
    if head_dim != config.head_dim:
        spec.queries_scale = np.float32(config.head_dim**-0.5)


def _head_matrices(arrays: _Arrays, head_dim: int) -> list[_Linear]:
    """Returns matrix and bias of query, key, value and output.

    In CTranslate2 queries, keys and values have one size. Smaller ones are
    padded with zeros, which change no product.
    """
    pairs: list[_Linear] = []
    for name in ("query", "key", "value"):
        dense = _part(arrays, name)
        kernel = _pad_last(_array(dense["kernel"]), head_dim)  # (D, N, H)
        bias = None
        if "bias" in dense:
            bias = _pad_last(_array(dense["bias"]), head_dim).reshape(-1)
        pairs.append((kernel.reshape(len(kernel), -1).T, bias))
    dense = _part(arrays, "output")
    kernel = np.moveaxis(_array(dense["kernel"]), -1, 0)  # (D, N, H_v)
    bias = _array(dense["bias"]) if "bias" in dense else None
    kernel = _pad_last(kernel, head_dim)
    return [*pairs, (kernel.reshape(len(kernel), -1), bias)]


def _set_relations(spec: Any, arrays: _Arrays, head_dim: int) -> None:
    """Sets the relation tables; row `r` is distance `r - K`, there as here."""
    from ctranslate2.specs.model_spec import OPTIONAL

    keys = arrays.get("key_relation_embeddings")
    values = arrays.get("value_relation_embeddings")
    spec.relative_position_values = OPTIONAL
    if values is not None:
        spec.relative_position_values = _relation_table(values, head_dim)
    if keys is not None:
        spec.relative_position_keys = _relation_table(keys, head_dim)
    else:
        # CTranslate2 sees by the keys that there are relative positions, and
        # how many. Zeros add nothing to the logits.
        num_relations = 1 if values is None else values.shape[-2]
        spec.relative_position_keys = np.zeros(
            (num_relations, head_dim), "float32"
        )


def _relation_table(embeddings: np.ndarray, head_dim: int) -> np.ndarray:
    """Returns the table `(2K + 1, H)` that all heads share."""
    table = _array(embeddings)
    return _pad_last(table[0] if table.ndim == 3 else table, head_dim)


def _set_linear(spec: Any, *pairs: _Linear) -> None:
    """Stacks matrices, and their biases if they have any."""
    spec.weight = np.concatenate([weight for weight, _ in pairs])
    biases = [bias for _, bias in pairs if bias is not None]
    if biases:
        spec.bias = np.concatenate(biases)


def _set_norm(spec: Any, arrays: _Arrays) -> None:
    """Sets scale and offset of a layer normalization."""
    spec.gamma = _array(arrays["gamma"])
    spec.beta = _array(arrays["beta"])


def _pad_last(array: np.ndarray, size: int) -> np.ndarray:
    """Pads the last axis with zeros to `size`."""
    widths = [(0, 0)] * (array.ndim - 1) + [(0, size - array.shape[-1])]
    return np.pad(array, widths)


def _array(weight: np.ndarray) -> np.ndarray:
    """Returns a copy of a weight as a float32 array."""
    return np.array(weight, "float32")


def _set_vocabularies(
    spec: Any, source: AnyVocabulary, target: AnyVocabulary, start_token_id: int
) -> None:
    """Sets the tokens of both sides, and which of them are special."""
    tokens = _unique_tokens(target)
    source_tokens = _unique_tokens(source)
    config = spec.config
    config.decoder_start_token = tokens[start_token_id]
    config.eos_token = tokens[END_ID]
    config.unk_token = tokens[_unknown_id(target)]
    # The unknown token and the end have one name for both sides.
    source_tokens[_unknown_id(source)] = config.unk_token
    if source.end_id == END_ID:
        source_tokens[END_ID] = config.eos_token
    # A source begins and ends as every source did in training.
    config.add_source_eos = source.end_id == END_ID
    config.add_source_bos = False
    config.bos_token = config.decoder_start_token
    if isinstance(source, TokenVocabulary) and source.start:
        config.add_source_bos = True
        config.bos_token = source_tokens[source.start_id]
    spec.register_source_vocabulary(source_tokens)
    spec.register_target_vocabulary(tokens)


def _unique_tokens(vocabulary: AnyVocabulary) -> list[str]:
    """Returns the pieces in the order of ids, no two of them equal.

    CTranslate2 finds ids by token. A file of subwords may have empty lines and
    equal lines. Of equal subwords the last is used, of equal tokens the first.
    A piece that is never used is named by its id, such as `<unused 17>`.
    """
    tokens = vocabulary.pieces(range(len(vocabulary)))
    order: Iterable[int] = range(len(tokens))
    if isinstance(vocabulary, SubwordVocabulary):
        order = reversed(range(len(tokens)))
    taken = {""}
    for token_id in order:
        if tokens[token_id] in taken:
            name = f"<unused {token_id}>"
            while name in tokens:
                name = f"<{name}>"
            tokens[token_id] = name
        taken.add(tokens[token_id])
    return tokens


def _unknown_id(vocabulary: AnyVocabulary) -> int:
    """Returns the id of a token that the vocabulary does not have."""
    if isinstance(vocabulary, TokenVocabulary):
        return len(vocabulary) - 1
    if isinstance(vocabulary, Vocabulary):
        return load_processor(vocabulary.model, "vocabulary").unk_id()
    # Subwords spell any text. Padding embeds to zero.
    return vocabulary.padding_id


def _optimize(spec: Any, quantization: str | None) -> None:
    """Stores equal arrays once, and quantizes them."""
    spec.validate()
    _check_finite(spec, quantization)
    if quantization not in ("bfloat16", "int8_bfloat16"):
        spec.optimize(quantization)
        return
    # CTranslate2 rounds to bfloat16 with PyTorch, which it does not install.
    import ml_dtypes

    spec.optimize("int8_float32" if "int8" in quantization else None)
    for name, variable in spec.variables().items():
        # A string names another variable of an equal array.
        if isinstance(variable, str) or name.endswith("_scale"):
            continue
        if variable.dtype == "float32" and not variable.is_scalar():
            variable.array = variable.array.astype(ml_dtypes.bfloat16)


def _check_finite(spec: Any, quantization: str | None) -> None:
    """Refuses arrays that are not finite in the type they are stored in."""
    is_half = quantization in ("float16", "int8_float16")
    for name, variable in spec.variables().items():
        # A string says that there is no array, or names another variable.
        if isinstance(variable, str) or "float" not in variable.dtype:
            continue
        array = variable.numpy()
        # Matrices of int8 have a scale, so no number is too large for them.
        is_int8 = quantization == "int8_float16" and array.ndim > 1
        check_finite(
            {name: array}, "float16" if is_half and not is_int8 else "float32"
        )
