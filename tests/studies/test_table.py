"""Tables of finished runs; `test_runs.py` has those of others."""

import json

import pytest

import relative_attention as ra
from relative_attention.studies.table import study_markdown
from relative_attention.studies.table import study_table
from relative_attention.zoo import studies_directory
from relative_attention.zoo import zoo_studies


@pytest.mark.large
@pytest.mark.parametrize("name", zoo_studies())
def test_tables_of_the_zoo_follow_from_their_records(name):
    path = studies_directory() / f"{name}.json"
    if not path.exists():
        pytest.skip("No run is finished yet.")
    study = ra.find_study(name)
    content = json.loads(path.read_text("utf-8"))
    table = study_table(study, content["runs"])
    assert table == content["table"]
    page = study_markdown(study, table, content["runs"])
    assert page == path.with_suffix(".md").read_text("utf-8")


def test_study_whose_runs_are_all_taken_has_no_minutes():
    study = ra.find_study("table1")
    records = {
        name: {**record, "taken_from": f"other: {name}"}
        for name, record in json.loads(
            (studies_directory() / "table1.json").read_text("utf-8")
        )["runs"].items()
    }
    page = study_markdown(study, study_table(study, records), records)
    words = " ".join(page.split())
    assert f"{len(records)} runs (taken from other studies) of" in words
    assert " minutes" not in words
