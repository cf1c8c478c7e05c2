"""What is uploaded to a hub comes back, under a card that says what it is."""

import json
import shutil
import types

import keras_hub
import pytest
import yaml

import relative_attention as ra
from tests.small_models import SOURCES
from tests.small_models import make_translator

# The oldest KerasHub does without it.
huggingface_hub = pytest.importorskip("huggingface_hub")

# The first are those of weights in float32; these are rounded.
RESULTS = {
    "scores": {"test": {"bleu": 12.3}},
    "scores_of_weights": {"test": {"bleu": 12.34, "bleu_signature": "nrefs:1"}},
}
RECIPE = "data: {source: train.en, target: train.no.gz}\n"


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """Folder that `huggingface_hub` takes for the hub; `commits` are names."""
    root = tmp_path_factory.mktemp("hub")
    commits = []

    def create_repo(repo_id, exist_ok):
        huggingface_hub.utils.validate_repo_id(repo_id)
        (root / repo_id).mkdir(parents=True, exist_ok=exist_ok)
        return types.SimpleNamespace(repo_id=repo_id)

    def upload_folder(repo_id, folder_path, commit_message, ignore_patterns):
        ignore = shutil.ignore_patterns(*(ignore_patterns or ()))
        shutil.copytree(
            folder_path, root / repo_id, ignore=ignore, dirs_exist_ok=True
        )
        names = {path.name for path in folder_path.rglob("*")}
        commits.append(names - set(ignore_patterns or ()))

    def hf_hub_download(repo_id, filename):
        if not (root / repo_id / filename).is_file():
            raise huggingface_hub.utils.LocalEntryNotFoundError(filename)
        return str(root / repo_id / filename)

    def file_exists(repo_id, filename):
        return (root / repo_id / filename).is_file()

    with pytest.MonkeyPatch.context() as patch:
        for stand_in in (
            create_repo,
            upload_folder,
            hf_hub_download,
            file_exists,
        ):
            patch.setattr(huggingface_hub, stand_in.__name__, stand_in)
        yield types.SimpleNamespace(root=root, commits=commits)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model folder as training leaves it."""
    folder = tmp_path_factory.mktemp("uploads") / "model"
    ra.save_translator(make_translator(), folder)
    (folder / "results.json").write_text(json.dumps(RESULTS))
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "LICENSE.md").write_text("Look, do not touch.\n")
    (folder / "curve.png").write_bytes(b"a picture")
    (folder / "README.md").write_text("# It\n\nA start. ![](curve.png)\n")
    return folder


@pytest.fixture(scope="module")
def task(hub, folder):
    """A task that was uploaded twice; and once more after an update."""
    task = ra.hub.TranslationLM.from_preset(folder)
    task.upload_preset("hf://me/mine")
    task.upload_preset("hf://me/mine")
    weight = task.transformer.weights[0]
    weight.assign(2 * weight)
    task.upload_preset("hf://me/other", ["en", "de"], "mit")
    return task


def card_of(folder):
    _, head, body = (folder / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(head), body


@pytest.mark.large
def test_uploaded_preset_translates_and_has_a_card(hub, task, folder):
    loaded = keras_hub.models.Seq2SeqLM.from_preset("hf://me/mine")
    expected = ra.load_translator(folder).translate(SOURCES)
    assert loaded.generate(SOURCES) == expected
    mine = hub.root / "me" / "mine"
    head, body = card_of(mine)
    assert head["pipeline_tag"] == "translation"
    assert head["language"] == ["en", "no"]
    assert head["license"] == "other" and head["metrics"] == ["bleu"]
    assert (mine / head["license_link"]).read_text().startswith("Look")
    assert 'TranslationLM.from_preset("hf://me/mine")' in body
    assert "BLEU on the test text: 12.34 (`nrefs:1`)." in body
    assert body.startswith("\n# mine\n") and "# It" not in body
    assert body.endswith("A start. ![](curve.png)\n")
    assert (mine / "curve.png").read_bytes() == b"a picture"
    # One commit, or none: never a model without its card. A card that is
    # there stays.
    assert {"README.md", "model.weights.h5"} <= hub.commits[0]
    assert "README.md" not in hub.commits[1]


@pytest.mark.large
def test_card_has_no_score_when_weights_changed(hub, task):
    head, body = card_of(hub.root / "me" / "other")
    assert head["license"] == "mit" and "metrics" not in head
    assert "BLEU" not in body and "A start." not in body
    assert "from_preset" in body


@pytest.mark.large
def test_error_is_one_line_when_a_hub_refuses(hub, task):
    (hub.root / "me" / "strange").mkdir()
    (hub.root / "me" / "strange" / "config.json").write_text(
        '{"registered_name": "a>B", "config": {}}'
    )
    load = ra.hub.TranslationLM.from_preset
    for function, handle, message in (
        (task.upload_preset, "me/mine", "`handle` must be hf://user/name"),
        (task.upload_preset, "hf://me/mine/more", "more could not be uploaded"),
        (load, "hf://me/nothing", "^hf://me/nothing could not be loaded: "),
        (load, "hf://me/strange", "no class registered with Keras for a>B"),
    ):
        with pytest.raises(ra.InputError, match=message) as error:
            function(handle)
        assert "\n" not in str(error.value)
