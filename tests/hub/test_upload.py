"""What is uploaded to a hub comes back, under a card that says what it is."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import yaml

import relative_attention as ra
from tests.hub.hub_stand_in import hub_stand_in
from tests.hub.tiny_tasks import make_translator

ROOT = pathlib.Path(__file__).parents[2]
RESULTS = {"scores": {"test": {"bleu": 12.34, "bleu_signature": "nrefs:1"}}}
RECIPE = "data: {source: train.en, target: train.de.gz}\n"


@pytest.fixture(scope="module")
def uploaded(tmp_path_factory):
    """The hub after uploads, and what the process that made them printed."""
    folder = tmp_path_factory.mktemp("uploads") / "model"
    ra.save_translator(make_translator(), folder)
    (folder / "results.json").write_text(json.dumps(RESULTS))
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "LICENSE.md").write_text("Look, do not touch.\n")
    (folder / "curve.png").write_bytes(b"a picture")
    (folder / "README.md").write_text("# It\n\nA start. ![](curve.png)\n")
    with hub_stand_in() as hub:
        hub.files["me/strange"] = {
            "config.json": b'{"registered_name": "a>B", "config": {}}'
        }
        process = subprocess.run(
            [sys.executable, "-m", "tests.hub.upload_alone", str(folder)],
            cwd=ROOT,
            env={
                **os.environ,
                **hub.environment,
                "HF_HOME": str(folder.parent / "cache"),
            },
            capture_output=True,
            text=True,
        )
    assert process.returncode == 0, process.stderr[-4000:]
    return hub, json.loads(process.stdout.splitlines()[-1])


def card_of(hub, repository):
    card = hub.files[repository]["README.md"].decode()
    _, head, body = card.split("---\n", 2)
    return yaml.safe_load(head), body


@pytest.mark.large
def test_what_is_uploaded_translates_as_the_folder(uploaded):
    _, found = uploaded
    assert found["loaded"] == found["expected"]
    assert any(found["expected"])


@pytest.mark.large
def test_card_says_what_the_folder_says(uploaded):
    hub, _ = uploaded
    head, body = card_of(hub, "me/mine")
    assert head["pipeline_tag"] == "translation"
    assert head["language"] == ["en", "de"]
    assert head["license"] == "other"
    assert hub.files["me/mine"][head["license_link"]].startswith(b"Look")
    assert 'TranslationLM.from_preset("hf://me/mine")' in body
    assert "BLEU on the test text: 12.34 (`nrefs:1`)." in body
    assert "A start." in body
    assert hub.files["me/mine"]["curve.png"] == b"a picture"
    # One commit, or none: never a model without its card.
    assert {"README.md", "model.weights.h5"} <= set(hub.commits[0])
    assert "README.md" not in hub.commits[-1]


@pytest.mark.large
def test_card_of_other_weights_claims_no_score(uploaded):
    hub, _ = uploaded
    head, body = card_of(hub, "me/other")
    assert head["license"] == "mit" and "metrics" not in head
    assert "BLEU" not in body and "A start." not in body
    assert "from_preset" in body


@pytest.mark.large
def test_what_a_hub_refuses_is_said_in_a_line(uploaded):
    _, found = uploaded
    no_handle, no_name, nothing, strange = found["messages"]
    assert "`handle` must be hf://user/name" in no_handle
    assert no_name.startswith("hf://me/mine/more could not be uploaded: ")
    assert nothing.startswith("hf://me/nothing could not be loaded: ")
    assert "no class registered with Keras for a>B" in strange
    for message in found["messages"]:
        assert "\n" not in message
