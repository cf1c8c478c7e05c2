"""CTranslate2 computes what the model computes, from the folder alone."""

import inspect
import json
import sys
import textwrap

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.export.ctranslate2 import sinusoidal_table
from tests.export.conftest import log_probs
from tests.small_models import SENTENCES
from tests.small_models import make_model


def engine_of(folder, **arguments):
    import ctranslate2

    return ctranslate2.Translator(
        str(folder), intra_threads=1, inter_threads=1, **arguments
    )


def log_prob_errors(translator, engine):
    """Differences between our log-probabilities and CTranslate2's."""
    source_vocabulary = translator.source_vocabulary
    vocabulary = translator.vocabulary
    source_rows = source_vocabulary.encode(SENTENCES)
    target_rows = vocabulary.encode(SENTENCES[::-1])
    # An id 0 that comes out goes in again, as a zero vector.
    target_rows[2][1:1] = [0]
    ours = log_probs(translator, source_rows, target_rows)
    results = engine.score_batch(
        [source_vocabulary.pieces(row) for row in source_rows],
        [vocabulary.pieces(row) for row in target_rows],
    )
    return np.concatenate(
        [np.array(result.log_probs) for result in results]
    ) - np.concatenate(ours)


def test_docstring_example_translates(make_translator, tmp_path, run_python):
    lines = inspect.getdoc(ra.export_ctranslate2).split("\n")
    start = next(i for i, line in enumerate(lines) if "Translator(" in line)
    stop = next(i for i, line in enumerate(lines) if "hypotheses[0]" in line)
    code = textwrap.dedent("\n".join(lines[start : stop + 1]))
    assert "beam_size=4" in code
    # A random model seldom ends: all go as far as the same limit.
    translator = make_translator(max_extra_length=0)
    lines = list(map(ra.clean_text, SENTENCES))
    rows = translator.vocabulary.encode(lines)
    lines = [line + "e" * (29 - len(row)) for line, row in zip(lines, rows)]
    ra.export_ctranslate2(translator, tmp_path / "engine")
    code = code.replace("beam_size=4", "beam_size=1, max_decoding_length=30")
    # In a process where this package is absent.
    script = (
        "import json, sys\n"
        "for name in ('keras', 'tensorflow', 'relative_attention'):\n"
        "    sys.modules[name] = None\n"
        "import ctranslate2, sentencepiece\n"
        "directory, lines = json.loads(sys.argv[1])\n"
        f"{code}\n"
        "print(json.dumps(translations))\n"
    )
    arguments = json.dumps([str(tmp_path / "engine"), lines])
    texts = json.loads(run_python(script, arguments))
    # As `Translator` makes lines of what a random model writes.
    texts = [" ".join(text.split("\n")) for text in texts]
    assert texts == translator.translate(lines)


@pytest.mark.parametrize(
    ("quantization", "tolerance"),
    [
        (None, 1e-4),
        ("float16", 1e-3),
        ("bfloat16", 5e-3),
        # Where a processor lacks one, CTranslate2 takes the nearest.
        ("int16", 0.06),
        ("int8", 0.06),
        ("int8_bfloat16", 0.06),
    ],
)
def test_quantized_log_probabilities_are_close(
    quantization, tolerance, make_translator, tmp_path
):
    translator = make_translator(sharpness=0.4, use_target_space_embedding=True)
    before = [np.array(weight) for weight in translator.model.weights]
    folder = tmp_path / "engine"
    ra.export_ctranslate2(translator, folder, quantization)
    errors = log_prob_errors(translator, engine_of(folder))
    assert np.abs(errors).mean() < tolerance
    for weight, array in zip(translator.model.weights, before):
        np.testing.assert_array_equal(np.array(weight), array, weight.path)


def test_quantized_files_are_smaller(make_translator, tmp_path):
    translator = make_translator(hidden_dim=62)
    sizes = {}
    for name in ("float32", "bfloat16", "int8_bfloat16"):
        # An empty folder is filled.
        (tmp_path / name).mkdir()
        ra.export_ctranslate2(translator, tmp_path / name, name)
        sizes[name] = (tmp_path / name / "model.bin").stat().st_size
    assert sizes["bfloat16"] < 0.6 * sizes["float32"]
    assert sizes["int8_bfloat16"] < 0.6 * sizes["bfloat16"]


def test_missing_package_is_refused(make_translator, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ra.InputError, match=r"pip install '\.\[ctranslate2"):
        ra.export_ctranslate2(make_translator(), tmp_path / "engine")


# Id: fields of the config, over those of `make_model`. Each part of the file
# at least once.
BRIEF_CASES = {
    "pre_norm": {"layer_norm_epsilon": 0.1},
    "post_norm": {"normalize_first": False},
    "two_vocabularies": {
        "share_embeddings": "target",
        "source_vocabulary_size": 283,
    },
    "great_distance": {"max_relative_position": 70},
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
    "start_token": {"start_token_id": 4, "output_bias": True},
    "attention_bias": {"attention_bias": True, "value_dim": 11},
    "target_space": {"use_target_space_embedding": True},
}
LONG_CASES = {
    "separate_embeddings": {"share_embeddings": "none"},
    "source_shared_with_target": {"share_embeddings": "source_target"},
    "keys_only": {"use_value_relations": False, "key_dim": 5},
    "values_only": {"use_key_relations": False, "value_dim": 11},
    "no_distance": {"max_relative_position": 0},
    "no_positions": {"position_encoding": None},
    "sinusoidal": {"position_encoding": "sinusoidal"},
    "more_layers": {"num_encoder_layers": 3, "num_decoder_layers": 2},
}
CASES = [
    *(pytest.param(case, id=name) for name, case in BRIEF_CASES.items()),
    *(
        pytest.param(case, id=name, marks=pytest.mark.large)
        for name, case in LONG_CASES.items()
    ),
]


@pytest.mark.parametrize("fields", CASES)
def test_log_probabilities_equal_the_model(fields, make_translator, tmp_path):
    translator = make_translator(**fields)
    ra.export_ctranslate2(translator, tmp_path / "engine")
    errors = log_prob_errors(translator, engine_of(tmp_path / "engine"))
    assert np.abs(errors).max() < 2e-5


def test_attention_is_the_mean_of_the_last_heads(make_translator, tmp_path):
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


@pytest.mark.parametrize("hidden_dim", [1, 2, 7, 512])
def test_sinusoidal_table_equals_the_layer(hidden_dim):
    positions = np.arange(1100)
    found = sinusoidal_table(positions, hidden_dim)
    layer = ra.SinusoidalPositions(dtype="float32")
    expected = np.asarray(layer.encode(positions, hidden_dim))
    assert found.dtype == expected.dtype == np.float32
    # Two frequencies may be rounded two units apart, and so their angles; the
    # angles themselves, and sines of them, once each.
    bound = 4 * np.finfo("float32").eps * (1 + positions[:, None])
    assert (np.abs(found - expected) <= bound).all()


def test_subwords_translate_by_index(rng, tmp_path):
    # An empty line, and the same twice: of these the last is used.
    subwords = ["<pad>_", "<EOS>_", "a_", "", "man_", "a_", *"\\_u;0123456789"]
    subwords += "rides dog b".replace(" ", "")
    vocabulary = ra.SubwordVocabulary("\n".join(subwords).encode())
    model = make_model(rng, vocabulary_size=len(vocabulary), output_bias=True)
    # Translations end before they are too long.
    bias = np.array(model.output_bias)
    bias[1] = 3
    model.output_bias.assign(bias)
    translator = ra.Translator(model, vocabulary, num_beams=1)
    ra.export_ctranslate2(translator, tmp_path / "engine")

    file = tmp_path / "engine" / "shared_vocabulary.json"
    tokens = json.loads(file.read_text("utf-8"))
    assert len(set(tokens)) == len(tokens) == len(vocabulary)
    assert tokens[2:6] == ["<unused 2>", "<unused 3>", "man_", "a_"]
    saved = ra.SubwordVocabulary.load(
        tmp_path / "engine" / "vocabulary.subwords"
    )
    lines = ["a man rides", "dog", "b  a"]
    results = engine_of(tmp_path / "engine").translate_batch(
        [saved.pieces(row) for row in saved.encode(lines)],
        beam_size=1,
        min_decoding_length=0,
    )
    texts = saved.decode(
        [tokens.index(token) for token in result.hypotheses[0]]
        for result in results
    )
    assert texts == translator.translate(lines)
    # What is no token is padding, not an id that there is not.
    engine_of(tmp_path / "engine").translate_batch([["no such token"]])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"share_relations_across_heads": False},
            "one for each of its 2.*share_relations_across_heads: true",
        ),
        (
            {
                "position_encoding": (
                    "relative(share_relations_across_heads=False)"
                )
            },
            "one for each of its 2",
        ),
        (
            {"position_encoding": "relative+sinusoidal"},
            "one of 'relative'.*None. Received: position_encoding='relative.s",
        ),
    ],
    ids=["tables_of_heads", "tables_by_name", "two_encodings"],
)
def test_unsupported_model_is_refused(
    fields, message, make_translator, tmp_path
):
    with pytest.raises(ra.InputError, match=message):
        ra.export_ctranslate2(make_translator(**fields), tmp_path / "engine")
    assert not any(tmp_path.iterdir())


def test_wrong_input_is_refused(
    make_translator, vocabularies, joined, tmp_path
):
    other, plain = make_translator(), make_translator()
    other.vocabulary = vocabularies[283]
    plain.source_vocabulary = object()
    for translator, message in (
        (other, "target .* 283 .* model 281"),
        (plain, "source .* Received: object"),
        (joined, "Received: Ensemble"),
    ):
        with pytest.raises(ra.InputError, match=message) as error:
            ra.export_ctranslate2(translator, tmp_path / "engine")
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="int8_float16.*'int4'"):
        ra.export_ctranslate2(make_translator(), tmp_path / "engine", "int4")
    assert not any(tmp_path.iterdir())


def test_source_and_target_vocabularies_are_written(make_translator, tmp_path):
    translator = make_translator(
        share_embeddings="none", source_vocabulary_size=283
    )
    ra.export_ctranslate2(translator, tmp_path / "engine")
    for side, vocabulary in (
        ("source", translator.source_vocabulary),
        ("target", translator.vocabulary),
    ):
        file = tmp_path / "engine" / f"{side}_vocabulary.model"
        assert file.read_bytes() == vocabulary.model
