"""Arguments of public classes that hold no layer, each wrong in one line."""

import json

import numpy as np
import pytest

import relative_attention as ra

LINE = "A man rides a bike."


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: ra.Vocabulary.train([LINE], 300.0), "`size` must be a pos"),
        (lambda: ra.Vocabulary.train(LINE, 300), "`lines` must be an iterable"),
        (
            lambda: ra.Vocabulary.train([LINE], 8000),
            r"No vocabulary of 8000 pieces .* \(it carries at most \d+\)\.",
        ),
        (
            lambda: ra.Vocabulary.train([LINE], 100),
            r"of 100 pieces .* \(its characters and the special pieces are 2",
        ),
        (lambda: ra.Vocabulary.train([], 300), r"\(there is no text\)"),
        (lambda: ra.TransformerSchedule(8, "9"), "`warmup_steps` must be pos"),
        (lambda: ra.MaskedCrossEntropy("0.1"), "`label_smoothing` must be"),
        (lambda: ra.AveragingAdam(ema_momentum="1"), "`ema_momentum` must be"),
    ],
)
def test_wrong_argument_is_named_in_one_line(make, message):
    with pytest.raises((ValueError, TypeError), match=message) as error:
        make()
    assert "\n" not in str(error.value)
    assert "src/" not in str(error.value)


@pytest.mark.parametrize("value", ["2", 1.5, None, 0])
def test_accumulation_steps_that_are_no_count_are_named(value):
    model = ra.Transformer.from_preset(
        "transformer_tiny",
        vocabulary_size=9,
        hidden_dim=8,
        num_heads=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
    )
    with pytest.raises(ValueError, match="`accumulation_steps` must be"):
        model.compile(accumulation_steps=value)


def test_sizes_may_be_numpys():
    schedule = ra.TransformerSchedule(np.int64(512), warmup_steps=np.int32(9))
    config = json.loads(json.dumps(schedule.get_config()))
    assert (config["hidden_dim"], config["warmup_steps"]) == (512, 9)
    assert len(ra.Vocabulary.train([LINE], np.int64(275))) == 275
    ra.length_buckets(np.int64(64))
