"""The attention of one translation, term by term.

`attention_view` computes what a page (`attention_page`) shows, and packs it.
"""

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any
from typing import NamedTuple

import numpy as np
from keras import ops

from relative_attention.decoding.compiled import run_compiled
from relative_attention.decoding.model_steps import check_numbers
from relative_attention.decoding.searcher import check_attention
from relative_attention.errors import InputError
from relative_attention.layers.attention import AttentionTerms
from relative_attention.layers.positions import arguments_of
from relative_attention.layers.positions import find_names
from relative_attention.layers.positions.position_encoding import (
    PositionEncoding,
)
from relative_attention.layers.positions.relative import Relative
from relative_attention.layers.positions.relative import RelativeGlobal
from relative_attention.models.transformer import decoder_inputs
from relative_attention.ops.attention import clipped_relative_positions
from relative_attention.ops.attention import edge_product
from relative_attention.ops.attention import plain_product
from relative_attention.ops.backend import sizes
from relative_attention.ops.backend import widened
from relative_attention.plot.attention_page import AttentionView
from relative_attention.tensor_type import Tensor

if TYPE_CHECKING:
    from relative_attention.decoding import Translator

# A page with this many numbers has 16 MB, which a browser still opens quickly.
_MOST_NUMBERS = 6_000_000
# Inputs of the model, in the order in which `run_compiled` gets them.
_INPUTS = ("source_token_ids", "target_token_ids")
# Arrays `(N, T, S)` of a block: scores, two terms of logits, two of outputs.
_ARRAYS_OF_EDGES = 5
_MOST_INT16 = np.iinfo(np.int16).max


def attention_view(
    translator: "Translator", sentence: str, translation: str | None = None
) -> AttentionView:
    """Shows what each head attends to in one sentence, and why.

    For the token under the pointer, it shows how much of each logit is content
    (`q k`) and how much is position (`q a^K`, eq. 4 of Shaw et al. 2018, or a
    bias); how much of the output came through values and how much through
    `a^V` (eq. 3); and its place in the head's relation tables. Rotary positions
    are part of queries and keys, so their logits are shown as a whole.

    Args:
        translator: `Translator`.
        sentence: string. The sentence to translate.
        translation: string. Its translation. Defaults to `None`, the
            `translator`'s own.

    Returns:
        `AttentionView`: a notebook shows it, `save(path)` writes it.

    Raises:
        InputError: if the model is an `Ensemble`, which has no attention of
            its own, the sentence is too long for a page, or the model's
            numbers are not finite.
        TypeError: if the sentence or its translation is not a string.

    Example:
    >>> translator = ra.load_translator("tatoeba_en_de")
    >>> view = ra.plot.attention_view(translator, "I like tea.")
    >>> view.save("view.html")

    Reference:
     - [Shaw et al., 2018](https://arxiv.org/abs/1803.02155), eqs. 3 and 4
    """
    check_attention(translator.model)
    for name, text in (("sentence", sentence), ("translation", translation)):
        is_default = name == "translation" and text is None
        if not isinstance(text, str) and not is_default:
            raise TypeError(
                f"`{name}` must be a string. Received: {name}={text!r}."
            )
    pair = sentence_pair(translator, sentence, translation)
    return AttentionView(
        {
            "sentence": sentence,
            "translation": pair.translation,
            "model": _sizes(translator.model.config),
            "kinds": _kinds(translator.model, pair),
        }
    )


class SentencePair(NamedTuple):
    """A sentence and its translation, as inputs of the model.

    Attributes:
        source: list of strings, the pieces of the sentence and its end.
        target: list of strings, the pieces of the translation and its end:
            what the decoder predicts at each position.
        translation: string.
        inputs: dict of int32 arrays `(1, S)` and `(1, T)`, as for a call of
            the model.
    """

    source: list[str]
    target: list[str]
    translation: str
    inputs: dict[str, np.ndarray]


def sentence_pair(
    translator: "Translator", sentence: str, translation: str | None
) -> SentencePair:
    """Encodes a sentence and its translation, by default the model's own."""
    if translation is None:
        translation = translator.search([sentence])[0].text
    pieces, token_ids = [], []
    for vocabulary, text in (
        (translator.source_vocabulary, sentence),
        (translator.vocabulary, translation),
    ):
        ids = [*vocabulary.encode([text])[0], vocabulary.end_id]
        token_ids.append(np.array([ids], np.int32))
        # A user's vocabulary may have no `pieces`.
        if hasattr(vocabulary, "pieces"):
            pieces.append(vocabulary.pieces(ids))
        else:
            pieces.append(vocabulary.decode([[int(i)] for i in ids]))
    inputs = {
        "source_token_ids": token_ids[0],
        "target_token_ids": decoder_inputs(
            token_ids[1], translator.model.start_token_id
        ),
    }
    return SentencePair(pieces[0], pieces[1], translation, inputs)


def _kinds(model: Any, pair: SentencePair) -> list[dict[str, Any]]:
    """Returns the tokens and packed arrays of each kind of attention."""
    source, target = _tokens(pair.source), _tokens(pair.target)
    _check_size(model, len(source), len(target))
    inputs = tuple(
        ops.convert_to_tensor(pair.inputs[name], "int32") for name in _INPUTS
    )
    shown = run_compiled(_shown, model, inputs)
    for blocks in shown.values():
        for block in blocks:
            check_numbers(model, block["scores"])
    # When the decoder predicts a token, it has read the tokens before it.
    read = [{"text": "start", "special": True}, *target[:-1]]
    layers = _layers(model)
    return [
        {
            "name": name,
            "queries": queries,
            "keys": keys,
            "blocks": [
                _block(block, layer, is_causal=name == "decoder")
                for block, layer in zip(shown[name], layers[name])
            ],
        }
        for name, queries, keys in (
            ("encoder", source, source),
            ("decoder", target, read),
            ("cross", target, source),
        )
    ]


def _layers(model: Any) -> dict[str, list[Any]]:
    """Returns the layers of each kind of attention."""
    return {
        "encoder": [block.self_attention for block in model.encoder_blocks],
        "decoder": [block.self_attention for block in model.decoder_blocks],
        "cross": [block.cross_attention for block in model.decoder_blocks],
    }


def _shown(
    model: Any, inputs: tuple[Tensor, Tensor]
) -> dict[str, list[dict[str, Tensor]]]:
    """Computes what the page shows of each block, by kind of attention."""
    terms = model.attention_terms(dict(zip(_INPUTS, inputs)))
    return {
        kind: [_shown_of(*block) for block in zip(layers, terms[kind])]
        for kind, layers in _layers(model).items()
    }


def _shown_of(layer: Any, terms: AttentionTerms) -> dict[str, Tensor]:
    """Computes what the page shows of a layer.

    The share of a key in the output of a head is its term, `alpha_ij v_j` or
    `alpha_ij a_ij^V`, along the output `z_i`, divided by the length of `z_i`.
    It is negative if the term points away from the output. All shares of a
    query sum to 1, or to 0 if its output is zero.

    Returns:
        Dict of float tensors `(1, N, T, S)`: `"scores"`, `"content_logits"`
        and `"value_shares"`, and if positions add something
        `"position_logits"` and `"relation_shares"`. With tables of clipped
        distances also `"distance_logits"` `(1, N, T, 2K + 1)`, what eq. 4 adds
        for each row, even if no key is at such a distance.
    """
    # In half precision the square of a small output would be lost.
    context = widened(terms.context())
    scores = widened(terms.scores)
    # z_i (sum of its terms) = z_i z_i, so the shares sum to 1.
    square = ops.sum(ops.square(context), axis=-1, keepdims=True)
    along = context / ops.where(square > 0, square, ops.ones_like(square))
    value_products = plain_product(along, widened(terms.value), transpose=True)
    shown = {
        "scores": terms.scores,
        "content_logits": terms.content_logits,
        "value_shares": scores * value_products,
    }
    if terms.position_logits is not None:
        shown["position_logits"] = terms.position_logits
    encoding = layer.position_encoding
    _, value_table = encoding.distance_tables(layer) or (None, None)
    if value_table is not None:
        positions = ops.arange(sizes(scores)[-1], dtype="int32")
        distances = clipped_relative_positions(
            positions, positions, value_table.shape[-2] // 2
        )
        edges = ops.take(value_table, distances, axis=-2)
        edges = ops.cast(edges, along.dtype)
        products = edge_product(along, edges, transpose=True)
        shown["relation_shares"] = scores * products
    if _has_rows_of_distances(type(encoding)) and encoding.use_key_relations:
        rows = ops.cast(layer.key_relation_embeddings, terms.query.dtype)
        shown["distance_logits"] = plain_product(
            terms.query, rows, transpose=True
        )
    return shown


def _has_rows_of_distances(encoding: type) -> bool:
    """Tells whether tables have a row for each distance, all clipped."""
    is_clipped = issubclass(encoding, Relative)
    return is_clipped and not issubclass(encoding, RelativeGlobal)


def _tokens(pieces: Sequence[str]) -> list[dict[str, Any]]:
    """Returns pieces and, last, the end of a sentence."""
    tokens: list[dict[str, Any]] = [{"text": piece} for piece in pieces[:-1]]
    return [*tokens, {"text": "end", "special": True}]


def _check_size(model: Any, source: int, target: int) -> None:
    config = model.config
    num_edges = config.num_encoder_layers * source**2
    num_edges += config.num_decoder_layers * target * (target + source)
    num_numbers = _ARRAYS_OF_EDGES * config.num_heads * num_edges
    if num_numbers > _MOST_NUMBERS:
        # The numbers grow with the square of the tokens.
        share = (_MOST_NUMBERS / num_numbers) ** 0.5
        raise InputError(
            "`sentence` and its translation must each have at most about "
            f"{int(max(source, target) * share)} tokens, so that the "
            f"attention of {config.num_heads} heads of each block fits into "
            f"a page. Received: {source} and {target} tokens. Look at one "
            "sentence at a time."
        )


def _sizes(config: Any) -> dict[str, Any]:
    names = find_names(config.position_encoding)
    encoding = names.attention_class()
    if encoding.rotate is not PositionEncoding.rotate:
        position_terms = "mixed"
    elif encoding is not PositionEncoding:
        position_terms = "apart"
    else:
        position_terms = "embeddings" if names.on_embeddings else "none"
    return {
        "positions": config.position_encoding,
        # How positions enter the logits.
        "position_terms": position_terms,
        "max_relative_position": (
            arguments_of(config.position_encoding).get(
                "max_relative_position", config.max_relative_position
            )
            if _has_rows_of_distances(encoding)
            else None
        ),
        "num_heads": config.num_heads,
        "num_encoder_blocks": config.num_encoder_layers,
        "num_decoder_blocks": config.num_decoder_layers,
    }


def _block(
    shown: dict[str, Tensor], layer: Any, is_causal: bool
) -> dict[str, Any]:
    """Packs what is shown of one sentence in one layer of attention.

    Args:
        shown: dict, see `_shown_of`.
        layer: `SelfAttention` or `CrossAttention`.
        is_causal: bool. Whether keys after a query are hidden.
    """
    arrays = {name: _numbers(array)[0] for name, array in shown.items()}
    position_logits = np.zeros_like(arrays["content_logits"])
    arrays.setdefault("position_logits", position_logits)
    allowed = np.ones(arrays["scores"].shape[1:], bool)
    if is_causal:
        allowed = np.tril(allowed)
        for name in ("content_logits", "position_logits"):
            arrays[name] = np.where(allowed, arrays[name], 0)
    shares = _position_shares(
        arrays["content_logits"], arrays["position_logits"], allowed
    )
    # Of positions only if they add something.
    always = ("scores", "content_logits", "value_shares")
    packed = {
        name: _packed(array)
        for name, array in arrays.items()
        if name in always or array.any()
    }
    if _has_rows_of_distances(type(layer.position_encoding)):
        for side in ("key", "value"):
            table = getattr(layer, f"{side}_relation_embeddings")
            if table is not None:
                packed[f"{side}_table"] = _packed(_numbers(table))
    rounded = [round(float(share), 4) for share in shares]
    return {**packed, "position_shares": rounded}


def _position_shares(
    content: np.ndarray, position: np.ndarray, allowed: np.ndarray
) -> np.ndarray:
    """Returns how much of a head's preference is position.

    The softmax only depends on differences between logits. So this is the
    variance over keys of the position terms of a query's logits, divided by the
    sum of this and the variance of the content terms. Both are summed over
    queries.

    Args:
        content: array `(N, T, S)`, the terms `q_i k_j` of the logits.
        position: array `(N, T, S)`, the terms `q_i a_ij^K`.
        allowed: bool array `(T, S)`. `True` = may attend.

    Returns:
        Array `(N,)`, in `[0, 1]`; `0` if logits do not differ at all.
    """
    content, position = (
        term.var(axis=-1, where=allowed).sum(axis=-1)
        for term in (content, position)
    )
    total = content + position
    return position / np.where(total > 0, total, 1)


def _numbers(tensor: Tensor) -> np.ndarray:
    # NumPy has no bfloat16.
    numbers = ops.convert_to_numpy(ops.cast(tensor, "float32"))
    return np.asarray(numbers, np.float64)


def _packed(numbers: np.ndarray) -> dict[str, Any]:
    """Writes an array as base64 of little-endian int16, and their scale.

    The error is at most half of the scale: 1 in 65,534 of the largest number.
    The text has 2.7 characters per number.
    """
    largest = np.abs(numbers).max(initial=0.0)
    scale = float(largest / _MOST_INT16) or 1.0
    integers = np.round(numbers / scale).astype("<i2")
    return {
        "shape": list(numbers.shape),
        "scale": scale,
        "data": base64.b64encode(integers.tobytes()).decode("ascii"),
    }
