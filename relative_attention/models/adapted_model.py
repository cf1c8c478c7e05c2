"""What can be put on a trained model: int8 weights, and adapters to train."""

import pathlib
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any
from typing import Self

import keras

from relative_attention.argument_checks import checked_int
from relative_attention.layers.dense import check_keras_quantizes
from relative_attention.models.collect_once import collect_once
from relative_attention.models.lora_file import check_lora
from relative_attention.models.lora_file import lora_variables
from relative_attention.models.lora_file import path_of
from relative_attention.models.quantizable_layers import quantizable_layers
from relative_attention.models.token_id_model import TokenIdModel
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import load_weights
from relative_attention.models.weights import save_weights

# Of KerasHub's names those that layers of this package have.
_LORA_LAYERS = ("query", "value")


class AdaptedModel(TokenIdModel):
    """The part of `Transformer` that quantizes it, and puts LoRA on it.

    Args:
        config: `TransformerConfig`.
        **kwargs: arguments of `keras.Model`: `name`, `dtype`.
    """

    # === Quantization ===

    def quantize(
        self,
        mode: str | None = None,
        config: Any = None,
        filters: Any = None,
        **kwargs: Any,
    ) -> None:
        """Stores the large matrices as int8, a quarter of their size.

        These are embeddings, attention's projections and the feed-forward
        layers; relation tables, biases and normalization stay floats. The
        model can be used as before, but no longer be saved as a model folder:
        quantize after loading.

        Args:
            mode: string. `"int8"`.
            config: `keras.quantizers.Int8QuantizationConfig`, in place of
                `mode`. With `activation_quantizer=None` only weights are
                rounded, not what they are multiplied by.
            filters: as of `keras.Model.quantize`. Which layers. Defaults to
                `None`, all.
            **kwargs: as of `keras.Model.quantize`.

        Raises:
            InputError: if the installed Keras is too old.
            ValueError: if the mode is another, or a layer is quantized
                already.
        """
        check_keras_quantizes()
        # Keras has made a config of the mode, and of a config its mode.
        if mode != "int8":
            raise ValueError(f'`mode` must be "int8". Received: mode={mode!r}.')
        if self._quantized_layers():
            raise ValueError(
                "The model is quantized already. Load it anew to quantize it "
                "in another way."
            )
        with collect_once():
            super().quantize(
                mode,
                config=config,
                filters=quantizable_layers(filters),
                **kwargs,
            )

    def _quantized_layers(self) -> list[Any]:
        return [
            layer
            for layer in self._flatten_layers(include_self=False)
            if layer.quantization_mode is not None
        ]

    def get_config(self) -> dict[str, Any]:
        """Returns the fields of the model's config, and its Keras arguments.

        Of a quantized model, also which layers are, and how.
        """
        config = super().get_config()
        quantized = self._quantized_layers()
        if quantized:
            config["quantized_layers"] = {
                path_of(layer): keras.saving.serialize_keras_object(
                    layer.quantization_config
                )
                for layer in quantized
            }
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Makes a model of what `get_config` returned.

        Args:
            config: dict.
        """
        quantized = config.get("quantized_layers", {})
        model = super().from_config(
            {k: v for k, v in config.items() if k != "quantized_layers"}
        )
        for layer in model._flatten_layers(include_self=False):
            if path_of(layer) in quantized:
                how = keras.saving.deserialize_keras_object(
                    quantized[path_of(layer)]
                )
                layer.quantize(how.mode, config=how)
        return model

    # === Adapters ===

    def enable_lora(
        self, rank: int, target_layer_names: Sequence[str] | None = None
    ) -> None:
        """Freezes the model and adds adapters, all that is trained from then.

        A kernel `W` becomes `W + A B`, where `A` has `rank` columns and `B`
        is zero at first. To be called before `compile`. A model folder of it
        holds the sum.

        Args:
            rank: int. Columns of `A`, rows of `B`.
            target_layer_names: list of strings. Names of the layers to adapt:
                `"query"`, `"key"`, `"value"`, `"output"` (of attention and of
                the feed-forward layers), `"intermediate"`, and embeddings by
                their names. Defaults to `None`, `"query"` and `"value"`.

        Raises:
            ValueError: if the rank is not positive, no layer that can be
                adapted has a name, or the model has adapters.

        Reference:
         - [Hu et al., 2021](https://arxiv.org/abs/2106.09685)
        """
        rank = checked_int("rank", rank)
        if target_layer_names is None:
            target_layer_names = _LORA_LAYERS
        if isinstance(target_layer_names, str):
            target_layer_names = [target_layer_names]
        layers = self._layers_to_adapt()
        names = {layer.name for layer in layers.values()}
        wrong = [name for name in target_layer_names if name not in names]
        if wrong or not target_layer_names:
            raise ValueError(
                "`target_layer_names` must be names of layers that can be "
                f"adapted: {', '.join(sorted(names))}. Received: "
                f"target_layer_names={list(target_layer_names)}."
            )
        self._check_no_lora()
        self._adapt(
            (x for x in layers.values() if x.name in target_layer_names), rank
        )

    def save_lora_weights(self, path: str | pathlib.Path) -> None:
        """Writes the adapters alone, to a `.safetensors` file.

        Args:
            path: path of the file.

        Raises:
            ValueError: if the model has none.
        """
        variables = lora_variables(self)
        if not variables:
            raise ValueError(
                "The model has no adapters. Call `enable_lora(rank)` first."
            )
        save_weights(variables, path)

    def load_lora_weights(self, path: str | pathlib.Path) -> None:
        """Reads adapters that `save_lora_weights` wrote.

        A model that has none gets those of the file, as by `enable_lora`.

        Args:
            path: path of the file.

        Raises:
            InputError: if the file is missing or damaged, or does not fit the
                model or the adapters that it has; nothing has changed then.
        """
        if not lora_variables(self):
            layers = self._layers_to_adapt()
            paths, rank = check_lora(layers, load_arrays(path), path)
            self._adapt([layers[name] for name in paths], rank)
        load_weights(lora_variables(self), path)

    def _layers_to_adapt(self) -> dict[str, Any]:
        return {
            path_of(layer): layer
            for layer in self._flatten_layers(include_self=False)
            if hasattr(layer, "enable_lora")
        }

    def _check_no_lora(self) -> None:
        if lora_variables(self):
            raise ValueError(
                "The model has adapters already. Load it anew to add others."
            )

    def _adapt(self, layers: Iterable[Any], rank: int) -> None:
        """Freezes all that there is, and adapts the layers."""
        frozen = list(self.trainable_variables)
        for layer in self._flatten_layers(include_self=False):
            layer.trainable = False
        for layer in layers:
            layer.trainable = True
            layer.enable_lora(rank)
        # Biases of the layers, and weights of the model itself.
        for variable in frozen:
            variable.trainable = False
        self.train_function = None
        self.test_function = None
        self.predict_function = None
