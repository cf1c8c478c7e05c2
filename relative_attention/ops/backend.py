"""What Keras leaves to each backend: shapes, gradients, devices, replicas."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import Any
from typing import TypeAlias

import keras
from keras import ops

from relative_attention.tensor_type import Tensor

if TYPE_CHECKING:
    import numpy as np

# From the gradient of the output to that of each argument.
GradientFunction: TypeAlias = Callable[[Tensor], Tensor | tuple[Tensor, ...]]


# The devices of a process do not change, and listing them takes as long as a
# small operation.
@functools.cache
def prefers_own_kernels() -> bool:
    """Returns whether this package's own kernels were measured to be faster.

    Some operations, such as attention to relative positions, are written again
    because that is faster on CPUs. On PyTorch Keras' own are faster, and on
    GPUs and TPUs neither was measured: Keras' own are taken there. The numbers
    are the same but for rounding.
    """
    if keras.backend.backend() == "torch":
        return False
    devices = keras.distribution.list_devices()
    return all(device.startswith("cpu") for device in devices)


def sizes(tensor: Tensor) -> tuple[int | Tensor, ...]:
    """Returns the shape of a tensor as `ops.shape` does, by fewer operations.

    In a TensorFlow graph Keras reads each unknown size with four operations,
    which made up a third of the graph of a training step. Here it is one.

    Args:
        tensor: tensor of any shape.

    Returns:
        Tuple of int, and of int scalar tensors for sizes that are not known
        when the graph is built.
    """
    shape = tuple(tensor.shape)
    if None not in shape or isinstance(tensor, keras.KerasTensor):
        return tuple(ops.shape(tensor))
    import tensorflow as tf

    found = tf.unstack(tf.shape(tensor), num=len(shape))
    return tuple(
        at_run_time if size is None else size
        for size, at_run_time in zip(shape, found)
    )


def static_shape(tensor: Tensor) -> tuple[int | Tensor, ...]:
    """Returns the shape of a tensor for `ops.reshape`, static where possible.

    Args:
        tensor: tensor of any shape.

    Returns:
        Tuple of int. A single size that is not known when the graph is built
        is `-1`; where there are more, each is an int scalar tensor.

    Example:
    >>> static_shape(ops.zeros((2, 5, 512)))
    (2, 5, 512)
    """
    shape = tuple(tensor.shape)
    # With a size of zero `-1` would be ambiguous: 0 = 0 * anything.
    if shape.count(None) == 1 and 0 not in shape:
        return tuple(-1 if size is None else size for size in shape)
    return sizes(tensor)


def known_values(tensor: Tensor) -> "np.ndarray | None":
    """Returns a tensor as a NumPy array, if that costs nothing.

    It is `None` inside a compiled function, where values are not known yet,
    and on an accelerator, for which the host would have to wait.
    """
    try:
        if "cpu" not in str(tensor.device).lower():
            return None
        return ops.convert_to_numpy(tensor)
    except Exception:  # Each backend raises an error of its own.
        return None


def is_half(tensor: Tensor) -> bool:
    """Returns whether a tensor is in float16 or bfloat16."""
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    return dtype in ("float16", "bfloat16")


def widened(tensor: Tensor) -> Tensor:
    """Casts a float tensor to float32 if it is in half precision.

    In half precision a sum would be rounded to 11 or 8 bits at every step.
    """
    return ops.cast(tensor, "float32") if is_half(tensor) else tensor


def bytes_of(words: Tensor) -> Tensor:
    """Reads int32 `(W,)` as int8 `(4 * W,)`."""
    if hasattr(ops, "view"):
        return ops.reshape(ops.view(words[:, None], "int8"), (-1,))
    # Keras before 3.12. JAX and PyTorch need a newer one, see setup.py.
    import tensorflow as tf

    return tf.reshape(tf.bitcast(words, tf.int8), (-1,))


def custom_gradient(
    function: Callable[..., tuple[Tensor, GradientFunction]],
) -> Callable[..., Tensor]:
    """Gives a function of tensors the gradient that it returns.

    `keras.ops.custom_gradient` calls the gradient in another way on each
    backend; here it is a function of the gradient of the output alone.

    Args:
        function: takes tensors, returns the pair of a tensor and a function
            from its gradient to those of the arguments.

    Returns:
        Function of the same arguments that returns the tensor.
    """

    @ops.custom_gradient
    def differentiable(*tensors: Tensor) -> tuple[Tensor, Callable]:
        output, gradient = function(*tensors)

        def keras_gradient(
            *arguments: Tensor, upstream: Tensor | None = None
        ) -> Tensor | tuple[Tensor, ...]:
            # TensorFlow and JAX pass the gradient of the output; PyTorch passes
            # the tensors and, by name, the gradient.
            if upstream is None:
                (upstream,) = arguments
            return gradient(upstream)

        return output, keras_gradient

    return differentiable


def run_after(tensor: Tensor, first: Tensor | None) -> Tensor:
    """Returns `tensor`, to be available only once `first` is computed.

    A TensorFlow graph runs whatever is ready: it would compute what belongs to
    every block of a loop before it is done with the first, and hold all of it.
    On other backends this is `tensor` itself: XLA plans its memory, and PyTorch
    computes in the order of the program.
    """
    if first is None or keras.backend.backend() != "tensorflow":
        return tensor
    import tensorflow as tf

    with tf.control_dependencies([first]):
        # A control dependency holds for operations made within it; whatever
        # is made of the identity has to wait for it.
        return tf.identity(tensor)


# A mean over the tokens of a batch is one over the tokens of all replicas:
# each divides its own sum by the number of all, and the sums add up. On JAX an
# array that is spread over devices is one array already.


def sum_over_replicas(value: Tensor) -> Tensor:
    """Sums a tensor over the replicas of `tf.distribute`.

    Returns:
        Tensor of the same shape, the same on all replicas; `value` itself
        where there is one replica, and outside a replica.
    """
    context = _replica_context()
    return value if context is None else context.all_reduce("SUM", value)


def num_replicas() -> int:
    """Returns the number of replicas, 1 outside of one."""
    context = _replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def replica_number() -> int | Tensor:
    """Returns which replica this is, as an int scalar; the first is 0."""
    context = _replica_context()
    return 0 if context is None else context.replica_id_in_sync_group


def _replica_context() -> Any | None:
    """Returns TensorFlow's replica context, `None` where it is the only one."""
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return None
    return context
