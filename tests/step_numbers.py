"""Writes what training steps of each kind do on one backend.

`KERAS_BACKEND=jax python step_numbers.py numbers.npz`, for `test_backends.py`.
Weights and batches come from NumPy and are the same on each; there is no
dropout, so the numbers must be, too.
"""

import sys

import keras
import numpy as np
from keras import ops

import relative_attention as ra

V = 23
CONFIG = {
    "vocabulary_size": V,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "hidden_dim": 8,
    "intermediate_dim": 12,
    "num_heads": 2,
    "max_relative_position": 2,
    "dropout": 0.0,
    "position_encoding": "relative",
}
# How a step is compiled, by name.
CASES = {
    "plain": {},
    "clipped": {"global_clipnorm": 0.05},
    "parts": {"accumulation_steps": 3},
    "other_metrics": {"metrics": ["sparse_categorical_accuracy"]},
    "half": {"dtype": "mixed_float16"},
}


def batch(num_rows, seed):
    """Inputs and labels, some rows of which are padding alone."""
    rng = np.random.default_rng(seed)
    source, labels = rng.integers(2, V, size=(2, num_rows, 6)).astype("int32")
    source[0, 4:], labels[1, 2:] = 0, 0
    source[-1], labels[-1] = 0, 0
    inputs = np.pad(labels[:, :-1], ((0, 0), (1, 0)))
    return {"source_token_ids": source, "target_token_ids": inputs}, labels


def model_of(global_clipnorm=None, dtype="float32", **compiled):
    rng = np.random.default_rng(7)
    model = ra.Transformer(ra.TransformerConfig(**CONFIG), dtype=dtype)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(size=weight.shape) / 2)
    compiled.setdefault("metrics", [ra.Perplexity(), ra.TokenAccuracy()])
    # Adam's first step would turn gradients that are rounding errors into
    # whole steps.
    model.compile(
        keras.optimizers.SGD(0.1, global_clipnorm=global_clipnorm),
        ra.MaskedCrossEntropy(0.1),
        **compiled,
    )
    return model


def weights_of(name, model):
    for index, weight in enumerate(model.trainable_weights):
        yield f"{name}/weight_{index}", ops.convert_to_numpy(weight)


def of_case(name, options):
    """What is shown of two updates and a validation, and the weights."""
    model = model_of(**options)
    for seed in range(2):
        shown = model.train_on_batch(*batch(5, seed), return_dict=True)
        for key, value in shown.items():
            yield f"{name}/step_{seed}/{key}", value
    yield from weights_of(name, model)
    shown = model.evaluate(*batch(5, 2), verbose=0, return_dict=True)
    for key, value in shown.items():
        yield f"{name}/validation/{key}", value


def of_update_that_is_not_finite():
    """It is left out, shown, and training goes on."""
    model = model_of()
    inputs, labels = batch(5, 0)
    weights = np.ones(labels.shape, "float32")
    weights[0, 0] = np.inf
    for number, sample_weight in enumerate((None, weights, None)):
        shown = model.train_on_batch(
            inputs, labels, sample_weight, return_dict=True
        )
        for key in ("loss", "gradient_norm", "skipped"):
            yield f"not_finite/step_{number}/{key}", shown[key]
        yield from weights_of(f"not_finite/step_{number}", model)
    yield "not_finite/updates", ops.convert_to_numpy(model.optimizer.iterations)


def main(path):
    numbers = dict(of_update_that_is_not_finite())
    for name, options in CASES.items():
        numbers.update(of_case(name, options))
    np.savez(path, **numbers)


if __name__ == "__main__":
    main(sys.argv[1])
