"""Text spelt at random: the same text, by the paper's probabilities."""

import collections
import io

import numpy as np
import pytest
import sentencepiece

import relative_attention as ra
from relative_attention.data.merge_table import MergeTable
from tests.data.piece_models import encoded
from tests.data.piece_models import model_of
from tests.data.piece_models import rows_of

WORDS = (
    "a man rides his bicycle along the beach while two small dogs watch the "
    "man who reads another book about bicycles and the sea"
).split()
ODD = [
    "",
    "  two  blanks ",
    "Zürich, 東京 and \U0001f600!",
    "aaaaaaaaaaaaaaaaaaaaaaaa",
    "tab\tand <unk> </s> <0x41>",
    "mañana\u0301 man\u200bman",
    "x",
]


def sentences(count, seed=0):
    random = np.random.default_rng(seed)
    return [
        " ".join(random.choice(WORDS, random.integers(1, 12)))
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def vocabulary():
    return ra.Vocabulary.train(sentences(300), 330, or_fewer=True)


@pytest.fixture(scope="module")
def letters():
    """Merges of which some overlap, and a piece that is made in two ways."""
    pieces = ["ab", "bc", "abc", "cd", "abcd", "▁a", "ca", "aab", *"abcd▁"]
    return model_of(pieces)


def drawn(vocabulary, corpus, rate, pairs=None, key=7, max_length=10**6):
    sampling = ra.SubwordSampling(vocabulary, vocabulary, rate, max_length)
    if pairs is None:
        pairs = np.arange(len(corpus))
    return sampling.draw(corpus, pairs, key)


# === What comes out ===


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.99])
def test_pieces_spell_the_same_text(rate, vocabulary):
    lines = [*ODD, *sentences(100, seed=1), *ODD]
    corpus = encoded(lines, vocabulary)
    tokens = drawn(vocabulary, corpus, rate)
    for side in ("source", "target"):
        rows = rows_of(tokens, side)
        assert vocabulary.decode(rows) == lines
        assert rows != rows_of(corpus, side)


def test_without_dropout_it_is_the_encoding(vocabulary):
    corpus = encoded([*ODD, *sentences(100, seed=1)], vocabulary)
    tokens = drawn(vocabulary, corpus, 0.0)
    for side in ("source", "target"):
        assert rows_of(tokens, side) == rows_of(corpus, side)


def test_almost_all_left_out_leaves_characters(vocabulary):
    corpus = encoded(["man reads"], vocabulary)
    (row,) = rows_of(drawn(vocabulary, corpus, 1 - 2**-50), "source")
    assert vocabulary.pieces(row) == list("▁man▁reads")


def probabilities(pieces, scores, rate):
    """Algorithm 1 of the paper for one word, all its outcomes added up."""
    merges = sorted(
        (-scores[a + b], place)
        for place, (a, b) in enumerate(zip(pieces, pieces[1:]))
        if a + b in scores
    )
    outcomes = collections.Counter({pieces: rate ** len(merges)})
    for number, (_, place) in enumerate(merges):
        # Those before it are left out, and it is not.
        chance = rate**number * (1 - rate)
        merged = pieces[place] + pieces[place + 1]
        after = (*pieces[:place], merged, *pieces[place + 2 :])
        for outcome, share in probabilities(after, scores, rate).items():
            outcomes[outcome] += chance * share
    return outcomes


@pytest.mark.parametrize("word", ["abcd", "abcabcd", "bcabcaab", "aaab"])
@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_spellings_are_as_frequent_as_in_the_paper(rate, word, letters):
    scores = {
        piece: -number
        for number, piece in enumerate(letters.pieces(range(len(letters))))
    }
    expected = probabilities(tuple(word), scores, rate)
    assert sum(expected.values()) == pytest.approx(1)
    count = 4000
    tokens = drawn(letters, encoded([word] * count, letters), rate)
    found = collections.Counter()
    for side in ("source", "target"):
        for row in rows_of(tokens, side):
            found[tuple(letters.pieces(row))] += 1
    assert found.keys() <= expected.keys()
    for spelling, chance in expected.items():
        deviation = np.sqrt(2 * count * chance * (1 - chance))
        assert abs(found[spelling] - 2 * count * chance) < 5 * deviation + 1


def test_words_are_spelt_apart(letters):
    # One word is as likely to be whole, whatever stands beside it.
    count, rate = 3000, 0.4
    alone = probabilities(
        tuple("cd"), {"cd": 0}, rate
    )  # Only one merge is possible.
    assert alone["cd",] == pytest.approx(0.6)
    tokens = drawn(letters, encoded(["cd abcd cd"] * count, letters), rate)
    firsts = sum(row[0] == 6 for row in rows_of(tokens, "source"))
    lasts = sum(row[-1] == 6 for row in rows_of(tokens, "source"))
    for found in (firsts, lasts):
        assert abs(found - 0.6 * count) < 5 * np.sqrt(0.24 * count)


def test_too_long_a_spelling_gives_way_to_the_encoding(vocabulary):
    corpus = encoded(sentences(200, seed=2), vocabulary)
    longest = int(corpus.source_lengths.max())
    tokens = drawn(vocabulary, corpus, 0.3, max_length=longest)
    free = rows_of(drawn(vocabulary, corpus, 0.3), "source")
    plain = rows_of(corpus, "source")
    rows = rows_of(tokens, "source")
    # With their ends.
    assert max(map(len, rows)) + 1 <= longest < max(map(len, free)) + 1
    for row, other, encoding in zip(rows, free, plain):
        assert row == (other if len(other) < longest else encoding)


def test_growth_is_that_of_the_longer_sides(vocabulary):
    corpus = encoded(sentences(300, seed=3), vocabulary)
    sampling = ra.SubwordSampling(vocabulary, vocabulary, 0.2, 100)
    longest = [
        np.maximum(tokens.source_lengths, tokens.target_lengths).sum()
        for tokens in (
            sampling.draw(corpus, np.arange(300), key) for key in range(1, 6)
        )
    ]
    expected = np.mean(longest) / corpus.source_lengths.sum()
    assert expected > 1.3
    assert sampling.growth(corpus) == pytest.approx(expected, rel=0.05)
    none = ra.SubwordSampling(vocabulary, vocabulary, 0.0, 100)
    assert none.growth(corpus) == 1


# === What it is a function of ===


def test_a_pair_is_spelt_alike_in_any_company(vocabulary):
    corpus = encoded(sentences(50), vocabulary)
    rows = rows_of(drawn(vocabulary, corpus, 0.3), "source")
    pairs = np.array([41, 3, 3, 17])
    some = drawn(vocabulary, corpus, 0.3, pairs)
    assert rows_of(some, "source") == [rows[pair] for pair in pairs]
    assert some.line_numbers.tolist() == [42, 4, 4, 18]


def test_keys_sides_and_pairs_are_spelt_differently(vocabulary):
    corpus = encoded([sentences(1, seed=5)[0]] * 20, vocabulary)
    spellings = set()
    for key in range(20):
        tokens = drawn(vocabulary, corpus, 0.3, key=key)
        for side in ("source", "target"):
            spellings.update(map(tuple, rows_of(tokens, side)))
    # Hardly any of 800 long spellings come twice.
    assert len(spellings) > 700


def test_spellings_are_those_that_runs_began_with(letters):
    # A run that goes on must see the spellings of the version that began it.
    corpus = encoded(["abcd abc", "cdab"], letters)
    tokens = drawn(letters, corpus, 0.3, key=2**64 - 5)
    source, target = (
        [" ".join(letters.pieces(row)) for row in rows_of(tokens, side)]
        for side in ("source", "target")
    )
    assert source == ["abc d ▁ abc", "cd a b"]
    assert target == ["abcd ▁ a bc", "cd a b"]


# === Kinds of vocabularies ===


def test_two_vocabularies_spell_a_side_each(vocabulary, letters):
    corpus = encoded(["abcd"] * 30, letters)
    sampling = ra.SubwordSampling(vocabulary, letters, 0.3, 100)
    plain = encoded(["abcd"] * 30, vocabulary)
    mixed = ra.TokenCorpus(
        plain.source_ids,
        plain.source_offsets,
        corpus.target_ids,
        corpus.target_offsets,
        corpus.line_numbers,
        num_empty=0,
        num_too_long=0,
    )
    tokens = sampling.draw(mixed, np.arange(30), 0)
    assert vocabulary.decode(rows_of(tokens, "source")) == ["abcd"] * 30
    assert letters.decode(rows_of(tokens, "target")) == ["abcd"] * 30


def test_pieces_of_ones_own_and_unknown_ones_stay_whole():
    # `dog` is given, and `oxy` has a letter that is no piece itself.
    pieces = ["ab", "dog", "oxy", *"abdgox▁"]
    vocabulary = model_of(pieces, dog="USER_DEFINED")
    corpus = encoded(["abdogab", "ab?ab", "dogdog"] * 10, vocabulary)
    rows = rows_of(drawn(vocabulary, corpus, 0.9), "source")
    spelt = [" ".join(vocabulary.pieces(row)) for row in rows]
    assert {line.replace("ab", "a b") for line in spelt} == {
        "a b dog a b",
        "a b <unk> a b",
        "dog dog",
    }
    assert any("ab" in line for line in spelt)


def test_models_of_other_options_are_spelt_too():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences(300)),
        model_writer=model,
        model_type="bpe",
        vocab_size=90,
        # Pieces reach over words.
        split_by_whitespace=False,
        minloglevel=2,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
    )
    vocabulary = ra.Vocabulary(model.getvalue())
    lines = sentences(50, seed=4)
    corpus = encoded(lines, vocabulary)
    assert rows_of(drawn(vocabulary, corpus, 0.0), "source") == rows_of(
        corpus, "source"
    )
    rows = rows_of(drawn(vocabulary, corpus, 0.3), "source")
    assert vocabulary.decode(rows) == lines
    assert rows != rows_of(corpus, "source")


def test_merges_are_told_by_an_example():
    table = MergeTable.of(model_of(["a", "b", "ab", "aab"]))
    size = 7
    assert table.pairs.tolist() == [3 * size + 4, 3 * size + 5]
    assert table.merged.tolist() == [5, 6]


@pytest.mark.parametrize(
    ("vocabulary", "received"),
    [
        (lambda: model_of("ab", "UNIGRAM"), "a SentencePiece model, UNIGRAM"),
        (
            lambda: model_of(["a", "b", "ab"], b="UNUSED"),
            "BPE with unused pieces",
        ),
        (lambda: ra.TokenVocabulary.train(["a b c"], 10), "TokenVocabulary"),
    ],
    ids=["unigram", "unused", "tokens"],
)
def test_other_vocabularies_are_refused(vocabulary, received):
    letters = model_of("ab")
    for pair in ((vocabulary(), letters), (letters, vocabulary())):
        with pytest.raises(ra.InputError, match=f"byte pairs.*{received}"):
            ra.SubwordSampling(*pair, 0.1, 100)


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan"), "0.1", None])
def test_rate_must_be_one(rate):
    with pytest.raises(ValueError, match="`rate` must be a rate in"):
        ra.SubwordSampling(model_of("ab"), model_of("ab"), rate, 100)


def test_length_must_be_one():
    with pytest.raises(ValueError, match="`max_length` must be a positive"):
        ra.SubwordSampling(model_of("ab"), model_of("ab"), 0.1, 0)
