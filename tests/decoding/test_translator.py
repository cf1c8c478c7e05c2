"""Order, batches, blanks and limits; the search has tests of its own."""

import keras
import numpy as np
import pytest

import relative_attention as ra


class Letters:
    """A vocabulary of one id a letter, from `a`, 2."""

    end_id = 1

    def encode(self, lines):
        return [[ord(c) - 95 for c in line if c != " "] for line in lines]

    def decode(self, rows):
        return ["".join(chr(int(i) + 95) for i in row if i > 1) for row in rows]


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(7)
    model = ra.Transformer.from_preset(
        "transformer_tiny_relative",
        vocabulary_size=28,
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_dim=16,
        intermediate_dim=8,
        num_heads=2,
    )
    for weight in model.trainable_weights:
        # Peaked distributions: no near ties that batching could turn.
        weight.assign(weight * 4)
    return model


SENTENCES = ["abc", "z", "hello world", "", "q" * 30, "  ", "abc", "xy"]


def test_translations_stand_in_the_order_of_the_sentences(model):
    translator = ra.Translator(model, Letters(), max_extra_length=3)
    alone = [translator.translate([sentence])[0] for sentence in SENTENCES]
    assert translator.translate(SENTENCES) == alone
    assert len(set(alone)) > 3


def test_batch_size_changes_nothing(model):
    wide = ra.Translator(model, Letters(), max_extra_length=3)
    narrow = ra.Translator(model, Letters(), max_extra_length=3, batch_tokens=1)
    assert wide.translate(SENTENCES) == narrow.translate(SENTENCES)


def test_batches_keep_to_their_tokens(model, monkeypatch):
    sizes = []
    search = ra.beam_search

    def noted(model, source, **arguments):
        sizes.append(source.shape)
        return search(model, source, **arguments)

    monkeypatch.setattr(
        "relative_attention.decoding.translator.beam_search", noted
    )
    translator = ra.Translator(
        model, Letters(), num_beams=2, max_extra_length=3, batch_tokens=40
    )
    translator.translate(SENTENCES)
    assert sum(rows for rows, _ in sizes) == 6
    assert all(rows == 1 or rows * length * 2 <= 40 for rows, length in sizes)
    lengths = [length for _, length in sizes]
    assert lengths == sorted(lengths, reverse=True)


def test_blank_sentences_stay_empty_and_are_not_searched(model):
    translator = ra.Translator(model, Letters())
    translations = translator.search(["", "  "])
    assert [t.text for t in translations] == ["", ""]
    assert [t.score for t in translations] == [0.0, 0.0]


def test_no_sentence_gives_no_translation(model):
    assert ra.Translator(model, Letters()).translate([]) == []


def test_long_sentence_is_cut_and_marked(model):
    translator = ra.Translator(
        model, Letters(), max_source_length=5, max_extra_length=3
    )
    cut, whole = translator.search(["abcdefgh", "abcd"])
    assert (cut.was_cut, whole.was_cut) == (True, False)
    assert (cut.text, cut.score) == (whole.text, whole.score)


def test_scores_are_those_of_the_search(model):
    translator = ra.Translator(model, Letters(), max_extra_length=3)
    (translation,) = translator.search(["abc"])
    results = ra.beam_search(
        model, np.array([[2, 3, 4, 1]]), max_extra_length=3
    )
    assert translation.score == pytest.approx(float(results["scores"][0, 0]))


def test_source_vocabulary_reads_the_source(model):
    class Shouted(Letters):
        def encode(self, lines):
            return super().encode([line.lower() for line in lines])

    translator = ra.Translator(
        model, Letters(), source_vocabulary=Shouted(), max_extra_length=3
    )
    assert translator.translate(["ABC"]) == translator.translate(["abc"])


def test_progress_counts_every_sentence_once(model):
    counts = []
    ra.Translator(model, Letters(), batch_tokens=1, max_extra_length=3).search(
        SENTENCES, report=counts.append
    )
    assert counts == sorted(counts)
    assert counts[-1] == len(SENTENCES)


def test_single_string_is_refused(model):
    with pytest.raises(TypeError, match=r"pass \['abc'\]"):
        ra.Translator(model, Letters()).translate("abc")


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_beams": 0},
        {"length_penalty": -1},
        {"max_source_length": 1},
        {"batch_tokens": 0},
    ],
    ids=str,
)
def test_limit_out_of_range_is_refused(arguments, model):
    (name,) = arguments
    with pytest.raises(ValueError, match=f"`{name}` must be at least"):
        ra.Translator(model, Letters(), **arguments)
