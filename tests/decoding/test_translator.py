"""The translator: order, batches, blanks and limits, known by hand.

Searches have tests of their own; the model here adds one to every letter.
"""

import numpy as np
import pytest
import tensorflow as tf

import relative_attention as ra
from relative_attention.decoding.translation import read_translations

pytestmark = pytest.mark.usefixtures("eagerly")


class Caesar:
    """A model that writes `b` for `a` with probability 0.7, or `a` with 0.2.

    It does so letter by letter, and ends where its source ends. The rest is
    0.1 for whatever else there is.
    """

    def __init__(self):
        self.shapes = []

    def start_cache(self, source_token_ids):
        self.shapes.append(tuple(source_token_ids.shape))
        return source_token_ids

    def merge_cache(self, cache):
        return cache

    def decode_step(self, token_ids, cache, position, ancestors=None):
        position = min(int(position), cache.shape[1] - 1)
        letter = cache[:, position]
        following = tf.where(letter < 2, 1, letter + 1)
        probabilities = (
            0.1 / 30
            + 0.7 * tf.one_hot(following, 30)
            + 0.2 * tf.one_hot(tf.maximum(letter, 1), 30)
        )
        return (
            tf.repeat(
                tf.math.log(probabilities)[:, None], token_ids.shape[1], axis=1
            ),
            cache,
        )


SENTENCES = ["abc", "z", "hell o", "", "q" * 7, "  ", "abc", "xy"]


CAESAR = ["bcd", "{", "ifmmp", "", "r" * 7, "", "bcd", "yz"]


@pytest.fixture
def translator(letters):
    """`translator(**settings)`: of a model that adds one to each letter."""

    def translator(**settings):
        return ra.Translator(
            Caesar(),
            letters(),
            **{"num_beams": 2, "max_extra_length": 1, **settings},
        )

    return translator


@pytest.mark.parametrize("batch_tokens", [1, 8192])
def test_translations_stand_in_the_order_of_the_sentences(
    translator, batch_tokens
):
    wide = translator(batch_tokens=batch_tokens)
    assert wide.translate(SENTENCES) == CAESAR


def test_batches_keep_to_their_tokens(translator):
    narrow = translator(batch_tokens=32)
    assert narrow.translate(SENTENCES) == CAESAR
    # Two beams each of 8, 6, twice 4, 3 and 2 positions.
    assert narrow.model.shapes == [(2, 8), (4, 4)]


def test_blank_sentences_stay_empty_and_are_not_searched(translator):
    blank = translator()
    translations = blank.search(["", "  "])
    assert [t.text for t in translations] == ["", ""]
    assert [t.score for t in translations] == [0.0, 0.0]
    assert blank.translate([]) == []
    assert blank.model.shapes == []


def test_long_sentence_is_cut_and_marked(translator):
    cut, whole = translator(max_source_length=5).search(["abcdefgh", "abcd"])
    assert (cut.was_cut, whole.was_cut) == (True, False)
    assert cut.text == whole.text == "bcde"
    assert cut.score == whole.score


# === More than one translation ===


def test_several_results_are_lists_best_first(translator):
    sentences = ["ab", "", "z"]
    several = translator(num_beams=4)
    found = several.search(sentences, num_results=3)
    # One letter is kept, the first as good as the second.
    assert found[0][0].text == "bc"
    assert {result.text for result in found[0][1:]} == {"ac", "bb"}
    # What is blank is not searched: nothing else can be found.
    assert [result.text for result in found[1]] == [""]
    assert [result.text for result in found[2]][:2] == ["{", "z"]
    for results in found:
        scores = [result.score for result in results]
        assert scores == sorted(scores, reverse=True)
    assert several.translate(sentences, num_results=3) == [
        [result.text for result in results] for results in found
    ]
    assert several.translate(sentences, num_results=1) == [
        [text] for text in several.translate(sentences)
    ]


def test_results_are_fewer_where_fewer_were_found(translator):
    # Nothing but the end of sentence ends within one token.
    # All 30 of the vocabulary are looked at.
    one_token = translator(num_beams=15, max_length=1)
    ((result,),) = one_token.search(["abc"], num_results=4)
    assert (result.text, result.token_ids) == ("", (1,))


def test_results_out_of_range_are_refused(translator):
    with pytest.raises(ValueError, match="num_results=5"):
        translator().translate(["abc"], num_results=5)
    for method in (translator().search, translator().sample):
        with pytest.raises(ValueError, match="num_results=0"):
            method(["", " "], num_results=0)


def test_call_may_have_its_own_beams_and_penalty(translator):
    sentences = ["ab", "z", ""]
    usual = translator(num_beams=1, length_penalty=0.0)
    for beams, penalty in ((1, 0.0), (3, 0.0), (3, 2.0)):
        other = translator(num_beams=beams, length_penalty=penalty)
        options = {"num_beams": beams, "length_penalty": penalty}
        assert usual.search(sentences, **options) == other.search(sentences)
        assert usual.translate(sentences, beams, **options) == (
            other.translate(sentences, beams)
        )
    with pytest.raises(ValueError, match="`num_beams` must be at least 1"):
        usual.translate([""], num_beams=0)


# === What translations are held to ===


def test_translations_begin_with_their_prefixes(translator):
    sentences = ["abc", "hell o", "z", " ", "xy"]
    prefixes = ["qq", "", "be yond", "k", "x"]
    wanted = ["qqd", CAESAR[2], "beyond", "", "xz"]
    free = translator()
    found = free.search(sentences, target_prefixes=prefixes)
    assert [translation.text for translation in found] == wanted
    texts = free.translate(["abc"], target_prefixes=["qq"])
    assert texts == ["qqd"]
    drawn = free.sample(sentences, target_prefixes=prefixes, seed=1)
    for translation, sentence, prefix in zip(drawn, sentences, prefixes):
        if sentence.strip():
            assert translation.text.startswith(prefix.replace(" ", ""))


@pytest.mark.parametrize("method", ["translate", "search", "sample"])
def test_prefix_is_asked_for_each_sentence(translator, method):
    for prefixes in ([], ["a"], ["a", "b", "c"]):
        with pytest.raises(
            ValueError, match=rf"{len(prefixes)} for 2 sentences"
        ):
            getattr(translator(), method)(
                ["abc", "z"], target_prefixes=prefixes
            )


@pytest.mark.parametrize("min_length, max_length", [(6, 8), (3, 3)])
def test_lengths_hold_for_search_and_sample(translator, min_length, max_length):
    held = translator(
        min_length=min_length, max_length=max_length, max_extra_length=9
    )
    for found in (
        held.search(["abc", "hello world"]),
        held.sample(["abc", "hello world"], seed=3),
    ):
        for translation in found:
            length = len(translation.token_ids)
            assert min_length <= length <= max_length


@pytest.mark.parametrize("method", ["search", "sample"])
def test_attention_is_from_each_token_to_each_of_its_source(
    peaked_model, letters, method
):
    class FewLetters(letters):
        def encode(self, lines):
            return [[i % 13 for i in row] for row in super().encode(lines)]

    translator = ra.Translator(peaked_model, FewLetters(), max_length=4)
    found = getattr(translator, method)(
        ["abc", "hello", "", "k"], num_results=2, return_attention=True
    )
    assert found[2][0].attention is None
    for translation in (*found[0], *found[1], *found[3]):
        attention = translation.attention
        # A decoder block of 3 heads.
        assert attention.shape == (
            1,
            3,
            len(translation.token_ids),
            len(translation.source_token_ids),
        )
        np.testing.assert_allclose(attention.sum(-1), 1.0, atol=1e-5)


# === Draws ===


def test_draws_do_not_depend_on_batches_or_order(translator):
    arguments = {"num_results": 3, "seed": 11, "temperature": 2.0, "top_k": 20}
    found = translator().sample(SENTENCES, **arguments)
    narrow = translator(batch_tokens=1)
    others = narrow.sample(SENTENCES[::-1], **arguments)[::-1]
    ids = [[t.token_ids for t in results] for results in found]
    assert ids == [[t.token_ids for t in results] for results in others]
    assert [len(results) for results in found] == [
        3 if sentence.strip() else 1 for sentence in SENTENCES
    ]
    assert ids[0] == ids[SENTENCES.index("abc", 1)]
    assert len(set(ids[2])) > 1


# === Vocabularies, progress and errors ===


def test_source_vocabulary_reads_the_source(translator, letters):
    class Shouted(letters):
        # An id of the source alone.
        end_id = 0

        def encode(self, lines):
            return super().encode([line.lower() for line in lines])

    shouted = translator(source_vocabulary=Shouted())
    (translation,) = shouted.search(["ABC"])
    assert translation.text == "bcd"
    assert translation.source_token_ids == (2, 3, 4, 0)


@pytest.mark.parametrize("method", ["search", "sample"])
def test_progress_counts_every_sentence_once(translator, method):
    counts = []
    decode = getattr(translator(batch_tokens=1), method)
    decode(["ab", "", "c", " "], report=counts.append)
    # The two blank ones are done before the first batch.
    assert counts == [3, 4]


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_beams": 0},
        {"length_penalty": -1},
        {"max_source_length": 1},
        {"batch_tokens": 0},
        {"max_extra_length": -1},
        {"max_length": -1},
        {"min_length": -1},
    ],
    ids=str,
)
def test_limit_out_of_range_is_refused(arguments, translator):
    (name,) = arguments
    with pytest.raises(ValueError, match=f"`{name}` must be at least"):
        translator(**arguments)


# === Translations read from the ids that a search found ===


RESULTS = {
    "token_ids": np.array(
        [
            # The end is followed by anything; without an end, by padding.
            [[2, 3, 1, 7], [4, 0, 5, 0]],
            # Fewer were found than asked for.
            [[1, 0, 0, 0], [0, 0, 0, 0]],
        ]
    ),
    "scores": np.array([[-0.5, -1.5], [-1e7, -1e7]]),
}


SOURCES = [(5, 1), (6, 7, 1)]


def test_results_become_text_ids_and_scores(letters):
    first, second = read_translations(
        RESULTS, SOURCES, [False, True], letters()
    )
    assert [result.text for result in first] == ["abf", "cd"]
    assert [result.token_ids for result in first] == [(2, 3, 1), (4, 0, 5)]
    assert [result.score for result in first] == [-0.5, -1.5]
    assert [result.source_token_ids for result in first] == [(5, 1)] * 2
    # The first is a result whatever its score.
    assert second == [ra.Translation("", -1e7, True, (6, 7, 1), (1,))]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\nb", "a b"),
        # No file holds half a surrogate pair.
        ("a\ud800b\udc00", "a\ufffdb\ufffd"),
        ("\U0001f6b2 \ufeff", "\U0001f6b2 \ufeff"),
        ("", ""),
    ],
    ids=ascii,
)
def test_translation_is_a_line_of_utf_8(letters, text, line):
    class Writing(letters):
        def decode(self, rows):
            return [text] * len(rows)

    found = read_translations(RESULTS, SOURCES, [False] * 2, Writing())
    assert found[0][0].text == line


def test_translation_is_printed_on_a_line():
    attention = np.zeros((2, 4, 30, 30), np.float32)
    text = repr(ra.Translation("Ja.", -0.5, False, (5, 1), (7, 1), attention))
    assert text == (
        "Translation(text='Ja.', score=-0.5, was_cut=False, "
        "source_token_ids=(5, 1), token_ids=(7, 1))"
    )
