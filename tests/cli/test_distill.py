"""`relative-attention distill`, as a user types it."""

import json

import pytest

import relative_attention as ra
from relative_attention.cli.main import parse


@pytest.mark.slow
def test_student_of_two_teachers_is_trained_scored_and_used(
    run, trained, recipe_file, corpus, tmp_path
):
    command = (
        "distill", recipe_file, "--data", corpus, "--output",
        tmp_path / "student", "--num-beams", "1", "--teachers", trained,
        trained, "--backward", trained, "training.steps=8",
    )  # fmt: skip
    status, out, err = run(*command)
    assert status == 0, err
    assert "test: BLEU" in out and f"model: {tmp_path / 'student'}" in out
    assert "translated 300 of 300 lines" in err
    results = json.loads((tmp_path / "student" / "results.json").read_text())
    assert results["steps"] == 8
    origin = results["distilled_from"]
    assert origin["num_beams"] == 1
    assert [t["model"] for t in origin["teachers"]] == [str(trained)] * 2
    assert [t["model"] for t in origin["backward"]] == [str(trained)]
    vocabulary = (trained / "vocabulary.model").read_bytes()
    student = tmp_path / "student"
    assert (student / "vocabulary.model").read_bytes() == vocabulary
    # The same command goes on: here, for longer.
    status, out, err = run(*command[:-1], "training.steps=12")
    assert status == 0, err
    assert "translated" not in err
    # The student and its teacher share a vocabulary.
    status, out, err = run("translate", student, trained, stdin=b"yes\n")
    assert (status, out.count("\n")) == (0, 1)
    # A run of `train` does not delete it.
    status, out, err = run(
        "train", recipe_file, "--data", corpus, "--output", student
    )
    assert (status, out) == (1, "") and "holds another run" in err


@pytest.mark.parametrize(
    "words",
    [
        "small --teachers a b training.steps=3 data.max_length=9",
        "small training.steps=3 --teachers a b --num-beams 2 data.max_length=9",
        "--num-beams 2 small training.steps=3 data.max_length=9 --teachers a b",
    ],
)
def test_recipe_teachers_and_values_are_told_apart(words):
    options = parse(["distill", *words.split()])
    assert options.recipe == "small"
    assert options.teachers == ["a", "b"]
    assert sorted(options.overrides) == [
        "data.max_length=9",
        "training.steps=3",
    ]


def test_teachers_of_the_other_direction_are_told_apart():
    words = "small --teachers a b --backward c training.steps=3 --separately"
    options = parse(["distill", *words.split(), "--closest-of", "2"])
    assert (options.teachers, options.backward) == (["a", "b"], ["c"])
    assert options.separately
    assert options.closest_of == 2
    assert options.overrides == ["training.steps=3"]


@pytest.mark.parametrize(
    "words, message",
    [
        ("small", "arguments are required: --teachers"),
        ("--teachers a b", "a RECIPE is needed, before --teachers"),
        ("small --teachers training.steps=3", "at least one trained MODEL"),
    ],
)
def test_what_lacks_is_named(words, message, capsys):
    with pytest.raises(SystemExit):
        parse(["distill", *words.split()])
    assert message in capsys.readouterr().err


def test_teacher_that_is_missing_is_named(run, recipe_file, corpus, tmp_path):
    output = tmp_path / "student"
    status, out, err = run(
        "distill", recipe_file, "--teachers", "absent", "--data", corpus,
        "--output", output,
    )  # fmt: skip
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "No model directory at absent" in err
    assert not output.exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_interrupted_command_says_how_it_goes_on(
    overwrite, run, recipe_file, monkeypatch
):
    def interrupted(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(ra.runs, "distill", interrupted)
    flag = ["--overwrite"] * overwrite
    status, out, err = run("distill", recipe_file, "--teachers", "a", *flag)
    assert (status, out) == (130, "")
    # Twice, it would delete what there is by then.
    assert ("goes on, without --overwrite." in err) == overwrite
    assert ("The same command goes on." in err) != overwrite
