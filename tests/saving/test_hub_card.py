"""The card of a model on Hugging Face."""

import json

import pytest
import yaml

import relative_attention as ra
from relative_attention.saving.hub_card import hub_card


def test_card_of_a_scored_model_says_what_machines_and_people_ask(tmp_path):
    scores = {"test": {"bleu": 41.23, "bleu_signature": "nrefs:1|case:mixed"}}
    results = {
        "scores": {"test": {"bleu": 41.2, "bleu_signature": "nrefs:1"}},
        "scores_of_weights": scores,
    }
    (tmp_path / "results.json").write_text(json.dumps(results))
    (tmp_path / "README.md").write_text("# mine\n\nCaptions.\n")
    card = hub_card(tmp_path, "hf://me/captions", ["en", "no"], "apache-2.0")
    _, head, body = card.split("---\n", 2)
    fields = yaml.safe_load(head)
    assert fields["pipeline_tag"] == "translation"
    assert fields["language"] == ["en", "no"]
    assert fields["license"] == "apache-2.0"
    assert fields["metrics"] == ["bleu"]
    assert body.startswith("\n# captions\n")
    assert 'ra.hub.TranslationLM.from_preset("hf://me/captions")' in body
    assert "BLEU on the test text: 41.23 (`nrefs:1|case:mixed`)." in body
    assert body.endswith("Captions.\n") and "# mine" not in body


def test_card_of_a_bare_folder_claims_nothing(tmp_path):
    card = hub_card(tmp_path, "hf://me/mine", ["de"], "other")
    assert "bleu" not in card.lower()
    assert "from_preset" in card


def test_damaged_results_are_named(tmp_path):
    (tmp_path / "results.json").write_text("{")
    with pytest.raises(ra.InputError, match="results.json is damaged"):
        hub_card(tmp_path, "hf://me/mine", ["de"], "other")
