"""A model folder that somebody else made, or that is damaged."""

import json

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.weights import save_arrays
from relative_attention.runs.report import load_curve
from relative_attention.saving.model_directory import load_config
from tests.small_models import train_vocabulary

WEIGHTS = "model.safetensors"
TOKENS = ["<blank>", "</s>", "<s>", "▁a", "<unk>"]
CONFIG = {
    "format": 2,
    "model": {
        "vocabulary_size": len(TOKENS),
        "num_encoder_layers": 1,
        "num_decoder_layers": 1,
        "hidden_dim": 8,
        "intermediate_dim": 8,
        "num_heads": 2,
    },
    "decoding": {"num_beams": 2},
}


@pytest.fixture(scope="module")
def tokenizer():
    return train_vocabulary(281).model


@pytest.fixture
def model(tmp_path, tokenizer):
    """A folder with all but the weights."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    ra.TokenVocabulary(TOKENS, tokenizer).save(folder / "vocabulary.tokens")
    return folder


def change(path, **values):
    content = json.loads(path.read_text())
    content.update(values)
    path.write_text(json.dumps(content))


# === What its names lead to ===


def test_file_that_the_vocabulary_names_is_not_read(model, tokenizer):
    (model / "other").write_bytes(tokenizer)
    change(model / "vocabulary.tokens", tokenizer="other")
    (model / "vocabulary.tokens.sentencepiece").unlink()
    with pytest.raises(
        ra.InputError,
        match="No vocabulary at .*vocabulary.tokens.sentencepiece",
    ):
        ra.load_translator(model)


@pytest.mark.parametrize("name", ["config.json", "vocabulary.tokens"])
def test_json_may_start_with_a_byte_order_mark(name, model):
    path = model / name
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    with pytest.raises(ra.InputError, match="No weights at"):
        ra.load_translator(model)


def test_links_to_files_are_followed(model, tmp_path):
    # A snapshot of Hugging Face's cache has nothing else.
    (tmp_path / "blobs").mkdir()
    for number, path in enumerate(list(model.iterdir())):
        blob = tmp_path / "blobs" / str(number)
        path.rename(blob)
        path.symlink_to(blob)
    with pytest.raises(ra.InputError, match="No weights at"):
        ra.load_translator(model)


# === JSON of another shape ===

NESTED = "[" * 100_000


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "{}", NESTED, "\ufeff", "1" * 5_000],
    ids=lambda text: text[:5],
)
@pytest.mark.parametrize("name", ["config.json", "vocabulary.tokens"])
def test_file_of_another_shape_is_an_error(name, text, model):
    (model / name).write_text(text, encoding="utf-8")
    with pytest.raises(ra.InputError, match=name):
        ra.load_translator(model)


@pytest.mark.parametrize(
    "values",
    [
        {"tokens": 3},
        {"tokens": ["<blank>", "</s>", "<s>", 3, "<unk>"]},
        {"tokenizer": 3},
        {"start": "false"},
        {"name": "mine"},
    ],
    ids=str,
)
def test_vocabulary_with_other_values_is_an_error(values, model):
    change(model / "vocabulary.tokens", **values)
    with pytest.raises(ra.InputError, match="vocabulary.tokens is damaged"):
        ra.load_translator(model)


@pytest.mark.parametrize(
    "values",
    [
        {"model": []},
        {"model": {}},
        {"model": CONFIG["model"] | {"num_heads": "2"}},
        {"model": CONFIG["model"] | {"widht": 2}},
        {"decoding": []},
        {"decoding": {"num_beams": 0}},
        {"decoding": {"beams": 4}},
        {"format": [2]},
        {"model": CONFIG["model"] | {"hidden_dim": 10**400}},
        {"decoding": {"max_extra_length": 2**31 - 1}},
        {"decoding": {"no_repeat_ngram": 10**9}},
        {"model": CONFIG["model"] | {"num_encoder_layers": 10**9}},
    ],
    ids=lambda values: str(values)[:80],
)
def test_config_with_other_values_is_an_error(values, model):
    change(model / "config.json", **values)
    with pytest.raises(ra.InputError, match="config.json"):
        load_config(model)


def test_config_that_lacks_a_part_is_an_error(model):
    content = {"format": 2, "decoding": {}}
    (model / "config.json").write_text(json.dumps(content))
    with pytest.raises(ra.InputError, match="lacks 'model'"):
        load_config(model)


CURVES = [None, [1], [{"val_loss": 1}], [{"step": "x"}]]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("results.json", text) for text in ("[]", "{}", NESTED)),
        *(("results.json", json.dumps({"curve": curve})) for curve in CURVES),
        *(("history.json", text) for text in ("{}", NESTED)),
        ("history.json", '[{"step": "x"}]'),
    ],
    ids=lambda value: value[:30],
)
def test_curve_of_another_shape_is_an_error(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(ra.InputError, match=f"{name} is damaged"):
        load_curve(tmp_path)


# === Weights of another model ===


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_encoder_layers", 1000),
        ("hidden_dim", 2**18),
        ("max_relative_position", 100_000),
    ],
)
def test_model_that_would_fill_the_memory_is_not_built(field, value, model):
    save_arrays({"weight": np.zeros(9, "float32")}, model / WEIGHTS)
    change(model / "config.json", model=CONFIG["model"] | {field: value})
    with pytest.raises(ra.InputError, match="does not fit the config.json"):
        ra.load_translator(model)


def test_weights_of_a_kind_without_arrays_are_an_error(model):
    header = {"a": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]}}
    text = json.dumps(header).encode()
    length = len(text).to_bytes(8, "little")
    (model / WEIGHTS).write_bytes(length + text + b"abcd")
    with pytest.raises(ra.InputError, match="holds a as F8_E4M3.*F32"):
        ra.load_translator(model)


def test_error_names_the_config_when_the_model_refuses_it(model):
    save_arrays({"weight": np.zeros(9999, "float32")}, model / WEIGHTS)
    fields = {"position_encoding": "rotary", "key_dim": 3}
    change(model / "config.json", model=CONFIG["model"] | fields)
    with pytest.raises(ra.InputError, match="config.json is wrong: .*key_dim"):
        ra.load_translator(model)


def test_control_characters_in_a_file_are_escaped(model, run):
    fields = {"num_he\x1b[2Jads\u202e": 2}
    change(model / "config.json", model=CONFIG["model"] | fields)
    status, _, err = run("translate", model)
    assert status == 1
    assert r"num_he\x1b[2Jads\u202e" in err and "\x1b" not in err
