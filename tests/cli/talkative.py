"""A copy of a run whose model says more than one that has learnt a moment."""

import shutil

import keras

import relative_attention as ra
from relative_attention.models.weights import save_weights


def make_talkative(trained, folder):
    """Copies a run, with initial weights, which talk at random.

    After a dozen steps a model has hardly learnt more than to end at once.
    """
    shutil.copytree(trained, folder)
    keras.utils.set_random_seed(5)
    model = ra.Transformer(ra.load_translator(trained).model.config)
    save_weights(model.weights, folder / "model.safetensors")
    return folder
