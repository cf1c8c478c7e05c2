import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.ops.backend import custom_gradient
from relative_attention.ops.backend import known_values
from relative_attention.ops.backend import prefers_own_kernels
from relative_attention.ops.backend import run_after
from relative_attention.ops.backend import static_shape


@pytest.mark.parametrize(
    ("names", "expected"),
    [(["cpu:0", "cpu:1"], True), (["gpu:0"], False), (["tpu:0"], False)],
    ids=["cpus", "gpu", "tpu"],
)
def test_own_kernels_are_for_cpus(monkeypatch, names, expected):
    monkeypatch.setattr(keras.distribution, "list_devices", lambda: names)
    prefers_own_kernels.cache_clear()
    # Keras' own were measured to be faster on PyTorch.
    is_torch = keras.backend.backend() == "torch"
    assert prefers_own_kernels() == (expected and not is_torch)
    prefers_own_kernels.cache_clear()


@pytest.mark.only_on("tensorflow", reason="others know every size")
def test_one_size_is_inferred_and_several_are_asked_for():
    import tensorflow as tf

    assert static_shape(ops.zeros((2, 3, 5))) == (2, 3, 5)
    with tf.Graph().as_default():
        one = tf.compat.v1.placeholder("float32", (None, 3))
        assert static_shape(one) == (-1, 3)
        two = tf.compat.v1.placeholder("float32", (None, None, 3))
        batch_size, length, width = static_shape(two)
        assert width == 3
        assert tf.is_tensor(batch_size) and tf.is_tensor(length)
        # With a size of 0 nothing can be inferred.
        none = tf.compat.v1.placeholder("float32", (None, 0))
        assert tf.is_tensor(static_shape(none)[0])


@pytest.mark.only_on("tensorflow", reason="a graph is TensorFlow's")
def test_values_are_known_outside_of_a_graph():
    import tensorflow as tf

    np.testing.assert_array_equal(known_values(ops.array([3, 1])), [3, 1])
    with tf.Graph().as_default():
        assert known_values(tf.zeros(2)) is None


def test_gradient_is_the_one_that_is_given(gradients):
    @custom_gradient
    def product(x, y):
        # Not the true ones, 4 y and 4 x.
        return x * y, lambda upstream: (upstream * 10, upstream * 100)

    x, y = np.array([2.0], "float32"), np.array([3.0], "float32")
    np.testing.assert_array_equal(product(ops.array(x), ops.array(y)), [6])
    d_x, d_y = gradients(lambda x, y: ops.sum(4 * product(x, y)), [x, y])
    np.testing.assert_array_equal(d_x, [40])
    np.testing.assert_array_equal(d_y, [400])


@pytest.mark.only_on("tensorflow", reason="the others do not wait")
def test_one_tensor_waits_for_another_in_a_graph():
    import tensorflow as tf

    with tf.Graph().as_default():
        tensor, first = tf.ones(3), tf.zeros(2)
        assert run_after(tensor, None) is tensor
        (control,) = run_after(tensor, first).op.control_inputs
        assert control == first.op
