"""KerasHub's own tests of backbones, tasks and preprocessing."""

import dataclasses

import pytest
from keras_hub.src.tests.test_case import TestCase

import relative_attention as ra
from tests.hub.conftest import INPUTS
from tests.small_models import SOURCES
from tests.small_models import TARGETS
from tests.small_models import make_task
from tests.small_models import make_translator

pytestmark = [
    pytest.mark.large,
    pytest.mark.only_on(
        "tensorflow", reason="the tests of KerasHub use data sets"
    ),
]

LENGTHS = {"encoder_sequence_length": 40, "decoder_sequence_length": 48}
TEXTS = {"encoder_text": SOURCES, "decoder_text": TARGETS}


def preprocessor():
    return ra.hub.TranslationPreprocessor.from_translator(
        make_translator(), **LENGTHS
    )


class KerasHubTest(TestCase):
    """Runs what `keras_hub` runs on each of its own classes."""

    def test_session(self):
        self.skipTest("a helper of TensorFlow's tests, no test")

    def test_backbone(self):
        shape = (2, 5, 14)
        self.run_backbone_test(
            ra.hub.TranslationBackbone,
            dataclasses.asdict(make_translator().model.config),
            INPUTS,
            {
                "encoder_sequence_output": shape,
                "decoder_sequence_output": shape,
            },
        )

    def test_tokenizer(self):
        vocabulary = make_translator().vocabulary
        self.run_preprocessing_layer_test(
            ra.hub.TranslationTokenizer,
            {"proto": vocabulary.model},
            SOURCES,
            expected_output=vocabulary.encode(SOURCES),
            expected_detokenize_output=SOURCES,
        )

    def test_preprocessor(self):
        arguments = {"tokenizer": preprocessor().tokenizer, **LENGTHS}
        cls = ra.hub.TranslationPreprocessor
        weights = [0.5] * len(SOURCES)
        for data in (TEXTS, (SOURCES, TARGETS, weights)):
            self.run_preprocessing_layer_test(cls, arguments, data)
        self.init_kwargs = arguments
        self.run_preprocessor_test(
            cls, arguments, TEXTS, token_id_key="decoder_token_ids"
        )

    def test_task(self):
        self.run_task_test(
            ra.hub.TranslationLM,
            {
                "backbone": make_task().backbone,
                "preprocessor": preprocessor(),
            },
            train_data=(TEXTS,),
            expected_output_shape=(len(SOURCES), 48, 281),
        )
