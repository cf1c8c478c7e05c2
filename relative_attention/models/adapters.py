"""Changes of a trained model: int8 weights, and adapters to train.

The functions whose first argument is `self` are methods of `Transformer`.
"""

import contextlib
import gc
import pathlib
import warnings
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from relative_attention.argument_checks import checked_int
from relative_attention.errors import InputError
from relative_attention.layers.dense import check_keras_quantizes
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import load_weights
from relative_attention.models.weights import save_weights


def _layers_of(model: keras.Model) -> dict[str, Any]:
    """Returns the layers by their paths, less the model's name."""
    return {
        str(layer.path).split("/", 1)[-1]: layer
        for layer in model._flatten_layers(include_self=False)
    }


# === int8 ===


def quantize(
    self: keras.Model,
    mode: str | None = None,
    config: Any = None,
    filters: Any = None,
    **kwargs: Any,
) -> None:
    """Stores the large matrices as int8, a quarter of their size.

    These are the embeddings, the projections of attention and the feed-forward
    layers. Relation tables, biases and normalization stay floats. The model can
    be used as before, but not saved as a model folder: quantize after loading.

    Args:
        mode: string. `"int8"`.
        config: `keras.quantizers.Int8QuantizationConfig`, in place of `mode`.
            With `activation_quantizer=None` only weights are rounded, not
            their inputs.
        filters: as for `keras.Model.quantize`, the layers to quantize.
            Defaults to `None`, all.
        **kwargs: as for `keras.Model.quantize`.

    Raises:
        InputError: if the installed Keras is too old.
        ValueError: if the mode is not `"int8"`, or a layer is quantized
            already.
    """
    check_keras_quantizes()
    # Keras has set the config from the mode, or the mode from the config.
    if mode != "int8":
        raise ValueError(f'`mode` must be "int8". Received: mode={mode!r}.')
    if quantization_config(self):
        raise ValueError(
            "The model is quantized already. Load it again to quantize it in "
            "another way."
        )
    with _frozen_objects(), warnings.catch_warnings():
        # From layers with nothing to quantize, such as dropout.
        warnings.filterwarnings("ignore", "Layer .* a `quantize")
        keras.Model.quantize(
            self, mode, config=config, filters=filters, **kwargs
        )


def quantization_config(model: keras.Model) -> dict[str, Any]:
    """Returns how layers are quantized, by their paths, for JSON."""
    return {
        path: keras.saving.serialize_keras_object(layer.quantization_config)
        for path, layer in _layers_of(model).items()
        if layer.quantization_mode is not None
    }


def quantize_as(model: keras.Model, quantized: Mapping[str, Any]) -> None:
    """Quantizes layers as `quantization_config` said."""
    layers = _layers_of(model)
    with _frozen_objects():
        for path, config in quantized.items():
            how = keras.saving.deserialize_keras_object(config)
            layers[path].quantize(how.mode, config=how)


@contextlib.contextmanager
def _frozen_objects() -> Iterator[None]:
    # Keras collects garbage for each layer, among hundreds of thousands of
    # TensorFlow's objects. Of a bundled model that took 9.9 seconds of a
    # processor, and 0.2 with the objects frozen (medians of 3).
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


# === Adapters ===


def lora_variables(model: keras.Model) -> list[keras.Variable]:
    """Lists the variables that `enable_lora` added to layers of a model."""
    return [v for v in model.variables if v.name.startswith("lora_")]


def enable_lora(
    self: keras.Model,
    rank: int,
    target_layer_names: Sequence[str] | None = None,
) -> None:
    """Freezes the model and adds adapters; only these are trained.

    A kernel `W` becomes `W + A B`, where `A` has `rank` columns and `B` is zero
    at first. Call it before `compile`. A model folder then holds the sums
    `W + A B`.

    Args:
        rank: int. Number of columns of `A` and rows of `B`.
        target_layer_names: list of strings. Names of the layers to adapt:
            `"query"`, `"key"`, `"value"`, `"output"` (of attention and of the
            feed-forward layers), `"intermediate"`, and embeddings by their
            names. Defaults to `None`, `"query"` and `"value"`.

    Raises:
        ValueError: if the rank is not positive, a name is not that of a layer
            that can be adapted, or the model has adapters already.

    Reference:
     - [Hu et al., 2021](https://arxiv.org/abs/2106.09685)
    """
    rank = checked_int("rank", rank)
    if target_layer_names is None:
        # The names of KerasHub that layers of this package have.
        target_layer_names = ("query", "value")
    if isinstance(target_layer_names, str):
        target_layer_names = [target_layer_names]
    layers = _layers_to_adapt(self).values()
    names = {layer.name for layer in layers}
    wrong = [name for name in target_layer_names if name not in names]
    if wrong or not target_layer_names:
        raise ValueError(
            "`target_layer_names` must be names of layers that can be "
            f"adapted: {', '.join(sorted(names))}. Received: "
            f"target_layer_names={list(target_layer_names)}."
        )
    if lora_variables(self):
        raise ValueError(
            "The model has adapters already. Load it again to add others."
        )
    _adapt(self, (x for x in layers if x.name in target_layer_names), rank)


def save_lora_weights(self: keras.Model, path: str | pathlib.Path) -> None:
    """Writes only the adapters, to a `.safetensors` file.

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


def load_lora_weights(self: keras.Model, path: str | pathlib.Path) -> None:
    """Reads adapters that `save_lora_weights` wrote.

    They are added to a model that has none, as by `enable_lora`.

    Args:
        path: path of the file.

    Raises:
        InputError: if the file is missing or damaged, or does not fit the
            model or its adapters. Nothing changes then.
    """
    if not lora_variables(self):
        layers = _layers_to_adapt(self)
        paths, rank = _adapters_in(load_arrays(path), layers, path)
        _adapt(self, [layers[name] for name in paths], rank)
    load_weights(lora_variables(self), path)


def _layers_to_adapt(model: keras.Model) -> dict[str, Any]:
    return {
        path: layer
        for path, layer in _layers_of(model).items()
        if hasattr(layer, "enable_lora")
    }


def _adapt(model: keras.Model, layers: Iterable[Any], rank: int) -> None:
    """Freezes all weights, and adapts the layers."""
    frozen = list(model.trainable_variables)
    for layer in _layers_of(model).values():
        layer.trainable = False
    for layer in layers:
        layer.trainable = True
        layer.enable_lora(rank)
    # Biases of the layers, and weights of the model itself.
    for variable in frozen:
        variable.trainable = False
    model.train_function = None
    model.test_function = None
    model.predict_function = None


def _adapters_in(
    arrays: Mapping[str, np.ndarray],
    layers: Mapping[str, Any],
    path: str | pathlib.Path,
) -> tuple[list[str], int]:
    """Returns the paths of the layers that a file adapts, and the rank."""
    paths = sorted({name.rpartition("/")[0] for name in arrays})
    # All have the same rank. If the file holds something else, any will do.
    ranks = [
        len(array)
        for name, array in arrays.items()
        if name.endswith("_b") and array.ndim
    ]
    rank = ranks[0] if ranks else 0
    expected: dict[str, tuple[int, ...]] = {}
    for name in filter(layers.__contains__, paths):
        is_embedding = isinstance(layers[name], keras.layers.Embedding)
        adapted = "embeddings" if is_embedding else "kernel"
        *rows, columns = getattr(layers[name], adapted).shape
        expected[f"{name}/lora_{adapted}_a"] = (*rows, rank)
        expected[f"{name}/lora_{adapted}_b"] = (rank, columns)
    received = {name: array.shape for name, array in arrays.items()}
    if not expected or received != expected:
        wrong = sorted(received.items() ^ expected.items())
        what = f"look at {wrong[0][0]}" if wrong else "it is empty"
        raise InputError(
            f"{path} holds no adapters of this model: {what}. Load a file of "
            "`save_lora_weights` into a model with the same config."
        )
    return paths, rank
