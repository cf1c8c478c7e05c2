import keras
import pytest

from relative_attention.ops.backend import prefers_own_kernels


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
