"""Tables of finished runs; `test_runs.py` has those of others."""

import json

import pytest

import relative_attention as ra
from relative_attention.studies.table import study_markdown
from relative_attention.studies.table import study_table
from relative_attention.zoo import studies_directory
from relative_attention.zoo import zoo_studies


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
