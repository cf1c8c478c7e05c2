"""`.keras` files in a process that has only imported the package."""

import ast
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention import keras_registry

ROOT = pathlib.Path(__file__).parents[1]

LOAD = """
import numpy as np
folder = {folder!r}
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
"""


def run_alone(script, **environment):
    """Standard output of a script in a process of its own, as words."""
    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of a functional model and of a compiled `Transformer`."""
    folder = tmp_path_factory.mktemp("keras_files")
    rng = np.random.default_rng(1803)
    symbol = keras.Input((5, 12))
    layer = keras.Model(symbol, ra.RelativeSelfAttention(3, 4, 2)(symbol))
    layer.save(folder / "layer.keras")
    model = ra.Transformer.from_preset(
        "transformer_tiny_relative",
        vocabulary_size=23,
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_dim=12,
        intermediate_dim=17,
    )
    model.compile(
        ra.AveragingAdam(ra.TransformerSchedule(12)),
        ra.MaskedCrossEntropy(0.1),
        metrics=[ra.TokenAccuracy(), ra.Perplexity()],
    )
    batch = {
        "source_token_ids": rng.integers(2, 23, (2, 7)).astype("int32"),
        "target_token_ids": rng.integers(2, 23, (2, 5)).astype("int32"),
    }
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
            "import keras; import relative_attention as ra",
            marks=pytest.mark.large,
            id="keras_first",
        ),
        pytest.param(
            "import relative_attention as ra; import keras", id="package_first"
        ),
    ],
)
def test_keras_files_load_in_a_new_process(folder, imports):
    script = imports + LOAD.format(folder=str(folder))
    assert run_alone(script) == [
        "AveragingAdam",
        "MaskedCrossEntropy",
        "True",
        keras.config.backend(),
    ]


def test_import_brings_no_keras_and_hides_none():
    script = (
        "import importlib.util, sys\n"
        "import relative_attention\n"
        "spec = importlib.util.find_spec('keras')\n"
        "print(type(spec.loader).__name__, 'keras' in sys.modules)\n"
    )
    assert run_alone(script) == ["SourceFileLoader", "False"]


def test_classes_are_registered_once_an_import_of_keras_succeeds(tmp_path):
    # A Keras that has the registry alone, and fails at first.
    (tmp_path / "keras.py").write_text(
        "import os, types\n"
        "if os.environ.pop('FAILS', None):\n"
        "    raise ImportError('no backend')\n"
        "objects = {}\n"
        "saving = types.SimpleNamespace(get_custom_objects=lambda: objects)\n"
    )
    script = (
        "import sys\n"
        "finders = list(sys.meta_path)\n"
        "import relative_attention\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "try:\n"
        "    import keras\n"
        "except ImportError as error:\n"
        "    print(error)\n"
        "import keras\n"
        "print(len(keras.objects), finders == sys.meta_path)\n"
        "print('relative_attention.layers' in sys.modules)\n"
    )
    expected = ["no", "backend", str(len(keras_registry.registered_names()))]
    assert run_alone(script, FAILS="1") == [*expected, "True", "False"]


def test_every_class_that_keras_may_meet_is_listed():
    found = []
    for path in (ROOT / "relative_attention").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and any(
                "register_keras_serializable" in ast.unparse(decorator)
                for decorator in node.decorator_list
            ):
                found.append(f"relative_attention>{node.name}")
    assert sorted(found) == sorted(keras_registry.registered_names())


@pytest.mark.parametrize("name", keras_registry.registered_names())
def test_stand_in_acts_as_its_class(name):
    registry = keras.saving.get_custom_objects()
    kept = registry.pop(name, None)
    keras_registry.register_with_keras()
    try:
        stand_in = registry[name]
        assert "not imported yet" in repr(stand_in)
        assert stand_in.__name__ == name.partition(">")[2]
        assert issubclass(stand_in, object)
        if kept is not None:
            assert stand_in.from_config == kept.from_config
    finally:
        if kept is not None:
            registry[name] = kept
