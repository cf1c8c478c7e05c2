"""The translator: order, batches, blanks and limits, known by hand.

Searches have tests of their own; the model here adds one to every letter.
"""

import numpy as np
import pytest
import tensorflow as tf

import relative_attention as ra
from tests.decoding.known_models import Chain
from tests.decoding.known_models import Letters
from tests.decoding.known_models import Numbers
from tests.decoding.known_models import make_model

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

    def decode_step(self, token_ids, cache, position, ancestors=None):
        position = min(int(position), cache.shape[1] - 1)
        letter = cache[:, position]
        following = tf.where(letter < 2, 1, letter + 1)
        probabilities = (
            0.1 / 30
            + 0.7 * tf.one_hot(following, 30)
            + 0.2 * tf.one_hot(tf.maximum(letter, 1), 30)
        )
        logits = tf.math.log(probabilities)[:, None]
        return tf.repeat(logits, token_ids.shape[1], axis=1), cache


SENTENCES = ["abc", "z", "hell o", "", "q" * 7, "  ", "abc", "xy"]
CAESAR = ["bcd", "{", "ifmmp", "", "r" * 7, "", "bcd", "yz"]
METHODS = pytest.mark.parametrize("method", ["search", "sample"])


def make_translator(**settings):
    settings = {"num_beams": 2, "max_extra_length": 1, **settings}
    return ra.Translator(Caesar(), Letters(), **settings)


@pytest.mark.parametrize(
    "batch_tokens, shapes",
    # Two beams each of 8, 6, twice 4, 3 and 2 positions.
    [(8192, [(6, 8)]), (32, [(2, 8), (4, 4)])],
)
def test_translations_stand_in_the_order_of_the_sentences(batch_tokens, shapes):
    translator = make_translator(batch_tokens=batch_tokens)
    assert translator.translate(SENTENCES) == CAESAR
    assert translator.model.shapes == shapes


def test_blank_sentences_stay_empty_and_are_not_searched():
    translator = make_translator()
    empty = ra.Translation("", 0.0, False)
    assert translator.search(["", "  "]) == [empty] * 2
    assert translator.translate([]) == []
    assert translator.model.shapes == []


def test_long_sentence_is_cut_and_marked():
    translator = make_translator(max_source_length=5)
    cut, whole = translator.search(["abcdefgh", "abcd"])
    assert (cut.was_cut, whole.was_cut) == (True, False)
    assert cut.text == whole.text == "bcde"
    assert cut.score == whole.score


# === More than one translation ===


def test_several_results_are_lists_best_first():
    sentences = ["ab", "", "z"]
    translator = make_translator(num_beams=4)
    found = translator.search(sentences, num_results=3)
    # One letter is kept, the first as good as the second.
    assert found[0][0].text == "bc"
    assert {result.text for result in found[0][1:]} == {"ac", "bb"}
    # What is blank is not searched: nothing else can be found.
    assert [result.text for result in found[1]] == [""]
    assert [result.text for result in found[2]][:2] == ["{", "z"]
    for results in found:
        scores = [result.score for result in results]
        assert scores == sorted(scores, reverse=True)
    assert translator.translate(sentences, num_results=3) == [
        [result.text for result in results] for results in found
    ]
    assert translator.translate(sentences, num_results=1) == [
        [text] for text in translator.translate(sentences)
    ]


def test_results_are_fewer_where_fewer_were_found():
    # Nothing but the end of sentence ends within one token.
    # All 30 of the vocabulary are looked at.
    translator = make_translator(num_beams=15, max_length=1)
    ((result,),) = translator.search(["abc"], num_results=4)
    assert (result.text, result.token_ids) == ("", (1,))


def test_results_out_of_range_are_refused():
    translator = make_translator()
    with pytest.raises(ValueError, match="num_results=5"):
        translator.translate(["abc"], num_results=5)
    for method in (translator.search, translator.sample):
        with pytest.raises(ValueError, match="num_results=0"):
            method(["", " "], num_results=0)


def test_call_may_have_its_own_beams_and_penalty():
    sentences = ["ab", "z", ""]
    usual = make_translator(num_beams=1, length_penalty=0.0)
    for beams, penalty in ((1, 0.0), (3, 0.0), (3, 2.0)):
        options = {"num_beams": beams, "length_penalty": penalty}
        other = make_translator(**options)
        assert usual.search(sentences, **options) == other.search(sentences)
        assert usual.translate(sentences, beams, **options) == (
            other.translate(sentences, beams)
        )
    with pytest.raises(ValueError, match="`num_beams` must be at least 1"):
        usual.translate([""], num_beams=0)


# === What translations are held to ===


def test_translations_begin_with_their_prefixes():
    sentences = ["abc", "hell o", "z", " ", "xy"]
    prefixes = ["qq", "", "be yond", "k", "x"]
    translator = make_translator()
    assert translator.translate(sentences, target_prefixes=prefixes) == [
        *("qqd", CAESAR[2], "beyond", "k", "xz")
    ]
    drawn = translator.sample(sentences, target_prefixes=prefixes, seed=1)
    for translation, sentence, prefix in zip(drawn, sentences, prefixes):
        if sentence.strip():
            assert translation.text.startswith(prefix.replace(" ", ""))


@METHODS
def test_prefix_with_an_end_is_named(method):
    tokens = ["<blank>", "</s>", "<s>", "a", "b", "<unk>"]
    vocabulary = ra.TokenVocabulary(tokens)
    translator = ra.Translator(make_translator().model, vocabulary)
    with pytest.raises(ValueError, match="no end of sentence.*: 'a </s> b'"):
        getattr(translator, method)(
            ["a", "b"], target_prefixes=["b", "a </s> b"]
        )


def test_text_in_other_pieces_is_one_result():
    class Halves(Letters):
        """Ids of one letter are two pieces of the same text."""

        def decode(self, rows):
            return [t.replace("b", "a") for t in super().decode(rows)]

    model = Chain(
        {0: {2: 0.5, 3: 0.3, 4: 0.2}, **dict.fromkeys((2, 3, 4), {1: 1.0})}
    )
    translator = ra.Translator(model, Halves(), num_beams=3)
    (found,) = translator.search(["a"], num_results=3)
    assert [(one.text, one.token_ids) for one in found] == [
        ("a", (2, 1)),
        ("c", (4, 1)),
    ]
    drawn = translator.sample(["a"], num_results=40, seed=1)
    assert len(drawn[0]) == 40


@METHODS
def test_prefix_is_needed_for_each_sentence(method):
    for prefixes in ([], ["a"], ["a", "b", "c"]):
        with pytest.raises(
            ValueError, match=rf"{len(prefixes)} for 2 sentences"
        ):
            getattr(make_translator(), method)(
                ["abc", "z"], target_prefixes=prefixes
            )


@METHODS
def test_attention_is_from_each_token_to_each_of_its_source(
    peaked_model, method
):
    translator = ra.Translator(peaked_model, Numbers(), max_length=4)
    found = getattr(translator, method)(
        ["5 6 7", "2 3 4 5 6", "", "9"], num_results=2, return_attention=True
    )
    assert found[2][0].attention is None
    for translation in (*found[0], *found[1], *found[3]):
        lengths = (translation.token_ids, translation.source_token_ids)
        # A decoder block of 3 heads.
        assert translation.attention.shape == (1, 3, *map(len, lengths))
        np.testing.assert_allclose(
            translation.attention.sum(-1), 1.0, atol=1e-5
        )


def test_draws_do_not_depend_on_batches_or_order():
    arguments = {"num_results": 3, "seed": 11, "temperature": 2.0, "top_k": 20}
    found = make_translator().sample(SENTENCES, **arguments)
    narrow = make_translator(batch_tokens=1)
    others = narrow.sample(SENTENCES[::-1], **arguments)[::-1]
    ids = [[t.token_ids for t in results] for results in found]
    assert ids == [[t.token_ids for t in results] for results in others]
    assert [len(results) for results in found] == [
        3 if sentence.strip() else 1 for sentence in SENTENCES
    ]
    assert len(set(ids[2])) > 1


# === Vocabularies, progress and errors ===


def test_source_vocabulary_reads_the_source():
    class Shouted(Letters):
        # An id of the source alone.
        end_id = 0

        def encode(self, lines):
            return super().encode([line.lower() for line in lines])

    translator = make_translator(source_vocabulary=Shouted())
    (translation,) = translator.search(["ABC"])
    assert translation.text == "bcd"
    assert translation.source_token_ids == (2, 3, 4, 0)


@METHODS
def test_progress_counts_every_sentence_once(method):
    counts = []
    decode = getattr(make_translator(batch_tokens=1), method)
    decode(["ab", "", "c", " "], report=counts.append)
    # The two blank ones are done before the first batch.
    assert counts == [3, 4]


@pytest.mark.parametrize(
    "name", "batch_tokens max_length min_length num_beams".split()
)
def test_setting_out_of_range_is_refused(name):
    with pytest.raises(ValueError, match=f"`{name}` must be at least"):
        make_translator(**{name: -1})


WRONG = [
    ("one", "a string; pass \\['one'\\]"),
    (iter(["one"]), "iterator; pass list\\("),
    (np.array([["one"]]), "ndarray of shape \\(1, 1\\)"),
    (tf.constant(["one"]), "item 0 is of type EagerTensor"),
]


def test_wrong_sentences_are_refused_by_every_function(peaked_model):
    translator = ra.Translator(peaked_model, Letters(), max_length=3)
    lines = ["ab"]
    uses = {
        "sentences": translator.translate,
        "target_prefixes": lambda given: translator.sample(
            lines, target_prefixes=given
        ),
        "sources": lambda given: ra.score_translations(
            translator, given, lines
        ),
        "targets": lambda given: ra.score_translations(
            translator, lines, given
        ),
        "hypotheses": lambda given: ra.corpus_bleu(given, lines),
        "references": lambda given: ra.corpus_scores(lines, given),
    }
    for name, use in uses.items():
        for value, received in WRONG:
            with pytest.raises(
                TypeError, match=f"^`{name}` must be a list .*{received}"
            ):
                use(value)
        with pytest.raises(ValueError, match=f"^`{name}` must hold text.*d800"):
            use(["\ud800"])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\nb", "a b"),
        # No file holds half a surrogate pair.
        ("a\ud800b\udc00", "a\ufffdb\ufffd"),
        ("\U0001f6b2 \ufeff", "\U0001f6b2 \ufeff"),
    ],
    ids=ascii,
)
def test_translation_is_a_line_of_utf_8(text, line):
    class Writing(Letters):
        def decode(self, rows):
            return [text] * len(rows)

    translator = ra.Translator(Caesar(), Writing())
    assert translator.translate(["abc"]) == [line]


# === Weights or logits that are no numbers ===

USES = {
    "translate": lambda translator: translator.translate(["3", "4 9 9"]),
    "sample": lambda translator: translator.sample(["3", "4 9 9"], seed=1),
    "score": lambda translator: ra.score_translations(
        translator, ["3", "4 9 9"], ["3", "2"]
    ),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_numbers_that_are_not_finite_are_an_error(use):
    translator = ra.Translator(make_model(), Numbers(), max_length=5)
    model = translator.model
    # One broken sentence is enough.
    embeddings = model.target_embedding.embeddings
    array = np.asarray(embeddings).copy()
    array[9] = np.nan
    embeddings.assign(array)
    with pytest.raises(ra.InputError, match="embeddings holds nan or inf"):
        use(translator)
    # Row 4 alone: a logit is infinite, every weight is finite.
    array = np.ones(embeddings.shape)
    array[4] = 3e38
    embeddings.assign(array)
    model.decoder_norm.beta.assign(np.full(18, 5.0))
    with pytest.raises(ra.InputError, match="logits .* must be finite"):
        use(translator)
