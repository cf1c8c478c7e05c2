import keras
import pytest

from relative_attention.ops.own_kernels import prefers_own_kernels


@pytest.fixture
def devices(monkeypatch):
    """`devices(list of names)`: what Keras says that there is."""
    prefers_own_kernels.cache_clear()
    yield lambda names: monkeypatch.setattr(
        keras.distribution, "list_devices", lambda: names
    )
    prefers_own_kernels.cache_clear()


@pytest.mark.parametrize(
    ("names", "expected"),
    [(["cpu:0", "cpu:1"], True), (["gpu:0"], False), (["tpu:0"], False)],
    ids=["cpus", "gpu", "tpu"],
)
@pytest.mark.only_on("tensorflow", "jax", reason="Keras' own are faster")
def test_own_kernels_are_for_cpus(devices, names, expected):
    devices(names)
    assert prefers_own_kernels() == expected


@pytest.mark.only_on("torch", reason="others have kernels of ours")
def test_torch_has_kerass_kernels():
    assert not prefers_own_kernels()
