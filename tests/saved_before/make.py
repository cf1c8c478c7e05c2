"""Makes what is in this folder. Made once, at commit 51ab9de, then frozen.

Kept to show what the files are. Run it again only to start another frozen
set: `README.md` has the commands.
"""

import contextlib
import json
import pathlib
import shutil
import tempfile

import keras
import numpy as np
import yaml

import relative_attention as ra
from relative_attention.models.weights import load_arrays

FOLDER = pathlib.Path(__file__).parent
STEPS, MORE_STEPS, MIDDLE = 1000, 4, 990
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
        "hidden_dim": 12,
        "intermediate_dim": 20,
        "num_heads": 2,
        "max_relative_position": 3,
        "dropout": 0.1,
        "implementation": "blocks",
    },
    # A checkpoint in the middle of an epoch, and one at the end.
    "training": {
        "steps": STEPS,
        "validate_every": 500,
        "save_every": MIDDLE // 3,
        "bleu_every": 0,
        "pictures": False,
        "batch_tokens": 512,
        "warmup_steps": 100,
        "keep_checkpoints": 2,
        "precision": "float32",
    },
    "decoding": {"max_extra_length": 5},
}
# The keys are of options that 51ab9de had, at the values that use none.
STUDY = {
    "recipe": "run/recipe.yaml",
    "overrides": {
        "training.steps": 4,
        "training.devices": 1,
        "training.consistency": None,
        "training.consistency_weight": None,
        "training.consistency_from": 0,
        "training.cut_probability": 0.05,
        "training.bidirectional_steps": 0,
        "vocabulary.sampling": 0.0,
    },
    "seeds": [1],
    "rows": [
        {"name": "blocks"},
        {"name": "one_head", "overrides": {"model.num_heads": 1}},
    ],
}
WORDS = "a man rides an old red bike down the long street .".split()
# Between them, every position encoding and every kind of weight.
TRANSFORMERS = {
    "relative_per_head": {
        "share_relations_across_heads": False,
        "key_dim": 3,
        "value_dim": 5,
        "normalize_first": True,
        "attention_dropout": 0.1,
        "intermediate_dropout": 0.1,
        "implementation": "transpose",
    },
    "relative_sinusoidal": {
        "position_encoding": "relative+sinusoidal",
        "use_value_relations": False,
        "share_embeddings": "source_target",
        "output_bias": True,
        "start_token_id": 2,
        "first_position": 1,
    },
    "sinusoidal": {
        "position_encoding": "sinusoidal",
        "attention_bias": True,
        "use_target_space_embedding": True,
    },
    "learned": {
        "position_encoding": "learned",
        "max_length": 9,
        "share_embeddings": "none",
        "source_vocabulary_size": 29,
    },
    "no_positions": {"position_encoding": None, "share_embeddings": "target"},
}


def main():
    expected, arrays = {}, {}
    corpus = FOLDER / "corpus"
    shutil.rmtree(corpus, ignore_errors=True)
    ra.write_spoken_numbers(
        corpus, train_pairs=200, validation_pairs=12, test_pairs=8
    )
    run_folder(corpus, expected, arrays)
    study_folder(corpus, expected)
    model_folder(expected, arrays)
    # Packed: a graph has a megabyte of names, HDF5 much that is empty.
    with tempfile.TemporaryDirectory() as packed:
        packed = pathlib.Path(packed)
        layer_files(packed / "layers", arrays)
        transformer_files(packed / "transformers", arrays)
        translator = ra.load_translator(FOLDER / "run")
        task = ra.hub.TranslationLM.from_translator(translator)
        task.save_to_preset(packed / "hub_preset")
        task.save(packed / "hub_task.keras")
        shutil.make_archive(FOLDER / "keras_files", "zip", packed)
    with tempfile.TemporaryDirectory() as packed:
        ra.export_saved_model(translator, f"{packed}/saved_model")
        shutil.make_archive(FOLDER / "saved_model", "zip", packed)
    (FOLDER / "expected.json").write_text(
        json.dumps(expected, indent=1, ensure_ascii=False) + "\n", "utf-8"
    )
    np.savez_compressed(FOLDER / "expected.npz", **arrays)


def run_folder(corpus, expected, arrays):
    """A finished run, and where it comes with more updates."""
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

    translator = ra.load_translator(run)
    expected["run"] = {
        "translations": translations(
            translator, (corpus / "test.en").read_text("utf-8").splitlines()
        )
    }
    source = translator.source_vocabulary.encode(
        [expected["run"]["translations"][0]["source"]]
    )
    arrays["run/inputs/0"] = inputs = np.array([[*source[0], 1]])
    arrays["run/outputs"] = np.array(translator.model(token_ids(inputs)))


def study_folder(corpus, expected):
    """A study that is finished, without its runs."""
    path = FOLDER / "study" / "small_study.yaml"
    shutil.rmtree(path.parent, ignore_errors=True)
    path.parent.mkdir()
    path.write_text(yaml.safe_dump(STUDY, sort_keys=False), "utf-8")
    # Its recipe is named as it is seen from this folder.
    with tempfile.TemporaryDirectory() as runs, contextlib.chdir(FOLDER):
        table = ra.run_study(
            ra.find_study(path),
            output=runs,
            data_directory=corpus,
            results=path.with_suffix(".json"),
        )
    path.with_suffix(".png").unlink(missing_ok=True)
    expected["study"] = [row["bleu"] for row in table]


def model_folder(expected, arrays):
    """What `save_translator` writes, of two vocabularies, in float16."""
    source = ra.TokenVocabulary.train([" ".join(WORDS)], 30)
    target = ra.TokenVocabulary.train([" ".join(reversed(WORDS))], 14)
    model = make_transformer(
        3,
        vocabulary_size=len(target.tokens),
        source_vocabulary_size=len(source.tokens),
        share_embeddings="target",
        share_relations_across_heads=False,
        dropout=0.1,
    )
    # Larger, so that words differ in probability, and to numbers that float16
    # has. The end of a sentence is no more probable than a word.
    for weight in model.weights:
        weight.assign(np.array(3 * weight, "float16"))
    embeddings = np.array(model.target_embedding.embeddings)
    embeddings[1] = 0
    model.target_embedding.embeddings.assign(embeddings)
    translator = ra.Translator(
        model,
        target,
        source_vocabulary=source,
        num_beams=3,
        length_penalty=0.8,
        max_extra_length=4,
        max_source_length=60,
    )
    shutil.rmtree(FOLDER / "model", ignore_errors=True)
    ra.save_translator(translator, FOLDER / "model", dtype="float16")
    arrays["model/inputs/0"] = inputs = np.array([[3, 5, 8, 4, 7, 1]])
    arrays["model/outputs"] = np.array(model(token_ids(inputs)))
    sources = ["a red bike .", "the man rides down the old street ."]
    expected["model"] = {
        "translations": translations(translator, sources),
        "settings": {
            name: getattr(translator, name)
            for name in (
                "num_beams",
                "length_penalty",
                "max_extra_length",
                "max_source_length",
            )
        },
    }


def translations(translator, sources):
    return [
        {"source": source, "translation": best.text, "score": best.score}
        for source, best in zip(sources, translator.search(sources))
    ]


def token_ids(source, target=None):
    target = source if target is None else target
    return {"source_token_ids": source, "target_token_ids": target}


def randomize(model, seed):
    """All weights random, biases and tables too."""
    values = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        weight.assign(values.normal(0, 0.3, weight.shape))
    return model


def layer_files(folder, arrays):
    """A `.keras` file of a functional model of each public layer."""
    folder.mkdir()
    values = np.random.default_rng(1)
    x = values.normal(size=(2, 7, 12)).astype("float32")
    source = values.normal(size=(2, 5, 12)).astype("float32")
    source_mask = np.arange(5) < np.array([[5], [3]])
    labels = values.integers(-1, 5, (2, 7, 7))
    # Padded on the right, whose zeros hide positions by a Keras mask.
    ids = values.integers(1, 13, (2, 7)) * (np.arange(7) < [[7], [4]])
    cases = {
        "relative": (
            ra.RelativeSelfAttention(3, 4, 2, implementation="blocks"),
            [x],
            {},
        ),
        "relative_per_head": (
            ra.RelativeSelfAttention(
                3,
                4,
                2,
                value_dim=5,
                share_relations_across_heads=False,
                use_bias=True,
                output_shape=11,
                implementation="transpose",
            ),
            [x],
            {"use_causal_mask": True},
        ),
        "relative_keys_alone": (
            ra.RelativeSelfAttention(
                3,
                4,
                2,
                use_value_relations=False,
                dropout=0.2,
                kernel_regularizer="l2",
                relation_initializer="zeros",
                seed=5,
            ),
            [x],
            {},
        ),
        "relative_values_alone": (
            ra.RelativeSelfAttention(3, 4, 0, use_key_relations=False),
            [x],
            {},
        ),
        "relation_aware": (
            ra.RelationAwareSelfAttention(3, 4, 5, no_relation=-1),
            [x, labels],
            {},
        ),
        "relative_global": (
            ra.RelativeGlobalAttention(3, 4, 4, causal=True),
            [x],
            {},
        ),
        "relative_global_shared": (
            ra.RelativeGlobalAttention(
                3,
                4,
                4,
                use_value_relations=True,
                share_relations_across_heads=True,
            ),
            [x],
            {},
        ),
        "cross_attention": (
            ra.CrossAttention(3, 4, value_dim=5, dropout=0.1),
            [x, source, source_mask],
            {},
        ),
        "feed_forward": (ra.FeedForward(20, dropout=0.1), [x], {}),
        "token_embedding": (ra.TokenEmbedding(13, 12), [ids], {}),
        "sinusoidal_positions": (ra.SinusoidalPositions(100), [x], {}),
        "learned_positions": (ra.LearnedPositions(9), [x], {}),
        "target_space_embedding": (ra.TargetSpaceEmbedding(), [x], {}),
        "encoder_block": (
            ra.TransformerEncoderBlock(
                ra.RelativeSelfAttention(3, 4, 2),
                ra.FeedForward(20),
                dropout=0.1,
            ),
            [x],
            {},
        ),
        "decoder_block": (
            ra.TransformerDecoderBlock(
                ra.RelativeSelfAttention(3, 4, 2),
                ra.CrossAttention(3, 4),
                ra.FeedForward(20),
                normalize_first=True,
            ),
            [x, source, source_mask],
            {},
        ),
    }
    for number, (name, (layer, inputs, arguments)) in enumerate(cases.items()):
        # Lengths are unknown, as in what users train.
        symbols = [
            keras.Input((None,) * (array.ndim - 1), dtype=array.dtype.name)
            if array is labels or array.ndim == 2
            else keras.Input((None, 12))
            for array in inputs
        ]
        model = keras.Model(symbols, layer(*symbols, **arguments))
        randomize(model, number).save(folder / f"{name}.keras")
        for position, array in enumerate(inputs):
            arrays[f"layers/{name}/inputs/{position}"] = array
        arrays[f"layers/{name}/outputs"] = np.array(model(inputs))


def make_transformer(seed, **fields):
    keras.utils.set_random_seed(seed)
    fields = {
        "vocabulary_size": 31,
        "num_encoder_layers": 1,
        "num_decoder_layers": 1,
        "hidden_dim": 8,
        "intermediate_dim": 12,
        "num_heads": 2,
        "max_relative_position": 3,
        "dropout": 0.0,
        **fields,
    }
    return randomize(
        ra.Transformer.from_preset("transformer_tiny_relative", **fields), seed
    )


def transformer_files(folder, arrays):
    """`Transformer`s: trained, of other configs, in int8, and adapters."""
    folder.mkdir()
    values = np.random.default_rng(2)
    source = values.integers(3, 29, (2, 7)) * (np.arange(7) < [[7], [5]])
    target = values.integers(3, 29, (2, 5))
    inputs = token_ids(source, target)
    arrays["transformers/source"] = source
    arrays["transformers/target"] = target

    model = make_transformer(2, implementation="blocks")
    model.compile(
        ra.AveragingAdam(ra.TransformerSchedule(8, 4), ema_momentum=0.9),
        ra.MaskedCrossEntropy(0.1),
        metrics=[ra.TokenAccuracy(), ra.Perplexity()],
        jit_compile=False,
    )
    for _ in range(2):
        model.train_on_batch(inputs, target)
    model.save(folder / "trained.keras")
    arrays["transformers/trained/outputs"] = np.array(model(inputs))
    model.train_on_batch(inputs, target)
    arrays["transformers/trained/outputs_after_one_more_update"] = np.array(
        model(inputs)
    )
    for number, (name, fields) in enumerate(TRANSFORMERS.items()):
        model = make_transformer(number, **fields)
        model(inputs)
        model.save(folder / f"{name}.keras")
        arrays[f"transformers/{name}/outputs"] = np.array(model(inputs))

    # Weights alone are rounded: whether an activation is rounded up or down
    # may depend on its last bit.
    model = make_transformer(7)
    model.quantize(
        config=keras.quantizers.Int8QuantizationConfig(
            activation_quantizer=None
        )
    )
    model.save(folder / "int8.keras")
    arrays["transformers/int8/outputs"] = np.array(model(inputs))

    model = keras.saving.load_model(folder / "trained.keras")
    model.enable_lora(2)
    randomize(model, 8)
    model.save_lora_weights(folder / "adapters.safetensors")
    arrays["transformers/adapted/outputs"] = np.array(model(inputs))


if __name__ == "__main__":
    main()
