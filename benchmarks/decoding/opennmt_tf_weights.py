"""The weights of a trained model as OpenNMT-tf has them."""

import pathlib
from typing import Any

import relative_attention as ra
from benchmarks.harness.opennmt_tf import write_vocabulary


def write_model(model: "ra.Transformer", folder: pathlib.Path) -> str:
    """Writes a trained model for `opennmt_tf_engine`.

    Args:
        model: A `Transformer` of the architecture of
            `transformer_small_relative`, all embeddings shared.
        folder: The path of a folder to make.

    Returns:
        The path of the weights, a string; the vocabulary lies beside it.
    """
    import numpy as np

    from relative_attention.convert.opennmt_tf import SOURCE_EMBEDDING
    from relative_attention.convert.opennmt_tf import stored_weights

    arrays: dict[str, Any] = {
        path: np.reshape(weight.variable, weight.shape)
        for path, weight in stored_weights(model).items()
    }
    rows = arrays[SOURCE_EMBEDDING]
    # There the end of sentence is 2, and 1 starts translations: with the zero
    # vector, as here. The last row is that of unknown words.
    rows = rows[[0, 2, 1, *range(3, len(rows))]]
    rows[1] = 0
    arrays[SOURCE_EMBEDDING] = np.concatenate([rows, 0 * rows[:1]])
    folder.mkdir()
    np.savez(folder / "weights.npz", **arrays)
    write_vocabulary(folder / "vocabulary", model.config.vocabulary_size)
    return str(folder / "weights.npz")
