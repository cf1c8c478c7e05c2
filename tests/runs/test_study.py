"""Studies as they are written: what is wrong in one is said by name."""

import copy

import pytest
import yaml

import relative_attention as ra
from relative_attention.runs.study_values import deciding_values
from relative_attention.runs.study_values import first_difference
from relative_attention.zoo import studies_directory
from relative_attention.zoo import zoo_studies
from tests.small_run import RECIPE

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
            "compare_with": "sinusoidal",
            "paper": 26,
            "seeds": [1, 3],
        },
    ],
}


def changed(recipe_file, path, value):
    """The study with another value at a path of keys."""
    study = copy.deepcopy(STUDY)
    study["recipe"] = str(recipe_file)
    place = study
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return study


@pytest.fixture
def study_file(recipe_file, tmp_path):
    path = tmp_path / "positions.yaml"
    path.write_text(yaml.safe_dump({**STUDY, "recipe": str(recipe_file)}))
    return path


def test_study_makes_the_recipes_of_its_runs(study_file, recipe):
    study = ra.find_study(study_file)
    assert (study.name, study.seeds) == ("positions", [1, 2])
    sinusoidal, relative = study.rows
    assert study.seeds_of(sinusoidal) == [1, 2]
    assert study.seeds_of(relative) == [1, 3]
    assert relative.paper == 26.0
    assert (sinusoidal.title, relative.title) == (
        "sinusoidal",
        "relative positions",
    )
    made = study.override(["training.steps=7"]).recipe_for(sinusoidal, 2)
    expected = recipe.override(
        [
            "training.bleu_every=0",
            "training.devices=1",
            "model.position_encoding=sinusoidal",
            "training.seed=2",
            "training.steps=7",
        ]
    )
    assert made == expected


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["seed"], [1], "Unknown key 'study.seed'. Did you mean 'study.seeds'"),
        (
            ["rows", 0, "lable"],
            "x",
            r"Unknown key 'rows\[0\].lable'. Did you mean 'rows\[0\].label'",
        ),
        (["rows"], [], "`rows` must be a list of one row or more"),
        (["rows", 1], "relative", "must hold `key: value` lines"),
        (["rows", 1, "name"], "sinusoidal", "'sinusoidal' twice"),
        (["rows", 1, "name"], "../up", "letters, digits.*as it names folders"),
        (
            ["rows", 1, "compare_with"],
            "sinusoid",
            "Row 'relative': Unknown row.*Did you mean 'sinusoidal'",
        ),
        (["seeds"], [1, "two"], "`seeds` must be different whole numbers"),
        (["seeds"], [1, 1], "`seeds` must be different whole numbers"),
        (["seeds"], 1, "`study.seeds` must be list or null"),
        (["rows", 1, "seeds"], [True], r"`rows\[1\].seeds` must be different"),
        (["rows", 1, "seeds"], [], "Row 'relative' has no seeds"),
        (
            ["overrides", "training.stepz"],
            5,
            "Unknown key 'training.stepz'. Did you mean 'training.steps'",
        ),
        (
            ["rows", 0, "overrides", "model.dropout"],
            "much",
            "Row 'sinusoidal': `model.dropout` must be float",
        ),
        (["overrides", "training.seed"], 5, "`training.seed` follows from"),
        (["rows", 1, "recipe"], "wmt15", "Row 'relative': Unknown recipe"),
        (["recipe"], "", "Row 'sinusoidal' has no recipe"),
        (
            ["rows", 1, "overrides"],
            {"training.steps": 5},
            "the same `training.steps`. Received: 12 for 'sinusoidal', 5",
        ),
        (
            ["rows", 1, "overrides"],
            {"training.precision": "mixed_bfloat16"},
            "the same `training.precision`",
        ),
        (["axis"], "model.drop", "Unknown key 'model.drop'. Did you mean"),
        (
            ["axis"],
            "model.position_encoding",
            "`axis` must be a key whose values are numbers.*'sinusoidal' for",
        ),
        (
            ["rows", 1, "overrides"],
            {"data.test_target": "other.de"},
            "Row 'relative' must have the test text.*test.en and other.de;",
        ),
        (
            ["overrides", "training.minutes"],
            60,
            "Row 'sinusoidal': `training.minutes` must be null",
        ),
        (
            ["overrides", "training.early_stopping"],
            3,
            "`training.early_stopping` 0, as.*Received: None and 3",
        ),
        (
            ["overrides", "training.batch_tokens"],
            "auto",
            "`training.batch_tokens` must be a number and.*: auto, 1 and null",
        ),
        (
            ["overrides", "training.devices"],
            "all",
            "`training.devices` 1, or `training.effective.*: 512, all and null",
        ),
        (
            ["overrides", "training.epochs"],
            2,
            "`training.steps` must be given, and `training.epochs` null.*12 an",
        ),
        (
            ["overrides"],
            {"training.steps": None, "training.epochs": 2},
            "`training.steps` must be given.*Received: None and 2",
        ),
        (
            ["overrides"],
            {"data.test_source": None, "data.test_target": None},
            "`data.test_target` must name what the rows are compared on",
        ),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(path, value, message, recipe_file):
    mapping = changed(recipe_file, path, value)
    with pytest.raises(ra.InputError, match=message) as raised:
        ra.Study.from_mapping("positions", mapping)
    assert "\n" not in str(raised.value)


def test_study_that_is_not_there_is_one_line(tmp_path):
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
        for seed in study.seeds_of(row)
    ]
    for number, one in enumerate(values):
        for other in values[:number]:
            assert first_difference(one, other) is not None


def test_papers_tables_vary_what_the_paper_varies():
    """And the row that two tables share is one run."""
    tables = [ra.find_study(f"table{number}") for number in (1, 2, 3)]
    assert [row.name for row in tables[0].rows] == [
        f"{pair}-{positions}"
        for pair in ("en_de", "en_fr")
        for positions in ("sinusoidal", "relative", "relative+sinusoidal")
    ]
    clipped = [
        table.recipe_for(row, 1).model_config(10).max_relative_position
        for table in tables[1:2]
        for row in table.rows
    ]
    assert clipped == [0, 1, 2, 4, 8, 16, 64]
    shared = [
        deciding_values(table.recipe_for(table.row(name), 2))
        for table, name in zip(tables, ("en_de-relative", "k16", "both"))
    ]
    assert shared[0] == shared[1] == shared[2]
    # What is published is by Moses' tokeniser, that of the target.
    for row in tables[0].rows:
        data = tables[0].recipe_for(row, 1).data
        assert data.test_target.endswith(f".{data.target_language}"), row.name


def test_values_that_decide_are_compared_and_no_others(recipe):
    values = deciding_values(recipe)
    for same in (
        "training.pictures=true",
        "training.devices=1",
        "training.precision=auto",
        "training.bleu_every=1",
        "model.position_encoding=relative",
        "training.effective_batch_tokens=512",
        "data.corpus=elsewhere",
        "data.target_language=null",
    ):
        assert deciding_values(recipe.override([same])) == values, same
    for key, value in {
        "training.seed": 2,
        "training.steps": 13,
        "model.dropout": 0.2,
        "decoding.num_beams": 2,
        "data.test_target": "other.de",
        "training.batch_tokens": 256,
    }.items():
        other = deciding_values(recipe.override([f"{key}={value}"]))
        found = first_difference(values, other)
        assert found is not None and found[2] == value, key


def test_key_of_a_newer_version_counts_as_its_default(recipe):
    """A run from before there was a key has what is the default now."""
    values = deciding_values(recipe)
    assert "training.gradient_clip" not in values
    assert first_difference(values, values) is None
    clipped = deciding_values(recipe.override(["training.gradient_clip=1"]))
    assert first_difference(values, clipped) == (
        "training.gradient_clip",
        None,
        1.0,
    )
    before = {**values, "data.target_language": "de"}
    assert first_difference(before, values) is None
    mapping = {**RECIPE, "model": {**RECIPE["model"], "first_position": 0}}
    assert deciding_values(ra.Recipe.from_mapping(mapping)) == values


def test_list_shows_studies(run):
    status, out, _ = run("list")
    assert status == 0
    rows = {line.split()[0] for line in out.splitlines() if line}
    assert set(zoo_studies()) <= rows
