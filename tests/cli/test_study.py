"""`relative-attention study`, with stand-ins for the runs."""

import pytest

from relative_attention.zoo import zoo_studies


def test_list_says_what_is_done_what_it_cost_and_what_is_left(study_bench, run):
    study_bench.run(rows=["relative"])
    (study_bench.output / "plain-1").mkdir()
    study = study_bench.output.with_name("positions.yaml")
    words = ["study", study, "--list", "--output", study_bench.output]
    status, out, err = run(*words)
    assert status == 0, err
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    bleu = study_bench.records()["relative-2"]["test"]["bleu"]
    expected = ["relative-2", "done", f"{bleu:.2f}", "1.5"]
    assert rows["relative-2"] == expected
    assert rows["plain-1"] == ["plain-1", "begun"]
    assert rows["plain-2"] == ["plain-2", "left"]
    assert "2 of 4 runs are done, in 3 minutes; 2 left." in out
    assert len(study_bench.order()) == 2
    # What was done by another recipe is not said to be done.
    status, out, err = run(*words, "training.steps=13")
    assert (status, out) == (1, "") and "`training.steps` 12" in err


def test_command_runs_a_study_and_prints_the_table(
    study_bench, run, draw_study
):
    study, output = (
        study_bench.output.with_name("positions.yaml"),
        study_bench.output,
    )
    words = ["study", study, "--output", output, "--data", study_bench.corpus]
    status, out, err = run(*words, "--rows=plain,relative", "--seeds", "1")
    assert status == 0, err
    page = output / "positions.md"
    assert page.read_text() in out and f"\ntable: {page}\n" in out
    assert "picture: " not in out
    assert len(study_bench.order()) == 2
    draw_study()
    status, out, err = run(*words, "--seeds", "1")
    assert out.endswith(f"\npicture: {output / 'positions.png'}\n")
    status, out, err = run(*words, "training.steps=13")
    assert (status, out) == (1, "") and "`training.steps`" in err
    assert err.count("\n") == 1
    for wrong in (["--seeds=x"], [study], ["--jobs=many"]):
        with pytest.raises(SystemExit):
            run(*words, *wrong)


def test_list_shows_studies(run):
    status, out, _ = run("list")
    assert status == 0
    rows = {line.split()[0] for line in out.splitlines() if line}
    assert set(zoo_studies()) <= rows
