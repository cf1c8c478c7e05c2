"""CTranslate2 gives what the model gives, from nothing but the folder."""

import inspect
import itertools
import json
import subprocess
import sys
import textwrap

import ctranslate2
import numpy as np
import pytest
import sentencepiece

import relative_attention as ra

WORDS = "a man rides red old bike on the street while two dogs run by".split()
SENTENCES = [
    "a man rides the bike",
    "two  red dogs",
    " the old street ",
    # What the training text lacked is spelt in bytes.
    "ein Häuschen 🚲\tby night",
    "<pad> </s> <unk> <0x41> ▁run",
    "dogs",
]

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


def train_vocabulary(size):
    lines = [" ".join(words) for words in itertools.permutations(WORDS[:9], 3)]
    return ra.Vocabulary.train([*lines, " ".join(WORDS)], size)


@pytest.fixture(scope="module")
def vocabularies():
    return {size: train_vocabulary(size) for size in (281, 283)}


def make_model(rng, sharpness=1.3, **fields):
    """A random model, biases and normalization too, sure of what it says."""
    hidden_dim = fields.pop("hidden_dim", 15 if "key_dim" in fields else 14)
    fields = {
        "vocabulary_size": 281,
        "num_encoder_layers": 1,
        "num_decoder_layers": 1,
        "hidden_dim": hidden_dim,
        "intermediate_dim": 23,
        "num_heads": 2,
        "max_relative_position": 3,
        **fields,
    }
    model = ra.Transformer.from_preset("transformer_tiny_relative", **fields)
    for weight in model.weights:
        shape = weight.shape
        fan = hidden_dim if "embedding" in weight.path else shape[0]
        scale = 0.5 if len(shape) == 1 else sharpness * fan**-0.5
        array = rng.normal(size=shape) * scale
        weight.assign(array + ("gamma" in weight.path))
    return model


@pytest.fixture
def make_translator(rng, vocabularies):
    def make(num_beams=1, **fields):
        settings = {
            name: fields.pop(name)
            for name in ("max_source_length", "max_extra_length")
            if name in fields
        }
        source_size = fields.get("source_vocabulary_size", 281)
        return ra.Translator(
            make_model(rng, **fields),
            vocabularies[281],
            source_vocabulary=vocabularies[source_size],
            num_beams=num_beams,
            length_penalty=0.0,
            **{"max_extra_length": 5, **settings},
        )

    return make


def as_line(text):
    """What `Translator` makes of the line feeds of a random model."""
    return " ".join(text.split("\n"))


def engine_of(folder, **arguments):
    return ctranslate2.Translator(
        str(folder), intra_threads=1, inter_threads=1, **arguments
    )


def log_probs(translator, source_rows, target_rows):
    """What our model gives to each token of the targets, and to their ends."""
    model = translator.model
    start = model.config.start_token_id
    logits = model(
        {
            "source_token_ids": pad([[*row, 1] for row in source_rows]),
            "target_token_ids": pad([[start, *row] for row in target_rows]),
        }
    )
    result = []
    for row, row_logits in zip(target_rows, np.asarray(logits, "float64")):
        labels = [*row, 1]
        chosen = row_logits[np.arange(len(labels)), labels]
        normalizers = np.log(np.exp(row_logits[: len(labels)]).sum(axis=-1))
        result.append(chosen - normalizers)
    return result


def pad(rows):
    padded = np.zeros((len(rows), max(map(len, rows))), int)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    return padded


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


# Each part of the file at least once; the others are long cases.
_BRIEF = (
    "pre_norm",
    "post_norm",
    "two_vocabularies",
    "great_distance",
    "sinusoidal_odd_dim_from_1",
    "learned_from_1",
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
        {
            "position_encoding": "learned",
            "max_length": 4,
            "start_token_id": 4,
        },
        {
            "position_encoding": "sinusoidal",
            "normalize_first": False,
            "share_embeddings": "target",
            "source_vocabulary_size": 283,
            "use_target_space_embedding": True,
        },
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


# === What users do with the folder ===


def talk_less(model):
    """Let translations end before they are too long."""
    bias = np.array(model.output_bias)
    bias[1] = 3
    model.output_bias.assign(bias)


def run_example(folder, lines, code):
    """Run code in a process of its own, where this package is absent."""
    absent = ("keras", "tensorflow", "relative_attention")
    script = (
        "import json, sys\n"
        f"sys.modules.update(dict.fromkeys({absent!r}))\n"
        "import ctranslate2, sentencepiece\n"
        "directory, lines = json.loads(sys.argv[1])\n"
        f"{code}\n"
        "print(json.dumps(translations))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, json.dumps([str(folder), lines])],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return [as_line(text) for text in json.loads(result.stdout)]


def test_example_of_the_docstring_translates(make_translator, tmp_path):
    lines = inspect.getdoc(ra.export_ctranslate2).split("\n")
    start = next(i for i, line in enumerate(lines) if "Translator(" in line)
    stop = next(i for i, line in enumerate(lines) if "hypotheses[0]" in line)
    code = textwrap.dedent("\n".join(lines[start : stop + 1]))
    assert "beam_size=4" in code
    # A random model seldom ends: all go as far as the same limit.
    translator = make_translator(max_extra_length=0)
    rows = translator.vocabulary.encode(SENTENCES)
    lines = [line + "e" * (29 - len(row)) for line, row in zip(SENTENCES, rows)]
    ra.export_ctranslate2(translator, tmp_path / "engine")
    texts = run_example(
        tmp_path / "engine",
        lines,
        code.replace("beam_size=4", "beam_size=1, max_decoding_length=30"),
    )
    assert texts == translator.translate(lines)


def test_subwords_translate_by_index(rng, tmp_path):
    # An empty line, and the same twice: of these the last is used.
    subwords = ["<pad>_", "<EOS>_", "a_", "", "man_", "a_", *"\\_u;0123456789"]
    subwords += "rides dog b".replace(" ", "")
    vocabulary = ra.SubwordVocabulary("\n".join(subwords).encode())
    model = make_model(rng, vocabulary_size=len(vocabulary), output_bias=True)
    talk_less(model)
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


@pytest.mark.parametrize("start", [False, True], ids=["", "start"])
@pytest.mark.parametrize("end", [False, True], ids=["", "end"])
def test_sources_begin_and_end_as_the_vocabulary_says(
    start, end, rng, tmp_path
):
    tokens = ["<blank>", "</s>", "<s>", "a", "man", "rides", "<unk>"]
    source = ra.TokenVocabulary(tokens, start=start, end=end)
    target = ra.SubwordVocabulary(
        "\n".join(["<pad>_", "<EOS>_", *"\\_u;0123456789abr"]).encode()
    )
    model = make_model(
        rng,
        vocabulary_size=len(target),
        source_vocabulary_size=len(source),
        share_embeddings="none",
    )
    ra.export_ctranslate2(
        ra.Translator(model, target, source_vocabulary=source),
        tmp_path / "engine",
    )
    (row,) = target.encode(["a r"])
    # The last word is unknown.
    (result,) = engine_of(tmp_path / "engine").score_batch(
        [["a", "man", "runs"]], [target.pieces(row)]
    )
    (encoded,) = source.encode(["a man runs"])
    logits = model(
        {
            "source_token_ids": np.array([[*encoded, source.end_id]]),
            "target_token_ids": np.array([[0, *row]]),
        }
    )
    logits = np.asarray(logits, "float64")[0]
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    labels = [*row, 1]
    np.testing.assert_allclose(
        result.log_probs,
        log_probs[np.arange(len(labels)), labels],
        atol=2e-5,
    )
    saved = tmp_path / "engine" / "source_vocabulary.tokens"
    assert ra.TokenVocabulary.load(saved).tokens == tokens


def test_two_vocabularies_are_told_apart(make_translator, tmp_path):
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


# === Quantisation ===


@pytest.mark.parametrize(
    ("quantization", "tolerance"),
    [
        (None, 1e-4),
        ("float32", 1e-4),
        ("float16", 1e-3),
        ("bfloat16", 5e-3),
        # Where a processor lacks one, CTranslate2 takes the nearest.
        ("int16", 0.06),
        ("int8", 0.06),
        ("int8_float32", 0.06),
        ("int8_float16", 0.06),
        ("int8_bfloat16", 0.06),
    ],
)
def test_quantised_probabilities_are_close(
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


def test_quantised_files_are_smaller(make_translator, tmp_path):
    translator = make_translator(hidden_dim=62)
    sizes = {}
    for name in ("float32", "bfloat16", "int8_bfloat16"):
        ra.export_ctranslate2(translator, tmp_path / name, name)
        sizes[name] = (tmp_path / name / "model.bin").stat().st_size
    assert sizes["bfloat16"] < 0.6 * sizes["float32"]
    assert sizes["int8_bfloat16"] < 0.6 * sizes["bfloat16"]


# === Refusals ===


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"share_relations_across_heads": False},
            "one for each of its 2.*share_relations_across_heads: true",
        ),
        (
            {"position_encoding": "relative+sinusoidal"},
            "relative or absolute positions, not both",
        ),
    ],
    ids=["table_per_head", "relative_and_absolute"],
)
def test_what_cannot_be_expressed_is_refused(
    fields, message, make_translator, tmp_path
):
    with pytest.raises(ra.InputError, match=message):
        ra.export_ctranslate2(make_translator(**fields), tmp_path / "engine")
    assert not any(tmp_path.iterdir())


def test_unknown_quantization_is_refused(make_translator, tmp_path):
    with pytest.raises(ValueError, match="'int4'") as error:
        ra.export_ctranslate2(make_translator(), tmp_path / "engine", "int4")
    assert "int8_float16" in str(error.value)
    assert not any(tmp_path.iterdir())


def test_vocabulary_of_another_model_is_refused(
    make_translator, vocabularies, tmp_path
):
    translator = make_translator()
    translator.vocabulary = vocabularies[283]
    with pytest.raises(ra.InputError, match="target .* 283 .* model 281"):
        ra.export_ctranslate2(translator, tmp_path / "engine")


def test_vocabulary_without_pieces_is_refused(make_translator, tmp_path):
    translator = make_translator()
    translator.source_vocabulary = object()
    with pytest.raises(ra.InputError, match="source .* Received: object"):
        ra.export_ctranslate2(translator, tmp_path / "engine")


def test_other_model_is_refused(make_translator, tmp_path):
    translator = make_translator()
    translator.model = object()
    with pytest.raises(ra.InputError, match="must be a `Transformer`"):
        ra.export_ctranslate2(translator, tmp_path / "engine")


def test_folder_that_holds_something_is_kept(make_translator, tmp_path):
    kept = tmp_path / "engine" / "kept"
    kept.parent.mkdir()
    kept.write_text("kept")
    for path in (kept.parent, kept):
        with pytest.raises(ra.InputError, match="there already"):
            ra.export_ctranslate2(make_translator(), path)
    assert [path.name for path in tmp_path.rglob("*")] == ["engine", "kept"]


def test_empty_folder_is_filled(make_translator, tmp_path):
    ra.export_ctranslate2(make_translator(), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "config.json",
        "model.bin",
        "shared_vocabulary.json",
        "vocabulary.model",
    }


def test_nothing_is_left_where_writing_fails(
    make_translator, tmp_path, monkeypatch
):
    def fail(config, path):
        raise OSError("no space left")

    # The last file that CTranslate2 writes.
    monkeypatch.setattr(
        ctranslate2.specs.model_spec.ModelConfig, "save_as_json", fail
    )
    with pytest.raises(OSError, match="no space left"):
        ra.export_ctranslate2(make_translator(), tmp_path / "engine")
    assert not any(tmp_path.iterdir())


def test_missing_package_is_named(make_translator, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ra.InputError, match=r"pip install '\.\[ctranslate2"):
        ra.export_ctranslate2(make_translator(), tmp_path / "engine")
