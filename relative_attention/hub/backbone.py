"""The backbone: a `Transformer` with the inputs and outputs of KerasHub."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any
from typing import Self

import keras
import keras_hub
from keras import ops

from relative_attention.decoding import Translator
from relative_attention.errors import InputError
from relative_attention.hub.presets import FromPreset
from relative_attention.hub.presets import readable_errors
from relative_attention.models import Transformer
from relative_attention.models import TransformerConfig
from relative_attention.models.config import saved_fields
from relative_attention.models.weights import stored_weights
from relative_attention.models.weights import weight_name
from relative_attention.tensor_type import Tensor

# Each side has ids `(B, T)`, and a mask of them that is `True` for real ones.
INPUT_DTYPES = {
    "encoder_token_ids": "int32",
    "encoder_padding_mask": "bool",
    "decoder_token_ids": "int32",
    "decoder_padding_mask": "bool",
}


@keras.saving.register_keras_serializable(package="relative_attention")
class TranslationBackbone(FromPreset, keras_hub.models.Backbone):
    """A `Transformer` as a backbone of KerasHub: ids in, hidden states out.

    Args:
        vocabulary_size: int. Size `V` of the target vocabulary, and of the
            source vocabulary unless `source_vocabulary_size` is given.
        dtype: dtype policy of the model.
        name: string.
        trainable: bool. Defaults to `True`.
        quantized_layers: dict of path to config, the layers that `quantize` has
            quantized. Defaults to `None`, none.
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
        TypeError: if a field is unknown.
        ValueError: if a value is out of range.

    Example:
    >>> backbone = ra.hub.TranslationBackbone.from_preset("tatoeba_en_de")
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
        config = TransformerConfig(vocabulary_size, **fields)
        # A preset has the config of the backbone and no build config, so the
        # layers must be quantized here for their weights to be loaded.
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
        cls,
        transformer: Transformer,
        dtype: Any = None,
        load_weights: bool = True,
        **fields: Any,
    ) -> Self:
        """Makes a backbone with the config and a copy of the weights.

        Adapters are merged into their kernels.

        Args:
            transformer: `Transformer`.
            dtype: dtype policy. Defaults to that of the `transformer`.
            load_weights: bool. Whether to copy the weights, or to leave them
                random. Defaults to `True`.
            **fields: fields of the config that replace those of the
                `transformer`.

        Raises:
            InputError: if it is an `Ensemble`, or a layer is quantized.
        """
        if not isinstance(transformer, Transformer):
            raise InputError(
                "A task is made from one `Transformer`. Received: a translator "
                f"of {type(transformer).__name__}."
            )
        backbone = cls(
            **{**dataclasses.asdict(transformer.config), **fields},
            dtype=dtype or transformer.dtype_policy,
        )
        if load_weights:
            # By name, as adapters and int8 have other weights.
            arrays = stored_weights(transformer, "float32")
            for weight in backbone.transformer.weights:
                weight.assign(arrays[weight_name(weight)])
        return backbone

    @classmethod
    def from_translator(
        cls, translator: Translator, load_weights: bool = True, **kwargs: Any
    ) -> Self:
        """Makes a backbone from a translator's model.

        Args:
            translator: `Translator` of one `Transformer`.
            load_weights, **kwargs: as for `from_transformer`.

        Raises:
            InputError: as `from_transformer`.
        """
        return cls.from_transformer(
            translator.model, load_weights=load_weights, **kwargs
        )

    @property
    def transformer(self) -> Transformer:
        """The `Transformer` that computes the hidden states."""
        return self.get_layer("hidden_states").transformer

    @property
    def token_embedding(self) -> keras.layers.Layer:
        """The `TokenEmbedding` of target ids, and of logits if shared."""
        return self.transformer.target_embedding

    def get_config(self) -> dict[str, Any]:
        """Returns the fields of the config, and the arguments of Keras.

        For a quantized backbone, also which layers are quantized, and how.
        """
        config = self.transformer.get_config()
        # Where a map of dtype policies says it, there is no config.
        quantized = {
            path: how
            for path, how in config.get("quantized_layers", {}).items()
            if how is not None
        }
        # Flat, as KerasHub passes it to `__init__` by name.
        return {
            **super().get_config(),
            **dataclasses.asdict(self.config),
            # KerasHub's map of policies has the modes, but not what is rounded.
            "dtype": config["dtype"],
            "quantized_layers": quantized or None,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        return super().from_config(saved_fields(config))

    # === Int8, and adapters ===

    def quantize(
        self, mode: str | None = None, config: Any = None, **kwargs: Any
    ) -> None:
        """Stores the large matrices as int8, see `Transformer.quantize`.

        Args:
            mode: string. `"int8"`.
            config: `keras.quantizers.Int8QuantizationConfig`, in place of
                `mode`.
            **kwargs: `filters`, as for `Transformer.quantize`.

        Raises:
            ValueError: if the mode is not `"int8"`, or a layer is quantized
                already.
        """
        self.transformer.quantize(mode, config=config, **kwargs)
        self._post_quantize(mode)

    def default_lora_layer_names(self) -> list[str]:
        """Returns the names of the layers that get adapters by default."""
        return ["query", "value"]

    def enable_lora(
        self, rank: int, target_layer_names: Sequence[str] | None = None
    ) -> None:
        """Freezes the backbone and adds adapters, see `Transformer`.

        Call it before the task is compiled.

        Args:
            rank: int. Number of columns of `A` and rows of `B`.
            target_layer_names: list of strings, as for
                `Transformer.enable_lora`. Defaults to `None`, `"query"` and
                `"value"`.

        Raises:
            ValueError: if the rank is not positive, a name is not that of a
                layer that can be adapted, or there are adapters already.
        """
        # KerasHub's own would train biases, and leave them out of the file.
        self.transformer.enable_lora(rank, target_layer_names)
        self._note_adapters()

    def save_lora_weights(self, filepath: str | pathlib.Path) -> None:
        """Writes only the adapters.

        Args:
            filepath: path of the file: `.safetensors`, which
                `Transformer.load_lora_weights` reads, too; or `.lora.h5`,
                KerasHub's own, which holds no adapters of embeddings.

        Raises:
            ValueError: if there are no adapters.
            InputError: if the file cannot hold them, or has another suffix.
        """
        filepath = str(filepath)
        if filepath.endswith(".safetensors"):
            self.transformer.save_lora_weights(filepath)
            return
        # KerasHub's file has kernels alone, by their place among all layers.
        is_embedding = any(
            hasattr(layer, "lora_embeddings_a")
            for layer in self._flatten_layers()
        )
        if is_embedding or not filepath.endswith(".lora.h5"):
            raise InputError(
                "`filepath` must end in .safetensors, or in .lora.h5 where no "
                f"embedding is adapted. Received: filepath={filepath!r}."
            )
        super().save_lora_weights(filepath)

    def load_lora_weights(self, filepath: str | pathlib.Path) -> None:
        """Reads adapters that `save_lora_weights` wrote.

        They are added to a backbone that has none.

        Args:
            filepath: path of the file. `.lora.h5` does not name the layers:
                call `enable_lora` first for layers other than `"query"` and
                `"value"`.

        Raises:
            InputError: if the file is missing or damaged, or does not fit.
        """
        filepath = str(filepath)
        if filepath.endswith(".safetensors"):
            self.transformer.load_lora_weights(filepath)
            # So that KerasHub saves what was loaded.
            self._note_adapters()
            return
        if not pathlib.Path(filepath).is_file():
            raise InputError(f"No adapters at {filepath}.")
        with readable_errors(f"{filepath} holds no adapters of this backbone"):
            super().load_lora_weights(filepath)

    def _note_adapters(self) -> None:
        """Tells KerasHub's methods which layers have adapters."""
        # The same list as KerasHub's, as its files have numbers of layers.
        layers = self._flatten_layers(include_self=False)
        layers = [layer for layer in layers if layer.weights]
        self._lora_enabled_layers = [
            number
            for number, layer in enumerate(layers)
            if getattr(layer, "lora_enabled", False)
        ]
        self._lora_rank = layers[self._lora_enabled_layers[0]].lora_rank


@keras.saving.register_keras_serializable(package="relative_attention")
class HiddenStates(keras.layers.Layer):
    """The outputs of encoder and decoder, or the logits `(B, T, V)`.

    One layer computes both, so that a saved or cloned model has a single
    `Transformer`.
    """

    def __init__(self, transformer: Transformer, **kwargs: Any) -> None:
        kwargs.setdefault("dtype", transformer.dtype_policy)
        super().__init__(**kwargs)
        self.transformer = transformer
        # A `Transformer` has its weights from the start.
        self.built = True

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """None: the metrics of the `Transformer` are for its own training."""
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
        # Not traced, as JAX cannot compare unknown lengths.
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
        transformer = keras.saving.serialize_keras_object(self.transformer)
        return {**super().get_config(), "transformer": transformer}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "HiddenStates":
        transformer = keras.saving.deserialize_keras_object(
            config["transformer"]
        )
        return cls(**{**config, "transformer": transformer})


def transformer_inputs(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns inputs of a `Transformer`, with id 0 for masked tokens."""
    # KerasHub masks by a tensor of its own, a `Transformer` by id 0.
    ids = {}
    for name, side in (("source", "encoder"), ("target", "decoder")):
        given = ops.convert_to_tensor(inputs[f"{side}_token_ids"])
        mask = ops.cast(inputs[f"{side}_padding_mask"], given.dtype)
        ids[f"{name}_token_ids"] = ops.multiply(given, mask)
    return ids
