"""The relation embeddings of a model, block by block."""

import keras
import numpy as np
from keras import ops


def relation_tables(model: keras.Model) -> dict[str, np.ndarray]:
    """Returns the embeddings of distances that a `Transformer` has learnt.

    Args:
        model: `Transformer`.

    Returns:
        Dict: float32 NumPy arrays `(N, 2K + 1, H)`, with `N` 1 where heads
        share a table, by names such as `"encoder_block_0/key"`; without
        those that the model does not have. Row `r` is distance `r - K`.
    """
    tables = {}
    for block in (*model.encoder_blocks, *model.decoder_blocks):
        layer = block.self_attention
        for side in ("key", "value"):
            table = getattr(layer, f"{side}_relation_embeddings", None)
            if table is not None:
                table = ops.convert_to_numpy(table).astype("float32")
                tables[f"{block.name}/{side}"] = (
                    table if table.ndim == 3 else table[None]
                )
    return tables
