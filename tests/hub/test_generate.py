"""What a task generates is what `Translator` makes of the same sentences."""

import keras
import keras_hub
import numpy as np
import pytest

import relative_attention as ra
from tests.small_models import BLANK
from tests.small_models import SOURCES
from tests.small_models import TARGETS
from tests.small_models import id_batches
from tests.small_models import make_translator

FIELDS = [
    {},
    *(
        pytest.param(fields, marks=pytest.mark.large)
        for fields in (
            {"separate": True},
            {"position_encoding": "learned", "max_length": 90},
            {
                "start_token_id": 3,
                "attention_bias": True,
                "output_bias": True,
                "first_position": 1,
                "position_encoding": "relative+sinusoidal",
            },
        )
    ),
]


def kerashub_inputs(inputs):
    """The same ids by KerasHub's names, with their masks."""
    result = {}
    for side, name in (("encoder", "source"), ("decoder", "target")):
        ids = inputs[f"{name}_token_ids"]
        mask = ids != 0
        mask[:, 0] = True
        result[f"{side}_token_ids"] = ids
        result[f"{side}_padding_mask"] = mask
    return result


@pytest.mark.parametrize("fields", FIELDS, ids=str)
def test_logits_and_translations_are_those_of_the_translator(fields):
    translator = make_translator(**fields)
    task = ra.hub.TranslationLM.from_translator(translator)
    ((inputs, _),) = id_batches(translator, len(SOURCES))
    expected = np.asarray(translator.model(inputs))
    logits = task(kerashub_inputs(inputs))
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-5)
    predicted = task.predict(
        {"encoder_text": SOURCES, "decoder_text": TARGETS}, verbose=0
    )
    width = expected.shape[1]
    is_token = inputs["target_token_ids"] != 0
    is_token[:, 0] = True
    np.testing.assert_allclose(
        predicted[:, :width][is_token], expected[is_token], rtol=0, atol=1e-5
    )
    found, wanted = (one.search(BLANK) for one in (task.translator, translator))
    assert [f.token_ids for f in found] == [e.token_ids for e in wanted]
    assert [f.score for f in found] == [e.score for e in wanted]
    assert task.generate(BLANK) == [e.text for e in wanted]
    assert len({e.text for e in wanted}) > len(BLANK) // 3


def test_inputs_may_be_of_many_kinds(joint):
    expected = joint.generate(SOURCES)
    assert joint.generate(SOURCES[0]) == expected[0]
    assert joint.generate(np.array(SOURCES, "S")) == expected
    assert joint.generate({"encoder_text": SOURCES}) == expected
    assert joint.generate([]) == []


@pytest.mark.only_on("tensorflow", reason="data sets are TensorFlow's")
def test_inputs_may_be_data_sets(joint):
    import tensorflow as tf

    expected = joint.generate(SOURCES)
    blank = {"encoder_text": SOURCES, "decoder_text": [""] * len(SOURCES)}
    for data in (SOURCES, (SOURCES, TARGETS), blank):
        dataset = tf.data.Dataset.from_tensor_slices(data).batch(3)
        assert joint.generate(dataset) == expected
    assert joint.generate(tf.constant(SOURCES[1])) == expected[1]


@pytest.mark.large
def test_translation_continues_a_given_beginning(joint):
    sources, starts = SOURCES[:3], ["the red", "", "a man"]
    expected = joint.translator.translate(sources, target_prefixes=starts)
    batch = {"encoder_text": sources, "decoder_text": starts}
    found = joint.generate(dict(batch))
    assert found == expected
    assert found[0].startswith("the red")
    # As it is found in the text.
    batch["decoder_text"] = ["  the\u00a0red", "", "a man"]
    (rest, _, _) = joint.generate(batch, strip_prompt=True)
    assert rest == found[0].removeprefix("the red").lstrip() != found[0]


def test_max_length_limits_translations(joint):
    translator = joint.translator
    translator.max_length = 3
    expected = translator.translate(SOURCES)
    assert joint.generate(SOURCES, max_length=3) == expected
    assert joint.generate(SOURCES) != expected


@pytest.mark.large
def test_ids_are_generated_without_a_preprocessor(joint):
    task = ra.hub.TranslationLM(joint.backbone, num_beams=3)
    ((inputs, _),) = id_batches(make_translator(), len(SOURCES))
    batch = kerashub_inputs(inputs)
    mask = batch["decoder_padding_mask"]
    mask[:, 1:] = False
    found = task.generate(batch)
    texts = joint.preprocessor.generate_postprocess(found)
    room = mask.shape[1] - 1
    expected = ra.beam_search(
        task.transformer,
        inputs["source_token_ids"],
        *(3, 0.6, 50),
        max_length=room,
    )
    np.testing.assert_array_equal(
        found["decoder_token_ids"][:, 1:], expected["token_ids"][:, 0]
    )
    np.testing.assert_array_equal(
        found["decoder_padding_mask"][:, 1:], expected["token_ids"][:, 0] != 0
    )
    np.testing.assert_array_equal(found["scores"], expected["scores"][:, 0])
    vocabulary = joint.preprocessor.tokenizer.vocabulary
    ids = keras.ops.convert_to_numpy(expected["token_ids"])[:, 0]
    assert texts == [t.replace("\n", " ") for t in vocabulary.decode(ids)]
    # The beginnings that are not masked are kept, and the row is the room.
    mask[:, 1:3] = True
    begun = keras.ops.convert_to_numpy(
        task.generate(batch)["decoder_token_ids"]
    )
    given = np.asarray(batch["decoder_token_ids"])[:, :3]
    np.testing.assert_array_equal(begun[:, :3], given)
    assert begun.shape[1] <= room + 1
    with pytest.raises(ra.InputError, match="needs a `preprocessor`"):
        task.translator  # noqa: B018


# === Bad input ===


def test_source_over_the_limit_is_refused(joint):
    # Spelt in bytes.
    longest = "x" * 58
    rows = joint.preprocessor.source_rows([longest, "x" * 60])
    assert [len(row) for row in rows] == [59, 61]
    assert len(joint.generate([longest], max_length=2)) == 1
    with pytest.raises(ra.InputError, match="at most 60 .*62 in item 1.*=62"):
        joint.generate(["dogs", "x" * 60])


def test_sampler_of_kerashub_is_refused_or_ignored_in_a_file(joint):
    sampler = keras_hub.samplers.GreedySampler()
    for given in ("top_k", sampler):
        with pytest.raises(ra.InputError, match='must be "beam_search"'):
            joint.compile(sampler=given)
    expected = joint.generate(SOURCES[0])
    config = joint.get_compile_config()
    config["sampler"] = keras_hub.samplers.serialize(sampler)
    with pytest.warns(UserWarning, match="generates by beam search now"):
        joint.compile_from_config(config)
    assert joint.generate(SOURCES[0]) == expected


def test_wrong_inputs_are_refused_in_a_line(joint):
    for inputs in ([3], ["a", None], {"encoder_text": ["a", 2]}):
        with pytest.raises(TypeError, match="`inputs` must be a list of str"):
            joint.generate(inputs)
    with pytest.raises(ra.InputError, match="for each"):
        joint.generate(
            {"encoder_text": ["a", "b", "c"], "decoder_text": ["a", "b"]}
        )
    with pytest.raises(ra.InputError, match="stop_token_ids"):
        joint.generate("a", stop_token_ids=(7,))
