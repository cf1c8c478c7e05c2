"""The architecture and the weights of a translation model, for KerasHub."""

import dataclasses
from typing import Any
from typing import Self

import keras

from relative_attention.errors import InputError
from relative_attention.hub.adapted_backbone import AdaptedBackbone
from relative_attention.hub.preset_source import load_from_preset
from relative_attention.hub.transformer_parts import INPUT_DTYPES
from relative_attention.hub.transformer_parts import HiddenStates
from relative_attention.models import Transformer
from relative_attention.models import TransformerConfig
from relative_attention.models.weights import stored_weights
from relative_attention.models.weights import weight_name


@keras.saving.register_keras_serializable(package="relative_attention")
class TranslationBackbone(AdaptedBackbone):
    """A `Transformer` as a backbone of KerasHub: ids in, hidden states out.

    Args:
        vocabulary_size: int. Size `V` of the target vocabulary, and of the
            source vocabulary unless `source_vocabulary_size` is given.
        dtype: dtype policy of the model.
        name: string.
        trainable: bool. Defaults to `True`.
        quantized_layers: dict of path to config, of what `quantize` has done.
            Defaults to `None`: nothing is quantized.
        **fields: the other fields of `TransformerConfig`.

    Call arguments:
        inputs: dict of int tensors `"encoder_token_ids"` `(B, S)`, which end
            with id 1, and `"decoder_token_ids"` `(B, T)`, which start with
            `start_token_id`, and of their `"encoder_padding_mask"` and
            `"decoder_padding_mask"`. `True` = real token.

    Returns:
        Dict of `"encoder_sequence_output"` `(B, S, D)` and
        `"decoder_sequence_output"` `(B, T, D)`.

    Raises:
        InputError: if there is no such field, or a value is out of range.

    Example:
    >>> backbone = TranslationBackbone.from_preset(
    ...     "multi30k_en_de_tiny_relative"
    ... )
    """

    def __init__(
        self,
        vocabulary_size: int,
        dtype: Any = None,
        name: str | None = None,
        trainable: bool = True,
        quantized_layers: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        try:
            config = TransformerConfig(vocabulary_size, **fields)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"The config of a TranslationBackbone is wrong: {error}"
            ) from error
        transformer = Transformer.from_config(
            {
                **dataclasses.asdict(config),
                "dtype": dtype,
                "name": "transformer",
                "quantized_layers": quantized_layers or {},
            }
        )
        inputs = {
            key: keras.Input((None,), dtype=input_dtype, name=key)
            for key, input_dtype in INPUT_DTYPES.items()
        }
        super().__init__(
            inputs=inputs,
            outputs=HiddenStates(transformer, name="hidden_states")(inputs),
            dtype=dtype,
            name=name,
            trainable=trainable,
        )
        self.config = config

    @classmethod
    def from_transformer(
        cls, transformer: Transformer, dtype: Any = None
    ) -> Self:
        """Makes a backbone with the config and a copy of the weights.

        What `enable_lora` added to a layer is merged into its kernel.

        Args:
            transformer: `Transformer`.
            dtype: dtype policy. Defaults to that of the `transformer`.

        Raises:
            InputError: if a layer is quantized.
        """
        arrays = stored_weights(transformer, "float32")
        backbone = cls(
            **dataclasses.asdict(transformer.config),
            dtype=dtype or transformer.dtype_policy,
        )
        for weight in backbone.transformer.weights:
            weight.assign(arrays[weight_name(weight)])
        return backbone

    @classmethod
    def from_preset(
        cls, preset: str, load_weights: bool = True, **kwargs: Any
    ) -> Self:
        """Loads a backbone.

        Args:
            preset, load_weights, **kwargs: as of `TranslationLM.from_preset`.

        Returns:
            `TranslationBackbone`.

        Raises:
            InputError: as `TranslationLM.from_preset`.
        """
        return load_from_preset(
            preset,
            lambda translator: cls._of(translator.model, load_weights, kwargs),
            lambda: super(TranslationBackbone, cls).from_preset(
                str(preset), load_weights=load_weights, **kwargs
            ),
        )

    @classmethod
    def _of(
        cls, transformer: Transformer, load_weights: bool, kwargs: dict
    ) -> Self:
        """Makes a backbone of a `Transformer`, as `from_preset` is asked."""
        if load_weights and set(kwargs) <= {"dtype"}:
            return cls.from_transformer(transformer, **kwargs)
        backbone = cls(**{**dataclasses.asdict(transformer.config), **kwargs})
        if load_weights:
            backbone.transformer.set_weights(transformer.get_weights())
        return backbone

    @property
    def transformer(self) -> Transformer:
        """The `Transformer` that this backbone wraps."""
        return self.get_layer("hidden_states").transformer

    @property
    def token_embedding(self) -> keras.layers.Layer:
        """The `TokenEmbedding` of target ids, and of logits where shared."""
        return self.transformer.target_embedding

    def get_config(self) -> dict[str, Any]:
        """Returns the fields of the config, and the arguments of Keras.

        Of a quantized backbone, also which layers are, and how.
        """
        config = self.transformer.get_config()
        # Where a map of dtype policies says it, there is no config.
        quantized = {
            path: how
            for path, how in config.get("quantized_layers", {}).items()
            if how is not None
        }
        return {
            **super().get_config(),
            **dataclasses.asdict(self.config),
            # KerasHub's map of policies tells modes, and not what is rounded.
            "dtype": config["dtype"],
            "quantized_layers": quantized or None,
        }
