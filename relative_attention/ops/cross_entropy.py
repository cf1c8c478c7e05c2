"""The training loss, token by token, on logits or on hidden states.

The smoothed distribution of a label `y` over `V` ids, with smoothing `s`, is
`q = 1 - s` at `y` and `q = s / (V - 1)` elsewhere. With the softmax `p` of a
row of logits and the entropy `H(q)`, the row's loss and gradient are

    loss = log(sum(exp(logits))) - sum(q * logits) - H(q)
    d loss / d logits = p - q

(Szegedy et al. 2016, section 7). Neither needs a matrix of `q`. Both are
computed in float32.

- `smoothed_cross_entropy` takes logits, for users' own models and metrics.
- `projected_cross_entropy` takes hidden states and the matrix that projects
  them to logits. `fit` runs it. It computes one block of rows at a time, which
  stays in the processor's cache, and never holds more logits than a block.
- `score_logits` computes the values for the metrics.
"""

import dataclasses
import math
from collections.abc import Callable

import keras
from keras import ops

from relative_attention.ops.backend import custom_gradient
from relative_attention.ops.backend import run_after
from relative_attention.ops.backend import sizes
from relative_attention.ops.masks import padding_mask
from relative_attention.tensor_type import Tensor

# With this many, a block of the logits of a few thousand tokens stays in cache.
# A small vocabulary needs fewer, and every block makes the graph larger.
_MOST_BLOCKS = 16
_BLOCK_VOCABULARY = 1000


@dataclasses.dataclass(frozen=True)
class TokenScores:
    """The values of a batch of logits that loss and metrics use.

    A step without logits passes this to metrics as `y_pred`.

    Attributes:
        negative_log_likelihoods: float32 `(B, T)`, one per label.
        matches: float32 `(B, T)`, 1 where no logit is higher than the label's.
        loss: float32 scalar, if a loss was computed. Defaults to `None`.
    """

    negative_log_likelihoods: Tensor
    matches: Tensor
    loss: Tensor = None


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


def smoothed_distribution(
    label_smoothing: float, vocabulary_size: int
) -> tuple[float, float, float]:
    """Describes the distribution `q` that replaces a label.

    `q` gives `1 - label_smoothing` to the label and spreads the rest evenly
    over the other ids, as tensor2tensor's does. Szegedy et al. (2016, section
    7) spread it over all of them.

    Args:
        label_smoothing: float in `[0, 1)`.
        vocabulary_size: int, the number of ids.

    Returns:
        Triple of floats: `q` of every other id, how much more the label has,
        and the entropy of `q`, which is the lowest possible cross entropy.
    """
    confidence = 1 - label_smoothing
    low = label_smoothing / max(vocabulary_size - 1, 1)
    entropy = -sum(
        count * p * math.log(p)
        for count, p in ((1, confidence), (vocabulary_size - 1, low))
        if p > 0
    )
    return low, confidence - low, entropy


# === Rows of logits ===


def map_row_blocks(
    function: Callable[..., Tensor], logits: Tensor, *columns: Tensor
) -> Tensor:
    """Applies `function` to blocks of rows and joins the results.

    Args:
        function: takes float32 logits `(r, V)` and columns `(r,)`, one for
            each of `columns`; returns a tensor with `r` rows.
        logits: float tensor `(R, V)`.
        *columns: tensors `(R,)`.

    Returns:
        Tensor with `R` rows.
    """
    return ops.concatenate(
        [
            function(
                ops.cast(logits[block], "float32"),
                *(column[block] for column in columns),
            )
            for block in _row_blocks(sizes(logits)[0], logits.shape[1])
        ]
    )


def _row_blocks(num_rows: int | Tensor, vocabulary_size: int) -> list[slice]:
    """Divides rows of logits into blocks that fit into the cache."""
    count = min(max(vocabulary_size // _BLOCK_VOCABULARY, 1), _MOST_BLOCKS)
    return [
        slice(index * num_rows // count, (index + 1) * num_rows // count)
        for index in range(count)
    ]


def log_normalizer(
    logits: Tensor, probabilities: Tensor | None = None
) -> Tensor:
    """Computes the logarithm of the sum of exponentials: `(r, V)` -> `(r,)`.

    Args:
        logits: float tensor `(r, V)`.
        probabilities: their softmax, if it is known.

    Returns:
        Float tensor `(r,)`.
    """
    if probabilities is None:
        probabilities = ops.softmax(logits, axis=-1)
    # Softmax is one kernel; the textbook formula needs four passes. The
    # largest probability is `exp(largest logit - log_normalizer)`.
    return largest(logits) - ops.log(largest(probabilities))


def largest(numbers: Tensor) -> Tensor:
    """Returns the largest number of each row: `(r, V)` -> `(r,)`."""
    # Keras refuses blocks without rows. It would not with `initial`, but then
    # it mixes devices on PyTorch with a GPU.
    has_rows = numbers.shape[0] != 0
    return ops.max(numbers, axis=-1) if has_rows else numbers[:, 0]


def label_logit(logits: Tensor, labels: Tensor) -> Tensor:
    """Returns the logit of each row's label: `(r, V)`, `(r,)` -> `(r,)`."""
    # One gather from a flat tensor, whose gradient is one scatter.
    rows = ops.arange(sizes(labels)[0], dtype="int32")
    flat = ops.reshape(logits, (-1,))
    return ops.take(flat, rows * logits.shape[-1] + labels)


def _add_at_labels(values: Tensor, labels: Tensor, addend: float) -> Tensor:
    """Adds a number at each row's label: `(r, V)`, `(r,)` -> `(r, V)`."""
    # Read, add and write back, because Keras adds in place only since 3.14. No
    # two rows write to the same place.
    rows = ops.arange(sizes(labels)[0], dtype="int32")
    return ops.scatter_update(
        values,
        ops.stack([rows, labels], axis=1),
        label_logit(values, labels) + addend,
    )


def score_logits(logits: Tensor, labels: Tensor) -> TokenScores:
    """Scores labels, for metrics.

    Args:
        logits: float tensor `(B, T, V)`.
        labels: int tensor `(B, T)`.

    Returns:
        `TokenScores` without a loss.
    """

    def scores(logits: Tensor, labels: Tensor) -> Tensor:
        of_label = label_logit(logits, labels)
        matches = ops.cast(of_label >= largest(logits), "float32")
        return ops.stack([log_normalizer(logits) - of_label, matches], axis=1)

    columns = map_row_blocks(
        scores,
        ops.reshape(logits, (-1, logits.shape[-1])),
        ops.reshape(ops.cast(labels, "int32"), (-1,)),
    )
    shape = sizes(labels)
    return TokenScores(
        ops.reshape(columns[:, 0], shape), ops.reshape(columns[:, 1], shape)
    )


# === The loss ===


def smoothed_cross_entropy(
    logits: Tensor, labels: Tensor, weights: Tensor, label_smoothing: float
) -> Tensor:
    """Adds up the weighted losses of rows of logits.

    Args:
        logits: float tensor `(R, V)`.
        labels: int tensor `(R,)`.
        weights: float32 tensor `(R,)`.
        label_smoothing: float in `[0, 1)`.

    Returns:
        float32 scalar.
    """
    low, peak, entropy = smoothed_distribution(
        label_smoothing, logits.shape[-1]
    )
    logits = ops.cast(logits, "float32")
    # `q` sums to 1, so the normalizer has no factor.
    losses = (
        ops.logsumexp(logits, axis=-1)
        - peak * label_logit(logits, labels)
        - low * ops.sum(logits, axis=-1)
        - entropy
    )
    return ops.sum(weights * losses)


def projected_cross_entropy(
    hidden: Tensor,
    embeddings: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    weights: Tensor,
    num_tokens: Tensor,
    label_smoothing: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the loss of the logits `hidden embeddings^T + bias`.

    The logits are by far the largest tensor of a batch: `V` numbers for each
    token. Here a block of rows is projected, scored and turned into its
    gradient while it is in the processor's cache. Only the gradients of the
    hidden states and of the matrix are kept.

    The products are in the dtype of `hidden`; softmax, logarithms and sums
    are in float32. A common factor of `weights` and `num_tokens` changes
    nothing but rounding in float32.

    Args:
        hidden: float tensor `(R, D)`.
        embeddings: float tensor `(V, D)`.
        bias: float tensor `(V,)`, or `None`.
        labels: int tensor `(R,)`.
        weights: float32 tensor `(R,)`.
        num_tokens: float32 scalar to divide the loss by, not 0.
        label_smoothing: float in `[0, 1)`.

    Returns:
        Triple: the weighted sum of the losses divided by `num_tokens`, a
        float32 scalar; the negative log-likelihood of the label of each row,
        float32 `(R,)`; and 1 for each row where no logit is higher, float32
        `(R,)`. Only the loss has a gradient.
    """
    num_rows = sizes(hidden)[0]
    dtype = hidden.dtype
    low, peak, entropy = smoothed_distribution(
        label_smoothing, embeddings.shape[0]
    )
    tensors = [hidden, embeddings, *([] if bias is None else [bias])]
    unit = _unit(weights)
    weights, num_tokens = weights / unit, num_tokens / unit

    @custom_gradient
    def scores(
        hidden: Tensor, embeddings: Tensor, bias: Tensor | None = None
    ) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, ...]]]:
        matrix = ops.cast(embeddings, dtype)
        rows = _score_projected_rows(
            hidden, matrix, bias, labels, weights, peak
        )
        # The constant `low` of `q` adds the same at every id. This is a sum
        # over the rows of the matrix, which needs no pass over the logits.
        states = ops.cast(hidden, "float32")
        of_label = ops.cast(ops.take(matrix, labels, axis=0), "float32")
        row_sum = ops.sum(ops.cast(matrix, "float32"), axis=0)
        # sum(q * logits) of each row.
        expected = ops.sum(states * (peak * of_label + low * row_sum), axis=-1)
        if bias is not None:
            bias_values = ops.cast(bias, "float32")
            expected = expected + (
                low * ops.sum(bias_values)
                + peak * ops.take(bias_values, labels)
            )
        loss = rows.normalizers - ops.sum(weights * (expected + entropy))
        loss = loss / num_tokens

        def gradient(upstream: Tensor) -> tuple[Tensor, ...]:
            scale = upstream[0] / num_tokens
            d_hidden = (rows.d_hidden - low * row_sum) * weights[:, None]
            d_low = low * ops.sum(states * weights[:, None], axis=0)
            gradients = (
                ops.cast(d_hidden * scale, dtype),
                ops.cast((rows.d_matrix - d_low) * scale, embeddings.dtype),
            )
            if bias is None:
                return gradients
            d_bias = (rows.d_bias - low * ops.sum(weights)) * scale
            return (*gradients, ops.cast(d_bias, bias.dtype))

        columns = [
            ops.reshape(loss, (1,)),
            rows.negative_log_likelihoods,
            rows.matches,
        ]
        return ops.concatenate(columns), gradient

    values = scores(*tensors)
    return values[0], values[1 : num_rows + 1], values[num_rows + 1 :]


def _unit(weights: Tensor) -> Tensor:
    """Returns the largest weight, and 1 if all are 0.

    Weights are multiplied in half precision, whose range is small. In this unit
    the largest is 1. Divided by the number of tokens, all would be too small.
    """
    # The zero is for batches without rows, see `largest`.
    zero = ops.zeros((1,), weights.dtype)
    unit = ops.max(ops.concatenate([ops.abs(weights), zero]))
    return ops.where(unit == 0, 1.0, unit)


@dataclasses.dataclass(frozen=True)
class _ProjectedRows:
    """The values that are kept from the logits of all rows.

    Attributes:
        normalizers: float32 scalar, the weighted sum of `log_normalizer`.
        negative_log_likelihoods, matches: float32 `(R,)`, see `TokenScores`.
        d_hidden: float32 `(R, D)`, gradient of the rows' losses, not weighted
            and without `low`.
        d_matrix: float32 `(V, D)`, gradient of the loss without `low`.
        d_bias: float32 `(V,)`, the same.
    """

    normalizers: Tensor
    negative_log_likelihoods: Tensor
    matches: Tensor
    d_hidden: Tensor
    d_matrix: Tensor
    d_bias: Tensor


def _score_projected_rows(
    hidden: Tensor,
    matrix: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    weights: Tensor,
    peak: float,
) -> _ProjectedRows:
    """Projects and scores block after block of hidden states `(R, D)`."""
    normalizers, likelihoods, matches, d_hidden = [], [], [], []
    d_matrix, d_bias = None, 0.0
    for block in _row_blocks(sizes(hidden)[0], matrix.shape[0]):
        # Wait for the previous block. Otherwise a graph keeps the products of
        # all blocks and adds them up at the end.
        rows = run_after(hidden[block], d_matrix)
        row_labels, row_weights = labels[block], weights[block]
        logits = ops.matmul(rows, ops.transpose(matrix))
        if bias is not None:
            logits = logits + ops.cast(bias, logits.dtype)
        logits = ops.cast(logits, "float32")
        # The label's part of `q` is subtracted before rounding to half
        # precision. In a trained model `p` is near `q` there, and the
        # difference of two rounded sums would be noise.
        row_normalizers, slopes = _normalizers_and_slopes(
            logits, row_labels, peak
        )
        of_label = label_logit(logits, row_labels)
        normalizers.append(ops.sum(row_weights * row_normalizers))
        likelihoods.append(row_normalizers - of_label)
        matches.append(ops.cast(of_label >= largest(logits), "float32"))
        rounded = ops.cast(slopes, rows.dtype)
        d_hidden.append(ops.cast(ops.matmul(rounded, matrix), "float32"))
        weighted = rows * ops.cast(row_weights, rows.dtype)[:, None]
        product = ops.matmul(ops.transpose(rounded), weighted)
        product = ops.cast(product, "float32")
        d_matrix = product if d_matrix is None else d_matrix + product
        if bias is not None:
            d_bias = d_bias + ops.matmul(row_weights[None], slopes)[0]
    return _ProjectedRows(
        sum(normalizers),
        ops.concatenate(likelihoods),
        ops.concatenate(matches),
        ops.concatenate(d_hidden),
        d_matrix,
        d_bias,
    )


def _normalizers_and_slopes(
    logits: Tensor, labels: Tensor, peak: float
) -> tuple[Tensor, Tensor]:
    """Returns `log_normalizer`, and softmax minus `peak` at the labels."""
    if keras.backend.backend() != "jax":
        probabilities = ops.softmax(logits, axis=-1)
        return (
            log_normalizer(logits, probabilities),
            _add_at_labels(probabilities, labels, -peak),
        )
    # XLA makes one pass of this and the rounding that follows. To write at the
    # labels, all probabilities would have to be in memory, in float32.
    normalizers = ops.logsumexp(logits, axis=-1)
    is_label = ops.arange(logits.shape[-1]) == labels[:, None]
    slopes = ops.exp(logits - normalizers[:, None])
    return normalizers, slopes - ops.where(is_label, peak, 0.0)
