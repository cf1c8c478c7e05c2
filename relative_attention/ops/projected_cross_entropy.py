"""Logits, their cross entropy and its gradient, a few rows at a time.

The logits of a batch are by far its largest tensor: `V` numbers a token, for a
loss that is one. Here a block of rows is projected, scored and turned into its
gradient while it is in the processor's cache, and is forgotten: only the
gradients of the hidden states and of the matrix are kept, which are as small
as those are.

With `q` the smoothed distribution of a label, as in `MaskedCrossEntropy`, and
`p` the softmax, the gradient of a row's logits is `p - q`. `q` is a constant,
and more at the label. The share of the constant in the products with the matrix
is a sum of its rows, and needs no pass over the logits. That of the label must
be subtracted from `p` before it is rounded to half precision: a model that has
learnt something has `p` nearly `q` there, and of two sums of such numbers,
rounded each, the difference would be noise.
"""

import dataclasses
from collections.abc import Callable

from keras import ops

from relative_attention.ops.backend import custom_gradient
from relative_attention.ops.backend import run_after
from relative_attention.ops.backend import sizes
from relative_attention.ops.label_smoothing import smoothed_distribution
from relative_attention.ops.token_log_likelihood import add_at_labels
from relative_attention.ops.token_log_likelihood import label_logit
from relative_attention.ops.token_log_likelihood import largest_logit
from relative_attention.ops.token_log_likelihood import num_row_chunks
from relative_attention.tensor_type import Tensor


@dataclasses.dataclass(frozen=True)
class LossTerms:
    """Says what the loss of a token is made of.

        sum over copies c of copy_weights[c] * cross entropy of p_c
        + divergence * (KL(p_0 || p_1) + KL(p_1 || p_0)) / 2     symmetric
        + divergence * KL(p_0 || p_1)                            else

    Attributes:
        label_smoothing: Probability spread over the wrong tokens.
        copy_weights: A weight for each copy of the batch: one, or two.
        divergence: Weight of the divergence of two copies.
        symmetric: Whether it is the mean of both directions.
    """

    label_smoothing: float = 0.0
    copy_weights: tuple[float, ...] = (1.0,)
    divergence: float = 0.0
    symmetric: bool = True


def projected_cross_entropy(
    hidden: Tensor,
    embeddings: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    weights: Tensor,
    num_tokens: Tensor,
    terms: LossTerms,
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the loss of the logits `hidden embeddings^T + bias`.

    The products are of the dtype of `hidden`; softmax, logarithms and sums
    are in float32.

    Args:
        hidden: float tensor `(C, R, D)`: `C` copies of `R` rows, which differ
            in what was dropped of them.
        embeddings: float tensor `(V, D)`.
        bias: float tensor `(V,)`, or `None`.
        labels: int tensor `(R,)`.
        weights: float32 tensor `(R,)`.
        num_tokens: float32 scalar to divide the loss by, not 0.
        terms: `LossTerms`, with `C` copies.

    Returns:
        Triple of the loss, a float32 scalar, and of each row of the first
        copy the negative log-likelihood of its label, float32 `(R,)`, and
        whether no logit is higher, float32 `(R,)`. Only the loss has a
        gradient.

    Reference:
     - [Szegedy et al., 2016](https://arxiv.org/abs/1512.00567), section 7
     - [Liang et al., 2021](https://arxiv.org/abs/2106.14448), equation 2, the
       divergence
    """
    num_rows = sizes(hidden)[1]
    dtype = hidden.dtype
    tensors = [hidden, embeddings, *([] if bias is None else [bias])]

    @custom_gradient
    def scores(
        hidden: Tensor, embeddings: Tensor, bias: Tensor | None = None
    ) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, ...]]]:
        matrix = ops.cast(embeddings, dtype)
        loss, columns, d_hidden, d_matrix, d_bias = _dense_part(
            hidden, matrix, bias, labels, weights, terms
        )
        smooth = _SmoothLabels(matrix, bias, labels, weights, terms)
        loss = (loss - smooth.loss(hidden)) / num_tokens

        def gradient(upstream: Tensor) -> tuple[Tensor, ...]:
            scale = upstream[0] / num_tokens
            d_rows = d_hidden - smooth.d_hidden()
            gradients = (
                ops.cast(d_rows * weights[:, None] * scale, dtype),
                ops.cast(
                    (d_matrix - smooth.d_matrix(hidden)) * scale,
                    embeddings.dtype,
                ),
            )
            if bias is None:
                return gradients
            d_all = (d_bias - smooth.d_bias()) * scale
            return (*gradients, ops.cast(d_all, bias.dtype))

        loss = ops.reshape(loss, (1,))
        return ops.concatenate([loss, *columns]), gradient

    values = scores(*tensors)
    return values[0], values[1 : num_rows + 1], values[num_rows + 1 :]


def _dense_part(
    hidden: Tensor,
    matrix: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    weights: Tensor,
    terms: LossTerms,
) -> tuple[Tensor, list[Tensor], Tensor, Tensor, Tensor | None]:
    """Adds up all but the share of the smoothed labels, block after block.

    Returns:
        Weighted sum of the losses; the two columns that
        `projected_cross_entropy` returns; and the gradients of hidden states
        `(C, R, D)`, still to be weighted, matrix `(V, D)` and bias `(V,)`.
    """
    num_rows, vocabulary_size = sizes(hidden)[1], matrix.shape[0]
    num_chunks = num_row_chunks(vocabulary_size)
    losses, negative_log_likelihoods, matches, d_hidden = [], [], [], []
    d_matrix, d_bias = None, 0.0
    for index in range(num_chunks):
        chunk = slice(
            index * num_rows // num_chunks,
            (index + 1) * num_rows // num_chunks,
        )
        # One after the other: otherwise the products of all would be kept, and
        # added up in the end.
        rows = _flat(run_after(hidden[:, chunk], d_matrix))
        row_weights = weights[chunk]
        logits = ops.matmul(rows, ops.transpose(matrix))
        if bias is not None:
            logits = logits + ops.cast(bias, logits.dtype)
        logits = ops.cast(logits, "float32")
        scored = _score_rows(logits, labels[chunk], terms)
        slopes = _without_peaks(scored.slopes, labels[chunk], terms)
        losses.append(ops.sum(row_weights * scored.losses))
        negative_log_likelihoods.append(scored.negative_log_likelihoods)
        matches.append(scored.matches)
        rounded = ops.cast(slopes, rows.dtype)
        d_rows = ops.cast(ops.matmul(rounded, matrix), "float32")
        d_hidden.append(ops.reshape(d_rows, sizes(hidden[:, chunk])))
        copies = ops.tile(row_weights, (len(terms.copy_weights),))
        weighted = rows * ops.cast(copies, rows.dtype)[:, None]
        product = ops.matmul(ops.transpose(rounded), weighted)
        product = ops.cast(product, "float32")
        d_matrix = product if d_matrix is None else d_matrix + product
        if bias is not None:
            d_bias = d_bias + ops.matmul(copies[None], slopes)[0]
    return (
        sum(losses),
        [ops.concatenate(negative_log_likelihoods), ops.concatenate(matches)],
        ops.concatenate(d_hidden, axis=1),
        d_matrix,
        d_bias if bias is not None else None,
    )


@dataclasses.dataclass(frozen=True)
class _ScoredRows:
    """What some rows of logits give.

    Attributes:
        losses: float32 `(r,)`, but for the share of the smoothed labels.
        negative_log_likelihoods: float32 `(r,)`, of the labels.
        matches: float32 `(r,)`, 1 where no logit is higher.
        slopes: float32 `(C r, V)`, gradients of `losses` by the logits.
    """

    losses: Tensor
    negative_log_likelihoods: Tensor
    matches: Tensor
    slopes: Tensor


def _score_rows(
    logits: Tensor, labels: Tensor, terms: LossTerms
) -> _ScoredRows:
    """Scores logits `(C r, V)`, one copy after the other."""
    # Softmax is one kernel; its highest probability is that of the highest
    # logit, which gives the normalizer without another pass.
    probabilities = ops.softmax(logits, axis=-1)
    largest = largest_logit(logits)
    normalizers = largest - ops.log(ops.max(probabilities, -1, initial=0.0))
    num_rows = sizes(labels)[0]
    of_label = label_logit(logits[:num_rows], labels)
    negative_log_likelihoods = normalizers[:num_rows] - of_label
    matches = ops.cast(of_label >= largest[:num_rows], "float32")
    if len(terms.copy_weights) == 1:
        (weight,) = terms.copy_weights
        losses = weight * normalizers
        slopes = probabilities if weight == 1 else weight * probabilities
        return _ScoredRows(losses, negative_log_likelihoods, matches, slopes)
    scored, slopes = _score_copies(
        (logits[:num_rows], logits[num_rows:]),
        (probabilities[:num_rows], probabilities[num_rows:]),
        (normalizers[:num_rows], normalizers[num_rows:]),
        terms,
    )
    return _ScoredRows(scored, negative_log_likelihoods, matches, slopes)


def _score_copies(
    logits: tuple[Tensor, Tensor],
    probabilities: tuple[Tensor, Tensor],
    normalizers: tuple[Tensor, Tensor],
    terms: LossTerms,
) -> tuple[Tensor, Tensor]:
    """Returns losses `(r,)` and slopes `(2 r, V)` of two copies.

    With `r = log(p / q)` and `F = KL(p || q) = sum(p r)`, of each row

        d F / d logits of p = p (r - F),    d F / d logits of q = q - p

    and likewise for the other direction, where `p`, `q` and the sign of `r`
    change places. All that does not differ from column to column is taken out
    of the full matrices, as passes over those are what this costs.
    """
    p, q = probabilities
    first_weight, second_weight = terms.copy_weights
    # r, but for a constant of each row.
    ratios = logits[0] - logits[1]
    constant = normalizers[0] - normalizers[1]
    forward = _row_products(p, ratios) - constant
    losses = first_weight * normalizers[0] + second_weight * normalizers[1]
    if not terms.symmetric:
        weight = terms.divergence
        scaled = weight * ratios
        of_first = first_weight - weight * (constant + forward)
        slopes = [
            p * (scaled + of_first[:, None]),
            (weight + second_weight) * q - weight * p,
        ]
        return losses + weight * forward, ops.concatenate(slopes)
    backward = constant - _row_products(q, ratios)
    weight = terms.divergence / 2
    scaled = weight * ratios
    of_first = first_weight + weight * (1.0 - constant - forward)
    of_second = second_weight + weight * (1.0 + constant - backward)
    slopes = [
        p * (scaled + of_first[:, None]) - weight * q,
        q * (of_second[:, None] - scaled) - weight * p,
    ]
    return losses + weight * (forward + backward), ops.concatenate(slopes)


def _row_products(left: Tensor, right: Tensor) -> Tensor:
    """Returns `sum(left * right)` of each row: two `(r, V)` -> `(r,)`."""
    return ops.sum(left * right, axis=-1)


def _without_peaks(slopes: Tensor, labels: Tensor, terms: LossTerms) -> Tensor:
    """Subtracts from slopes `(C r, V)` what `q` has more at the label."""
    _, peak, _ = smoothed_distribution(terms.label_smoothing, slopes.shape[-1])
    copies = len(terms.copy_weights)
    ones = ops.ones_like(labels, dtype=slopes.dtype)
    peaks = [-peak * weight * ones for weight in terms.copy_weights]
    return add_at_labels(
        slopes, ops.tile(labels, (copies,)), ops.concatenate(peaks)
    )


class _SmoothLabels:
    """The share of the smoothed labels `q` in the loss, and its gradients.

    What it returns is to be subtracted: of each row and copy, the loss has
    `sum(q * logits) + H(q)`, with `q = low + peak at the label`; its gradients
    are still without those of `low`.
    """

    def __init__(
        self,
        matrix: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        weights: Tensor,
        terms: LossTerms,
    ) -> None:
        self._low, self._peak, self._entropy = smoothed_distribution(
            terms.label_smoothing, matrix.shape[0]
        )
        self._copy_weights = terms.copy_weights
        self._labels = labels
        self._weights = weights
        self._bias = None if bias is None else ops.cast(bias, "float32")
        self._of_label = ops.cast(ops.take(matrix, labels, axis=0), "float32")
        self._sum = ops.sum(ops.cast(matrix, "float32"), axis=0)

    def loss(self, hidden: Tensor) -> Tensor:
        """Returns the weighted sum over rows and copies: a scalar."""
        rows = self._weighted_copies(hidden)
        target = self._peak * self._of_label + self._low * self._sum
        shares = ops.sum(rows * target, axis=-1)
        total = sum(self._copy_weights)
        if self._bias is not None:
            shares = shares + total * (
                self._low * ops.sum(self._bias)
                + self._peak * ops.take(self._bias, self._labels)
            )
        return ops.sum(self._weights * (shares + total * self._entropy))

    def d_hidden(self) -> Tensor:
        """Returns the gradient of hidden states, unweighted: `(C, 1, D)`."""
        row = self._low * self._sum
        return ops.stack([weight * row[None] for weight in self._copy_weights])

    def d_matrix(self, hidden: Tensor) -> Tensor:
        """Returns the gradient of each row of the matrix: `(D,)`."""
        rows = self._weighted_copies(hidden)
        return self._low * ops.sum(rows * self._weights[:, None], axis=0)

    def d_bias(self) -> Tensor:
        """Returns the gradient of each element of the bias: a scalar."""
        return self._low * sum(self._copy_weights) * ops.sum(self._weights)

    def _weighted_copies(self, hidden: Tensor) -> Tensor:
        """Returns the copies' weighted sum, float32, as all here is linear."""
        return sum(
            weight * ops.cast(hidden[copy], "float32")
            for copy, weight in enumerate(self._copy_weights)
        )


def _flat(rows: Tensor) -> Tensor:
    return ops.reshape(rows, (-1, rows.shape[-1]))
