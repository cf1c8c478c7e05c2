"""The optimizer of a recipe against the formulas of what is published."""

import types

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models import Transformer
from relative_attention.runs.build_model import build_model

VOCABULARY = ["<pad>", "</s>", "a", "b", "c"]
RATE = 0.5


def optimizer_of(recipe, *overrides):
    """The optimizer that a recipe trains with, at a fixed learning rate."""
    data = types.SimpleNamespace(
        is_joint=True,
        source_vocabulary=VOCABULARY,
        target_vocabulary=VOCABULARY,
    )
    model = build_model(recipe.override(overrides), data, "float32")
    assert isinstance(model, Transformer)
    config = model.optimizer.get_config()
    config["learning_rate"] = RATE
    return ra.AveragingAdam.from_config(config)


def updated(weights, gradients, clip, epsilon, beta_2=0.98):
    """Plain formulas in float64: fairseq's clipping, then Kingma and Ba's Adam.

    The epsilon is that of the end of their section 2.
    """
    beta_1 = 0.9
    means = [np.zeros_like(weight) for weight in weights]
    squares = [np.zeros_like(weight) for weight in weights]
    for step, gradient in enumerate(gradients, 1):
        norm = np.sqrt(sum((part**2).sum() for part in gradient))
        factor = min(1.0, clip / norm)
        rate = RATE * np.sqrt(1 - beta_2**step) / (1 - beta_1**step)
        for number, part in enumerate(gradient):
            part = part * factor
            means[number] = beta_1 * means[number] + (1 - beta_1) * part
            squares[number] = beta_2 * squares[number] + (1 - beta_2) * part**2
            weights[number] = weights[number] - rate * means[number] / (
                np.sqrt(squares[number]) + epsilon
            )
    return weights


@pytest.mark.parametrize("epsilon", [1e-9, 1e-2], ids=str)
def test_clip_and_epsilon_are_those_of_the_formulas(epsilon, recipe):
    random = np.random.default_rng(1)
    weights = [random.normal(size=shape) for shape in ((2, 3), (5,))]
    # The first is shorter than the limit, the second longer.
    gradients = [
        [scale * random.normal(size=weight.shape) for weight in weights]
        for scale in (0.01, 1.0)
    ]
    optimizer = optimizer_of(
        recipe, "training.gradient_clip=0.5", f"training.adam_epsilon={epsilon}"
    )
    variables = [keras.Variable(weight) for weight in weights]
    for gradient in gradients:
        optimizer.apply(
            [keras.ops.array(g, "float32") for g in gradient], variables
        )
    expected = updated(weights, gradients, 0.5, epsilon)
    for variable, weight in zip(variables, expected):
        np.testing.assert_allclose(variable.numpy(), weight, atol=1e-5)


def test_without_a_limit_no_gradient_is_clipped(recipe):
    assert optimizer_of(recipe).global_clipnorm is None
    assert optimizer_of(recipe).epsilon == 1e-9
