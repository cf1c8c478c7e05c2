"""The log-likelihood of labels, for a few rows of logits at a time.

The loss and the metrics all start from these. Written alike, the graph
compiler computes what they share once, and the metrics cost next to nothing.
"""

from collections.abc import Callable

from keras import ops

from relative_attention.ops.backend import sizes
from relative_attention.ops.masks import padding_mask
from relative_attention.tensor_type import Tensor

# Enough that a block of the logits of a few thousand tokens stays in cache; a
# small vocabulary needs fewer, and every chunk makes the graph larger.
_MOST_CHUNKS = 16
_CHUNK_VOCABULARY = 1000


def map_row_chunks(
    function: Callable[..., Tensor], logits: Tensor, *columns: Tensor
) -> Tensor:
    """Applies `function` to blocks of rows and joins the results.

    Args:
        function: takes float32 logits `(r, V)` and as many columns `(r,)` as
            there are in `columns`; returns a tensor with `r` rows.
        logits: float tensor `(R, V)`.
        *columns: tensors `(R,)`.

    Returns:
        Tensor with `R` rows.
    """
    num_rows = sizes(logits)[0]
    num_chunks = num_row_chunks(logits.shape[1])
    results = []
    for index in range(num_chunks):
        chunk = slice(
            index * num_rows // num_chunks,
            (index + 1) * num_rows // num_chunks,
        )
        results.append(
            function(
                ops.cast(logits[chunk], "float32"),
                *(column[chunk] for column in columns),
            )
        )
    return ops.concatenate(results)


def num_row_chunks(vocabulary_size: int) -> int:
    """Returns into how many blocks to divide the rows of logits."""
    return min(max(vocabulary_size // _CHUNK_VOCABULARY, 1), _MOST_CHUNKS)


def log_normalizer(logits: Tensor) -> Tensor:
    """Computes the logarithm of the sum of exponentials: `(r, V)` -> `(r,)`.

    Softmax is one kernel where the textbook way takes four passes; its
    largest probability is `exp(largest logit - log_normalizer)`.
    """
    probabilities = ops.softmax(logits, axis=-1)
    largest_probability = ops.max(probabilities, axis=-1, initial=0.0)
    return largest_logit(logits) - ops.log(largest_probability)


def largest_logit(logits: Tensor) -> Tensor:
    """Returns the largest logit of each row: `(r, V)` -> `(r,)`."""
    # `initial` for blocks without rows, which Keras refuses otherwise.
    return ops.max(logits, axis=-1, initial=-1e30)


def label_logit(logits: Tensor, labels: Tensor) -> Tensor:
    """Returns the logit of each row's label: `(r, V)`, `(r,)` -> `(r,)`."""
    # One gather from a flat tensor, whose gradient is one scatter.
    rows = ops.arange(sizes(labels)[0], dtype="int32")
    flat = ops.reshape(logits, (-1,))
    return ops.take(flat, rows * logits.shape[-1] + labels)


def add_at_labels(values: Tensor, labels: Tensor, addends: Tensor) -> Tensor:
    """Adds a number to the value of each row's label.

    Args:
        values: float tensor `(r, V)`.
        labels: int32 tensor `(r,)`.
        addends: float tensor `(r,)`.

    Returns:
        Float tensor `(r, V)`.
    """
    # Read, added to and put back: Keras adds in place only since 3.14. No two
    # rows share a place.
    rows = ops.arange(sizes(labels)[0], dtype="int32")
    return ops.scatter_update(
        values,
        ops.stack([rows, labels], axis=1),
        label_logit(values, labels) + addends,
    )


def token_weights(
    labels: Tensor, sample_weight: Tensor | None = None
) -> Tensor:
    """Returns the weight of each token: 0 where the label is 0, else 1.

    Args:
        labels: int tensor `(B, T)`.
        sample_weight: float tensor `(B,)` or `(B, T)` to multiply by.

    Returns:
        float32 tensor `(B, T)`.
    """
    weights = ops.cast(padding_mask(labels), "float32")
    if sample_weight is None:
        return weights
    sample_weight = ops.cast(sample_weight, "float32")
    if len(sample_weight.shape) == 1:
        sample_weight = sample_weight[:, None]
    return weights * sample_weight
