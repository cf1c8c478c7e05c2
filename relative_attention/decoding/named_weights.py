"""The weights of a model, or of the models of an ensemble, by name."""

from collections.abc import Iterator
from typing import Any

import keras

from relative_attention.decoding.ensemble import Ensemble
from relative_attention.models.weights import weight_name


def named_weights(model: Any) -> Iterator[tuple[str, keras.Variable]]:
    """Yields the weights of what translates, by names that tell them apart.

    Models of an ensemble have weights of the same names, so the name adds
    whose they are.

    Args:
        model: `Transformer`, `Ensemble`, or another `StepModel`, which may
            have no weights.

    Yields:
        Pairs of name and Keras variable.
    """
    if not isinstance(model, Ensemble):
        for weight in getattr(model, "weights", ()):
            yield weight_name(weight), weight
        return
    for number, member in enumerate(model.models, start=1):
        for weight in member.weights:
            yield f"{weight_name(weight)} of model {number}", weight
