"""One generation by a sampler of KerasHub."""

from typing import Any

import keras
from keras import ops

from relative_attention.hub.transformer_parts import transformer_inputs
from relative_attention.models import Transformer
from relative_attention.tensor_type import Tensor


def sampled_step(
    transformer: Transformer,
    sampler: Any,
    inputs: dict[str, Tensor],
    stop_token_ids: Any,
    task: keras.Model,
) -> dict[str, Tensor]:
    """Generates with a `keras_hub.samplers.Sampler`.

    A sampler wants a cache whose shapes stay, and that of `Transformer`
    grows. So each step decodes all positions, of which the last counts; our
    own beam search does not.

    Args:
        transformer: `Transformer`.
        sampler: `keras_hub.samplers.Sampler`.
        inputs: dict of the inputs of `TranslationBackbone`, where decoder ids
            are those that are given, and room for the others.
        stop_token_ids: ids that end a translation, or `None`.
        task: the model whose variables a loop of JAX is to know.

    Returns:
        Dict of `"decoder_token_ids"` `(B, T)` and `"decoder_padding_mask"`,
        up to the end of sentence.
    """
    source_ids = transformer_inputs(inputs)["source_token_ids"]
    prompt = ops.cast(inputs["decoder_token_ids"], "int32")
    prompt_mask = ops.cast(inputs["decoder_padding_mask"], "bool")
    index = ops.min(ops.sum(ops.cast(prompt_mask, "int32"), axis=-1))

    def next(
        prompt: Tensor, cache: tuple[Tensor, Tensor], index: Tensor
    ) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        encoder_outputs, source_ids = cache
        hidden = transformer.decoder_outputs(
            {"source_token_ids": source_ids, "target_token_ids": prompt},
            encoder_outputs=encoder_outputs,
        )
        num_rows, _, width = ops.shape(hidden)
        last = ops.slice(hidden, (0, index - 1, 0), (num_rows, 1, width))
        logits = transformer.logits(last)
        return logits[:, 0], last[:, 0], cache

    encoder_outputs = transformer.encode(source_ids)
    token_ids = sampler(
        next=next,
        prompt=prompt,
        cache=(encoder_outputs, source_ids),
        index=index,
        mask=prompt_mask,
        stop_token_ids=stop_token_ids,
        hidden_states=transformer.decoder_outputs(
            {"source_token_ids": source_ids, "target_token_ids": prompt},
            encoder_outputs=encoder_outputs,
        ),
        model=task,
    )
    is_end = ops.zeros_like(prompt_mask)
    for end in stop_token_ids or ():
        is_end = ops.logical_or(is_end, ops.equal(token_ids, end))
    is_end = ops.logical_and(is_end, ops.logical_not(prompt_mask))
    # Ends that stand before a position.
    num_ends = ops.cumsum(ops.cast(is_end, "int32"), axis=-1)
    is_behind = ops.greater(num_ends - ops.cast(is_end, "int32"), 0)
    return {
        "decoder_token_ids": token_ids,
        "decoder_padding_mask": ops.logical_not(is_behind),
    }
