"""What is around the runs of a study, with stand-ins for the runs."""

import json
import os
import pathlib
import re
import shutil
import signal
import threading
import time

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.runs import study_plan
from relative_attention.runs.study_results import StudyResults
from relative_attention.runs.study_table import study_table
from tests.study_bench import record_of
from tests.study_bench import run_study


def test_what_is_missing_is_run_and_the_table_written(study_bench, draw_study):
    draw_study()
    table = study_bench.run()
    # Every row first, so that a study that is cut short has all of them.
    assert study_bench.order() == [
        "plain-1",
        "relative-1",
        "plain-2",
        "relative-2",
    ]
    content = study_bench.read()
    assert content["table"] == table
    assert set(content["runs"]) == set(study_bench.order())
    plain, relative = table
    for row in table:
        scores = [r["test"]["bleu"] for r in content["runs"].values()]
        own = [
            r["test"]["bleu"]
            for r in content["runs"].values()
            if r["row"] == row["row"]
        ]
        assert set(own) < set(scores)
        assert row["test_bleu"]["mean"] == pytest.approx(np.mean(own), abs=1e-3)
        spread = row["test_bleu"]["standard_deviation"]
        assert spread == pytest.approx(np.std(own, ddof=1), abs=1e-3)
        assert row["validation_bleu"]["mean"] == 41.5
    assert plain["difference"] is None
    difference = relative["difference"]
    assert difference["low"] > 0 and difference["p_value"] < 0.01
    assert difference["num_seeds"] == 2
    page = (study_bench.output / "positions.md").read_text()
    assert f"{relative['test_bleu']['mean']:.2f} ± " in page
    assert f"{difference['mean']:+.2f} (" in page
    assert re.search(r"\| +26.5 \|$", page, re.MULTILINE)
    words = " ".join(page.split())
    assert "4 runs of 12 updates each in float32, 6 minutes" in words
    assert all(len(n) <= 80 for n in page.splitlines() if n[:1] != "|")
    assert "tok:13a" in page and "0123456+" in page
    assert "By `relative-attention study positions.yaml --data DIR`." in words
    picture = (study_bench.output / "positions.png").read_bytes()
    assert picture.startswith(b"\x89PNG")


def test_finished_rows_are_not_run_again_without_their_folders(
    study_bench, positions_study
):
    table = study_bench.run()
    elsewhere = study_bench.output.with_name("elsewhere")
    elsewhere.mkdir()
    shutil.copyfile(study_bench.results, elsewhere / "kept.json")
    shutil.rmtree(study_bench.output)
    found = study_bench.run(results=elsewhere / "kept.json")
    assert found == table
    assert study_bench.order() == []


def test_rows_and_seeds_are_chosen_and_several_run_at_a_time(study_bench):
    (study_bench.output / "hold").touch()
    seen = []

    def let_go():
        deadline = time.monotonic() + 60
        while len(seen) < 2 and time.monotonic() < deadline:
            seen[:] = study_bench.order()
            time.sleep(0.01)
        (study_bench.output / "hold").unlink()

    watcher = threading.Thread(target=let_go)
    watcher.start()
    table = study_bench.run(seeds=[2], num_jobs=2)
    watcher.join()
    assert set(seen) == set(study_bench.order()) == {"plain-2", "relative-2"}
    assert [row["seeds_left"] for row in table] == [[1], [1]]
    page = (study_bench.output / "positions.md").read_text()
    assert "seeds 1, 2" in page and "2 are left" in " ".join(page.split())
    for row in table:
        # A number keeps the place of its seed.
        assert re.search(rf"\| +- {row['bleu']['2']:.2f} \|", page)
    # Of one seed there is a mean and no deviation.
    assert table[0]["test_bleu"]["standard_deviation"] is None
    table = study_bench.run(rows=["relative"])
    assert study_bench.order()[2:] == ["relative-1"]
    assert table[1]["difference"]["num_seeds"] == 1
    # Named twice it is trained once.
    study_bench.run(rows=["plain", "plain"], num_jobs=2)
    assert study_bench.order()[3:] == ["plain-1"]
    with pytest.raises(ra.InputError, match="Did you mean 'relative'"):
        study_bench.run(rows=["relativ"])
    with pytest.raises(ra.InputError, match="Unknown seed 7"):
        study_bench.run(seeds=[7])
    with pytest.raises(ra.InputError, match="`num_jobs` must be at least 1"):
        study_bench.run(num_jobs=0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_runs_and_the_next_call_goes_on(study_bench, number):
    (study_bench.output / "hold").touch()

    def interrupt():
        while len(study_bench.order()) < 2:
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    watcher = threading.Thread(target=interrupt)
    watcher.start()
    with pytest.raises((KeyboardInterrupt, SystemExit)) as raised:
        study_bench.run(num_jobs=2)
    watcher.join()
    if number == signal.SIGTERM:
        assert raised.value.code == 128 + number
    for name in study_bench.order():
        assert (study_bench.output / name / "stopped").exists()
    assert not study_bench.results.exists()
    (study_bench.output / "hold").unlink()
    study_bench.run()
    assert len(study_bench.read()["runs"]) == 4


def test_run_that_fails_does_not_keep_the_others(study_bench):
    (study_bench.output / "made" / "plain-1.json").unlink()
    with pytest.raises(ra.InputError, match="1 of 4 runs failed: plain-1"):
        study_bench.run()
    assert any(
        "status 1: it cannot be done" in line for line in study_bench.lines
    )
    assert set(study_bench.read()["runs"]) == {
        "relative-1",
        "plain-2",
        "relative-2",
    }
    study_bench.make("plain", 1)
    study_bench.run()
    assert study_bench.order()[4:] == ["plain-1"]


@pytest.mark.parametrize("asked", ["mixed_bfloat16", "auto"])
def test_other_precision_is_refused_and_said_how_to_force(
    asked, study_bench, monkeypatch
):
    # Another machine, where `auto` is another.
    chosen = ("mixed_bfloat16", "the processor has amx_bf16")
    monkeypatch.setattr(study_plan, "choose_precision", lambda _: chosen)
    study_bench.run(rows=["plain"])
    before = study_bench.results.read_bytes()
    other = study_bench.study.override([f"training.precision={asked}"])
    with pytest.raises(ra.InputError) as raised:
        study_bench.run(other)
    message = str(raised.value)
    assert "One table has one precision" in message and "\n" not in message
    assert "`training.precision=float32`" in message
    assert ("is auto, and the processor has" in message) == (asked == "auto")
    assert study_bench.results.read_bytes() == before
    assert len(study_bench.order()) == 2


def test_other_recipe_than_that_of_the_results_is_refused(study_bench):
    study_bench.run(rows=["plain"])
    other = study_bench.study.override(["training.steps=13"])
    with pytest.raises(ra.InputError, match="`training.steps` 12, and the st"):
        study_bench.run(other)
    assert len(study_bench.order()) == 2


def test_other_version_of_bleu_is_refused_before_anything_is_run(study_bench):
    study_bench.run(rows=["plain"])
    content = study_bench.results.read_text()
    version = re.search(r"version:[\d.]+", content)[0]
    study_bench.results.write_text(content.replace(version, "version:1.0"))
    with pytest.raises(ra.InputError) as raised:
        study_bench.run()
    message = str(raised.value)
    assert "One table has one BLEU" in message and version in message
    assert "Install the sacreBLEU" in message and "\n" not in message
    assert len(study_bench.order()) == 2


def test_page_says_by_which_command_it_can_be_made_again(study_bench):
    study = study_bench.study.override(["model.dropout=0.2"])
    for seed in (1, 2):
        for row in ("plain", "relative"):
            origin = {"hardware": None, "commit": None}
            origin["relative_attention"] = "1.2"
            record = record_of(study, row, seed, 0.2, **origin)
            file = study_bench.output / "made" / f"{row}-{seed}.json"
            file.write_text(json.dumps(record))
    study_bench.run(study)
    page = " ".join((study_bench.output / "positions.md").read_text().split())
    assert "study positions.yaml model.dropout=0.2 --data DIR`" in page
    assert " unknown; Python" in page
    assert "commit unknown (version 1.2); 2026-01-01." in page


def test_run_that_ended_early_does_not_get_into_the_table(study_bench):
    study_bench.make("relative", 1, steps=7)
    with pytest.raises(ra.InputError, match="one number of updates.*12.*has 7"):
        study_bench.run()
    assert set(study_bench.read()["runs"]) == {"plain-1"}


def test_what_a_dead_process_left_is_taken_up(study_bench):
    made = study_bench.output / "made" / "plain-1.json"
    shutil.copyfile(made, study_bench.output / "plain-1.study.json")
    study_bench.run()
    assert "plain-1" not in study_bench.order()
    assert len(study_bench.read()["runs"]) == 4
    # But not what is of another recipe.
    study_bench.results.unlink()
    with pytest.raises(ra.InputError, match="plain-1 holds a run with"):
        study_bench.run(study_bench.study.override(["model.dropout=0.4"]))


def test_equal_runs_of_another_study_are_taken(study_bench, positions_study):
    study_bench.run()
    other = ra.Study.from_mapping(
        "clipping",
        {
            "recipe": positions_study.recipe,
            "overrides": {"training.devices": 1},
            "seeds": [1, 2],
            "axis": "model.max_relative_position",
            "rows": [
                {"name": "k3", "compare_with": "k4"},
                {"name": "k4", "overrides": {"model.max_relative_position": 4}},
            ],
        },
    )
    output = study_bench.output.with_name("clipping")
    (output / "made").mkdir(parents=True)
    for seed in (1, 2):
        record = record_of(other, "k4", seed, 0.3)
        file = output / "made" / f"k4-{seed}.json"
        file.write_text(json.dumps(record))
    results = study_bench.output / "clipping.json"
    table = ra.run_study(
        other, output, study_bench.corpus, results, report=print
    )
    assert (output / "order").read_text().split() == ["k4-1", "k4-2"]
    runs = json.loads(results.read_text())["runs"]
    assert runs["k3-2"]["taken_from"] == "positions: relative-2"
    assert (
        runs["k3-2"]["test"] == study_bench.read()["runs"]["relative-2"]["test"]
    )
    assert [row["axis"] for row in table] == [3, 4]


def test_results_of_another_study_and_damaged_ones_are_kept(study_bench):
    record = '{"row": "plain", "seed": 1, "values": 1}'
    for content in (
        "{",
        "[]",
        '{"format": 1, "study": "x", "runs": {}}',
        f'{{"format": 1, "study": "positions", "runs": {{"a": {record}}}}}',
    ):
        study_bench.results.write_text(content)
        with pytest.raises(ra.InputError, match="positions.json"):
            study_bench.run()
        assert study_bench.results.read_text() == content
    assert study_bench.order() == []


def test_what_another_process_adds_meanwhile_is_not_run(study_bench):
    """Nor is what it was at, and finished, said to have failed."""
    results = StudyResults(study_bench.results, "positions")
    (study_bench.output / "made" / "plain-1.json").unlink()

    def add(line):
        study_bench.lines.append(line)
        if line.startswith("plain-1: started"):
            for row, seed in (("plain", 1), ("relative", 1)):
                results.add(record_of(study_bench.study, row, seed, 0.3))

    table = study_bench.run(report=add)
    assert study_bench.order() == ["plain-1", "plain-2", "relative-2"]
    assert [row["seeds_left"] for row in table] == [[], []]


def test_table_has_what_was_added_while_it_was_made(study_bench, monkeypatch):
    results = StudyResults(study_bench.results, "positions")
    study = study_bench.study
    places = ra.runs.StudyPlaces.of(study, study_bench.output)
    others = []

    def make(*arguments):
        table = study_table(*arguments)
        if not others:
            others.append(threading.Thread(target=another))
            others[0].start()
            others[0].join(0.3)
        return table

    def another():
        results.add(record_of(study, "plain", 1, 0.3))
        run_study.write_table(study, places)

    monkeypatch.setattr(run_study, "study_table", make)
    run_study.write_table(study, places)
    others[0].join()
    assert set(study_bench.read()["table"][0]["bleu"]) == {"1"}


def test_place_that_cannot_be_written_is_said_before_anything_is_run(
    study_bench,
):
    (study_bench.output / "file").touch()
    with pytest.raises(ra.InputError, match="allows no files. Give another `-"):
        study_bench.run(results=study_bench.output / "file" / "kept.json")
    assert study_bench.order() == []


def test_several_machines_as_one_are_refused(study_bench, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {}}')
    with pytest.raises(ra.InputError, match="Unset TF_CONFIG"):
        study_bench.run()
    assert study_bench.order() == []


def test_text_that_is_missing_is_said_before_anything_is_run(study_bench):
    with pytest.raises(ra.InputError, match="No text file absent"):
        study_bench.run(study_bench.study.override(["data.target=absent"]))
    assert study_bench.order() == [] and not study_bench.results.exists()


def test_results_file_must_be_json_as_others_lie_beside(study_bench):
    for wrong in (study_bench.output / "table.md", study_bench.output):
        with pytest.raises(ra.InputError, match="a `.json` file"):
            study_bench.run(results=wrong)
    assert study_bench.order() == []


def test_results_lie_beside_studies_of_a_checkout_alone(
    positions_study, tmp_path
):
    places = ra.runs.StudyPlaces
    ours = places.of(ra.find_study("table1"), tmp_path)
    folder = pathlib.Path(ra.__file__).parents[1] / "models" / "studies"
    assert ours.results.path == folder / "table1.json"
    assert places.of(positions_study).results.path == pathlib.Path(
        "runs/positions/positions.json"
    )
