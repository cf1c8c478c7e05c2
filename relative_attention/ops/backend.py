"""What depends on the backend: shapes, gradients, devices, replicas."""

import contextlib
import contextvars
import functools
import sys
import types
from collections.abc import Callable
from collections.abc import Iterator
from typing import TYPE_CHECKING
from typing import Any
from typing import TypeAlias

import keras
from keras import ops

from relative_attention.tensor_type import Tensor

if TYPE_CHECKING:
    import numpy as np

# From the gradient of the output to the gradient of each argument.
GradientFunction: TypeAlias = Callable[[Tensor], Tensor | tuple[Tensor, ...]]


# The modules of Keras that export to other runtimes.
_EXPORTERS = ("keras.src.export.litert", "keras.src.export.onnx")


# The devices of a process do not change, and listing them takes as long as a
# small operation.
@functools.cache
def prefers_own_kernels() -> bool:
    """Returns whether this package's own kernels were measured to be faster.

    Some operations, such as attention with relative positions, have kernels
    here that are faster on CPUs. On PyTorch, operations of Keras are faster. On
    GPUs and TPUs neither was measured, so operations of Keras are used. The
    results are the same except for rounding.
    """
    if keras.backend.backend() == "torch":
        return False
    devices = keras.distribution.list_devices()
    return all(device.startswith("cpu") for device in devices)


def has_own_kernels() -> bool:
    """Returns whether this package's own TensorFlow kernels are to be used."""
    return keras.backend.backend() == "tensorflow" and prefers_own_kernels()


def is_for_other_runtime() -> bool:
    """Returns whether Keras traces a model for ONNX or LiteRT.

    Other runtimes lack some operations of TensorFlow. Keras does not tell its
    layers what it traces them for, so this looks who has called.
    """
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") in _EXPORTERS:
            return True
        frame = frame.f_back
    return False


def sizes(tensor: Tensor) -> tuple[int | Tensor, ...]:
    """Returns the shape of a tensor, as `ops.shape` with fewer operations.

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
        Tuple of int. If a single size is not known when the graph is built, it
        is `-1`. If several are unknown, each is an int scalar tensor.

    Example:
    >>> static_shape(ops.zeros((2, 5, 512)))
    (2, 5, 512)
    """
    shape = tuple(tensor.shape)
    # If another size is zero, `-1` would be ambiguous: 0 = 0 * anything.
    if shape.count(None) == 1 and 0 not in shape:
        return tuple(-1 if size is None else size for size in shape)
    return sizes(tensor)


def known_values(tensor: Tensor) -> "np.ndarray | None":
    """Returns a tensor as a NumPy array, if that costs nothing.

    Returns `None` inside a compiled function, where values are not known yet,
    and on an accelerator, where reading them would block the host.
    """
    try:
        if "cpu" not in str(tensor.device).lower():
            return None
        return ops.convert_to_numpy(tensor)
    except Exception:  # Each backend raises a different error.
        return None


def finds_shapes() -> bool:
    """Returns whether Keras calls a layer for the shapes of its outputs alone.

    A mask does not change the shapes. Where other sizes are not known, a mask
    of a known size may be an error.
    """
    # Only a scope knows which scope it is in.
    with keras.SymbolicScope() as scope:
        return scope.original_scope is not None


def is_half(tensor: Tensor) -> bool:
    """Returns whether a tensor is in float16 or bfloat16."""
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    return dtype in ("float16", "bfloat16")


def widened(tensor: Tensor) -> Tensor:
    """Casts a float tensor to float32 if it is in half precision.

    A sum in half precision would be rounded to 11 or 8 bits at every step.
    """
    return ops.cast(tensor, "float32") if is_half(tensor) else tensor


def wide_dtype(tensor: Tensor) -> str:
    """Returns the dtype of `widened(tensor)`."""
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    return "float32" if is_half(tensor) else dtype


def bytes_of(words: Tensor) -> Tensor:
    """Reads int32 `(W,)` as int8 `(4 * W,)`."""
    if hasattr(ops, "view"):
        return ops.reshape(ops.view(words[:, None], "int8"), (-1,))
    # Keras before 3.12. JAX and PyTorch need a newer one, see setup.py.
    import tensorflow as tf

    return tf.reshape(tf.bitcast(words, tf.int8), (-1,))


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Multiplies matrices as `ops.matmul`, in float64 on PyTorch, too.

    There Keras 3.15 multiplies float64 in float32.
    """
    if keras.backend.backend() == "torch" and all(
        keras.backend.standardize_dtype(x.dtype) == "float64" for x in (a, b)
    ):
        # A variable would multiply as Keras does.
        return ops.convert_to_tensor(a) @ ops.convert_to_tensor(b)
    return ops.matmul(a, b)


def custom_gradient(
    function: Callable[..., tuple[Tensor, GradientFunction]],
) -> Callable[..., Tensor]:
    """Gives a function of tensors the gradient that it returns.

    `keras.ops.custom_gradient` calls the gradient differently on each backend.
    Here it is a function of the gradient of the output only.

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


def start_indices(*indices: int | Tensor) -> tuple[int | Tensor, ...]:
    """Returns the first indices of a slice, of one dtype.

    With `jax_enable_x64`, JAX reads an int as int64, and takes no other beside
    it.

    Args:
        *indices: int, or int scalar tensors.
    """
    if keras.backend.backend() != "jax":
        return indices
    return tuple(ops.convert_to_tensor(index, "int32") for index in indices)


def add_to_columns(
    matrix: Tensor, values: Tensor, first: int | Tensor
) -> Tensor:
    """Adds values to some successive columns, which may not be known yet.

    Args:
        matrix: tensor `(B, N, R, S)`.
        values: tensor `(B, N, R, W)`.
        first: int scalar, the column of the first of them.

    Returns:
        Tensor `(B, N, R, S)`.
    """
    if keras.backend.backend() != "tensorflow":
        start = start_indices(0, 0, 0, first)
        before = ops.slice(matrix, start, sizes(values))
        return ops.slice_update(matrix, start, before + values)
    # There, operations that write to a slice are slow, or compiled for each
    # shape, or do not work in a loop with XLA.
    after = sizes(matrix)[3] - sizes(values)[3]
    values = ops.pad(values, ((0, 0), (0, 0), (0, 0), (0, after)))
    return matrix + ops.roll(values, first, axis=-1)


def run_after(tensor: Tensor, first: Tensor | None) -> Tensor:
    """Returns `tensor`, available only once `first` is computed.

    A TensorFlow graph runs every operation that is ready. In a loop over blocks
    it would start all blocks at once and hold all their tensors. On other
    backends this returns `tensor` itself: XLA plans its memory, and PyTorch
    computes in the order of the program.
    """
    if first is None or keras.backend.backend() != "tensorflow":
        return tensor
    import tensorflow as tf

    with tf.control_dependencies([first]):
        # A control dependency only affects operations made within it, so
        # everything that uses the identity waits for it.
        return tf.identity(tensor)


# The mean over the tokens of a batch covers the tokens of all replicas: each
# replica divides its own sum by the number of all tokens, and the results add
# up. A replica is a device of `tf.distribute`, or on JAX a device of
# `keras.distribution.DataParallel` in a step (`training/update.py`).


class _JaxReplica:
    """What `tf.distribute.ReplicaContext` has, within `jax.shard_map`."""

    def __init__(self, axis: str, num_replicas: int) -> None:
        self.axis = axis
        self.num_replicas_in_sync = num_replicas

    @property
    def replica_id_in_sync_group(self) -> Tensor:
        import jax

        return jax.lax.axis_index(self.axis)

    def all_reduce(self, operation: str, value: Any) -> Any:
        """Adds up tensors, of which `operation` is always `"SUM"`."""
        import jax

        return jax.lax.psum(value, self.axis)


_jax_replica: contextvars.ContextVar[_JaxReplica | None] = (
    contextvars.ContextVar("_jax_replica", default=None)
)


@contextlib.contextmanager
def jax_replica(axis: str, num_replicas: int) -> Iterator[None]:
    """Makes the functions below see the replicas of a `jax.shard_map`.

    Args:
        axis: string. The axis of the mesh whose devices are the replicas.
        num_replicas: int.
    """
    token = _jax_replica.set(_JaxReplica(axis, num_replicas))
    try:
        yield
    finally:
        _jax_replica.reset(token)


def sum_over_replicas(value: Tensor) -> Tensor:
    """Sums a tensor, or each of a list, over all replicas.

    Returns:
        The same with the sums, equal on all replicas. With one replica, and
        outside a replica, `value` itself.
    """
    context = _replica_context()
    return value if context is None else context.all_reduce("SUM", value)


def num_replicas() -> int:
    """Returns the number of replicas; 1 outside a replica."""
    context = _replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def replica_number() -> int | Tensor:
    """Returns the number of this replica, from 0, as an int scalar."""
    context = _replica_context()
    return 0 if context is None else context.replica_id_in_sync_group


def _replica_context() -> Any | None:
    """Returns the context of this replica, `None` for a single replica."""
    if keras.backend.backend() != "tensorflow":
        return _jax_replica.get()
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return None
    return context
