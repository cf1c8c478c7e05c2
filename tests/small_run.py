"""A corpus of a few hundred pairs and a model trained on it for a moment."""

import io
import sys

import pytest
import yaml

import relative_attention as ra
from relative_attention.cli import main

RECIPE = {
    "name": "small",
    "data": {
        "source": "train.en",
        "target": "train.de",
        "validation_source": "validation.en",
        "validation_target": "validation.de",
        "test_source": "test.en",
        "test_target": "test.de",
        "target_language": "de",
    },
    "vocabulary": {"size": 400},
    "model": {
        "preset": "transformer_tiny_relative",
        "num_encoder_layers": 1,
        "num_decoder_layers": 1,
        "hidden_dim": 16,
        "intermediate_dim": 32,
        "num_heads": 2,
        "max_relative_position": 3,
    },
    "training": {
        "steps": 12,
        "validate_every": 4,
        "bleu_every": 2,
        "pictures": False,
        "batch_tokens": 512,
        "warmup_steps": 10,
        "precision": "float32",
    },
    "decoding": {"max_extra_length": 5},
}


@pytest.fixture(scope="session")
def corpus(made_once):
    """Folder with train, validation and test in English and German."""
    sizes = {"train_pairs": 300, "validation_pairs": 10, "test_pairs": 20}
    return made_once(
        "corpus", lambda folder: ra.write_spoken_numbers(folder, **sizes)
    )


@pytest.fixture
def recipe():
    return ra.Recipe.from_mapping(RECIPE)


@pytest.fixture
def recipe_file(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(RECIPE))
    return path


@pytest.fixture(scope="session")
def trained(corpus, made_once):
    """Folder of a finished run; not to be changed."""
    recipe = ra.Recipe.from_mapping(RECIPE)
    folder = made_once(
        "trained",
        lambda folder: ra.train(recipe, folder / "run", data_directory=corpus),
    )
    return folder / "run"


@pytest.fixture
def run(capsys, monkeypatch):
    """Run a command; gives its exit status, output and error output."""

    def run(*arguments, stdin=b"", stream=io.TextIOWrapper):
        monkeypatch.setattr(sys, "stdin", stream(io.BytesIO(stdin)))
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run
