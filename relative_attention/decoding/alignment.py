"""The alignment of a translation: what its tokens attend to in the source."""

from typing import Any

from keras import ops

from relative_attention.decoding.start_and_end import start_token_id
from relative_attention.errors import InputError
from relative_attention.models.decoder_inputs import decoder_inputs
from relative_attention.tensor_type import Tensor


def check_attention(model: Any) -> None:
    """Refuses a model that has no attention to show, before any work.

    Args:
        model: `Transformer`, or what stands in its place.

    Raises:
        InputError: if it has no `attention_scores`, as an `Ensemble`.
    """
    if not hasattr(model, "attention_scores"):
        raise InputError(
            "Attention is that of one `Transformer`. Received: "
            f"{type(model).__name__}. Of an `Ensemble`, ask one of its "
            "`models`."
        )


def alignment(
    model: Any, source_token_ids: Tensor, token_ids: Tensor
) -> Tensor:
    """Computes the cross-attention scores of translations that are known.

    Args:
        model: `Transformer`.
        source_token_ids: int tensor `(B, S)`.
        token_ids: int tensor `(B, R, T)`, what `beam_search` found.

    Returns:
        Float32 tensor `(B, R, L, N, T, S)`: by decoder block and head, what
        the model attended to when it chose each token.
    """
    # Sizes are told, not inferred: any of them may be 0.
    batch_size, num_results, length = ops.shape(token_ids)
    inputs = decoder_inputs(token_ids, start_token_id(model))
    scores = model.attention_scores(
        {
            "source_token_ids": ops.repeat(
                ops.convert_to_tensor(source_token_ids, "int32"),
                num_results,
                axis=0,
            ),
            "target_token_ids": ops.reshape(
                inputs, (batch_size * num_results, length)
            ),
        }
    )
    cross = ops.cast(ops.stack(scores["cross"], axis=1), "float32")
    return ops.reshape(cross, (batch_size, num_results, *cross.shape[1:]))
