"""CTranslate2 computes what the model computes, part by part."""

import numpy as np
import pytest
import sentencepiece

import relative_attention as ra
from tests.export.tiny_models import SENTENCES
from tests.export.tiny_models import as_line
from tests.export.tiny_models import engine_of
from tests.export.tiny_models import log_prob_errors
from tests.export.tiny_models import log_probs

# Id: fields of the config, over those of `make_model`.
CASES = {
    "pre_norm": {},
    "post_norm": {"normalize_first": False},
    "large_epsilon": {"layer_norm_epsilon": 0.1},
    "separate_embeddings": {"share_embeddings": "none"},
    "output_shared_with_target": {"share_embeddings": "target"},
    "source_shared_with_target": {"share_embeddings": "source_target"},
    "two_vocabularies": {
        "share_embeddings": "target",
        "source_vocabulary_size": 283,
    },
    "target_space": {"use_target_space_embedding": True},
    "keys_only": {"use_value_relations": False},
    "values_only": {"use_key_relations": False},
    "no_relations": {"use_key_relations": False, "use_value_relations": False},
    "no_distance": {"max_relative_position": 0},
    "great_distance": {"max_relative_position": 70},
    "tables_of_one_head": {
        "num_heads": 1,
        "share_relations_across_heads": False,
    },
    "no_positions": {"position_encoding": None},
    "sinusoidal": {"position_encoding": "sinusoidal"},
    "sinusoidal_odd_dim": {"position_encoding": "sinusoidal", "key_dim": 5},
    "learned": {"position_encoding": "learned", "max_length": 4},
    "small_heads": {"key_dim": 5},
    "small_values": {"value_dim": 3},
    "large_values": {"value_dim": 11},
    "more_layers": {"num_encoder_layers": 3, "num_decoder_layers": 2},
    "attention_bias": {"attention_bias": True, "value_dim": 11},
    "output_bias": {"output_bias": True},
    "start_token": {"start_token_id": 4},
    "sinusoidal_from_1": {
        "position_encoding": "sinusoidal",
        "first_position": 1,
    },
    "sinusoidal_odd_dim_from_1": {
        "position_encoding": "sinusoidal",
        "first_position": 1,
        "key_dim": 5,
    },
    "learned_from_1": {
        "position_encoding": "learned",
        "max_length": 6,
        "first_position": 1,
    },
}

# Each part of the file at least once; the others are long cases.
_BRIEF = (
    "pre_norm",
    "post_norm",
    "two_vocabularies",
    "great_distance",
    "sinusoidal_odd_dim_from_1",
    "learned_from_1",
    "start_token",
    "attention_bias",
    "target_space",
)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(
            fields, marks=() if name in _BRIEF else pytest.mark.large, id=name
        )
        for name, fields in CASES.items()
    ],
)
def test_log_probabilities_are_the_model_s(fields, make_translator, tmp_path):
    translator = make_translator(**fields)
    ra.export_ctranslate2(translator, tmp_path / "engine")
    errors = log_prob_errors(translator, engine_of(tmp_path / "engine"))
    assert np.abs(errors).max() < 2e-5


@pytest.mark.parametrize(
    "fields",
    [
        {"num_decoder_layers": 2},
        pytest.param(
            {
                "position_encoding": "learned",
                "max_length": 4,
                "start_token_id": 4,
            },
            marks=pytest.mark.large,
        ),
        pytest.param(
            {
                "position_encoding": "sinusoidal",
                "normalize_first": False,
                "share_embeddings": "target",
                "source_vocabulary_size": 283,
                "use_target_space_embedding": True,
            },
            marks=pytest.mark.large,
        ),
    ],
    ids=["relative", "learned", "two_vocabularies"],
)
def test_greedy_translations_are_the_translator_s(
    fields, make_translator, tmp_path
):
    translator = make_translator(**fields)
    ra.export_ctranslate2(translator, tmp_path / "engine")
    engine = engine_of(tmp_path / "engine")
    translations = translator.search(SENTENCES)
    sources = translator.source_vocabulary.encode(SENTENCES)
    for translation, source in zip(translations, sources):
        (result,) = engine.translate_batch(
            [translator.source_vocabulary.pieces(source)],
            beam_size=1,
            min_decoding_length=0,
            length_penalty=0,
            return_scores=True,
            max_decoding_length=len(source) + 1 + translator.max_extra_length,
        )
        pieces = sentencepiece.SentencePieceProcessor(
            model_proto=translator.vocabulary.model
        )
        assert as_line(pieces.decode(result.hypotheses[0])) == translation.text
        assert result.scores[0] == pytest.approx(translation.score, abs=1e-3)
    assert len({translation.text for translation in translations}) > 2


def test_alternatives_continue_a_prefix(make_translator, tmp_path):
    translator = make_translator()
    ra.export_ctranslate2(translator, tmp_path / "engine")
    source, prefix = (
        translator.vocabulary.pieces(row)
        for row in translator.vocabulary.encode(["dogs", "two dogs"])
    )
    (result,) = engine_of(tmp_path / "engine").translate_batch(
        [source],
        target_prefix=[prefix],
        return_alternatives=True,
        num_hypotheses=2,
        return_scores=True,
        max_decoding_length=len(prefix) + 1,
    )
    rows = [
        translator.vocabulary._processor.piece_to_id(tokens)
        for tokens in result.hypotheses
    ]
    expected = log_probs(
        translator, translator.vocabulary.encode(["dogs"] * 2), rows
    )
    # Alternatives never end at once, which scales their probabilities alike.
    np.testing.assert_allclose(
        np.diff(result.scores),
        np.diff([scores[-2] for scores in expected]),
        atol=1e-4,
    )


def test_attention_is_the_mean_of_the_last_layer_s_heads(
    make_translator, tmp_path
):
    translator = make_translator(num_decoder_layers=2)
    ra.export_ctranslate2(translator, tmp_path / "engine")
    vocabulary = translator.vocabulary
    (source,) = vocabulary.encode(["two dogs"])
    (result,) = engine_of(tmp_path / "engine").translate_batch(
        [vocabulary.pieces(source)],
        beam_size=1,
        max_decoding_length=1,
        return_attention=True,
    )
    scores = translator.model.attention_scores(
        {
            "source_token_ids": np.array([[*source, 1]]),
            "target_token_ids": np.array([[0]]),
        }
    )["cross"][-1]
    expected = np.asarray(scores)[0, :, 0, :-1].mean(axis=0)
    np.testing.assert_allclose(result.attention[0][0], expected, atol=1e-5)


def test_table_of_positions_is_as_long_as_the_translator_reads(
    make_translator, tmp_path
):
    translator = make_translator(
        position_encoding="sinusoidal",
        max_source_length=1100,
        max_extra_length=0,
    )
    ra.export_ctranslate2(translator, tmp_path / "engine")
    engine = engine_of(tmp_path / "engine")
    arguments = {"max_input_length": 0, "max_decoding_length": 1}
    engine.translate_batch([["e"] * 1099], **arguments)
    with pytest.raises(RuntimeError, match="positions >= 1100"):
        engine.translate_batch([["e"] * 1100], **arguments)
