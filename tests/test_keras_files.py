"""`.keras` files in a process that has only imported the package."""

import keras
import numpy as np
import pytest

import relative_attention as ra
from tests.small_models import batch_of
from tests.small_models import tiny_transformer

LOAD = """
import numpy as np
folder = {folder!r}
assert "relative_attention.layers.attention" not in sys.modules
batch = dict(np.load(folder + "/batch.npz"))
logits = batch.pop("logits")
outputs = batch.pop("outputs")
hidden = batch.pop("hidden")
layer = keras.models.load_model(folder + "/layer.keras")
result = keras.ops.convert_to_numpy(layer(hidden))
np.testing.assert_allclose(result, outputs, rtol=1e-5, atol=1e-5)
model = keras.models.load_model(folder + "/model.keras")
result = keras.ops.convert_to_numpy(model(batch))
np.testing.assert_allclose(result, logits, rtol=1e-5, atol=1e-5)
print(type(model.optimizer).__name__, type(model.loss).__name__)
print(type(layer.layers[-1]) is ra.RelativeSelfAttention)
print(keras.config.backend())
names = ["RelativeSelfAttention", "Transformer", "Perplexity"]
names += ["TransformerEncoderBlock", "TransformerSchedule"]
for name in names:
    found = keras.saving.get_registered_object("relative_attention>" + name)
    assert found is getattr(ra, name)
# Files have the module that a class was in when they were saved.
for name in ra.positions.__all__:
    found = keras.saving.deserialize_keras_object(
        {{
            "module": "relative_attention.moved_since",
            "class_name": name,
            "registered_name": "relative_attention>" + name,
            "config": {{"max_relative_position": 2}} if "Rel" in name else {{}},
        }}
    )
    assert type(found) is getattr(ra.positions, name)
name = "relative_attention>TranslationLM"
assert keras.saving.get_registered_object(name) is not None
assert "keras_hub" not in sys.modules
from relative_attention.zoo import zoo_models
translator = ra.load_translator(zoo_models()[0])
assert translator.translate(["A dog."])[0]
rooms = {{
    module.split(".")[1]
    for module in sys.modules
    if module.startswith("relative_attention.") and module.count(".") > 1
}}
# Of runs and commands nothing was imported.
allowed = "ops layers training models data decoding saving text".split()
assert rooms <= set(allowed), rooms
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of a functional model and of a compiled `Transformer`."""
    folder = tmp_path_factory.mktemp("keras_files")
    rng = np.random.default_rng(1803)
    symbol = keras.Input((5, 12))
    layer = keras.Model(symbol, ra.RelativeSelfAttention(3, 4, 2)(symbol))
    layer.save(folder / "layer.keras")
    model = tiny_transformer()
    model.compile(
        ra.AveragingAdam(ra.TransformerSchedule(8)),
        ra.MaskedCrossEntropy(0.1),
        metrics=[ra.TokenAccuracy(), ra.Perplexity()],
    )
    batch, _, _ = batch_of(2)
    model.save(folder / "model.keras")
    hidden = rng.normal(size=(2, 5, 12)).astype("float32")
    np.savez(
        folder / "batch.npz",
        logits=keras.ops.convert_to_numpy(model(batch)),
        outputs=keras.ops.convert_to_numpy(layer(hidden)),
        hidden=hidden,
        **batch,
    )
    return folder


@pytest.mark.parametrize(
    "imports",
    [
        pytest.param(
            "import sys, keras; import relative_attention as ra",
            marks=pytest.mark.large,
            id="keras_first",
        ),
        pytest.param(
            "import importlib.util, sys; import relative_attention as ra\n"
            # To look for Keras changes nothing.
            "assert importlib.util.find_spec('keras')\n"
            "assert 'keras' not in sys.modules; import keras",
            id="package_first",
        ),
    ],
)
def test_keras_files_load_in_a_new_process(folder, imports, run_python):
    script = imports + LOAD.format(folder=str(folder))
    assert run_python(script).split() == [
        "AveragingAdam",
        "MaskedCrossEntropy",
        "True",
        keras.config.backend(),
    ]
