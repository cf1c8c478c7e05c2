"""Adapters and int8 on a backbone of KerasHub."""

import pathlib
from collections.abc import Sequence
from typing import Any

import keras_hub

from relative_attention.errors import InputError
from relative_attention.hub.preset_source import reason
from relative_attention.models import Transformer

# The format of this package; the other is KerasHub's, `.lora.h5`.
_SAFETENSORS = ".safetensors"


class AdaptedBackbone(keras_hub.models.Backbone):
    """The part of `TranslationBackbone` that is adapted and quantized.

    The layers are those of its `transformer`, which knows which of them can
    be, and freezes biases where KerasHub would train and then not save them.
    """

    transformer: Transformer

    def quantize(
        self, mode: str | None = None, config: Any = None, **kwargs: Any
    ) -> None:
        """Stores the large matrices as int8, see `Transformer.quantize`.

        Args:
            mode: string. `"int8"`.
            config: `keras.quantizers.Int8QuantizationConfig`, in place of
                `mode`.
            **kwargs: `filters`, as of `Transformer.quantize`.

        Raises:
            ValueError: if the mode is another, or a layer is quantized
                already.
        """
        self.transformer.quantize(mode, config=config, **kwargs)
        self._post_quantize(mode)

    def default_lora_layer_names(self) -> list[str]:
        """Returns the names of the layers that adapters are put on."""
        return ["query", "value"]

    def enable_lora(
        self, rank: int, target_layer_names: Sequence[str] | None = None
    ) -> None:
        """Freezes the backbone and adds adapters, see `Transformer`.

        To be called before the task is compiled.

        Args:
            rank: int. Columns of `A`, rows of `B`.
            target_layer_names: list of strings, as of
                `Transformer.enable_lora`. Defaults to `None`, `"query"` and
                `"value"`.

        Raises:
            ValueError: if the rank is not positive, no layer that can be
                adapted has a name, or there are adapters.
        """
        self.transformer.enable_lora(rank, target_layer_names)
        self._note_adapters()

    def save_lora_weights(self, filepath: str | pathlib.Path) -> None:
        """Writes the adapters alone.

        Args:
            filepath: path of the file: `.safetensors`, which
                `Transformer.load_lora_weights` reads, too; or `.lora.h5`,
                KerasHub's own, which holds no adapters of embeddings.

        Raises:
            ValueError: if there are no adapters.
            InputError: if the file cannot hold them, or has another suffix.
        """
        filepath = str(filepath)
        if filepath.endswith(_SAFETENSORS):
            self.transformer.save_lora_weights(filepath)
            return
        is_embedding = any(
            hasattr(layer, "lora_embeddings_a") for layer in self._adapted()
        )
        if is_embedding or not filepath.endswith(".lora.h5"):
            raise InputError(
                "`filepath` must end in .safetensors, or in .lora.h5 where no "
                f"embedding is adapted. Received: filepath={filepath!r}."
            )
        super().save_lora_weights(filepath)

    def load_lora_weights(self, filepath: str | pathlib.Path) -> None:
        """Reads adapters that `save_lora_weights` wrote.

        A backbone that has none gets those of the file.

        Args:
            filepath: path of the file. From `.lora.h5` the layers cannot be
                told: others than `"query"` and `"value"` are to be adapted
                before.

        Raises:
            InputError: if the file is missing or damaged, or does not fit.
        """
        filepath = str(filepath)
        if filepath.endswith(_SAFETENSORS):
            self.transformer.load_lora_weights(filepath)
            self._note_adapters()
            return
        if not pathlib.Path(filepath).is_file():
            raise InputError(f"No adapters at {filepath}.")
        try:
            super().load_lora_weights(filepath)
        except (AttributeError, KeyError, OSError, ValueError) as error:
            raise InputError(
                f"{filepath} holds no adapters of this backbone: "
                f"{reason(error)}"
            ) from error

    def _adapted(self) -> list[Any]:
        return [
            layer
            for layer in self._flatten_layers(include_self=False)
            if getattr(layer, "lora_enabled", False)
        ]

    def _note_adapters(self) -> None:
        """Tells KerasHub's methods what has adapters, as they note it."""
        layers = [
            layer
            for layer in self._flatten_layers(include_self=False)
            if layer.weights
        ]
        adapted = self._adapted()
        self._lora_rank = adapted[0].lora_rank
        self._lora_enabled_layers = [
            number
            for number, layer in enumerate(layers)
            if getattr(layer, "lora_enabled", False)
        ]
