"""Makes what is in this folder, with the package as it was at feba953.

git worktree add --detach /tmp/feba953 feba953
PYTHONPATH=/tmp/feba953 python tests/saved_before/make.py
"""

import json
import pathlib
import shutil
import tempfile

import keras
import numpy as np

import relative_attention as ra
from relative_attention.models.weights import load_arrays

FOLDER = pathlib.Path(__file__).parent
STEPS, MORE_STEPS = 1000, 4
RECIPE = {
    "name": "small",
    "data": {
        "source": "train.en",
        "target": "train.de",
        "validation_source": "validation.en",
        "validation_target": "validation.de",
        "test_source": "test.en",
        "test_target": "test.de",
    },
    "vocabulary": {"size": 330},
    # With dropout: what is drawn after a checkpoint depends on its seeds.
    "model": {
        "preset": "transformer_tiny_relative",
        "num_encoder_layers": 1,
        "num_decoder_layers": 1,
        "hidden_dim": 16,
        "intermediate_dim": 32,
        "num_heads": 2,
        "max_relative_position": 3,
        "dropout": 0.1,
    },
    "training": {
        "steps": STEPS,
        "validate_every": 500,
        "bleu_every": 0,
        "pictures": False,
        "batch_tokens": 512,
        "warmup_steps": 100,
        "keep_checkpoints": 1,
        "precision": "float32",
    },
    "decoding": {"max_extra_length": 5},
}


def main():
    expected, arrays = {}, {}
    corpus = FOLDER / "corpus"
    shutil.rmtree(corpus, ignore_errors=True)
    ra.write_spoken_numbers(
        corpus, train_pairs=200, validation_pairs=12, test_pairs=8
    )
    sources = (corpus / "test.en").read_text("utf-8").splitlines()

    # The folder of a finished run, and where it came with more updates.
    recipe = ra.Recipe.from_mapping(RECIPE)
    run, longer = FOLDER / "run", FOLDER / "longer"
    ra.train(recipe, run, data_directory=corpus, overwrite=True)
    shutil.rmtree(longer, ignore_errors=True)
    shutil.copytree(run, longer)
    recipe = recipe.override([f"training.steps={STEPS + MORE_STEPS}"])
    ra.train(recipe, longer, data_directory=corpus, resume=True)
    last = f"checkpoints/step-{STEPS + MORE_STEPS:08}/model.safetensors"
    for name, array in load_arrays(longer / last).items():
        arrays[f"resumed/{name}"] = array
    history = json.loads((longer / "history.json").read_text("utf-8"))
    expected["resumed"] = {
        "steps": STEPS + MORE_STEPS,
        "val_loss": [epoch["val_loss"] for epoch in history],
    }
    shutil.rmtree(longer)
    shutil.rmtree(run / "logs")
    (run / "curve.png").unlink()

    # Its translations, and those of the SavedModel made of it.
    translator = ra.load_translator(run)
    expected["translations"] = [
        {"source": source, "translation": best.text, "score": best.score}
        for source, best in zip(sources, translator.search(sources))
    ]
    rows = translator.source_vocabulary.encode(sources[:1])
    arrays["run/inputs"] = inputs = padded(rows, end=1)
    arrays["run/logits"] = np.array(
        translator.model(
            {"source_token_ids": inputs, "target_token_ids": inputs}
        )
    )
    # Packed: a graph has a megabyte of names.
    with tempfile.TemporaryDirectory() as folder:
        ra.export_saved_model(translator, f"{folder}/saved_model")
        shutil.make_archive(FOLDER / "saved_model", "zip", folder)

    layers_model(arrays)
    transformer_model(arrays)
    (FOLDER / "expected.json").write_text(
        json.dumps(expected, indent=1, ensure_ascii=False) + "\n", "utf-8"
    )
    np.savez_compressed(FOLDER / "expected.npz", **arrays)


def padded(rows, end):
    longest = max(map(len, rows)) + 1
    return np.array(
        [[*row, end] + [0] * (longest - 1 - len(row)) for row in rows]
    )


def layers_model(arrays):
    """A `.keras` file of a functional model with the attention layers."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((None, 12))
    x = ra.RelativeSelfAttention(3, 4, 2, name="relative")(inputs)
    x = x + ra.RelativeGlobalAttention(
        3, 4, 4, causal=True, name="global_attention"
    )(x)
    x = ra.FeedForward(20, name="feed_forward")(x)
    model = keras.Model(inputs, x)
    values = np.random.default_rng(1)
    for weight in model.weights:
        weight.assign(values.normal(0, 0.3, weight.shape))
    model.save(FOLDER / "layers.keras")
    arrays["layers/inputs"] = values.normal(size=(2, 7, 12)).astype("float32")
    arrays["layers/outputs"] = np.array(model(arrays["layers/inputs"]))


def transformer_model(arrays):
    """A `.keras` file of a compiled `Transformer` after two updates."""
    keras.utils.set_random_seed(2)
    model = ra.Transformer.from_preset(
        "transformer_tiny_relative",
        vocabulary_size=31,
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_dim=8,
        intermediate_dim=12,
        num_heads=2,
        max_relative_position=3,
        dropout=0.0,
    )
    model.compile(
        ra.AveragingAdam(1e-3, ema_momentum=0.9),
        ra.MaskedCrossEntropy(0.1),
        metrics=[ra.TokenAccuracy()],
        jit_compile=False,
    )
    values = np.random.default_rng(2)
    source = values.integers(2, 31, (2, 7))
    target = values.integers(2, 31, (2, 5))
    inputs = {"source_token_ids": source, "target_token_ids": target}
    for _ in range(2):
        model.train_on_batch(inputs, target)
    model.save(FOLDER / "transformer.keras")
    arrays["transformer/source"] = source
    arrays["transformer/target"] = target
    arrays["transformer/logits"] = np.array(model(inputs))
    model.train_on_batch(inputs, target)
    arrays["transformer/logits_after_one_more_update"] = np.array(model(inputs))


if __name__ == "__main__":
    main()
