"""What functions of sentences take for sentences."""

import numpy as np
import pytest
import tensorflow as tf

import relative_attention as ra
from relative_attention.argument_checks import checked_sentences

WRONG = [
    ("one", "a string; pass \\['one'\\]"),
    ((line for line in ["one"]), "generator; pass list\\("),
    (None, "NoneType"),
    (b"one", "bytes"),
    ({"one"}, "set"),
    ([b"one"], "list whose item 0 is of type bytes"),
    (["one", None], "list whose item 1 is of type NoneType"),
    (np.array(["one"], object)[None], "ndarray of shape \\(1, 1\\)"),
    (tf.constant(["one"]), "item 0 is of type EagerTensor"),
]


@pytest.fixture
def uses(peaked_model, letters):
    """What takes sentences, by the names of its arguments."""
    translator = ra.Translator(peaked_model, letters(), max_length=3)
    lines = ["ab"]
    return {
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


@pytest.mark.parametrize(
    ("value", "message"),
    WRONG,
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_is_no_list_of_strings_is_refused(value, message):
    with pytest.raises(TypeError, match=f"^`lines` must be .*{message}"):
        checked_sentences("lines", value)


def test_every_function_names_its_argument(uses):
    for name, use in uses.items():
        for value, _ in WRONG:
            if value is None and name == "target_prefixes":
                continue
            with pytest.raises(TypeError, match=f"^`{name}` must be a list"):
                use(value)
        with pytest.raises(ValueError, match=f"^`{name}` must hold text.*d800"):
            use(["\ud800"])


@pytest.mark.parametrize(
    "convert", [list, tuple, np.array, lambda x: np.array(x, object)]
)
def test_lists_and_arrays_of_strings_are_taken(convert):
    assert checked_sentences("lines", convert(["a", "ä\n"])) == ["a", "ä\n"]
    assert checked_sentences("lines", convert([])) == []
