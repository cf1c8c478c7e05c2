"""Studies as they are written: what is wrong in one is named."""

import copy

import pytest
import yaml

import relative_attention as ra
from relative_attention.studies.study import deciding_values
from relative_attention.studies.study import first_difference
from relative_attention.zoo import studies_directory
from relative_attention.zoo import zoo_studies

NO_TEST = {"data.test_source": None, "data.test_target": None}
STUDY = {
    "description": "Which positions?",
    "recipe": "RECIPE",
    "overrides": {"training.bleu_every": 0, "training.devices": 1},
    "seeds": [1, 2],
    "rows": [
        {
            "name": "sinusoidal",
            "overrides": {"model.position_encoding": "sinusoidal"},
        },
        {
            "name": "relative",
            "label": "relative positions",
            "group": "English",
            "compare_with": "sinusoidal",
            "paper": 26,
            "seeds": [1, 3],
        },
    ],
}


def test_study_makes_the_recipes_of_its_runs(recipe_file, tmp_path, recipe):
    path = tmp_path / "positions.yaml"
    path.write_text(yaml.safe_dump({**STUDY, "recipe": str(recipe_file)}))
    study = ra.find_study(path)
    assert (study.name, study.seeds) == ("positions", [1, 2])
    sinusoidal, relative = study.rows
    assert (sinusoidal.seeds, relative.seeds) == ([1, 2], [1, 3])
    assert relative.paper == 26.0
    assert sinusoidal.title == "sinusoidal"
    assert relative.title == "English, relative positions"
    expected = recipe.override(
        [
            "training.bleu_every=0",
            "training.devices=1",
            "model.position_encoding=sinusoidal",
            "training.seed=2",
            "training.steps=7",
        ]
    )
    study = study.override(["training.steps=7"])
    assert study.recipe_for(sinusoidal, 2) == expected


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("seed", [1], "Unknown key 'study.seed'. Did you mean 'study.seeds'"),
        ("rows.0.lable", "x", "Unknown key .*Did you mean 'rows.0..label'"),
        ("rows.1.name", "sinusoidal", "two of this name"),
        ("rows.1.name", "../up", "letters, digits.*as it names folders"),
        ("rows.1.compare_with", "sinusoid", "Did you mean 'sinusoidal'"),
        ("seeds", 1, "`study.seeds` must be list"),
        ("rows.1.seeds", [True], "Row 'relative': `seeds`.*whole numbers"),
        ("overrides", {"training.seed": 5}, "`training.seed` follows from"),
        ("rows.1.same_as", "table1", "must be STUDY:ROW.*Received: 'table1'"),
        ("rows.1.recipe", "wmt15", "Row 'relative': Unknown recipe"),
        ("recipe", "", "Row 'sinusoidal': it or the study.*`recipe`"),
        (
            "rows.1.overrides",
            {"training.steps": 5},
            "Row 'relative': `training.steps` must be 12, as.*Received: 5",
        ),
        ("overrides", {"training.minutes": 60}, "`training.minutes` must be n"),
        (
            "overrides",
            {"training.minutes": 60, "training.early_stopping": 2, **NO_TEST},
            # All that is wrong.
            "minutes` must be null.*early_stopping` must be 0.*must name what"
            ".*`training.devices` 1, or",
        ),
        (
            "overrides",
            {"training.devices": 1, "training.batch_tokens": "auto"},
            "`training.batch_tokens` must be a number.*: auto, 1 and null",
        ),
        (
            "overrides",
            NO_TEST,
            "`data.test_target` must name what the rows are compared on",
        ),
        ("axis", "model.position_encoding", "numbers.*which is 'sinusoidal'"),
    ],
    ids=str,
)
def test_invalid_study_is_refused(path, value, message, recipe_file):
    mapping = {**copy.deepcopy(STUDY), "recipe": str(recipe_file)}
    *folders, last = [int(p) if p.isdigit() else p for p in path.split(".")]
    place = mapping
    for part in folders:
        place = place[part]
    place[last] = value
    with pytest.raises(ra.InputError, match=message) as raised:
        ra.Study.from_mapping("positions", mapping)
    assert "\n" not in str(raised.value)


def test_missing_study_is_named(tmp_path):
    with pytest.raises(ra.InputError, match="Did you mean 'table1'"):
        ra.find_study("tabel1")
    (tmp_path / "list.yaml").write_text("- 1")
    with pytest.raises(ra.InputError, match="`key: value` lines"):
        ra.find_study(tmp_path / "list.yaml")


@pytest.mark.parametrize("name", zoo_studies())
def test_studies_of_the_zoo_can_be_run(name):
    study = ra.find_study(name)
    assert study.description and study.comes_with_package
    page = (studies_directory() / "README.md").read_text()
    assert f"[`{name}`]({name}.yaml)" in page
    values = [
        deciding_values(study.recipe_for(row, seed))
        for row in study.rows
        for seed in row.seeds
    ]
    # No two runs are the same.
    for number, one in enumerate(values):
        for other in values[:number]:
            assert first_difference(one, other) is not None


def test_tables_of_the_paper_vary_its_values():
    """And the row that the three tables share is one run."""
    tables = [ra.find_study(f"table{number}") for number in (1, 2, 3)]
    assert [row.name for row in tables[0].rows] == [
        f"{pair}-{positions}"
        for pair in ("en_de", "en_fr")
        for positions in ("sinusoidal", "relative", "relative+sinusoidal")
    ]
    clipped = [
        tables[1].recipe_for(row, 1).model_config(10).max_relative_position
        for row in tables[1].rows
    ]
    assert clipped == [0, 1, 2, 4, 8, 16, 64]
    shared = [
        deciding_values(table.recipe_for(row, 2))
        for table, name in zip(tables, ("en_de-relative", "k16", "both"))
        for row in table.rows
        if row.name == name
    ]
    assert shared[0] == shared[1] == shared[2]
    # What is published is by Moses' tokenizer, which is the target's.
    for row in tables[0].rows:
        data = tables[0].recipe_for(row, 1).data
        assert data.test_target.endswith(f".{data.target_language}"), row.name


def test_only_deciding_values_are_compared(recipe):
    values = deciding_values(recipe)
    for same in (
        "training.pictures=true",
        "training.devices=1",
        "training.precision=auto",
        "training.effective_batch_tokens=512",
        "data.corpus=elsewhere",
    ):
        assert deciding_values(recipe.override([same])) == values, same
    for key, value in {
        "training.seed": 2,
        "training.steps": 13,
        "training.minutes": 1.5,
        "model.dropout": 0.2,
        "decoding.num_beams": 2,
        "data.test_target": "other.de",
        "training.batch_tokens": 256,
    }.items():
        other = deciding_values(recipe.override([f"{key}={value}"]))
        found = first_difference(values, other)
        assert found is not None and found[2] == value, key
    # A record from before there was a key has what is the default now.
    assert "training.gradient_clip" not in values
    clipped = deciding_values(recipe.override(["training.gradient_clip=1"]))
    expected = ("training.gradient_clip", None, 1.0)
    assert first_difference(values, clipped) == expected
