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
from relative_attention.studies import results_path
from relative_attention.studies import runs
from relative_attention.studies.study import deciding_values

pytest_plugins = "tests.study_bench"


def test_missing_runs_are_trained_and_the_table_written(
    study_bench, draw_study
):
    draw_study()
    table = study_bench.run()
    # Every row first, so that a study that is cut short has all of them.
    order = ["plain-1", "relative-1", "plain-2", "relative-2"]
    assert study_bench.order() == order
    content = json.loads(study_bench.results.read_text())
    assert content["table"] == table and set(content["runs"]) == set(order)
    for row in table:
        own = [
            record["test"]["bleu"]
            for record in content["runs"].values()
            if record["row"] == row["row"]
        ]
        assert row["test_bleu"]["mean"] == pytest.approx(np.mean(own), abs=1e-3)
        spread = row["test_bleu"]["standard_deviation"]
        assert spread == pytest.approx(np.std(own, ddof=1), abs=1e-3)
        assert row["validation_bleu"]["mean"] == 41.5
    plain, relative = table
    assert plain["difference"] is None
    difference = relative["difference"]
    assert difference["low"] > 0 and difference["p_value"] < 0.01
    assert difference["num_seeds"] == 2
    page = (study_bench.output / "positions.md").read_text()
    assert f"{relative['test_bleu']['mean']:.2f} ± " in page
    assert f"{difference['mean']:+.2f} (" in page
    assert re.search(r"\| +26.5 \|$", page, re.MULTILINE)
    assert all(len(n) <= 80 for n in page.splitlines() if n[:1] != "|")
    page = study_bench.page()
    assert "4 runs of 12 updates each in float32, 6 minutes in all. a m" in page
    assert "tok:13a" in page and "0123456+" in page
    assert "By `relative-attention study positions.yaml --data DIR`." in page
    picture = (study_bench.output / "positions.png").read_bytes()
    assert picture.startswith(b"\x89PNG")


def test_recorded_runs_need_no_folder_and_no_text(study_bench):
    table = study_bench.run()
    kept = study_bench.output.with_name("kept.json")
    shutil.copyfile(study_bench.results, kept)
    shutil.rmtree(study_bench.output)
    shutil.rmtree(study_bench.corpus)
    assert study_bench.run(results=kept) == table
    assert study_bench.order() == []


def test_rows_and_seeds_are_chosen_and_several_run_at_a_time(study_bench):
    hold = study_bench.output / "hold"
    hold.touch()
    seen = []

    def let_go():
        deadline = time.monotonic() + 60
        while len(seen) < 2 and time.monotonic() < deadline:
            seen[:] = study_bench.order()
            time.sleep(0.01)
        hold.unlink()

    watcher = threading.Thread(target=let_go)
    watcher.start()
    table = study_bench.run(seeds=[2], num_jobs=2)
    watcher.join()
    assert set(seen) == set(study_bench.order()) == {"plain-2", "relative-2"}
    assert [row["seeds_left"] for row in table] == [[1], [1]]
    # Of one seed there is a mean and no deviation.
    assert table[0]["test_bleu"]["standard_deviation"] is None
    page = study_bench.page()
    assert "seeds 1, 2" in page and "; 2 are left." in page
    for row in table:
        # A number keeps the place of its seed.
        assert f"| - {row['bleu']['2']:.2f} |" in page
    # Named twice it is trained once.
    table = study_bench.run(rows=["relative", "relative"])
    assert study_bench.order()[2:] == ["relative-1"]
    assert table[1]["difference"]["num_seeds"] == 1
    assert "; 1 is left." in study_bench.page()
    study_bench.refused("Did you mean 'relative'", rows=["relativ"])
    study_bench.refused("Unknown seed 7", seeds=[7])
    study_bench.refused("`num_jobs` must be at least 1", num_jobs=0)


def test_signal_ends_the_runs_and_the_next_call_resumes(study_bench):
    (study_bench.output / "hold").touch()

    def interrupt():
        while len(study_bench.order()) < 2:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    watcher = threading.Thread(target=interrupt)
    watcher.start()
    with pytest.raises(SystemExit) as raised:
        study_bench.run(num_jobs=2)
    watcher.join()
    assert raised.value.code == 128 + signal.SIGTERM
    for name in study_bench.order():
        assert (study_bench.output / name / "stopped").exists()
    assert study_bench.records() == {}
    (study_bench.output / "hold").unlink()
    study_bench.run()
    assert len(study_bench.records()) == 4


def test_other_runs_continue_when_one_fails(study_bench):
    (study_bench.output / "made" / "plain-1.json").unlink()
    study_bench.make("plain", 2, precision="mixed_bfloat16")
    with pytest.raises(ra.InputError, match="2 of 4 runs failed: plain-1, pl"):
        study_bench.run()
    log = " ".join(study_bench.lines)
    assert "plain-1: failed with status 1: it cannot be done" in log
    assert "precision is mixed_bfloat16, not float32" in log
    assert set(study_bench.records()) == {"relative-1", "relative-2"}
    study_bench.make("plain", 1)
    study_bench.make("plain", 2, tensorflow=None, jax="0.11")
    shutil.rmtree(study_bench.output / "plain-2")
    study_bench.run()
    assert study_bench.order()[4:] == ["plain-1", "plain-2"]
    assert "Keras 3, TensorFlow 2, JAX 0.11; commit" in study_bench.page()


def test_records_that_cannot_be_compared_are_refused(study_bench, monkeypatch):
    bench = study_bench
    bench.run(rows=["plain"])
    other = bench.study.override(["training.steps=13"])
    bench.refused("`training.steps` 12, and the study asks for 13", other)
    clipped = bench.study.override(["training.gradient_clip=1"])
    bench.refused("Undo the change with `training.gradient_clip=null`", clipped)
    # Another machine, where `auto` is another.
    with monkeypatch.context() as patch:
        chosen = ("mixed_bfloat16", "the processor has amx_bf16")
        patch.setattr(runs, "choose_precision", lambda _: chosen)
        message = "precision is mixed_bfloat16, .*`training.precision=float32`"
        bench.refused(message)
    bench.change_references(" !")
    bench.refused("test text test.de is another. Give the `--data`")
    bench.change_references("")
    content = bench.results.read_text()
    version = re.search(r"version:[\d.]+", content)[0]
    bench.results.write_text(content.replace(version, "version:1.0"))
    bench.refused("BLEU is not .*version:1.0. Install that sacreBLEU")


def test_invalid_study_runs_are_refused(study_bench, monkeypatch):
    absent = study_bench.study.override(["data.target=absent"])
    study_bench.refused("No text file absent", absent)
    file = study_bench.output / "file"
    file.touch()
    message = "cannot be written: .*Give another `--results`"
    study_bench.refused(message, results=file / "kept.json")
    for wrong in (study_bench.output / "table.md", study_bench.output):
        study_bench.refused("a `.json` file", results=wrong)
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {}}')
    study_bench.refused("Unset TF_CONFIG")


def test_finished_run_is_recorded_unless_damaged(study_bench):
    study_bench.finish("plain", 1)
    study_bench.finish("plain", 2)
    (study_bench.output / "plain-2" / "results.json").write_text(
        '{"steps": 12}'
    )
    study_bench.run()
    assert study_bench.order() == ["relative-1", "plain-2", "relative-2"]
    assert len(study_bench.records()) == 4
    # But not a run of another recipe.
    study_bench.results.unlink()
    other = study_bench.study.override(["model.dropout=0.4"])
    study_bench.refused("plain-1 has `model.dropout` 0.3, and", other)


def test_shared_row_is_taken_from_the_other_study(study_bench):
    study_bench.run()
    other = ra.Study.from_mapping(
        "clipping",
        {
            "recipe": study_bench.study.recipe,
            "overrides": {"training.devices": 1},
            "seeds": [1, 2],
            "axis": "model.max_relative_position",
            "rows": [
                {
                    "name": "k3",
                    "compare_with": "k4",
                    "same_as": "positions:relative",
                },
                {"name": "k4", "overrides": {"model.max_relative_position": 4}},
            ],
        },
    )
    output = study_bench.output.with_name("clipping")
    for row in ("k3", "k4"):
        for seed in (1, 2):
            study_bench.make(row, seed, output=output)
    results = study_bench.output / "clipping.json"
    table = study_bench.run(other, output, results=results)
    assert study_bench.order(output) == ["k4-1", "k4-2"]
    taken = study_bench.records(results)["k3-2"]
    assert taken["taken_from"] == "positions: relative-2"
    assert taken["test"] == study_bench.records()["relative-2"]["test"]
    page = results.with_suffix(".md").read_text()
    assert "(2 taken from other studies)" in " ".join(page.split())
    assert [row["axis"] for row in table] == [3, 4]
    # Two corpora may have files of the same names.
    study_bench.change_references(" !")
    shutil.rmtree(output / "k4-1")
    study_bench.run(
        other, output, results=results.with_name("x.json"), seeds=[1]
    )
    assert study_bench.order(output)[2:] == ["k3-1", "k4-1"]
    assert (
        "k3-1: not taken from positions: relative-1, which is another run"
        in study_bench.lines
    )


RECORD = '{"row": "plain", "seed": 1, "values": 1}'


def test_foreign_or_damaged_results_are_refused(study_bench):
    for study, runs_json, message in (
        ("x", "{}", "not hold .* 'positions'"),
        ("positions", "{", "damaged"),
        ("positions", f'{{"a": {RECORD}}}', "damaged: of its run a `values`"),
    ):
        content = f'{{"format": 1, "study": "{study}", "runs": {runs_json}}}'
        study_bench.results.write_text(content)
        study_bench.refused(f"positions.json.*{message}")
        assert study_bench.results.read_text() == content


def test_runs_recorded_by_another_process_are_skipped(study_bench):
    file = runs.StudyResults(study_bench.study, study_bench.results)

    def report(line):
        if line.startswith("plain-1: started"):
            file.write(study_bench.finish_elsewhere("relative", 1))

    table = study_bench.run(report=report)
    assert study_bench.order() == ["plain-1", "plain-2", "relative-2"]
    assert [row["seeds_left"] for row in table] == [[], []]


def test_two_processes_add_to_one_file(study_bench, monkeypatch):
    """None loses what the other adds while it makes the table."""
    file = runs.StudyResults(study_bench.study, study_bench.results)
    first, second = (
        study_bench.finish_elsewhere("plain", seed) for seed in (1, 2)
    )
    other = threading.Thread(target=file.write, args=[second])
    make_table = runs.study_table

    def slow_table(*arguments):
        if not other.ident:
            other.start()
            other.join(0.3)
        return make_table(*arguments)

    monkeypatch.setattr(runs, "study_table", slow_table)
    file.write(first)
    other.join()
    assert set(study_bench.records()) == {"plain-1", "plain-2"}


def test_results_are_beside_the_study_only_in_a_checkout(study_bench, tmp_path):
    folder = pathlib.Path(ra.__file__).parents[1] / "models" / "studies"
    ours = results_path(ra.find_study("table1"), tmp_path)
    assert ours == folder / "table1.json"
    theirs = results_path(study_bench.study)
    assert theirs == pathlib.Path("runs/positions/positions.json")


def test_auto_is_resolved_for_each_run(recipe, corpus, tmp_path):
    auto = recipe.replace(
        {
            "model.dropout": "auto",
            "training.warmup_steps": "auto",
            "vocabulary.size": "auto",
        }
    )
    run = runs.StudyRun("row", 1, auto, str(tmp_path), str(corpus))
    found = run.resolved()
    assert found.recipe.model["dropout"] == 0.3
    assert found.recipe.training.warmup_steps == 400
    assert found.recipe.vocabulary.size == 2000
    # Nothing is left to choose.
    assert found.resolved() is found
    # A record has the numbers, where the study has `auto`.
    record = deciding_values(found.recipe)
    run.check_same(record, "results", "")
    with pytest.raises(ra.InputError, match="`training.seed`"):
        run.check_same({**record, "training.seed": 7}, "results", "")
    with pytest.raises(ra.InputError, match="`model.dropout`"):
        found.check_same({**record, "model.dropout": 0.2}, "results", "")
