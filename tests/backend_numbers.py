"""Writes what small models or training steps compute on one backend.

`KERAS_BACKEND=jax python -m tests.backend_numbers models FILE.npz`, or `steps`,
for `numbers_on`, since one process knows one backend. Inputs and weights
come from NumPy and are the same on each; there is no dropout, so the numbers
must be, too. Layers are compared with float64 on each: `make test-backends`.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import keras
import numpy as np
from keras import ops

import relative_attention as ra
from tests.backend_gradients import gradients

B, T, S, D, N, H, K, V = 2, 7, 5, 12, 3, 4, 2, 23
CONFIG = {
    "vocabulary_size": V,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "hidden_dim": D,
    "intermediate_dim": 17,
    "num_heads": N,
    "max_relative_position": K,
    "dropout": 0.0,
}
# How a step is compiled, by name.
CASES = {
    "clipped": {
        "global_clipnorm": 0.05,
        "metrics": ["sparse_categorical_accuracy"],
    },
    "parts": {"accumulation_steps": 3},
    "half": {"dtype": "mixed_float16"},
    "added": {"added_loss": "l2"},
}


def numbers_on(backend, folder, part):
    """What `main` writes of a part in a process with that backend."""
    path = folder / f"{backend}.npz"
    subprocess.run(
        [sys.executable, "-m", __name__, part, path],
        check=True,
        cwd=pathlib.Path(__file__).parents[1],
        env={**os.environ, "KERAS_BACKEND": backend},
    )
    with np.load(path) as numbers:
        return dict(numbers)


def fill(layer, rng):
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(size=weight.shape) / 2)


def of_model(rng, position_encoding):
    """Logits, loss, gradients, decode steps, search and one training step."""
    model = ra.Transformer(
        ra.TransformerConfig(position_encoding=position_encoding, **CONFIG)
    )
    fill(model, rng)
    source = rng.integers(2, V, size=(B, S)).astype("int32")
    labels = rng.integers(2, V, size=(B, T)).astype("int32")
    source[0, 3:], source[1, -1] = [1, 0], 1
    labels[0, 4:], labels[1, -1] = [1, 0, 0], 1
    inputs = {
        "source_token_ids": source,
        "target_token_ids": np.pad(labels[:, :-1], ((0, 0), (1, 0))),
    }
    loss = ra.MaskedCrossEntropy(label_smoothing=0.1)
    yield "logits", model(inputs)
    yield "loss", loss(labels, model(inputs))
    results = gradients(
        lambda: loss(labels, model(inputs)), variables=model.trainable_weights
    )
    for index, gradient in enumerate(results):
        yield f"gradient_{index}", gradient

    cache = model.start_cache(source)
    for position in range(T):
        logits, cache = model.decode_step(
            inputs["target_token_ids"][:, position, None], cache, position
        )
        yield f"step_{position}", logits
    for name, beams in (
        ("greedy", {"num_beams": 1}),
        ("beam", {"num_beams": 4, "num_results": 3}),
        ("begun", {"target_prefix": [[4, 6], [8, 0]], "min_length": 4}),
    ):
        results = ra.beam_search(model, source, max_length=6, **beams)
        yield f"{name}/token_ids", results["token_ids"]
        yield f"{name}/scores", results["scores"]

    # Adam's first step would turn gradients that are rounding errors into
    # whole steps.
    model.compile(keras.optimizers.SGD(0.1), loss)
    history = model.fit(inputs, labels, batch_size=B, verbose=0).history
    yield "fit/loss", history["loss"]
    for index, weight in enumerate(model.trainable_weights):
        yield f"fit/weight_{index}", weight


def of_task(rng):
    """What a task of KerasHub computes of ids, back from a preset."""
    backbone = ra.hub.TranslationBackbone(**CONFIG)
    fill(backbone.transformer, rng)
    with tempfile.TemporaryDirectory() as folder:
        backbone.save_to_preset(folder)
        task = ra.hub.TranslationLM.from_preset(
            folder, preprocessor=None, max_extra_length=2
        )
    inputs = {}
    for side in ("encoder", "decoder"):
        ids = rng.integers(2, V, size=(B, S)).astype("int32")
        ids[:, -1] = 1
        inputs[f"{side}_token_ids"] = ids
        inputs[f"{side}_padding_mask"] = np.ones_like(ids, bool)
    yield "logits", task(inputs)
    # The first ids begin the translation; the end that follows them does not.
    begun = {name: value.copy() for name, value in inputs.items()}
    begun["decoder_token_ids"][:, -1] = 0
    begun["decoder_padding_mask"][:, -1] = False
    yield "searched", task.generate(begun)["decoder_token_ids"]
    task.compile(optimizer=keras.optimizers.SGD(0.1))
    labels = rng.integers(2, V, size=(B, S)).astype("int32")
    yield "loss", task.train_on_batch(inputs, labels)[0]
    for index, weight in enumerate(task.trainable_weights):
        yield f"weight_{index}", weight


def models():
    rng = np.random.default_rng(2018)
    for name, value in of_task(rng):
        yield f"task/{name}", value
    for encoding in ("relative", "sinusoidal"):
        for name, value in of_model(rng, encoding):
            yield f"{encoding}_transformer/{name}", value


# === Training steps ===


def batch(num_rows, seed):
    """Inputs and labels, some rows of which are padding alone."""
    rng = np.random.default_rng(seed)
    source, labels = rng.integers(2, V, size=(2, num_rows, 6)).astype("int32")
    source[0, 4:], labels[1, 2:] = 0, 0
    source[-1], labels[-1] = 0, 0
    inputs = np.pad(labels[:, :-1], ((0, 0), (1, 0)))
    return {"source_token_ids": source, "target_token_ids": inputs}, labels


def model_of(
    global_clipnorm=None, dtype="float32", added_loss=None, **compiled
):
    rng = np.random.default_rng(7)
    model = ra.Transformer(ra.TransformerConfig(**CONFIG), dtype=dtype)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(size=weight.shape) / 2)
    for block in (*model.encoder_blocks, *model.decoder_blocks):
        block.activity_regularizer = keras.regularizers.get(added_loss)
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
        for key, value in shown.items():
            yield f"not_finite/step_{number}/{key}", value
        yield from weights_of(f"not_finite/step_{number}", model)
    shown = model.evaluate(inputs, labels, verbose=0, return_dict=True)
    for key, value in shown.items():
        yield f"not_finite/validation/{key}", value
    yield "not_finite/updates", ops.convert_to_numpy(model.optimizer.iterations)


def steps():
    yield from of_update_that_is_not_finite()
    for name, options in CASES.items():
        yield from of_case(name, options)


def main(part, path):
    numbers = {"models": models, "steps": steps}[part]()
    np.savez(
        path,
        **{
            name: np.array(value)
            if isinstance(value, list | float)
            else ops.convert_to_numpy(value)
            for name, value in numbers
        },
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
