"""Tells Keras what it can know of token ids before it has seen any."""

import dataclasses
from typing import Any
from typing import Self

import keras

from relative_attention.models.find_preset import find_preset
from relative_attention.models.trainable_model import TrainableModel
from relative_attention.models.transformer_config import TransformerConfig
from relative_attention.models.transformer_inputs import input_specs
from relative_attention.models.transformer_inputs import token_id_signature
from relative_attention.models.weights import load_weights


class TokenIdModel(TrainableModel):
    """A model from source and target ids to the logits of its `config`.

    Keras learns the shapes of a model's inputs from the first call; these
    are the same for all, so that they are checked, shown and exported without
    one.

    Args:
        config: `TransformerConfig`.
        **kwargs: arguments of `keras.Model`: `name`, `dtype`.
    """

    def __init__(self, config: TransformerConfig, **kwargs: Any) -> None:
        if not isinstance(config, TransformerConfig):
            raise TypeError(
                "`config` must be a TransformerConfig. Received: "
                f"config={config!r}. For a preset, call "
                "`Transformer.from_preset(name, vocabulary_size=...)`."
            )
        super().__init__(**kwargs)
        self.config = config
        self.input_spec = input_specs()

    @property
    def start_token_id(self) -> int:
        """The id that the decoder's inputs start with."""
        return self.config.start_token_id

    @property
    def input_shape(self) -> dict[str, tuple[None, None]]:
        """Shapes of the inputs, a dict; numbers and lengths are any."""
        return {spec.name: (None, None) for spec in self.input_spec}

    @property
    def output_shape(self) -> tuple[None, None, int]:
        """The shape `(B, T, V)` of the logits."""
        return (None, None, self.config.vocabulary_size)

    def symbolic_batch(
        self,
    ) -> tuple[dict[str, keras.KerasTensor], keras.KerasTensor]:
        """Returns inputs and labels without numbers, as `fit` takes them."""
        ids = keras.KerasTensor((None, None), "int32")
        return {"source_token_ids": ids, "target_token_ids": ids}, ids

    def export(
        self,
        filepath: Any,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Exports the model as `keras.Model.export`: ids in, logits out.

        For translations of strings, `relative_attention.export_saved_model`.

        Args:
            filepath: path of what is to be written.
            format: string. As of `keras.Model.export`.
            verbose: A boolean to indicate whether to say what was written.
            input_signature: as of `keras.Model.export`. Defaults to ids of
                any number of sentences of any length.
            **kwargs: as for `keras.Model.export`.
        """
        if input_signature is None:
            input_signature = token_id_signature()
        super().export(
            filepath,
            format=format,
            verbose=verbose,
            input_signature=input_signature,
            **kwargs,
        )

    # === Config ===

    @classmethod
    def from_preset(
        cls,
        name: str,
        vocabulary_size: int | None = None,
        dtype: Any = None,
        **overrides: Any,
    ) -> Self:
        """Makes a model with the architecture of a preset, or one of the zoo.

        Args:
            name: string. One of `relative_attention.presets()`, or the name
                of a trained model that comes with the package; of those,
                `relative_attention.load_translator` also has the vocabulary.
            vocabulary_size: int. Size `V` of the (joint) vocabulary. A
                trained model has its own.
            dtype: dtype policy of the model.
            **overrides: fields of `TransformerConfig`; of a trained model
                such as leave its weights their shapes, as `dropout`.

        Returns:
            `Transformer`, with random weights, or with those of the zoo.

        Raises:
            ValueError: if the name or a field is unknown, a value wrong, the
                vocabulary's size missing, or weights do not fit.
        """
        if vocabulary_size is not None:
            overrides["vocabulary_size"] = vocabulary_size
        config, weights = find_preset(name, overrides)
        model = cls(config, dtype=dtype)
        if weights is not None:
            load_weights(model.weights, weights)
        return model

    def get_config(self) -> dict[str, Any]:
        """Returns the fields of the model's config, and its Keras arguments."""
        return {
            **dataclasses.asdict(self.config),
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "trainable": self.trainable,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Makes a model of what `get_config` returned.

        Args:
            config: dict.
        """
        fields = {field.name for field in dataclasses.fields(TransformerConfig)}
        architecture = {k: v for k, v in config.items() if k in fields}
        rest = {k: v for k, v in config.items() if k not in fields}
        return cls(TransformerConfig(**architecture), **rest)
