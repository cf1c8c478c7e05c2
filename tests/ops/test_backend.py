import keras
import pytest

from relative_attention.ops.backend import prefers_own_kernels
from relative_attention.ops.backend import run_after


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


@pytest.mark.only_on("tensorflow", reason="the others do not wait")
def test_one_tensor_waits_for_another_in_a_graph():
    import tensorflow as tf

    with tf.Graph().as_default():
        tensor, first = tf.ones(3), tf.zeros(2)
        assert run_after(tensor, None) is tensor
        (control,) = run_after(tensor, first).op.control_inputs
        assert control == first.op
