"""Model folders to start from: small, and with weights that all differ."""

import numpy as np

import relative_attention as ra
from relative_attention.decoding.translator import DecodingSection
from relative_attention.models.weights import save_weights
from relative_attention.runs.start_from import find_initial_weights
from relative_attention.saving.model_directory import save_config
from relative_attention.saving.model_directory import save_vocabularies

OLD_TEXT = ["the cat sat on the mat", "the hat of the cat"] * 20
NEW_TEXT = ["the mats of cats and hats 7", "the dog sat on the cat"] * 20
FIELDS = {
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "hidden_dim": 8,
    "intermediate_dim": 16,
    "num_heads": 2,
    "max_relative_position": 3,
}


def vocabulary(text, size=290):
    return ra.Vocabulary.train(text, size)


def subwords():
    lines = ["<pad>_", "<EOS>_", *"\\_u;0123456789thecatsonm "]
    return ra.SubwordVocabulary(
        "".join(f"'{line}'\n" for line in lines).encode()
    )


def tokens(tokenizer):
    pieces = ["▁the", "▁cat", "t", "▁", "s"]
    return ra.TokenVocabulary(
        ["<blank>", "</s>", "<s>", *pieces, "<unk>"], tokenizer
    )


def make(directory, source, target=None, **fields):
    """A model directory with weights that are all different."""
    target = target or source
    directory.mkdir()
    config = ra.Recipe.from_mapping(recipe_of(directory, **fields))
    config = config.model_config(
        len(target), None if source is target else len(source)
    )
    model = ra.Transformer(config)
    random = np.random.default_rng(5)
    for weight in model.weights:
        weight.assign(random.normal(size=weight.shape))
    save_config(config, DecodingSection(), directory)
    save_weights(model.weights, directory / "model.safetensors")
    save_vocabularies(source, target, directory)
    return model


def recipe_of(
    directory, joint=True, from_start=True, tokenized=False, **fields
):
    return {
        "name": "new",
        "data": {"tokenized": tokenized},
        "vocabulary": {"joint": joint, "from_start": from_start, "size": 300},
        "model": {"preset": "transformer_tiny_relative", **FIELDS, **fields},
        "training": {"start_from": str(directory), "steps": 1},
    }


def start_of(directory, **options):
    recipe = ra.Recipe.from_mapping(recipe_of(directory, **options))
    return recipe, find_initial_weights(recipe, directory.with_name("new"))
