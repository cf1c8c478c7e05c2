"""Presets: to a folder and back, from a stranger, and what is none."""

import json
import os
import pathlib
import shutil
import sys

import keras
import keras_hub
import numpy as np
import pytest

import relative_attention as ra
from tests.hub.conftest import INPUTS
from tests.small_models import BLANK
from tests.small_models import SOURCES
from tests.small_models import make_task
from tests.small_models import make_translator
from tests.small_models import trained_model

CLASSES = {
    "TranslationLM": keras_hub.models.Seq2SeqLM,
    "TranslationBackbone": keras_hub.models.Backbone,
    "TranslationTokenizer": keras_hub.models.Tokenizer,
    "TranslationPreprocessor": keras_hub.models.Seq2SeqLMPreprocessor,
}


def assert_same_weights(one, other):
    assert len(one.weights) == len(other.weights)
    for weight, expected in zip(one.weights, other.weights):
        np.testing.assert_array_equal(weight, expected)


@pytest.fixture
def copy(preset, tmp_path):
    """A copy of the preset, to be damaged."""
    return pathlib.Path(shutil.copytree(preset, tmp_path / "copy"))


@pytest.mark.parametrize(
    "is_separate", [False, pytest.param(True, marks=pytest.mark.large)]
)
def test_task_comes_back_as_it_was(is_separate, tmp_path):
    task = make_task(is_separate)
    folder = tmp_path / "preset"
    task.save_to_preset(folder)
    loaded = ra.hub.TranslationLM.from_preset(str(folder))
    assert_same_weights(loaded, task)
    assert loaded.get_config() == task.get_config()
    expected = task.translator.search(BLANK[:3])
    assert loaded.translator.search(BLANK[:3]) == expected
    files = {p.name for p in folder.rglob("*") if p.is_file()}
    is_separate = task.preprocessor.source_tokenizer is not None
    assert ("source_tokenizer.json" in files) == is_separate
    # And back to a folder of this package.
    ra.save_translator(loaded.translator, tmp_path / "model")
    again = ra.hub.TranslationLM.from_preset(tmp_path / "model")
    assert_same_weights(again, task)
    assert again.get_config()["num_beams"] == 3


def test_settings_of_the_translator_are_kept(tmp_path):
    translator = make_translator()
    translator.no_repeat_ngram = 1
    translator.source_language, translator.target_language = "en", "de"
    translator.usual_case = translator.placeholders = True
    task = ra.hub.TranslationLM.from_translator(translator)
    task.save_to_preset(tmp_path / "preset")
    again = ra.hub.TranslationLM.from_preset(tmp_path / "preset")
    for one in (task, again):
        assert one.translator.decoding == translator.decoding
    expected = [one.text for one in translator.search(BLANK[:3])]
    assert again.generate(BLANK[:3]) == expected


def test_classes_of_kerashub_load_ours(preset, joint):
    for name, cls in CLASSES.items():
        found = cls.from_preset(str(preset))
        assert type(found) is getattr(ra.hub, name)
    assert_same_weights(
        keras_hub.models.Backbone.from_preset(str(preset)), joint.backbone
    )
    random = ra.hub.TranslationBackbone.from_preset(preset, load_weights=False)
    assert np.abs(random.weights[0] - joint.backbone.weights[0]).max() > 0


@pytest.mark.large
def test_task_loads_in_a_new_process(joint, tmp_path, run_python):
    file, preset = tmp_path / "task.keras", tmp_path / "task"
    joint.save(file)
    joint.save_to_preset(preset)
    script = (
        "import sys, json, keras, keras_hub, relative_attention\n"
        "file, preset, texts = sys.argv[1:]\n"
        "for load, path in (\n"
        "    (keras_hub.models.Seq2SeqLM.from_preset, preset),\n"
        "    (keras.models.load_model, file),\n"
        "):\n"
        "    print(json.dumps(load(path).generate(json.loads(texts))))\n"
    )
    printed = run_python(script, file, preset, json.dumps(SOURCES))
    expected = [joint.generate(SOURCES)] * 2
    assert list(map(json.loads, printed.splitlines()[-2:])) == expected


def test_task_is_cloned(joint):
    # A plain model, as of KerasHub's own tasks.
    clone = keras.models.clone_model(joint)
    clone.set_weights(joint.get_weights())
    np.testing.assert_array_equal(clone(INPUTS), joint(INPUTS))
    assert isinstance(clone.loss, ra.MaskedCrossEntropy)


@pytest.mark.parametrize("is_called", [False, True])
def test_model_on_top_of_a_task_is_saved_and_cloned(joint, tmp_path, is_called):
    outputs = [joint.output, joint.backbone.output]
    if is_called:
        outputs = keras.layers.Softmax()(joint(joint.input))
    model = keras.Model(joint.input, outputs)
    expected = keras.tree.flatten(model(INPUTS))
    model.save(tmp_path / "model.keras")
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    for copy in (keras.models.load_model(tmp_path / "model.keras"), clone):
        # No weight is there twice, as one that is tied no longer would be.
        assert_same_weights(copy, model)
        assert not set(map(id, copy.weights)) & set(map(id, joint.weights))
        for result, wanted in zip(keras.tree.flatten(copy(INPUTS)), expected):
            np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-6)


@pytest.mark.large
def test_preset_of_a_backbone_and_a_tokenizer_is_enough(joint, tmp_path):
    joint.backbone.save_to_preset(tmp_path)
    joint.preprocessor.tokenizer.save_to_preset(tmp_path)
    # Arguments go before what a preset says.
    task = ra.hub.TranslationLM.from_preset(
        tmp_path, num_beams=3, length_penalty=0.8, max_extra_length=4
    )
    assert task.generate(SOURCES[:2]) == joint.generate(SOURCES[:2])
    bare = ra.hub.TranslationLM.from_preset(tmp_path, preprocessor=None)
    assert bare.preprocessor is None and bare.num_beams == 4


@pytest.mark.large
def test_command_exports_a_preset_whole_or_not_at_all(run, tmp_path):
    translator = make_translator()
    ra.save_translator(translator, tmp_path / "model")
    words = ("export", tmp_path / "model", "--format", "keras_hub")
    status, _, _ = run(*words, tmp_path / "preset", "--num-beams", "2")
    assert status == 0
    task = ra.hub.TranslationLM.from_preset(tmp_path / "preset")
    translator.num_beams = 2
    assert task.generate(SOURCES[:2]) == translator.translate(SOURCES[:2])
    status, _, err = run(*words, tmp_path / "preset")
    assert status != 0 and str(tmp_path / "preset") in err


# === A stranger's folder ===


def change(path, edit):
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


LAMBDA = {
    "module": "keras.layers",
    "class_name": "Lambda",
    "registered_name": None,
    "config": {
        "name": "lambda",
        "function": {
            "class_name": "__lambda__",
            # Marshalled code would stand here.
            "config": {"code": "4wEAAA==", "defaults": None, "closure": None},
        },
    },
}
MODULE = {
    "module": "stranger",
    "class_name": "Attack",
    "registered_name": "stranger>Attack",
    "config": {},
}


PLACES = (
    "preprocessor",
    "preprocessor/config/tokenizer",
    "backbone",
    "backbone/config/quantized_layers",
)


@pytest.mark.parametrize("attack", [LAMBDA, MODULE], ids=["lambda", "module"])
@pytest.mark.parametrize("place", PLACES)
def test_no_code_runs_when_an_untrusted_folder_is_loaded(
    copy, tmp_path, monkeypatch, attack, place
):
    """Whatever a config names, nothing is imported or run for it."""
    (tmp_path / "stranger.py").write_text(
        "import pathlib\n"
        f"pathlib.Path({str(tmp_path / 'ran')!r}).touch()\n"
        "class Attack:\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    is_layer = place.endswith("layers")

    def put(content):
        content = content["config"]
        *parents, name = place.split("/")
        for parent in parents:
            content = content[parent]
        content[name] = {"embedding": attack} if is_layer else attack

    change(copy / "task.json", put)
    with pytest.raises(ra.InputError, match="copy"):
        ra.hub.TranslationLM.from_preset(copy)
    with pytest.raises((ValueError, TypeError)):
        keras_hub.models.Seq2SeqLM.from_preset(str(copy))
    assert not (tmp_path / "ran").exists()
    assert "stranger" not in sys.modules


def test_no_other_file_is_read_when_an_untrusted_folder_is_loaded(
    copy, tmp_path
):
    secret = tmp_path / "secret.model"
    vocabulary = copy / "assets" / "tokenizer" / "vocabulary.spm"
    secret.write_bytes(vocabulary.read_bytes())

    def read_secret(content):
        tokenizer = content["config"]["preprocessor"]["config"]["tokenizer"]
        tokenizer["config"]["proto"] = str(secret)

    change(copy / "task.json", read_secret)
    with pytest.raises(ra.InputError, match="outside of the model archive"):
        ra.hub.TranslationLM.from_preset(copy)


# === Bad input ===


def message_of(preset, **arguments):
    with pytest.raises(ra.InputError) as error:
        ra.hub.TranslationLM.from_preset(preset, **arguments)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_missing_preset_is_refused(tmp_path, copy):
    assert "No preset at" in message_of(tmp_path / "nothing")
    assert "Did you mean 'multi30k_en_de_tiny_relative'?" in message_of(
        "multi30k_en_de_tiny_relativ"
    )
    (tmp_path / "empty").mkdir()
    assert "has no config.json" in message_of(tmp_path / "empty")
    change(copy / "config.json", lambda c: c.update(registered_name="a>B"))
    assert "no class registered with Keras for a>B" in message_of(copy)


def set_in_backbone(**wrong):
    return lambda c: c["config"]["backbone"]["config"].update(wrong)


@pytest.mark.parametrize(
    "name, damage",
    [
        ("config.json", lambda path: path.write_text("{")),
        ("model.weights.h5", lambda path: os.truncate(path, 2000)),
        ("model.weights.h5", pathlib.Path.unlink),
        *(
            ("task.json", lambda path, wrong=wrong: change(path, wrong))
            for wrong in (
                set_in_backbone(intermediate_dim=29),
                set_in_backbone(num_heds=3),
            )
        ),
    ],
    ids=["json", "cut", "missing", "another", "unknown"],
)
def test_damaged_preset_is_refused(copy, name, damage):
    damage(copy / name)
    assert f"{copy} could not be loaded: " in message_of(copy)


def test_tokenizer_without_our_ids_is_refused(copy):
    model = trained_model(SOURCES, vocab_size=30)
    with pytest.raises(ra.InputError, match="id 0 and end of.*ed: -1 and 2"):
        ra.hub.TranslationTokenizer(proto=model)
    path = copy / "assets" / "tokenizer" / "vocabulary.spm"
    path.write_bytes(model)
    assert "Received: -1 and 2" in message_of(copy)
    path.write_bytes(b"nothing of the kind")
    assert "is not a SentencePiece model" in message_of(copy)


def test_mismatched_parts_are_refused(joint):
    other = make_translator(separate=True).source_vocabulary
    tokenizer = ra.hub.TranslationTokenizer.from_vocabulary(other)
    with pytest.raises(ra.InputError, match="290 pieces, the model 281"):
        ra.hub.TranslationLM(
            joint.backbone, ra.hub.TranslationPreprocessor(tokenizer)
        )
    start = ra.hub.TranslationPreprocessor(
        joint.preprocessor.tokenizer, start_token_id=3
    )
    with pytest.raises(ra.InputError, match="starts translations with the id"):
        ra.hub.TranslationLM(joint.backbone, start)
    with pytest.raises(ra.InputError, match="`backbone` must be"):
        ra.hub.TranslationLM(joint.transformer)
    with pytest.raises(ra.InputError, match="`preprocessor` must be"):
        ra.hub.TranslationLM(joint.backbone, joint.preprocessor.tokenizer)
    with pytest.raises(ra.InputError, match="`tokenizer` must be"):
        ra.hub.TranslationPreprocessor(None)


def test_unsupported_translator_is_refused(joined):
    with pytest.raises(ra.InputError, match="Ensemble"):
        ra.hub.TranslationLM.from_translator(joined)
    words = ra.TokenVocabulary.train(["a b c"], 20)
    with pytest.raises(ra.InputError, match="TokenVocabulary"):
        ra.hub.TranslationTokenizer.from_vocabulary(words)


@pytest.mark.parametrize("name", ["config.json", "task.json"])
def test_model_is_not_built_when_its_config_is_too_large(name, copy):
    def enlarge(content):
        backbone = content["config"].get("backbone", content)
        backbone["config"].update(
            num_encoder_layers=1_000, intermediate_dim=2**18
        )

    change(copy / name, enlarge)
    with pytest.raises(ra.InputError, match="cannot be those of its config"):
        ra.hub.TranslationLM.from_preset(str(copy))
