import pytest
from keras import ops

from relative_attention.ops.static_shape import static_shape


def test_known_sizes_are_ints():
    assert static_shape(ops.zeros((2, 3, 5))) == (2, 3, 5)


@pytest.mark.only_on("tensorflow", reason="others know every size")
def test_one_size_is_inferred_and_several_are_asked_for():
    import tensorflow as tf

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
