"""A `Transformer` as a layer with KerasHub's inputs.

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


@keras.saving.register_keras_serializable(package="relative_attention")
class HiddenStates(keras.layers.Layer):
    """The outputs of encoder and decoder, or the logits of the latter.

    One layer computes both, so that a saved or cloned model of both has one
    `Transformer`.

    Args:
        transformer: `Transformer`.
        **kwargs: arguments of `keras.layers.Layer`: `name`, `dtype`.

    Call arguments:
        inputs: dict with the keys of `INPUT_DTYPES`.
        return_logits: bool. Return the logits instead. Defaults to `False`.
        training: A boolean to indicate whether dropout is active.

    Returns:
        Dict of `"encoder_sequence_output"` `(B, S, D)` and
        `"decoder_sequence_output"` `(B, T, D)`; or logits `(B, T, V)`.
    """

    def __init__(self, transformer: Transformer, **kwargs: Any) -> None:
        kwargs.setdefault("dtype", transformer.dtype_policy)
        super().__init__(**kwargs)
        self.transformer = transformer
        self.built = True

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """None: those that a `Transformer` has are of its own training."""
        return []

    def call(
        self,
        inputs: dict[str, Tensor],
        return_logits: bool = False,
        training: bool | None = None,
    ) -> Any:
        ids = transformer_inputs(inputs)
        if return_logits:
            return self.transformer(ids, training=training)
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
        self,
        inputs: dict[str, Tensor],
        return_logits: bool = False,
        training: bool | None = None,
    ) -> Any:
        # Not traced: JAX cannot compare lengths that it does not know.
        def spec(side: str, width: int) -> keras.KerasTensor:
            shape = (*inputs[f"{side}_token_ids"].shape, width)
            return keras.KerasTensor(shape, self.compute_dtype)

        config = self.transformer.config
        if return_logits:
            return spec("decoder", config.vocabulary_size)
        return {
            f"{side}_sequence_output": spec(side, config.hidden_dim)
            for side in ("encoder", "decoder")
        }

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "transformer": serialize(self.transformer),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "HiddenStates":
        deserialize = keras.saving.deserialize_keras_object
        transformer = deserialize(config["transformer"])
        return cls(**{**config, "transformer": transformer})
