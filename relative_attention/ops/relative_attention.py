"""Self-attention with relations of clipped distances: forward and gradient.

`fit`, `translate` and exported models run this. For a query `i`, a key `j` and
their distance, clipped to `K` on either side, `c = clip(j - i, -K, K)` (Shaw et
al. 2018); `q` is divided by `sqrt(H)`:

    S_ij = q_i (k_j + w^K_c)                      eqs. 4 and 5
    P_ij = exp(S_ij) / sum_j exp(S_ij)            eq. 2
    Z_ij = keep_ij P_ij / (1 - rate)              dropout; without it, Z = P
    O_i  = sum_j Z_ij (v_j + w^V_c)               eq. 3

The gradient, from that of the context vectors `dO` (Dao et al. 2022, appendix
B.2, with relations added):

    dZ_ij  = dO_i (v_j + w^V_c)
    dP_ij  = keep_ij dZ_ij / (1 - rate)
    D_i    = sum_j P_ij dP_ij = dO_i O_i
    dS_ij  = P_ij (dP_ij - D_i)
    dq_i   = sum_j dS_ij (k_j + w^K_c)
    dk_j   = sum_i dS_ij q_i
    dv_j   = sum_i Z_ij dO_i
    dw^K_d = sum_ij [c = d] dS_ij q_i             [c = d] is 1 where a pair is
    dw^V_d = sum_ij [c = d] Z_ij dO_i             at distance `d`, otherwise 0

Two functions compute all of it, without an embedding for each pair:

    product(x, y, w)  x_i (y_j + w_c)             S and dZ
    sums(a, y, w)     sum_j a_ij (y_j + w_c)      O and dq

Only `2K + 1` vectors `w` are distinct. All keys farther back than `K` share
one of them, and all keys farther ahead another. So values get `w_-K`, and
`r_d = w_d - w_-K` is added where it is not zero: near the main diagonal, and to
keys farther ahead. `w_-K` is not added to keys: it would add the same number to
all logits of a row, which the softmax ignores.

There are two implementations. With TensorFlow on CPUs a pass over
`(B, N, T, T)` costs as much as a matrix product: `_Diagonals` avoids such
passes, and computes the gradient explicitly. Everywhere else, ONNX and LiteRT
included, rows are shifted into place, and the backend differentiates. A text
that is known to have over 2,048 tokens goes through `long_attention.py`. With
`implementation="recompute"` every text does.
"""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

from keras import ops

from relative_attention.ops.attention import plain_product
from relative_attention.ops.attention import softmax_over_keys
from relative_attention.ops.attention import table_product
from relative_attention.ops.backend import has_own_kernels
from relative_attention.ops.backend import is_for_other_runtime
from relative_attention.ops.backend import is_half
from relative_attention.ops.backend import run_after
from relative_attention.ops.backend import sizes
from relative_attention.ops.backend import widened
from relative_attention.ops.dropout import Kept
from relative_attention.ops.dropout import only_kept
from relative_attention.ops.dropout import scaled_as_kept
from relative_attention.tensor_type import Tensor


def relative_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_relations: Tensor | None = None,
    value_relations: Tensor | None = None,
    mask: Tensor | None = None,
    is_causal: bool = False,
    kept: Kept | None = None,
) -> Tensor:
    """Computes context vectors by eqs. 3 and 4, or 1 and 2 without relations.

    The length `T` may be unknown when a graph is traced. Memory grows with
    `(B, N, T, T)`, never with `(T, T, H)`.

    Args:
        query: float tensor `(B, N, T, H)`, already divided by `sqrt(H)`.
        key: float tensor `(B, N, T, H)`.
        value: float tensor `(B, N, T, H_v)`.
        key_relations: float tensor `(2K + 1, H)`, or `(N, 2K + 1, H)`, row
            `K + d` for distance `d`; or `None`. In float32 its gradient is
            summed in float32, whatever the dtype of the query.
        value_relations: float tensor `(2K + 1, H_v)` or `(N, 2K + 1, H_v)`,
            or `None`.
        mask: bool tensor that broadcasts to `(B, N, T, T)`; `True` = may
            attend. Defaults to `None`, every key. A query that may attend to
            nothing gets zeros.
        is_causal: A boolean to indicate whether `mask` hides every later key,
            whose relations are then not computed. Defaults to `False`.
        kept: the scores that dropout keeps, with a mask `(B, N, T, T)`.
            Defaults to `None`, no dropout.

    Returns:
        Float tensor `(B, N, T, H_v)`.

    References:
     - [Shaw et al., 2018](https://arxiv.org/abs/1803.02155), eqs. 3-5
     - [Dao et al., 2022](https://arxiv.org/abs/2205.14135), appendix B
    """
    query, key, value = map(ops.convert_to_tensor, (query, key, value))
    tables = [
        # Copied, because a custom gradient does not accept variables.
        None if table is None else one_table(ops.copy(table))
        for table in (key_relations, value_relations)
    ]
    if has_own_kernels() and not is_for_other_runtime():
        attend = _attend_on_diagonals
    else:
        attend = _attend_by_skewing
    context = attend(
        query,
        key,
        value,
        key_table=tables[0],
        value_table=tables[1],
        mask=mask,
        is_causal=is_causal,
        kept=kept,
    )
    if mask is None:
        return context
    # Without this a fully masked row would attend to every key equally.
    can_attend = ops.any(mask, axis=-1, keepdims=True)
    return context * ops.cast(can_attend, context.dtype)


def one_table(table: Tensor) -> Tensor:
    if table.shape[-2] == 1:
        # Repeat a single embedding three times: `K` must be positive.
        table = ops.repeat(table, 3, axis=-2)
    # The table of a single head is one that all heads share. oneDNN in
    # TensorFlow 2.21 computes wrong products if it is broadcast over sentences.
    is_single = len(table.shape) == 3 and table.shape[0] == 1
    return ops.squeeze(table, 0) if is_single else table


# Column `i` of a diagonal belongs to query `i`, on either side of the main one.
_ALIGN = "LEFT_RIGHT"


def _attend_by_skewing(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_table: Tensor | None,
    value_table: Tensor | None,
    mask: Tensor | None,
    is_causal: bool,
    kept: Kept | None,
) -> Tensor:
    """Computes `O` with operations of every backend."""
    # Eq. 4: S_ij = q_i (k_j + w^K_c)
    logits = plain_product(query, key, transpose=True)
    if key_table is not None:
        _, rows = _farthest_and_rows(key_table, query.shape[2])
        by_distance = table_product(query, ops.swapaxes(rows, -1, -2))
        first = rows.shape[-2] // 2 - 1
        by_key = relative_shift(by_distance, is_causal)
        logits = logits + by_key[..., first : first + sizes(query)[2]]
    scores = softmax_over_keys(logits, mask)  # P
    scores = only_kept(scaled_as_kept(scores, kept), kept)  # Z
    # Eq. 3: O_i = sum_j Z_ij (v_j + w^V_c)
    if value_table is None:
        return plain_product(scores, value, transpose=False)
    farthest, rows = _farthest_and_rows(value_table, query.shape[2])
    value = ops.cast(widened(value) + widened(farthest), value.dtype)
    farthest_ahead = rows.shape[-2] // 2
    sides = (farthest_ahead - 1, farthest_ahead)
    by_key = ops.pad(scores, ((0, 0), (0, 0), (0, 0), sides))
    by_distance = transposed_relative_shift(by_key, rows.shape[-2], is_causal)
    context = plain_product(scores, value, transpose=False)
    return context + table_product(by_distance, rows)


def _farthest_and_rows(
    table: Tensor, length: int | None
) -> tuple[Tensor, Tensor]:
    """Returns `w_-K`, and `r` of the distances from `-K + 1` to `K`.

    If the length is known, distances that no pair has are left out.
    """
    if isinstance(length, int):
        missing = table.shape[-2] // 2 - max(length - 1, 1)
        if missing > 0:
            table = table[..., missing:-missing, :]
    farthest = table[..., :1, :]
    return farthest, table[..., 1:, :] - farthest


def relative_shift(by_distance: Tensor, is_causal: bool = False) -> Tensor:
    """Moves the value of each distance to the key at that distance.

    For three queries and `K = 1`, two columns become four (`a` is distance 0,
    `b` is 1; the digit is the query). Then keys farther ahead get `b`:

        distance  0  1          key  0  1  2  3      key  0  1  2  3
        query 0  a0 b0              a0 b0  .  .          a0 b0 b0 b0
        query 1  a1 b1      ->       . a1 b1  .    ->     . a1 b1 b1
        query 2  a2 b2               .  . a2 b2           .  . a2 b2

    Nothing is gathered. Rows are padded to one column more than they will have,
    flattened and cut again, so that each row begins one column later than the
    row before (Huang et al. 2018, section 3.4.1).

    Args:
        by_distance: tensor `(B, N, R, D)`, a column for each of `D` successive
            distances.
        is_causal: A boolean to indicate whether keys farther ahead than the
            last distance get zeros. Defaults to `False`: they get its value.

    Returns:
        Tensor `(B, N, R, R + D - 1)`. Its first key is at the first distance
        to the first query. Keys farther back have zeros.
    """
    batch_size, num_heads, num_rows, num_distances = sizes(by_distance)
    width = num_rows + num_distances - 1
    padded = ops.pad(by_distance, ((0, 0), (0, 0), (0, 0), (0, num_rows)))
    flat = ops.reshape(padded, (batch_size, num_heads, num_rows * (width + 1)))
    by_key = ops.reshape(
        flat[:, :, : num_rows * width], (batch_size, num_heads, num_rows, width)
    )
    if is_causal:
        return by_key
    is_ahead = _is_ahead(num_rows, num_distances)
    return ops.where(is_ahead, by_distance[..., -1:], by_key)


def transposed_relative_shift(
    by_key: Tensor, num_distances: int, is_causal: bool = False
) -> Tensor:
    """Sums over the keys of each distance: the transpose of `relative_shift`.

    Args:
        by_key: tensor `(B, N, R, R + D - 1)`.
        num_distances: int, `D`.
        is_causal: see `relative_shift`.

    Returns:
        Tensor `(B, N, R, D)`.
    """
    batch_size, num_heads, num_rows, width = sizes(by_key)
    flat = ops.reshape(by_key, (batch_size, num_heads, num_rows * width))
    flat = ops.pad(flat, ((0, 0), (0, 0), (0, num_rows)))
    by_distance = ops.reshape(
        flat, (batch_size, num_heads, num_rows, width + 1)
    )[..., :num_distances]
    if is_causal:
        return by_distance
    is_ahead = _is_ahead(num_rows, num_distances)
    ahead = ops.where(is_ahead, by_key, ops.zeros((), by_key.dtype))
    ahead = ops.sum(ahead, axis=-1, keepdims=True)
    sides = (num_distances - 1, 0)
    return by_distance + ops.pad(ahead, ((0, 0), (0, 0), (0, 0), sides))


def _is_ahead(num_rows: int | Tensor, num_distances: int) -> Tensor:
    """Returns which keys are beyond the last distance: `(R, R + D - 1)`."""
    keys = ops.arange(num_rows + num_distances - 1, dtype="int32")
    queries = ops.arange(num_rows, dtype="int32")
    return keys[None] - queries[:, None] >= num_distances


def _attend_on_diagonals(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_table: Tensor | None,
    value_table: Tensor | None,
    mask: Tensor | None,
    is_causal: bool,
    kept: Kept | None,
) -> Tensor:
    """Computes `O` with TensorFlow's kernels for CPUs, and its gradient."""
    import tensorflow as tf

    # `tf.custom_gradient` takes no `None`, so there are 0 to 2 tables.
    tables = {
        side: table
        for side, table in (("key", key_table), ("value", value_table))
        if table is not None
    }
    of_keys: Any = _Plain()
    of_values: Any = of_keys
    if tables:
        num_rows = next(iter(tables.values())).shape[-2]
        diagonals = _Diagonals(query, num_rows // 2, is_causal)
        of_keys = diagonals if "key" in tables else of_keys
        of_values = diagonals if "value" in tables else of_values

    @tf.custom_gradient
    def attend(
        query: Tensor, key: Tensor, value: Tensor, *given: Tensor
    ) -> tuple[Tensor, Callable]:
        table_of = dict(zip(tables, given))
        keys = of_keys.operand(key, table_of.get("key"))
        values = of_values.operand(
            value, table_of.get("value"), add_farthest=True
        )
        # Eq. 4: S_ij = q_i (k_j + w^K_c)
        logits = of_keys.product(query, keys)
        scores = softmax_over_keys(logits, mask)  # P
        unscaled = only_kept(scores, kept)  # Z, unscaled
        # Eq. 3: O_i = sum_j Z_ij (v_j + w^V_c)
        context, by_row = of_values.sums(unscaled, values)
        context = scaled_as_kept(context, kept)

        def gradient(d_context: Tensor) -> tuple[Tensor, ...]:
            row_term = tf.reduce_sum(d_context * context, -1)  # D
            d_context = scaled_as_kept(d_context, kept)
            d_value = tf.matmul(unscaled, d_context, transpose_a=True)
            d_value_table = of_values.table_gradient(
                by_row, d_context, values, d_value
            )
            # `by_row` is freed before the product makes more diagonals.
            d_context = run_after(d_context, d_value_table)
            d_scores = widened(of_values.product(d_context, values))
            d_scores = only_kept(d_scores, kept)
            weights = widened(scores)
            if is_half(query):
                # A row of `dS` must sum to 0, or `dq` gets the part that all
                # keys share. With `D = dO O` it does not, because each number
                # was rounded.
                total = tf.reduce_sum(weights, -1)
                row_term = tf.reduce_sum(weights * d_scores, -1) / total
            d_logits = weights * (d_scores - row_term[..., None])
            d_logits = tf.cast(d_logits, query.dtype)  # dS
            d_query, d_logits_by_row = of_keys.sums(d_logits, keys)
            d_key_table = of_keys.table_gradient(d_logits_by_row, query, keys)
            d_table_of = {"key": d_key_table, "value": d_value_table}
            return (
                d_query,
                tf.matmul(d_logits, query, transpose_a=True),
                d_value,
                *(d_table_of[side] for side in tables),
            )

        return context, gradient

    return attend(query, key, value, *tables.values())


class _Plain:
    """`product` and `sums` without relations."""

    def operand(
        self, y: Tensor, table: None, add_farthest: bool = False
    ) -> Tensor:
        return y

    def product(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.matmul(x, ops.swapaxes(y, -1, -2))

    def sums(self, scores: Tensor, y: Tensor) -> tuple[Tensor, None]:
        return ops.matmul(scores, y), None

    def table_gradient(self, *arguments: Any) -> None:
        return None


class _Operand(NamedTuple):
    """Keys or values, and the relations that are added to them.

    Attributes:
        y: tensor `(B, N, T, H + blocks)`. Without a causal mask, the `H`
            numbers of a key are followed by the one-hot number of its block.
        rows: tensor `(R, H)` or `(N, R, H)`: `r` of each diagonal, preceded by
            `r_K` without a causal mask.
        table: tensor `(2K + 1, H)` or `(N, 2K + 1, H)`, their source.
    """

    y: Tensor
    rows: Tensor
    table: Tensor


class _Diagonals:
    """`product` and `sums` with relations, on diagonals of scores.

    With `K = 2`, twelve tokens and blocks of four keys, the first queries have

        key       0  1  2  3 | 4  5  6  7 | 8  9 10 11
        query 2      n  n  n | N  a  a  a | a  a  a  a
        query 3         n  n | N  N  a  a | a  a  a  a
        query 4            n | N  N  N  a | a  a  a  a
        query 5              | N  N  N  N | a  a  a  a
        query 6              |    n  n  n | N  a  a  a

    `n` and `N` are the diagonals from `-K + 1` to `K`, which TensorFlow reads
    and writes in place. Keys farther ahead than `K`, `a`, all have `r_K`. With
    one more column per block, the matrix product adds `r_K` to all keys of the
    blocks that begin at `i - K + 1` or later. The keys `N` in these blocks get
    `r_K`, too, so it is subtracted where their diagonals are added.

    Blocks have at least `2K` keys, so that a block with a key beyond `K` begins
    there. Longer blocks, for long sequences, need more diagonals.

    Args:
        query: tensor `(B, N, T, H)`, which gives sizes and dtype.
        max_relative_position: int `K`.
        is_causal: A boolean to indicate whether later keys are masked, so that
            nothing is added to them.
    """

    # More blocks make the product slower, and longer blocks the diagonals.
    # At 1,024 and 2,048 tokens 32 blocks were faster than 16, and than 31,
    # with which operands have an odd number of columns.
    _MOST_BLOCKS = 32

    def __init__(
        self, query: Tensor, max_relative_position: int, is_causal: bool
    ) -> None:
        import tensorflow as tf

        farthest = max_relative_position
        self.dtype = query.dtype
        self.is_causal = is_causal
        self.batch_and_heads = sizes(query)[:2]
        self.length = length = tf.convert_to_tensor(sizes(query)[2])
        positions = tf.range(length)
        highest, numbers = 0, []
        if not is_causal:
            block = tf.maximum(2 * farthest, -(-length // self._MOST_BLOCKS))
            highest = tf.maximum(farthest, block - farthest - 1)
            # Without a key that far ahead there are no blocks.
            has_ahead = tf.cast(length > farthest + 1, tf.int32)
            blocks = tf.range(-(-length // block) * has_ahead)
            is_in = positions[:, None] // block == blocks
            columns = tf.cast(is_in, self.dtype)
            self.columns = tf.broadcast_to(
                columns, [*self.batch_and_heads, *tf.unstack(tf.shape(columns))]
            )
            numbers.append([2 * farthest])
            is_ahead = blocks * block > positions[:, None] - farthest
            self.is_ahead = tf.cast(is_ahead, self.dtype)  # (T, blocks)
        # For an empty sequence this is the main diagonal, which is empty.
        highest = tf.maximum(tf.minimum(highest, length - 1), 0)
        lowest = tf.minimum(tf.maximum(1 - farthest, 1 - length), 0)
        # A placeholder, so that the static rank of diagonals is unknown even
        # if the length is known. With a known rank, TensorFlow 2.21 takes one
        # axis too many for sentences and heads.
        self.bounds = tf.raw_ops.PlaceholderWithDefault(
            input=tf.stack([lowest, highest]), shape=[2]
        )
        # TensorFlow orders diagonals from the highest.
        distances = tf.range(highest, lowest - 1, -1)
        self.num_diagonals = tf.size(distances)
        self.row_shape = [*self.batch_and_heads, 1, length]
        self.column_shape = [*self.batch_and_heads, length, 1]
        numbers.append(tf.minimum(distances, farthest) + farthest)
        if not is_causal:
            # (diagonals, T): whether the key there has `r_K` from its block.
            keys = tf.minimum(positions + distances[:, None], length - 1)
            is_both = keys // block * block > positions - farthest
            is_both &= has_ahead > 0
            self.is_both = tf.cast(is_both, self.dtype)
        # `select @ w` computes the rows of an operand from a table `w`.
        numbers = tf.concat(numbers, axis=0)
        self.select = tf.one_hot(numbers, 2 * farthest + 1)

    def operand(
        self, y: Tensor, table: Tensor, add_farthest: bool = False
    ) -> _Operand:
        rows = ops.matmul(ops.cast(self.select, table.dtype), table)
        farthest = table[..., :1, :]  # w_-K
        rows = ops.cast(rows - farthest, y.dtype)
        if add_farthest:
            y = ops.cast(widened(y) + widened(farthest), y.dtype)
        if not self.is_causal:
            y = ops.concatenate([y, self.columns], axis=-1)
        return _Operand(y, rows, table)

    def product(self, x: Tensor, operand: _Operand) -> Tensor:
        """Computes `x_i (y_j + w_c)`, if the operand's `y` includes `w_-K`.

        Otherwise `x_i w_-K` is missing. It is one number for a whole row, which
        the softmax ignores.
        """
        import tensorflow as tf

        rows = operand.rows if self.is_causal else operand.rows[..., 1:, :]
        near = tf.matmul(rows, x, transpose_b=True)  # (B, N, diagonals, T)
        if not self.is_causal:
            farthest = operand.rows[..., :1, :]
            ahead = tf.matmul(farthest, x, transpose_b=True)
            near -= ahead * self.is_both
            ahead = tf.reshape(ahead, self.column_shape) * self.is_ahead
            x = tf.concat([x, ahead], axis=-1)
        # TensorFlow keeps memory that is freed, for what comes next. If many
        # diagonals are alive at once, some get a piece of where a matrix was,
        # and the next matrix needs new memory. So both terms of `near` are
        # freed before the product and its diagonals are computed.
        x = run_after(x, near)
        product = tf.matmul(x, operand.y, transpose_b=True)
        diagonals = self._read(product)
        result = tf.raw_ops.MatrixSetDiagV3(
            input=product,
            diagonal=diagonals + tf.reshape(near, tf.shape(diagonals)),
            k=self.bounds,
            align=_ALIGN,
        )
        result.set_shape(product.shape)
        return result

    def sums(self, scores: Tensor, operand: _Operand) -> tuple[Tensor, Tensor]:
        """Computes `sum_j a_ij (y_j + w_c)`, and sums `a` by row of `r`."""
        import tensorflow as tf

        sums = tf.matmul(scores, operand.y)
        by_row = tf.reshape(
            self._read(scores),
            [*self.batch_and_heads, self.num_diagonals, self.length],
        )
        if not self.is_causal:
            size = operand.rows.shape[-1]
            sums, blocks = sums[..., :size], sums[..., size:]
            ahead = tf.reduce_sum(blocks * self.is_ahead, -1)
            ahead = tf.reshape(ahead, self.row_shape)
            ahead -= tf.reduce_sum(by_row * self.is_both, axis=2, keepdims=True)
            by_row = tf.concat([ahead, by_row], axis=2)  # (B, N, R, T)
        return sums + tf.matmul(by_row, operand.rows, transpose_a=True), by_row

    def table_gradient(
        self,
        by_row: Tensor,
        x: Tensor,
        operand: _Operand,
        d_y: Tensor | None = None,
    ) -> Tensor:
        """Sums `a_ij x_i` by distance: `dw`.

        `w_-K` was added to all of `y` and subtracted from each of the rows. If
        it was not added, `d_y` is `None`.
        """
        # In float32, as it sums over all sentences and positions.
        by_head = ops.matmul(widened(by_row), widened(x))  # (B, N, R, H)
        axes = (0, 1) if len(operand.table.shape) == 2 else 0
        d_rows = ops.sum(by_head, axis=axes)
        d_farthest = -ops.sum(d_rows, axis=-2, keepdims=True)
        if d_y is not None:
            d_farthest += ops.sum(
                ops.sum(widened(d_y), axis=-2, keepdims=True), axis=axes
            )
        select = ops.cast(ops.swapaxes(self.select, 0, 1), d_rows.dtype)
        d_table = ops.matmul(select, d_rows)
        d_table = ops.concatenate(
            [d_table[..., :1, :] + d_farthest, d_table[..., 1:, :]], axis=-2
        )
        return ops.cast(d_table, operand.table.dtype)

    def _read(self, scores: Tensor) -> Tensor:
        """Reads diagonals: `(B, N, diagonals, T)`, or `(B, N, T)` of one."""
        import tensorflow as tf

        return tf.raw_ops.MatrixDiagPartV3(
            input=scores,
            k=self.bounds,
            padding_value=tf.zeros((), scores.dtype),
            align=_ALIGN,
        )
