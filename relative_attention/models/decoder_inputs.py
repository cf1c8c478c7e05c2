"""The decoder's inputs: labels shifted right."""

import numpy as np
from keras import ops

from relative_attention.tensor_type import Tensor


def decoder_inputs(labels: Tensor, start_token_id: int = 0) -> Tensor:
    """Returns labels shifted right, behind the start token.

        labels           [ 9, 22, 14,  1]
        decoder's inputs [ s,  9, 22, 14]

    Training, scoring, alignment, pictures and the first step of a search all
    begin here: a model converted from another system may start with an id
    that is not 0, and is another model behind another start.

    Args:
        labels: int array or tensor `(..., T)`, the target ids.
        start_token_id: int. `Transformer.start_token_id`. Defaults to `0`.

    Returns:
        The same kind of array or tensor, `(..., T)`.
    """
    # Batches are made of arrays, by threads that run no model.
    backend = np if isinstance(labels, np.ndarray) else ops
    # Cut from the labels, so that of no label there is no input either.
    start = backend.full_like(labels[..., :1], start_token_id)
    return backend.concatenate([start, labels[..., :-1]], axis=-1)
