"""The two parts of a `Transformer`, as layers with KerasHub's inputs.

KerasHub keeps the states of a model, which any task may use, apart from the
logits of one task.
"""

from typing import Any

import keras
from keras import ops

from relative_attention.models import Transformer
from relative_attention.tensor_type import Tensor

# Each side has ids `(B, T)`, and a mask of them that is `True` for real ones.
INPUT_DTYPES = {
    "encoder_token_ids": "int32",
    "encoder_padding_mask": "bool",
    "decoder_token_ids": "int32",
    "decoder_padding_mask": "bool",
}


def transformer_inputs(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns inputs of a `Transformer`, where what is masked has the id 0.

    Args:
        inputs: dict with the keys of `INPUT_DTYPES`.

    Returns:
        Dict of `"source_token_ids"` and `"target_token_ids"`.
    """
    ids = {}
    for name, side in (
        ("source_token_ids", "encoder"),
        ("target_token_ids", "decoder"),
    ):
        given = ops.convert_to_tensor(inputs[f"{side}_token_ids"])
        mask = ops.cast(inputs[f"{side}_padding_mask"], given.dtype)
        ids[name] = ops.multiply(given, mask)
    return ids


class HiddenStates(keras.layers.Layer):
    """What encoder and decoder make of ids, before any logits.

    Args:
        transformer: `Transformer`.
        **kwargs: arguments of `keras.layers.Layer`: `name`.

    Call arguments:
        inputs: dict with the keys of `INPUT_DTYPES`.
        training: A boolean to indicate whether dropout is active.

    Returns:
        Dict of `"encoder_sequence_output"` `(B, S, D)` and
        `"decoder_sequence_output"` `(B, T, D)`.
    """

    def __init__(self, transformer: Transformer, **kwargs: Any) -> None:
        super().__init__(dtype=transformer.dtype_policy, **kwargs)
        self.transformer = transformer
        self.built = True

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """None: those that a `Transformer` has are of its own training."""
        return []

    def call(
        self, inputs: dict[str, Tensor], training: bool | None = None
    ) -> dict[str, Tensor]:
        ids = transformer_inputs(inputs)
        encoder_outputs = self.transformer.encode(
            ids["source_token_ids"], training=training
        )
        return {
            "encoder_sequence_output": encoder_outputs,
            "decoder_sequence_output": self.transformer.decoder_outputs(
                ids, training=training, encoder_outputs=encoder_outputs
            ),
        }

    def compute_output_spec(
        self, inputs: dict[str, Tensor], training: bool | None = None
    ) -> dict[str, keras.KerasTensor]:
        # Not traced: JAX cannot compare lengths that it does not know.
        width = self.transformer.config.hidden_dim
        return {
            f"{side}_sequence_output": keras.KerasTensor(
                (*inputs[f"{side}_token_ids"].shape, width), self.compute_dtype
            )
            for side in ("encoder", "decoder")
        }


class Logits(keras.layers.Layer):
    """The logits of the decoder's outputs.

    Args:
        transformer: `Transformer`.
        **kwargs: arguments of `keras.layers.Layer`: `name`.

    Call arguments:
        inputs: float tensor `(B, T, D)`.

    Returns:
        Float tensor `(B, T, V)`.
    """

    def __init__(self, transformer: Transformer, **kwargs: Any) -> None:
        super().__init__(dtype=transformer.dtype_policy, **kwargs)
        self.transformer = transformer
        self.built = True

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """None: those that a `Transformer` has are of its own training."""
        return []

    def call(self, inputs: Tensor) -> Tensor:
        return self.transformer.logits(inputs)

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        size = self.transformer.config.vocabulary_size
        return keras.KerasTensor((*inputs.shape[:-1], size), self.compute_dtype)
