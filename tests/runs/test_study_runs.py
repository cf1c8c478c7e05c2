"""What is around the runs of a study, with stand-ins for the runs."""

import importlib
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
import yaml

import relative_attention as ra
from relative_attention.evaluation import BleuStatistics
from relative_attention.runs import study_processes
from relative_attention.runs.study_values import deciding_values

# The package has a function of this name.
run_study = importlib.import_module("relative_attention.runs.run_study")

WORDS = "a man rides an old red bike down the long street .".split()
RNG = np.random.default_rng(1)
REFERENCES = [" ".join(RNG.choice(WORDS, 9)) for _ in range(50)]

# Stands in for training: it writes the record that it finds in a folder,
# once there is none of a file `hold`.
CHILD = """
import json, pathlib, shutil, signal, sys, time
job = json.loads(sys.argv[1])
name = f"{job['row']}-{job['seed']}"
output = pathlib.Path(job["output"])
(output / name).mkdir(exist_ok=True)
def stopped(*_):
    (output / name / "stopped").touch()
    sys.exit(143)
signal.signal(signal.SIGTERM, stopped)
(output / name / "started").touch()
with open(output / "order", "a") as order:
    order.write(name + "\\n")
while (output / "hold").exists():
    time.sleep(0.01)
made = output / "made" / f"{name}.json"
if not made.exists():
    print("relative-attention: it cannot be done")
    sys.exit(1)
shutil.copyfile(made, output / f"{name}.study.json")
"""


def record_of(study, row, seed, rate, **changes):
    """What a run gives, of made-up translations."""
    rng = np.random.default_rng(seed)
    hypotheses = [
        " ".join(w if rng.random() > rate else "?" for w in line.split())
        for line in REFERENCES
    ]
    statistics = BleuStatistics.of_texts(hypotheses, REFERENCES)
    return {
        "row": row,
        "seed": seed,
        "values": deciding_values(study.recipe_for(study.row(row), seed)),
        "precision": "float32",
        "steps": 12,
        "minutes": 1.5,
        "hardware": "a machine",
        "commit": "0123456789+",
        "date": "2026-01-01",
        "python": "3",
        "keras": "3",
        "tensorflow": "2",
        "test": {
            "bleu": round(statistics.bleu(), 4),
            "bleu_lowercased": 5.0,
            **statistics.to_json(),
        },
        "validation": {"bleu": 40.0 + seed, "loss": 1.25},
        **changes,
    }


@pytest.fixture
def study(recipe_file, tmp_path):
    path = tmp_path / "positions.yaml"
    rows = [
        {"name": "plain", "overrides": {"model.position_encoding": None}},
        {"name": "relative", "compare_with": "plain", "paper": 26.5},
    ]
    mapping = {
        "description": "Which?",
        "recipe": str(recipe_file),
        "seeds": [1, 2],
        "rows": rows,
    }
    path.write_text(yaml.safe_dump(mapping))
    return ra.find_study(path)


class Bench:
    """A study's folders, and runs that take no time."""

    def __init__(self, study, output, corpus):
        self.study = study
        self.output = output
        self.results = output / "positions.json"
        self.corpus = corpus
        self.lines = []
        (output / "made").mkdir(parents=True)
        for row, rate in (("plain", 0.5), ("relative", 0.1)):
            for seed in (1, 2):
                self.make(row, seed, rate)

    def make(self, row, seed, rate=0.2, **changes):
        record = record_of(self.study, row, seed, rate, **changes)
        file = self.output / "made" / f"{row}-{seed}.json"
        file.write_text(json.dumps(record))
        return record

    def run(self, study=None, **arguments):
        return ra.run_study(
            study or self.study,
            self.output,
            self.corpus,
            report=self.lines.append,
            **arguments,
        )

    def order(self):
        file = self.output / "order"
        return file.read_text().split() if file.exists() else []

    def read(self):
        return json.loads(self.results.read_text())


@pytest.fixture
def draw(monkeypatch):
    """Pictures take most of the time: they are drawn for who calls this."""
    draws = run_study._draw
    monkeypatch.setattr(run_study, "_draw", lambda *_: None)
    return lambda: monkeypatch.setattr(run_study, "_draw", draws)


@pytest.fixture
def bench(study, tmp_path, corpus, monkeypatch, draw):
    monkeypatch.setattr(study_processes, "_CHILD", CHILD)
    monkeypatch.setattr(study_processes, "_SECONDS_BETWEEN_LOOKS", 0.01)
    return Bench(study, tmp_path / "out", corpus)


def test_what_is_missing_is_run_and_the_table_written(bench, draw):
    draw()
    table = bench.run()
    # Every row first, so that a study that is cut short has all of them.
    assert bench.order() == ["plain-1", "relative-1", "plain-2", "relative-2"]
    content = bench.read()
    assert content["table"] == table
    assert set(content["runs"]) == set(bench.order())
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
    page = (bench.output / "positions.md").read_text()
    assert f"{relative['test_bleu']['mean']:.2f} ± " in page
    assert f"{difference['mean']:+.2f} (" in page
    assert re.search(r"\| +26.5 \|$", page, re.MULTILINE)
    words = " ".join(page.split())
    assert "4 runs of 12 updates each in float32, 6 minutes" in words
    assert all(len(n) <= 80 for n in page.splitlines() if n[:1] != "|")
    assert "tok:13a" in page and "0123456+" in page
    picture = (bench.output / "positions.png").read_bytes()
    assert picture.startswith(b"\x89PNG")


def test_finished_rows_are_not_run_again_without_their_folders(bench, study):
    table = bench.run()
    elsewhere = bench.output.with_name("elsewhere")
    elsewhere.mkdir()
    shutil.copyfile(bench.results, elsewhere / "kept.json")
    shutil.rmtree(bench.output)
    found = bench.run(results=elsewhere / "kept.json")
    assert found == table
    assert bench.order() == []


def test_rows_and_seeds_are_chosen_and_several_run_at_a_time(bench):
    (bench.output / "hold").touch()
    seen = []

    def let_go():
        deadline = time.monotonic() + 60
        while len(seen) < 2 and time.monotonic() < deadline:
            seen[:] = bench.order()
            time.sleep(0.01)
        (bench.output / "hold").unlink()

    watcher = threading.Thread(target=let_go)
    watcher.start()
    table = bench.run(seeds=[2], num_jobs=2)
    watcher.join()
    assert set(seen) == set(bench.order()) == {"plain-2", "relative-2"}
    assert [row["seeds_left"] for row in table] == [[1], [1]]
    # Of one seed there is a mean and no deviation.
    assert table[0]["test_bleu"]["standard_deviation"] is None
    table = bench.run(rows=["relative"])
    assert bench.order()[2:] == ["relative-1"]
    assert table[1]["difference"]["num_seeds"] == 1
    with pytest.raises(ra.InputError, match="Did you mean 'relative'"):
        bench.run(rows=["relativ"])
    with pytest.raises(ra.InputError, match="Unknown seed 7"):
        bench.run(seeds=[7])
    with pytest.raises(ra.InputError, match="`num_jobs` must be at least 1"):
        bench.run(num_jobs=0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_runs_and_the_next_call_goes_on(bench, number):
    (bench.output / "hold").touch()

    def interrupt():
        while len(bench.order()) < 2:
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    watcher = threading.Thread(target=interrupt)
    watcher.start()
    with pytest.raises((KeyboardInterrupt, SystemExit)) as raised:
        bench.run(num_jobs=2)
    watcher.join()
    if number == signal.SIGTERM:
        assert raised.value.code == 128 + number
    for name in bench.order():
        assert (bench.output / name / "stopped").exists()
    assert not bench.results.exists()
    (bench.output / "hold").unlink()
    bench.run()
    assert len(bench.read()["runs"]) == 4


def test_run_that_fails_does_not_keep_the_others(bench):
    (bench.output / "made" / "plain-1.json").unlink()
    with pytest.raises(ra.InputError, match="1 of 4 runs failed: plain-1"):
        bench.run()
    assert any("status 1: it cannot be done" in line for line in bench.lines)
    assert set(bench.read()["runs"]) == {"relative-1", "plain-2", "relative-2"}
    bench.make("plain", 1)
    bench.run()
    assert bench.order()[4:] == ["plain-1"]


def test_other_precision_is_refused_and_said_how_to_force(bench):
    bench.run(rows=["plain"])
    before = bench.results.read_bytes()
    other = bench.study.override(["training.precision=mixed_bfloat16"])
    with pytest.raises(ra.InputError) as raised:
        bench.run(other)
    message = str(raised.value)
    assert "One table has one precision" in message and "\n" not in message
    assert "`training.precision=float32`" in message
    assert bench.results.read_bytes() == before
    assert len(bench.order()) == 2


def test_other_recipe_than_that_of_the_results_is_refused(bench):
    bench.run(rows=["plain"])
    other = bench.study.override(["training.steps=13"])
    with pytest.raises(ra.InputError, match="`training.steps` 12, and the st"):
        bench.run(other)
    assert len(bench.order()) == 2


def test_run_that_ended_early_does_not_get_into_the_table(bench):
    bench.make("relative", 1, steps=7)
    with pytest.raises(ra.InputError, match="one number of updates.*12.*has 7"):
        bench.run()
    assert set(bench.read()["runs"]) == {"plain-1"}


def test_what_a_dead_process_left_is_taken_up(bench):
    made = bench.output / "made" / "plain-1.json"
    shutil.copyfile(made, bench.output / "plain-1.study.json")
    bench.run()
    assert "plain-1" not in bench.order()
    assert len(bench.read()["runs"]) == 4
    # But not what is of another recipe.
    bench.results.unlink()
    with pytest.raises(ra.InputError, match="plain-1 holds a run with"):
        bench.run(bench.study.override(["model.dropout=0.4"]))


def test_equal_runs_of_another_study_are_taken(bench, study):
    bench.run()
    other = ra.Study.from_mapping(
        "clipping",
        {
            "recipe": study.recipe,
            "seeds": [1, 2],
            "axis": "model.max_relative_position",
            "rows": [
                {"name": "k3", "compare_with": "k4"},
                {"name": "k4", "overrides": {"model.max_relative_position": 4}},
            ],
        },
    )
    output = bench.output.with_name("clipping")
    (output / "made").mkdir(parents=True)
    for seed in (1, 2):
        record = record_of(other, "k4", seed, 0.3)
        file = output / "made" / f"k4-{seed}.json"
        file.write_text(json.dumps(record))
    results = bench.output / "clipping.json"
    table = ra.run_study(other, output, bench.corpus, results, report=print)
    assert (output / "order").read_text().split() == ["k4-1", "k4-2"]
    runs = json.loads(results.read_text())["runs"]
    assert runs["k3-2"]["taken_from"] == "positions: relative-2"
    assert runs["k3-2"]["test"] == bench.read()["runs"]["relative-2"]["test"]
    assert [row["axis"] for row in table] == [3, 4]


def test_results_of_another_study_and_damaged_ones_are_kept(bench):
    for content in ("{", "[]", '{"format": 1, "study": "x", "runs": {}}'):
        bench.results.write_text(content)
        with pytest.raises(ra.InputError, match="positions.json"):
            bench.run()
        assert bench.results.read_text() == content
    assert bench.order() == []


def test_text_that_is_missing_is_said_before_anything_is_run(bench):
    with pytest.raises(ra.InputError, match="No text file absent"):
        bench.run(bench.study.override(["data.target=absent"]))
    assert bench.order() == [] and not bench.results.exists()


def test_list_says_what_is_done_what_it_cost_and_what_is_left(bench, run):
    bench.run(rows=["relative"])
    begun = bench.output / "plain-1"
    begun.mkdir()
    (begun / "history.json").write_text('[{"step": 4}]')
    study = bench.output.with_name("positions.yaml")
    status, out, err = run("study", study, "--list", "--output", bench.output)
    assert status == 0, err
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    bleu = bench.read()["runs"]["relative-2"]["test"]["bleu"]
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
    assert len(bench.order()) == 2


def test_command_runs_a_study_and_prints_the_table(bench, run, monkeypatch):
    study = bench.output.with_name("positions.yaml")
    words = ["study", study, "--output", bench.output, "--data", bench.corpus]
    status, out, err = run(*words, "--rows=plain,relative", "--seeds", "1")
    assert status == 0, err
    assert (bench.output / "positions.md").read_text() in out
    assert len(bench.order()) == 2
    status, out, err = run(*words, "training.steps=13")
    assert (status, out) == (1, "") and "`training.steps`" in err
    assert err.count("\n") == 1
    for wrong in (["--seeds=x"], [study], ["--jobs=many"]):
        with pytest.raises(SystemExit):
            run(*words, *wrong)


def test_results_file_must_be_json_as_others_lie_beside(bench):
    for wrong in (bench.output / "table.md", bench.output):
        with pytest.raises(ra.InputError, match="a `.json` file"):
            bench.run(results=wrong)
    assert bench.order() == []


def test_results_lie_beside_studies_of_a_checkout_alone(study, tmp_path):
    places = ra.runs.StudyPlaces
    ours = places.of(ra.find_study("table1"), tmp_path)
    folder = pathlib.Path(ra.__file__).parents[1] / "models" / "studies"
    assert ours.results.path == folder / "table1.json"
    assert places.of(study).results.path == pathlib.Path(
        "runs/positions/positions.json"
    )
