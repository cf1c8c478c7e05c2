"""The numbers of an attention view, as its page reads them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any
from typing import NamedTuple

import numpy as np
from keras import ops

from relative_attention.decoding.compiled import run_compiled
from relative_attention.decoding.translation import check_numbers
from relative_attention.errors import InputError
from relative_attention.layers.attention_parts import AttentionParts
from relative_attention.plot.packed_array import packed_array
from relative_attention.plot.sentence_pair import sentence_pair
from relative_attention.positions import POSITION_ENCODINGS
from relative_attention.positions.position_encoding import PositionEncoding
from relative_attention.tensor_type import Tensor

if TYPE_CHECKING:
    from relative_attention.decoding import Translator

# A page of so many numbers has 16 MB, which a browser still opens at once.
_MOST_NUMBERS = 6_000_000
# Scores, and terms of logits and of outputs: see `_block`.
_ARRAYS_AN_EDGE = 5


class _Inputs(NamedTuple):
    """The inputs of a model, as `run_compiled` takes them."""

    source_token_ids: Tensor
    target_token_ids: Tensor


def view_data(
    translator: "Translator", sentence: str, translation: str | None
) -> dict[str, Any]:
    """Collects what the page of an attention view shows.

    Args:
        translator: `Translator` of one `Transformer`.
        sentence: string.
        translation: string, or `None` for the one that `translator` finds.

    Returns:
        Dict that JSON can hold: `"sentence"` and `"translation"`; `"model"`,
        a dict of its sizes; `"kinds"`, a list of dicts, one for each of
        encoder self-attention, decoder self-attention and attention to the
        source: tokens, and a dict of packed arrays for each block.

    Raises:
        InputError: if there are too many tokens for a page, or what the model
            computes is not finite.
    """
    model = translator.model
    pair, translation = sentence_pair(translator, sentence, translation)
    source, target = _tokens(pair.source), _tokens(pair.target)
    _check_size(model, len(source), len(target))
    parts = run_compiled(_parts, model, _Inputs(**_tensors(pair.inputs)))
    for blocks in parts.values():
        for block in blocks:
            check_numbers(model, block.scores)
    # Where the decoder chooses a token it has read those before it.
    read = [{"text": "start", "special": True}, *target[:-1]]
    kinds = {
        "encoder": (source, source, model.encoder_blocks),
        "decoder": (target, read, model.decoder_blocks),
        "cross": (target, source, None),
    }
    return {
        "sentence": sentence,
        "translation": translation,
        "model": _sizes(model.config),
        "kinds": [
            {
                "name": name,
                "queries": queries,
                "keys": keys,
                "blocks": [
                    _block(
                        block_parts,
                        blocks and blocks[index].self_attention,
                        is_causal=name == "decoder",
                    )
                    for index, block_parts in enumerate(parts[name])
                ],
            }
            for name, (queries, keys, blocks) in kinds.items()
        ],
    }


def _parts(model: Any, inputs: _Inputs) -> dict[str, list[AttentionParts]]:
    return model.attention_parts(inputs._asdict())


def _tensors(inputs: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {
        name: ops.convert_to_tensor(ids, "int32")
        for name, ids in inputs.items()
    }


def _check_size(model: Any, source: int, target: int) -> None:
    """Refuses a page that no browser would open."""
    config = model.config
    num_edges = config.num_encoder_layers * source**2
    num_edges += config.num_decoder_layers * target * (target + source)
    num_numbers = _ARRAYS_AN_EDGE * config.num_heads * num_edges
    if num_numbers > _MOST_NUMBERS:
        share = _MOST_NUMBERS / num_numbers
        # The numbers grow with the square of the tokens.
        most = int(max(source, target) * share**0.5)
        raise InputError(
            "`sentence` and its translation must each have at most about "
            f"{most} tokens, for all that {config.num_heads} heads of each "
            f"block attend to to fit into a page. Received: {source} and "
            f"{target} tokens. Look at one sentence at a time."
        )


def _tokens(pieces: Sequence[str]) -> list[dict[str, Any]]:
    """Returns pieces and, last, the end of a sentence."""
    tokens: list[dict[str, Any]] = [{"text": piece} for piece in pieces[:-1]]
    return [*tokens, {"text": "end", "special": True}]


def _sizes(config: Any) -> dict[str, Any]:
    names = POSITION_ENCODINGS[config.position_encoding]
    encoding = names.attention_class()
    if encoding.mixes_content:
        position_terms = "mixed"
    elif encoding is not PositionEncoding:
        position_terms = "apart"
    else:
        position_terms = "embeddings" if names.on_embeddings else "none"
    return {
        "positions": config.position_encoding,
        # What the logits have of them.
        "position_terms": position_terms,
        "max_relative_position": (
            config.max_relative_position
            if encoding.has_distance_tables
            else None
        ),
        "num_heads": config.num_heads,
        "num_encoder_blocks": config.num_encoder_layers,
        "num_decoder_blocks": config.num_decoder_layers,
    }


def _block(
    parts: AttentionParts, layer: Any, is_causal: bool
) -> dict[str, Any]:
    """Packs the parts of one sentence in one block.

    Args:
        parts: `AttentionParts` with `B = 1`.
        layer: `SelfAttention`, or `None` for attention to the source.
        is_causal: A boolean to indicate whether keys after a query are hidden.
    """
    arrays = {
        name: _numbers(array)[0]
        for name, array in parts._asdict().items()
        if array is not None
    }
    num_queries, num_keys = arrays["scores"].shape[1:]
    allowed = np.ones((num_queries, num_keys), bool)
    if is_causal:
        allowed = np.tril(allowed)
        for name in ("content_logits", "position_logits"):
            arrays[name] = np.where(allowed, arrays[name], 0)
    packed = {
        name: arrays[name]
        for name in ("scores", "content_logits", "value_shares")
    }
    # What positions add, where they add anything.
    for name in ("position_logits", "relation_shares", "distance_logits"):
        if name in arrays and arrays[name].any():
            packed[name] = arrays[name]
    if layer is not None and layer.position_encoding.has_distance_tables:
        for side in ("key", "value"):
            table = getattr(layer, f"{side}_relation_embeddings")
            if table is not None:
                packed[f"{side}_table"] = _numbers(table)
    shares = position_shares(
        arrays["content_logits"], arrays["position_logits"], allowed
    )
    return {
        **{name: packed_array(array) for name, array in packed.items()},
        "position_shares": [round(float(share), 4) for share in shares],
    }


def position_shares(
    content: np.ndarray, position: np.ndarray, allowed: np.ndarray
) -> np.ndarray:
    """Returns how much of what a head prefers is told by position.

    Softmax sees only how logits differ between keys. So this is the variance
    over keys of what position adds to a query's logits, beside that of
    content, summed over queries.

    Args:
        content: array `(N, T, S)`, the terms `q_i k_j` of the logits.
        position: array `(N, T, S)`, the terms `q_i a_ij^K`.
        allowed: bool array `(T, S)`. `True` = may attend.

    Returns:
        Array `(N,)`, in `[0, 1]`; `0` where logits do not differ at all.
    """
    count = allowed.sum(axis=-1)
    spreads = []
    for term in (content, position):
        mean = (term * allowed).sum(axis=-1) / count
        squares = ((term - mean[..., None]) ** 2 * allowed).sum(axis=-1)
        spreads.append((squares / count).sum(axis=-1))
    total = spreads[0] + spreads[1]
    return np.where(total > 0, spreads[1] / np.where(total > 0, total, 1), 0)


def _numbers(tensor: Tensor) -> np.ndarray:
    # NumPy has no bfloat16.
    return np.asarray(
        ops.convert_to_numpy(ops.cast(tensor, "float32")), np.float64
    )
