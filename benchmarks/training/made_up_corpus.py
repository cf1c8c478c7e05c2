"""A corpus of any size that looks like text, from a seed.

Words are made of syllables and drawn by Zipf's law, lengths are log-normal
with a mean of 25 words, and a target is about as long as its source.
"""

import pathlib

import numpy as np

import relative_attention as ra
from benchmarks.harness.progress import show_progress

SIDES = ("source", "target")
_NUM_WORDS = 400_000
_CHUNK_PAIRS = 50_000
_LONGEST = 250
# Mean and deviation of the logarithm of a source's number of words, and of
# that of the ratio of a target to it.
_LENGTHS = (3.03, 0.62)
_LENGTH_RATIOS = (-0.03, 0.18)
# Zipf's law as Mandelbrot has it: the odds of the word of rank r are
# 1 / (r + 2.7), so that a few words are half of a text.
_ZIPF_SHIFT = 2.7


def write_corpus(
    folder: pathlib.Path, num_pairs: int, seed: int
) -> "ra.ParallelCorpus":
    """Writes `source` and `target` to a folder.

    Args:
        folder: The path of a folder.
        num_pairs: An integer.
        seed: An integer.

    Returns:
        A `ParallelCorpus`.
    """
    rng = np.random.default_rng(seed)
    lexicons = [make_lexicon(rng, _NUM_WORDS) for _ in SIDES]
    odds = 1 / (np.arange(_NUM_WORDS) + _ZIPF_SHIFT)
    cumulative = np.cumsum(odds) / odds.sum()
    paths = [str(folder / side) for side in SIDES]
    with open(paths[0], "wb") as source, open(paths[1], "wb") as target:
        for start in range(0, num_pairs, _CHUNK_PAIRS):
            size = min(_CHUNK_PAIRS, num_pairs - start)
            lengths = draw_lengths(rng, size)
            for file, words, number in (
                (source, lexicons[0], lengths[0]),
                (target, lexicons[1], lengths[1]),
            ):
                drawn = np.searchsorted(cumulative, rng.random(number.sum()))
                file.write(join_lines(words, drawn, number))
            show_progress(f"writing: {start + size:,} pairs")
    show_progress()
    return ra.ParallelCorpus(*paths)


def draw_lengths(
    rng: np.random.Generator, num_pairs: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns numbers of words of made-up sentence pairs.

    Args:
        rng: A `numpy.random.Generator`.
        num_pairs: An integer.

    Returns:
        A pair of integer arrays `(num_pairs,)`, of sources and of targets.
    """
    source = rng.lognormal(*_LENGTHS, num_pairs)
    target = source * rng.lognormal(*_LENGTH_RATIOS, num_pairs)
    clipped = np.clip([source, target], 1, _LONGEST).astype(int)
    return clipped[0], clipped[1]


def make_lexicon(rng: np.random.Generator, num_words: int) -> np.ndarray:
    """Returns made-up words, short ones first, as bytes that end with a blank.

    Args:
        rng: A `numpy.random.Generator`.
        num_words: An integer.
    """
    consonants, vowels = list("bcdfghjklmnprstvwz"), list("aeiouäöéè")
    drawn = [
        "".join(rng.choice(letters) for letters in pattern)
        for pattern in 300 * [(consonants, vowels), (vowels, consonants)]
        + 600 * [(consonants, vowels, consonants)]
    ]
    syllables = np.array(sorted(set(drawn)))
    words = np.full(num_words, "", object)
    counts = 1 + (np.log10(np.arange(num_words) + 1) / 1.5).astype(int)
    odds = 1 / (np.arange(len(syllables)) + 5)
    for number in range(counts.max()):
        more = rng.choice(syllables, num_words, p=odds / odds.sum())
        words = np.where(counts > number, words + more.astype(object), words)
    return np.array([f"{word} ".encode() for word in words], object)


def join_lines(
    words: np.ndarray, drawn: np.ndarray, lengths: np.ndarray
) -> bytes:
    """Returns the drawn words as lines.

    Args:
        words: An array of bytes, see `make_lexicon`.
        drawn: An integer array, the index of every word of the text.
        lengths: An integer array, the words of each line.
    """
    text = words[drawn]
    ends = np.cumsum(lengths) - 1
    text[ends] = [word[:-1] + b".\n" for word in text[ends]]
    return b"".join(text.tolist())
