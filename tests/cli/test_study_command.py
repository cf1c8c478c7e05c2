"""`relative-attention study`, with stand-ins for the runs."""

import pytest


def test_list_says_what_is_done_what_it_cost_and_what_is_left(study_bench, run):
    study_bench.run(rows=["relative"])
    begun = study_bench.output / "plain-1"
    begun.mkdir()
    (begun / "history.json").write_text('[{"step": 4}]')
    study = study_bench.output.with_name("positions.yaml")
    status, out, err = run(
        "study", study, "--list", "--output", study_bench.output
    )
    assert status == 0, err
    # What was done by another recipe is not said to be done.
    status, other, err = run(
        "study", study, "--list", "--output", study_bench.output,
        "training.steps=13",
    )  # fmt: skip
    assert (status, other) == (1, "") and "`training.steps` 12" in err
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    bleu = study_bench.read()["runs"]["relative-2"]["test"]["bleu"]
    assert rows["relative-2"][:6] == [
        "relative-2",
        "done",
        f"{bleu:.2f}",
        "1.5",
        "12",
        "float32",
    ]
    assert rows["plain-1"] == ["plain-1", "begun", "4"]
    assert rows["plain-2"] == ["plain-2", "left"]
    # 1.5 minutes for 12 updates; 8 and 12 are left.
    assert "2 of 4 runs are done, in 3 minutes; 2 are left, about 2 " in out
    assert len(study_bench.order()) == 2


def test_one_run_that_is_left_is_counted_as_one(study_bench, run):
    study_bench.run(rows=["relative"])
    study_bench.run(rows=["plain"], seeds=[1])
    study = study_bench.output.with_name("positions.yaml")
    status, out, err = run(
        "study", study, "--list", "--output", study_bench.output
    )
    assert status == 0, err
    assert "3 of 4 runs are done" in out and "; 1 is left, about " in out
    page = (study_bench.output / "positions.md").read_text()
    assert "; 1 is left." in " ".join(page.split())


def test_command_runs_a_study_and_prints_the_table(
    study_bench, run, draw_study
):
    study = study_bench.output.with_name("positions.yaml")
    words = [
        "study",
        study,
        "--output",
        study_bench.output,
        "--data",
        study_bench.corpus,
    ]
    status, out, err = run(*words, "--rows=plain,relative", "--seeds", "1")
    assert status == 0, err
    page = study_bench.output / "positions.md"
    assert page.read_text() in out and f"\ntable: {page}\n" in out
    assert "picture: " not in out
    assert len(study_bench.order()) == 2
    draw_study()
    status, out, err = run(*words, "--seeds", "1")
    assert out.endswith(f"\npicture: {study_bench.output / 'positions.png'}\n")
    status, out, err = run(*words, "training.steps=13")
    assert (status, out) == (1, "") and "`training.steps`" in err
    assert err.count("\n") == 1
    for wrong in (["--seeds=x"], [study], ["--jobs=many"]):
        with pytest.raises(SystemExit):
            run(*words, *wrong)
