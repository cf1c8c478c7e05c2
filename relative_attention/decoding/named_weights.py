"""The weights of a model, or of the models of an ensemble, by name."""

from typing import Any

import keras

from relative_attention.decoding.ensemble import Ensemble
from relative_attention.models.weights import weight_name


def named_weights(model: Any) -> dict[str, keras.Variable]:
    """Returns the weights of what translates, by names that tell them apart.

    Args:
        model: `Transformer`, `Ensemble`, or another `StepModel`, which may
            have no weights.

    Returns:
        Dict of name to Keras variable. Models of an ensemble have weights of
        the same names, so it adds whose they are.
    """
    if not isinstance(model, Ensemble):
        weights = getattr(model, "weights", ())
        return {weight_name(weight): weight for weight in weights}
    return {
        f"{weight_name(weight)} of model {number}": weight
        for number, member in enumerate(model.models, start=1)
        for weight in member.weights
    }
