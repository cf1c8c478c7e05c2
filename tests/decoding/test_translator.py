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


# === More than one translation, and what they are held to ===


def test_several_results_are_lists_best_first(model):
    translator = ra.Translator(model, Letters(), max_extra_length=3)
    found = translator.search(SENTENCES, num_results=3)
    best = translator.search(SENTENCES)
    assert len(found) == len(SENTENCES)
    for results, first, sentence in zip(found, best, SENTENCES):
        # What is blank is not searched: nothing else can be found.
        assert len(results) == (3 if sentence.strip() else 1)
        scores = [result.score for result in results]
        assert scores == sorted(scores, reverse=True)
        assert len({result.token_ids for result in results}) == len(results)
        assert results[0].token_ids == first.token_ids
        assert results[0].score == pytest.approx(first.score, abs=1e-5)
    assert translator.translate(SENTENCES, num_results=3) == [
        [result.text for result in results] for results in found
    ]


def test_one_result_may_be_asked_for_as_a_list(model):
    translator = ra.Translator(model, Letters(), max_extra_length=3)
    assert translator.translate(["abc", " "], num_results=1) == [
        [text] for text in translator.translate(["abc", " "])
    ]


def test_results_are_fewer_where_fewer_were_found(model):
    # Nothing but the end of sentence ends within one token.
    # All 28 of the vocabulary are looked at.
    translator = ra.Translator(model, Letters(), num_beams=14, max_length=1)
    ((result,),) = translator.search(["abc"], num_results=4)
    assert (result.text, result.token_ids) == ("", (1,))


@pytest.mark.parametrize("num_results", [0, 5])
def test_results_out_of_range_are_refused(model, num_results):
    translator = ra.Translator(model, Letters())
    with pytest.raises(ValueError, match=f"num_results={num_results}"):
        translator.translate(["abc"], num_results=num_results)


@pytest.mark.parametrize("method", ["search", "sample"])
def test_no_results_are_refused_when_nothing_is_searched(model, method):
    decode = getattr(ra.Translator(model, Letters()), method)
    with pytest.raises(ValueError, match="num_results=0"):
        decode(["", " "], num_results=0)


def test_translation_holds_what_was_read_and_written(model):
    translator = ra.Translator(
        model, Letters(), max_extra_length=3, max_source_length=4
    )
    short, cut, blank = translator.search(["a b", "abcdef", " "])
    assert short.source_token_ids == (2, 3, 1)
    assert cut.source_token_ids == (2, 3, 4, 1)
    assert (short.was_cut, cut.was_cut, blank.was_cut) == (False, True, False)
    for translation in (short, cut):
        assert Letters().decode([translation.token_ids]) == [translation.text]
        assert all(isinstance(i, int) for i in translation.token_ids)
        assert 1 not in translation.token_ids[:-1]
        assert translation.attention is None
    assert (blank.text, blank.score) == ("", 0.0)
    assert (blank.source_token_ids, blank.token_ids) == ((), ())


def test_translations_begin_with_their_prefixes(model):
    translator = ra.Translator(model, Letters(), max_extra_length=3)
    sentences = ["abc", "hello world", "z", " ", "xy"]
    prefixes = ["qq", "", "beyond the limit", "k", "x"]
    found = translator.search(sentences, target_prefixes=prefixes)
    alone = [
        translator.search([sentence], target_prefixes=[prefix])[0]
        for sentence, prefix in zip(sentences, prefixes)
    ]
    assert [t.token_ids for t in found] == [t.token_ids for t in alone]
    for translation, sentence, prefix in zip(found, sentences, prefixes):
        wanted = prefix.replace(" ", "") if sentence.strip() else ""
        assert translation.text.startswith(wanted)
    assert found[1].text == translator.translate(["hello world"])[0]
    texts = translator.translate(sentences, target_prefixes=prefixes)
    assert texts == [translation.text for translation in found]


@pytest.mark.parametrize("method", ["translate", "search", "sample"])
@pytest.mark.parametrize("prefixes", [[], ["a"], ["a", "b", "c"]], ids=len)
def test_prefix_is_asked_for_each_sentence(model, method, prefixes):
    translate = getattr(ra.Translator(model, Letters()), method)
    with pytest.raises(ValueError, match=rf"{len(prefixes)} for 2 sentences"):
        translate(["abc", "z"], target_prefixes=prefixes)


@pytest.mark.parametrize("method", ["search", "sample"])
def test_attention_is_from_each_token_to_each_of_its_source(model, method):
    translator = ra.Translator(model, Letters(), max_extra_length=3)
    found = getattr(translator, method)(
        ["abc", "hello world", "", "z"], num_results=2, return_attention=True
    )
    assert found[2][0].attention is None
    for translation in (*found[0], *found[1], *found[3]):
        attention = translation.attention
        # A decoder block of 2 heads.
        assert attention.shape == (
            1,
            2,
            len(translation.token_ids),
            len(translation.source_token_ids),
        )
        np.testing.assert_allclose(attention.sum(-1), 1.0, atol=1e-5)


def test_attention_is_no_part_of_equality():
    scores = np.zeros((1, 2, 3, 4))
    first, second = (
        ra.Translation("a", 0.0, False, attention=attention)
        for attention in (scores, None)
    )
    assert first == second


@pytest.mark.parametrize("min_length, max_length", [(6, 8), (0, 2), (3, 3)])
def test_lengths_hold_for_search_and_sample(model, min_length, max_length):
    translator = ra.Translator(
        model, Letters(), min_length=min_length, max_length=max_length
    )
    for found in (
        translator.search(["abc", "hello world"]),
        translator.sample(["abc", "hello world"], seed=3),
    ):
        for translation in found:
            length = len(translation.token_ids)
            assert min_length <= length <= max_length


# === Draws ===


def test_draws_do_not_depend_on_batches_or_order(model):
    wide = ra.Translator(model, Letters(), max_extra_length=3)
    narrow = ra.Translator(model, Letters(), max_extra_length=3, batch_tokens=1)
    arguments = {"num_results": 3, "seed": 11, "temperature": 6.0, "top_k": 20}
    found = wide.sample(SENTENCES, **arguments)
    others = narrow.sample(SENTENCES[::-1], **arguments)[::-1]
    ids = [[t.token_ids for t in results] for results in found]
    assert ids == [[t.token_ids for t in results] for results in others]
    assert [len(results) for results in found] == [
        3 if sentence.strip() else 1 for sentence in SENTENCES
    ]
    assert ids[0] == ids[SENTENCES.index("abc", 1)]
    assert len(set(ids[2])) > 1


def test_draws_are_those_of_the_function(model):
    translator = ra.Translator(model, Letters(), max_extra_length=3)
    arguments = {"temperature": 0.7, "seed": 5}
    (translation,) = translator.sample(["abc"], **arguments)
    results = ra.sample(
        model, np.array([[2, 3, 4, 1]]), max_extra_length=3, **arguments
    )
    ids = np.asarray(results["token_ids"])[0, 0].tolist()
    assert list(translation.token_ids) == ids[: len(translation.token_ids)]
    assert translation.score == pytest.approx(float(results["scores"][0, 0]))
    # One draw is no list; another seed is another draw.
    # (At a high temperature: this model is all but certain of one.)
    others = [
        translator.sample(["abc"], temperature=9.0, seed=seed)[0]
        for seed in range(5)
    ]
    assert len({other.token_ids for other in others}) > 1


@pytest.mark.parametrize(
    "arguments",
    [{"temperature": 0}, {"top_k": 0}, {"top_p": 2.0}, {"num_results": 0}],
    ids=str,
)
def test_draw_out_of_range_is_refused(model, arguments):
    ((name, value),) = arguments.items()
    with pytest.raises(ValueError, match=f"Received: {name}={value}"):
        ra.Translator(model, Letters()).sample(["abc"], **arguments)


def test_no_length_gives_empty_lines(model):
    translator = ra.Translator(model, Letters(), max_length=0)
    assert translator.translate(["abc", "z"]) == ["", ""]


# === Vocabularies, progress and errors ===


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
    translator = ra.Translator(model, Letters())
    with pytest.raises(TypeError, match=r"pass \['abc'\]"):
        translator.translate("abc")
    with pytest.raises(TypeError, match=r"`target_prefixes` .* pass \['ab'\]"):
        translator.translate(["a", "b"], target_prefixes="ab")


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
def test_limit_out_of_range_is_refused(arguments, model):
    (name,) = arguments
    with pytest.raises(ValueError, match=f"`{name}` must be at least"):
        ra.Translator(model, Letters(), **arguments)
