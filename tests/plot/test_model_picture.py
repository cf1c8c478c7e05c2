import builtins

import pytest

import relative_attention as ra
from relative_attention.plot import model_figure
from relative_attention.plot import model_picture
from relative_attention.plot import save_figure


def test_picture_is_a_png_and_the_translation_is_returned(trained, tmp_path):
    translator = ra.load_translator(trained)
    path = tmp_path / "picture.png"
    translation = model_picture(translator, "he paid ten euros.", path)
    assert path.read_bytes().startswith(b"\x89PNG\r\n")
    assert translator.translate(["he paid ten euros."]) == [translation]


@pytest.mark.parametrize(
    "overrides",
    [
        {"position_encoding": "sinusoidal"},
        {"share_relations_across_heads": False},
        {"use_value_relations": False, "num_heads": 1},
    ],
    ids=str,
)
def test_picture_is_drawn_for_other_models(overrides, trained, tmp_path):
    translator = ra.load_translator(trained)
    model = ra.Transformer.from_preset(
        "transformer_tiny_relative",
        vocabulary_size=len(translator.vocabulary),
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_dim=16,
        **overrides,
    )
    path = tmp_path / "picture.png"
    # The translation is given, as to search for it takes most of the time.
    figure = model_figure(
        ra.Translator(model, translator.vocabulary),
        "he paid.",
        "er hat gezahlt.",
    )
    save_figure(figure, path)
    assert path.stat().st_size > 1000


def test_decoder_starts_with_the_token_of_the_model(trained, monkeypatch):
    translator = ra.load_translator(trained)
    model = ra.Transformer.from_preset(
        "transformer_tiny_relative",
        vocabulary_size=len(translator.vocabulary),
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_dim=16,
        start_token_id=7,
    )
    given = []
    attention_scores = model.attention_scores

    def record(inputs):
        given.append(inputs["target_token_ids"])
        return attention_scores(inputs)

    monkeypatch.setattr(model, "attention_scores", record)
    model_figure(
        ra.Translator(model, translator.vocabulary),
        "he paid.",
        "er hat gezahlt.",
    )
    assert given[0][0, 0] == 7


def test_missing_matplotlib_says_how_to_get_it(trained, tmp_path, monkeypatch):
    real_import = builtins.__import__

    def without_matplotlib(name, *arguments, **keywords):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real_import(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without_matplotlib)
    with pytest.raises(ra.InputError, match=r"pip install '\.\[plot\]'"):
        model_picture(None, "yes", tmp_path / "picture.png")
