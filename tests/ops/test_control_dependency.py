import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.ops.control_dependency import run_after


def test_tensor_is_what_it_was():
    tensor, first = ops.ones(3), ops.zeros(2)
    assert run_after(tensor, None) is tensor
    np.testing.assert_array_equal(run_after(tensor, first), [1, 1, 1])


@pytest.mark.only_on("tensorflow", reason="others order operations themselves")
def test_graph_waits_for_the_first():
    import tensorflow as tf

    assert keras.backend.backend() == "tensorflow"
    with tf.Graph().as_default():
        first, tensor = tf.zeros(2, name="first"), tf.ones(3)
        (control,) = run_after(tensor, first).op.control_inputs
        assert control is first.op
