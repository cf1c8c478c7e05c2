"""The rows of a batch in parts, for steps whose memory is short."""

from typing import Any

from relative_attention.tensor_type import Tensor


class BatchParts:
    """Gives the rows of a batch, one part after another (TensorFlow).

        num_rows = 7, num_parts = 3     rows 0 1 2 | 3 4 5 | 6
        the same, equal=True            rows 0 1 2 | 3 4 5 | 6 0 0
        num_rows = 1, num_parts = 3     row  0

    Args:
        batch: nest of tensors whose first axis is that of the rows; `None`s
            in it stay.
        num_rows: int scalar tensor.
        num_parts: int. There are fewer parts where there are fewer rows.
        equal: bool. Whether all parts have as many rows, for XLA: the last
            one then ends with rows of zeros, which count for nothing.
    """

    def __init__(
        self, batch: Any, num_rows: Tensor, num_parts: int, equal: bool
    ) -> None:
        import tensorflow as tf

        self.num_rows = num_rows
        # At least one, so that a loop over parts ends where there are no rows.
        self.part_rows = tf.maximum(-(-num_rows // num_parts), 1)
        self._equal = equal
        if equal:
            missing = num_parts * self.part_rows - num_rows
            batch = _map(
                lambda tensor: self._stacked(tensor, num_parts, missing), batch
            )
        self._batch = batch

    def has(self, number: Tensor) -> Tensor:
        """Returns a bool scalar: whether part `number`, 0 first, has rows."""
        return number * self.part_rows < self.num_rows

    def part(self, number: Tensor) -> Any:
        """Returns the rows of part `number`, a nest like the batch."""
        import tensorflow as tf

        if self._equal:
            return _map(lambda parts: tf.gather(parts, number), self._batch)
        first = number * self.part_rows
        return _map(
            # The last part has what is left.
            lambda tensor: tensor[first : first + self.part_rows],
            self._batch,
        )

    def _stacked(self, tensor: Tensor, num_parts: int, missing: Tensor) -> Any:
        """Returns the parts of a tensor: `(R, ...)` -> `(parts, rows, ...)`."""
        import tensorflow as tf

        padded = tf.pad(tensor, [[0, missing]] + [[0, 0]] * (tensor.ndim - 1))
        shape = [[num_parts, self.part_rows], tf.shape(tensor)[1:]]
        parts = tf.reshape(padded, tf.concat(shape, axis=0))
        return tf.ensure_shape(parts, (num_parts, None, *tensor.shape[1:]))


def _map(function: Any, batch: Any) -> Any:
    import tensorflow as tf

    return tf.nest.map_structure(
        lambda tensor: None if tensor is None else function(tensor), batch
    )
