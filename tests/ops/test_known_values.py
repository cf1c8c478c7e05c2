import numpy as np
import pytest
from keras import ops

from relative_attention.ops.known_values import known_values


def test_values_of_a_tensor_on_the_cpu_are_known():
    np.testing.assert_array_equal(known_values(ops.array([3, 1])), [3, 1])


@pytest.mark.only_on("tensorflow", reason="a graph is TensorFlow's")
def test_values_to_come_are_not_known():
    import tensorflow as tf

    with tf.Graph().as_default():
        assert known_values(tf.zeros(2)) is None
