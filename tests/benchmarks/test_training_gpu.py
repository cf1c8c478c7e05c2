"""The benchmark of training on GPUs, on JAX at tiny sizes."""

import json
import os
import subprocess
import sys
import types

import numpy as np
import pytest

from benchmarks.harness.engine import ROOT
from benchmarks.training import gpu
from benchmarks.training.made_up_batches import make_batches

SIZES = {
    "presets": "transformer_tiny",
    "batch-tokens": "60",
    "vocabulary-size": "20",
    "max-length": "20",
    "pairs": "100",
    "steps": "2",
    "rounds": "2",
}
SMALL = [word for name, size in SIZES.items() for word in (f"--{name}", size)]
TINY = [
    "training.gradient_clip=0.01",
    "model.num_encoder_layers=1",
    "model.num_decoder_layers=1",
    "model.hidden_dim=8",
    "model.intermediate_dim=8",
    "model.num_heads=1",
]

# The command, and whether two of its steps are two of `fit`. What both
# compile is the same, and compiled once.
WITHOUT_TENSORFLOW = """
import sys
import tests.without_tensorflow
import jax, keras, numpy as np
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
from benchmarks.training import gpu
from benchmarks.training.jax_training import JaxTraining, make_model
from benchmarks.training.made_up_batches import make_batches
tiny = {tiny}
gpu.main(sys.argv[2:] + ["--set", *tiny])
(batch,) = make_batches(60, 20, 20, 1, 100)
make = lambda: make_model(
    "transformer_tiny_relative", 20, "mixed_bfloat16", tiny
)
model, training = make(), JaxTraining(make(), batch)
start = [weight.numpy() for weight in model.weights]
training.take_steps(2)
class Batches(keras.utils.PyDataset):
    __len__ = lambda self: 2
    __getitem__ = lambda self, index: batch.data
model.fit(Batches(), shuffle=False, verbose=0)
trained = [weight.numpy() for weight in model.trainable_variables]
for ours, theirs in zip(training.state[0], trained, strict=True):
    np.testing.assert_array_equal(ours, theirs)
assert any((a != b).any() for a, b in zip(start, model.weights))
assert model.optimizer.global_clipnorm == 0.01
"""


@pytest.mark.large
def test_steps_are_those_of_fit_and_need_no_tensorflow(tmp_path):
    pytest.importorskip("jax", reason="the benchmark is of JAX")
    output = tmp_path / "result.json"
    code = WITHOUT_TENSORFLOW.format(tiny=TINY)
    more = ["--shapes", "1", "--peak-tflops", "0.5", "--output", str(output)]
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "cache"), *SMALL, *more],
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    rows = json.loads(output.read_text())["rows"]
    sinusoidal, relative = rows[:2]
    assert [row["shape"] for row in rows[2:]] == [None, None]
    assert len(relative["over_sinusoidal"]) == 2
    # The tables of relations, and what is computed with them.
    assert relative["memory_bytes"] > sinusoidal["memory_bytes"]
    for row in rows:
        assert f"| {row['model']} " in ended.stdout
        assert row["share"] == row["flops_per_second"] / 0.5e12


@pytest.fixture
def take_turns(monkeypatch):
    """`take_turns(fits, *arguments)`: rows of models that do nothing."""

    def run(fits, *arguments):
        def training(name, batch):
            if not fits(name, batch):
                raise RuntimeError("RESOURCE_EXHAUSTED: out\nof memory")
            return types.SimpleNamespace(
                config=gpu.ra.TransformerConfig(20),
                memory_bytes=8,
                take_steps=lambda num_steps: None,
            )

        monkeypatch.setattr(gpu, "make_model", lambda name, *options: name)
        monkeypatch.setattr(gpu, "JaxTraining", training)
        monkeypatch.setattr(gpu, "is_out_of_memory", lambda error: True)
        return gpu.measure(gpu.parse_arguments([*SMALL, *arguments])[1])

    return run


def test_where_a_model_does_not_fit_the_rest_goes_on(take_turns):
    longest = make_batches(60, 20, 20, 2, 100)[-1].shape
    rows = take_turns(
        lambda name, batch: batch.shape != longest or "relative" not in name,
        *["--shapes", "2"],
    )
    first, relative, second, missing, all_shapes = rows
    assert missing["reason"] == "does not fit: RESOURCE_EXHAUSTED: out"
    assert len(relative["over_sinusoidal"]) == 2
    assert all_shapes["model"] == "transformer_tiny"
    for kind in ("tokens", "flops"):
        assert all_shapes[kind] == sum(
            row["batches"] * row[kind] for row in (first, second)
        )
    assert "does not fit" in gpu.describe(
        types.SimpleNamespace(
            rows=rows, options=vars(gpu.parse_arguments(SMALL)[1])
        )
    )


def test_no_shape_is_begun_after_the_time(take_turns):
    rows = take_turns(lambda *_: True, "--shapes", "1", "--minutes", "1e-9")
    assert [row["reason"] for row in rows] == ["no time"] * 2


def test_batches_hold_sentences_as_long_as_they_say():
    batches = make_batches(200, 20, 30, 3, 500)
    assert [batch.shape[1] for batch in batches][-1] == 30
    for batch in batches:
        rows, length = batch.shape
        assert rows == 200 // length and batch.num_batches > 0
        inputs, labels = batch.data
        ends = np.stack(
            [
                (ids == 1).argmax(1) + 1
                for ids in (inputs["source_token_ids"], labels)
            ],
            axis=1,
        )
        np.testing.assert_array_equal(batch.sentence_lengths, ends)
        assert batch.num_tokens == ends.sum()
